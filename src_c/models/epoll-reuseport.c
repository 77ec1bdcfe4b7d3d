/* epoll-reuseport.c -- N loops, each with its own listening socket and epoll.
 *
 *     each thread: epoll_wait -> accept / read -> answer -> epoll_wait
 *     the kernel:  a new connection -> hash of its addresses -> one socket
 *
 * Good: nothing is shared, not even the backlog: no acceptor, no hand-over, no
 *       lock, and N backlogs take a burst.
 * Bad:  the hash knows nothing of load: shares are uneven when clients are
 *       few, and a client that was given to a busy loop waits while others
 *       idle. What lies in the backlog of a loop that ends is reset.
 * Look: balances better than loops that wait on one shared socket, and worsens
 *       the longest wait. --processes N does the same with processes. The loop
 *       is that of epoll-et: epoll_et_serve().
 * Needs: Linux 3.9 (SO_REUSEPORT); two descriptors a worker.
 * Try:  ss -ltn: as many listening sockets on one port as workers.
 */
#include <err.h>
#include <stdlib.h>

#include "blocking/workers.h"
#include "epoll-et.h"

struct reuseport_worker {
    struct server server; /* with the worker's own listening socket */
    struct loop *loop;
};

static void reuseport_release(struct reuseport_worker *own)
{
    workers_unlisten(&own->server);
    epoll_et_free(own->loop);
}

static bool reuseport_work(struct server *server, unsigned worker, void *shared)
{
    struct reuseport_worker *own = (struct reuseport_worker *)shared + worker;
    (void)server;
    bool listens = loop_listen(own->loop);
    if (listens)
        epoll_et_serve(own->loop);
    reuseport_release(own);
    return listens;
}

/* All loops before anybody is served, while there are descriptors for them. */
static unsigned reuseport_make(struct server *server,
                               struct reuseport_worker *all)
{
    unsigned made = 0, workers = model_workers(server);
    for (; made < workers; made++) {
        struct reuseport_worker *own = &all[made];
        own->server = workers_listen(server, made);
        own->loop = epoll_et_new(&own->server, made);
        if (!own->loop)
            break;
    }
    if (made < workers)
        workers_warn(server, made, "epoll_create1");
    workers_close_rest(server, made);
    return made;
}

/* Worker 0 is the calling thread. */
static int reuseport_run(struct server *server)
{
    struct reuseport_worker *all = calloc(model_workers(server), sizeof *all);
    if (!all) {
        warn("calloc");
        return -1;
    }
    unsigned made = reuseport_make(server, all);
    unsigned started = workers_start(server, 1, made, reuseport_work, all);
    for (unsigned i = started; i < made; i++)
        reuseport_release(&all[i]);
    bool served = made > 0 && reuseport_work(server, 0, all);
    return workers_end(served, all);
}

const struct model_code epoll_reuseport_model = {.run = reuseport_run};
