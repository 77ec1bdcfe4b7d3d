/* epoll-shared.c -- N loops, each with its own epoll, on one listening socket.
 *
 *     each thread: epoll_wait -> accept / read -> answer -> epoll_wait
 *     the kernel:  a new connection -> wakes one loop that waits
 *
 * Good: no acceptor and no hand-over; one backlog, so no client waits in the
 *       queue of a busy loop, and none is lost when a loop ends.
 * Bad:  shares are uneven: the kernel wakes the loops in one and the same
 *       order, and the one that is awake accepts what comes meanwhile, so that
 *       a few loops serve most connections for as long as these last.
 * Look: without EPOLLEXCLUSIVE each connection wakes every idle loop, of which
 *       one gets it (the "thundering herd"). SO_REUSEPORT evens the shares out
 *       and divides the backlog: epoll-reuseport. The loop is that of
 *       epoll-et: epoll_et_serve().
 * Wild: nginx with worker_processes auto (accept_mutex is off by default);
 *       HAProxy with its threads on one listener (shards 1).
 * Needs: Linux 4.5 (EPOLLEXCLUSIVE); a descriptor a worker.
 * Try:  requests_per_worker of this and of epoll-reuseport, 50 clients each.
 */
#include <err.h>
#include <stdlib.h>

#include "blocking/workers.h"
#include "epoll-et.h"

static bool epoll_shared_work(struct server *server, unsigned worker,
                              void *shared)
{
    struct loop *loop = ((struct loop **)shared)[worker];
    (void)server;
    epoll_et_exclusive(loop);
    bool listens = loop_listen(loop);
    if (listens)
        epoll_et_serve(loop);
    epoll_et_free(loop);
    return listens;
}

/* All loops before anybody is served, while there are descriptors for them. */
static unsigned epoll_shared_make(struct server *server, struct loop **loops)
{
    unsigned made = 0, workers = model_workers(server);
    while (made < workers && (loops[made] = epoll_et_new(server, made)))
        made++;
    if (made < workers)
        workers_warn(server, made, "epoll_create1");
    return made;
}

/* Worker 0 is the calling thread. */
static int epoll_shared_run(struct server *server)
{
    struct loop **loops = calloc(model_workers(server), sizeof *loops);
    if (!loops) {
        warn("calloc");
        return -1;
    }
    unsigned made = epoll_shared_make(server, loops);
    unsigned end = workers_start(server, 1, made, epoll_shared_work, loops);
    for (unsigned i = end; i < made; i++)
        epoll_et_free(loops[i]);
    bool served = made > 0 && epoll_shared_work(server, 0, loops);
    return workers_end(served, loops);
}

const struct model_code epoll_shared_model = {.run = epoll_shared_run};
