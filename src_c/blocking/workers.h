/* workers.h -- a fixed number of workers, each in a thread of its own.
 *
 * When the system gives fewer threads than asked for, the server goes on with
 * those, and says so: a study must know how many really worked.
 */
#ifndef WORKERS_H
#define WORKERS_H

#include "model.h"

/* What a worker does until it leaves; `worker` counts from 0 in a process. */
typedef void worker_work(struct server *server, unsigned worker, void *shared);

/* Starts worker `first` and those after it, up to `end`: with first = 1 the
 * calling thread is to be worker 0. Returns the end that was reached. Wait for
 * them with threads_wait(). */
unsigned workers_start(struct server *server, unsigned first, unsigned end,
                       worker_work *work, void *shared);

/* Says that `call` gave `started` workers only, for errno. */
void workers_warn(const struct server *server, unsigned started,
                  const char *call);

#endif
