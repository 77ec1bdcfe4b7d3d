/* prethread.c -- a fixed number of threads, each as iterative serves.
 *
 *     each thread: accept -> read -> answer -> ... -> close -> accept
 *
 * Good: no thread is made while a client waits; the kernel hands out the
 *       connections, so there is no queue of ours and no lock.
 * Bad:  a client holds its thread from connect to close, even if it is slow
 *       or silent (slow-loris): with as many of those as there are threads,
 *       all others wait in the backlog, connected as far as they know, unless
 *       a --timeout cuts them.
 * Look: the same loop as prefork, in one memory: compare the two for what
 *       separate address spaces cost. All threads sleep in accept(); each
 *       connection wakes the one that has waited longest. In the wild:
 *       uWSGI with --threads.
 * Needs: nothing but threads.
 * Try:  --workers 2, then three times nc: the third waits, until one of the
 *       first leaves or --timeout-idle cuts it.
 */
#include "blocking/blocking.h"
#include "blocking/workers.h"

static bool prethread_work(struct server *server, unsigned worker, void *shared)
{
    (void)shared;
    stats_add(&server->stats->workers_started, 1);
    blocking_serve_all(server, model_slot(server, worker));
    return true;
}

static int prethread_run(struct server *server)
{
    workers_start(server, 1, model_workers(server), prethread_work, NULL);
    return workers_end(prethread_work(server, 0, NULL), NULL);
}

const struct model_code prethread_model = {.run = prethread_run};
