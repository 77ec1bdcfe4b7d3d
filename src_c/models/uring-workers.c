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

#include "blocking/workers.h"

static bool uring_work(struct server *server, unsigned worker, void *shared)
{
    (void)shared;
    struct server own = workers_listen(server, worker);
    workers_take_turns(server);
    bool served = uring_run(&own, model_slot(server, worker), uring_serve) == 0;
    workers_unlisten(&own);
    return served;
}

/* Worker 0 is the calling thread. */
static int uring_workers_run(struct server *server)
{
    unsigned workers = model_workers(server);
    unsigned started = workers_start(server, 1, workers, uring_work, NULL);
    workers_close_rest(server, started);
    return workers_end(uring_work(server, 0, NULL), NULL);
}

#else
#define uring_workers_run NULL /* uring_missing() says why */
#endif

const struct model_code uring_workers_model = {
    .run = uring_workers_run,
    .missing = uring_missing,
};
