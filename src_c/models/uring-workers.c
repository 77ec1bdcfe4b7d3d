/* uring-workers.c -- N rings, each with a listening socket of its own.
 *
 *     each thread: io_uring_enter -> accepted / received / sent
 *                  -> new operations into its ring -> io_uring_enter
 *     the kernel:  a new connection -> hash of its addresses -> one listener
 *
 * Good: all cores, and nothing is shared: no lock, no hand-over, and a ring
 *       that one thread submits to needs none in the kernel either
 *       (SINGLE_ISSUER). Thread per core is how io_uring is meant to be used.
 * Bad:  the hash knows nothing of load, as in epoll-reuseport: shares are
 *       uneven when clients are few. Receive buffers are reserved N times.
 * Look: the loop is that of uring. Compare with epoll-reuseport what a
 *       completion saves on each core, and with uring-handover, where one
 *       thread deals clients out evenly. In the wild: glommio, monoio; Seastar
 *       where told to (ScyllaDB and Redpanda prefer its linux-aio).
 * Needs: Linux 6.0, as uring; SO_REUSEPORT (3.9).
 * Try:  build/server uring-workers --workers 2, then requests_per_worker in the
 *       last line with 4 connections, and with 400.
 */
#include "uring.h"

#include "model.h"

#ifdef HAVE_URING

#include <err.h>
#include <stdlib.h>
#include <unistd.h>

#include "blocking/threads.h"
#include "blocking/workers.h"
#include "server/stop.h"

struct uring_worker {
    struct server server; /* with the worker's own listening socket */
    bool served;
};

/* A listener whose worker has ended would go on to be dealt clients. */
static void uring_work(struct server *server, unsigned worker, void *shared)
{
    struct uring_worker *own = (struct uring_worker *)shared + worker;
    if (worker > 0) /* the first one is watched already */
        stop_watch_listener(own->server.listen_fd);
    workers_take_turns(server);
    own->served =
        uring_run(&own->server, model_slot(server, worker), uring_serve) == 0;
    stop_unwatch_listener(own->server.listen_fd);
    close(own->server.listen_fd);
}

static int uring_workers_run(struct server *server)
{
    unsigned workers = model_workers(server);
    struct uring_worker *all = calloc(workers, sizeof *all);
    if (!all) {
        warn("calloc");
        return -1;
    }
    for (unsigned i = 0; i < workers; i++) {
        all[i].server = *server;
        all[i].server.listen_fd = server->listen_fds[i];
    }
    unsigned started = workers_start(server, 1, workers, uring_work, all);
    for (unsigned i = started; i < workers; i++)
        close(server->listen_fds[i]);
    uring_work(server, 0, all);
    bool ended = threads_wait(), served = !ended;
    for (unsigned i = 0; ended && i < started; i++)
        served |= all[i].served;
    if (ended)
        free(all);
    return served ? 0 : -1;
}

#else

static int uring_workers_run(struct server *server)
{
    (void)server;
    return -1;
}

#endif

const struct model_code uring_workers_model = {
    .run = uring_workers_run,
    .missing = uring_missing,
};
