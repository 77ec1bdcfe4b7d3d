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
#include <unistd.h>

#include "blocking/threads.h"
#include "blocking/workers.h"
#include "epoll-et.h"
#include "server/net.h"
#include "server/stop.h"

struct reuseport_worker {
    struct server server; /* with the worker's own listening socket */
    struct loop *loop;
    bool served;
};

/* Before anybody is served, while there are descriptors for it. */
static bool reuseport_make(struct server *server, struct reuseport_worker *own,
                           unsigned worker)
{
    own->server = *server;
    own->server.listen_fd = server->listen_fds[worker];
    own->loop = epoll_et_new(&own->server, worker);
    return own->loop != NULL;
}

/* A socket that nobody accepts from would go on to be given clients. */
static void reuseport_release(struct reuseport_worker *own)
{
    stop_unwatch_listener(own->server.listen_fd);
    close(own->server.listen_fd);
    epoll_et_free(own->loop);
}

static void reuseport_work(struct server *server, unsigned worker, void *shared)
{
    struct reuseport_worker *own = (struct reuseport_worker *)shared + worker;
    (void)server;
    if (worker > 0) /* the first one is watched already */
        stop_watch_listener(own->server.listen_fd);
    own->served = loop_listen(own->loop);
    if (own->served)
        epoll_et_serve(own->loop);
    reuseport_release(own);
}

static unsigned reuseport_make_all(struct server *server,
                                   struct reuseport_worker *all)
{
    unsigned workers = model_workers(server), made = 0;
    while (made < workers && reuseport_make(server, &all[made], made))
        made++;
    for (unsigned i = made; i < workers; i++)
        close(server->listen_fds[i]);
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
    unsigned made = reuseport_make_all(server, all);
    unsigned started = workers_start(server, 1, made, reuseport_work, all);
    for (unsigned i = started; i < made; i++)
        reuseport_release(&all[i]);
    if (made > 0)
        reuseport_work(server, 0, all);
    bool ended = threads_wait(), served = !ended;
    for (unsigned i = 0; ended && i < started; i++)
        served |= all[i].served;
    if (ended)
        free(all);
    return served ? 0 : -1;
}

const struct model_code epoll_reuseport_model = {.run = reuseport_run};
