/* workers.h -- a fixed number of workers, each in a thread of its own.
 *
 * When the system gives fewer threads than asked for, the server goes on with
 * those, and says so: a study must know how many really worked.
 */
#ifndef WORKERS_H
#define WORKERS_H

#include "model.h"

/* What a worker does until it leaves; `worker` counts from 0 in a process.
 * Returns whether it served: false when it could not set itself up. */
typedef bool worker_work(struct server *server, unsigned worker, void *shared);

/* Starts worker `first` and those after it, up to `end`: with first = 1 the
 * calling thread is to be worker 0. Returns the end that was reached. Wait for
 * them with workers_end(), or with threads_wait(). */
unsigned workers_start(struct server *server, unsigned first, unsigned end,
                       worker_work *work, void *shared);

/* Waits for the workers, then frees what they share, unless one of them has not
 * left in time and still uses it. Returns what a model's run() does: -1 when
 * none of them served; `served` says whether the calling thread did. */
int workers_end(bool served, void *shared);

/* OWN_LISTENERS: the server as a worker sees it, with the listening socket of
 * its own, which a stop shuts from now on; and the end of that, as a socket
 * that nobody accepts from would go on to be dealt clients. */
struct server workers_listen(const struct server *server, unsigned worker);
void workers_unlisten(const struct server *own);

/* Closes the sockets of workers that were not started, up to the last. */
void workers_close_rest(const struct server *server, unsigned started);

/* For a worker that is a loop: where the workers outnumber the cores that they
 * may use, makes its thread SCHED_BATCH (Linux 2.6.16, sched(7)). An event for
 * it then does not preempt the loop that runs: that serves what it has, and the
 * events of the others gather meanwhile, so that there are fewer switches, and
 * more events for each call that waits. The price: it does not preempt other
 * programs on its core either. Nothing is gained where each worker has a core,
 * nor by workers that block with one client, which have no events to gather. */
void workers_take_turns(const struct server *server);

/* The same for one that shares a core in any case. */
void workers_wait_their_turn(void);

/* Says that `call` gave `started` workers only, for errno. */
void workers_warn(const struct server *server, unsigned started,
                  const char *call);

#endif
