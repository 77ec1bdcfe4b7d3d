/* children.h -- processes that serve with us: started, and waited for.
 *
 * A stop of the parent reaches its children, and they die when it dies.
 */
#ifndef CHILDREN_H
#define CHILDREN_H

#include <stdbool.h>
#include <sys/types.h>

#include "server/stats.h"

/* Forks. Returns 0 in the child, which serves from listen_fd (-1: from none
 * that a stop should shut); its id in the parent; or -1 with errno. */
pid_t children_fork(int listen_fd);

/* Waits for a child to end; returns its id, or -1 when there is none left.
 * One that did not exit with status 0 is counted and said on standard error;
 * *failed becomes true. */
pid_t children_wait(struct stats *stats, bool *failed);

/* The same for one that has ended already; returns 0 when there is none. */
pid_t children_reap(struct stats *stats);

/* From now on children are reaped when they end, by a signal's handler. */
void children_reap_always(struct stats *stats);

/* Waits for all of them, no longer by a signal's handler. Returns whether each
 * exited with status 0. */
bool children_wait_all(struct stats *stats);

#endif
