/* coroutine-workers.c -- N schedulers, each with coroutines of its own.
 *
 *     each thread:  epoll_wait -> resume whoever can go on -> epoll_wait
 *     a coroutine:  receive -> answer -> send, in the thread that accepted it
 *     the kernel:   a new connection -> hash of its addresses -> one listener
 *
 * Good: all cores, code that reads as if it blocked, and no lock anywhere: a
 *       coroutine never leaves its thread (thread per core, share nothing).
 * Bad:  a coroutine that computes for long holds up the others of its thread
 *       while other threads idle. Go and Tokio let an idle thread steal
 *       runnable tasks; that costs locks or atomic queues, and bars
 *       thread-local data from code that waits. There is no stealing here.
 * Look: requests per worker, uneven with few clients as in epoll-reuseport,
 *       from which it differs by a stack per client. In the wild: Seastar
 *       (ScyllaDB), glommio, monoio, Tokio's current-thread runtime per core.
 * Needs: SO_REUSEPORT (Linux 3.9), and what coroutine needs.
 * Try:  strace -f: no futex in the workers; only main() wakes, every 50 ms.
 */
#include <err.h>
#include <stdlib.h>
#include <unistd.h>

#include "blocking/threads.h"
#include "blocking/workers.h"
#include "coroutine.h"
#include "server/net.h"
#include "server/stop.h"

struct coroutine_worker {
    struct server server; /* with the worker's own listening socket */
    bool served;
};

/* A listener is closed with its worker, or it would go on to be dealt
 * clients. */
static void coroutine_work(struct server *server, unsigned worker, void *shared)
{
    struct coroutine_worker *own = (struct coroutine_worker *)shared + worker;
    int listen_fd = server->listen_fds[worker];
    own->server = *server;
    own->server.listen_fd = listen_fd;
    if (worker > 0) /* the first one is watched already */
        stop_watch_listener(listen_fd);
    workers_take_turns(server);
    own->served =
        coroutine_serve(&own->server, model_slot(server, worker)) == 0;
    stop_unwatch_listener(listen_fd);
    close(listen_fd);
}

/* The calling thread only waits: ThreadSanitizer, which cannot deliver a
 * signal to a coroutine, then has a thread that hears of a stop. */
static int coroutine_workers_run(struct server *server)
{
    unsigned workers = model_workers(server);
    struct coroutine_worker *all = calloc(workers, sizeof *all);
    if (!all) {
        warn("calloc");
        return -1;
    }
    unsigned started = workers_start(server, 0, workers, coroutine_work, all);
    for (unsigned i = started; i < workers; i++)
        close(server->listen_fds[i]);
    bool ended = threads_wait(), served = !ended;
    for (unsigned i = 0; ended && i < started; i++)
        served |= all[i].served;
    if (ended)
        free(all);
    return served ? 0 : -1;
}

const struct model_code coroutine_workers_model = {
    .run = coroutine_workers_run,
};
