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
#include "blocking/workers.h"
#include "coroutine.h"

static bool coroutine_work(struct server *server, unsigned worker, void *shared)
{
    (void)shared;
    struct server own = workers_listen(server, worker);
    workers_take_turns(server);
    bool served = coroutine_serve(&own, model_slot(server, worker)) == 0;
    workers_unlisten(&own);
    return served;
}

/* The calling thread only waits: ThreadSanitizer, which cannot deliver a
 * signal to a coroutine, then has a thread that hears of a stop. */
static int coroutine_workers_run(struct server *server)
{
    unsigned workers = model_workers(server);
    unsigned started = workers_start(server, 0, workers, coroutine_work, NULL);
    workers_close_rest(server, started);
    return workers_end(false, NULL);
}

const struct model_code coroutine_workers_model = {
    .run = coroutine_workers_run,
};
