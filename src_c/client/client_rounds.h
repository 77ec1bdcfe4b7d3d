/* client_rounds.h -- slices as the first thread sees them: whose turn it is
 * next, what the last slice was, and the rows of --slices (client_slices.h).
 */
#ifndef CLIENT_ROUNDS_H
#define CLIENT_ROUNDS_H

#include "client_shared.h"

struct rounds;

/* The columns of --slices. */
void rounds_write_header(FILE *file);

/* When the load begins. Ends the process with status 1 when there is no
 * memory. */
struct rounds *rounds_open(const struct plan *plan, struct shared *shared);
void rounds_close(struct rounds *rounds);

/* All threads are at rest: sums up the slice that ended, if there was one, and
 * announces the next one, or the end, in shared->slice. */
void rounds_go_on(struct rounds *rounds);

/* --only-watch: all of it, in place of threads that ask (client_grid.h). */
void rounds_only_watch(const struct plan *plan, struct shared *shared);

/* "refused", "unconnected", "gone", "hung"; "" for none. */
const char *ended_name(enum ended ended);

#endif
