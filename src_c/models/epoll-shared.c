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

#include "blocking/threads.h"
#include "blocking/workers.h"
#include "epoll-et.h"
#include "server/net.h"

struct shared_worker {
    struct loop *loop;
    bool served;
};

static void epoll_shared_work(struct server *server, unsigned worker,
                              void *shared)
{
    struct shared_worker *own = (struct shared_worker *)shared + worker;
    (void)server;
    epoll_et_exclusive(own->loop);
    own->served = loop_listen(own->loop);
    if (own->served)
        epoll_et_serve(own->loop);
    epoll_et_free(own->loop);
}

/* All loops before anybody is served, while there are descriptors for them. */
static unsigned epoll_shared_make(struct server *server,
                                  struct shared_worker *all)
{
    unsigned made = 0, workers = model_workers(server);
    while (made < workers && (all[made].loop = epoll_et_new(server, made)))
        made++;
    return made;
}

/* Worker 0 is the calling thread. */
static int epoll_shared_run(struct server *server)
{
    struct shared_worker *all = calloc(model_workers(server), sizeof *all);
    if (!all) {
        warn("calloc");
        return -1;
    }
    unsigned made = epoll_shared_make(server, all);
    unsigned end = workers_start(server, 1, made, epoll_shared_work, all);
    for (unsigned i = end; i < made; i++)
        epoll_et_free(all[i].loop);
    if (made > 0)
        epoll_shared_work(server, 0, all);
    bool ended = threads_wait(), served = !ended;
    for (unsigned i = 0; ended && i < end; i++)
        served |= all[i].served;
    if (ended)
        free(all);
    return served ? 0 : -1;
}

const struct model_code epoll_shared_model = {.run = epoll_shared_run};
