/* epoll-reuseport.c -- N loops, each with its own listening socket and epoll.
 *
 *     each thread: epoll_wait -> accept / read -> answer -> epoll_wait
 *     the kernel:  a new connection -> hash of its addresses -> one socket
 *
 * Good: nothing is shared, not even the backlog: no acceptor, no hand-over, no
 *       lock, and N backlogs take a burst.
 * Bad:  the hash knows nothing of load: shares are uneven when clients are
 *       few, and one who was dealt to a busy loop waits, with others idle.
 *       What lies in the backlog of a loop that ends is reset.
 * Look: SO_REUSEPORT (Linux 3.9) balances better than loops that wait on one
 *       shared socket, and worsens the longest wait. --processes N does the
 *       same with processes.
 */
#include <stdlib.h>
#include <unistd.h>

#include "blocking/workers.h"
#include "server/net.h"
#include "server/stop.h"
#include "blocking/threads.h"
#include "epoll-et.h"

struct own {
    struct server server;   /* with the worker's own listening socket */
    struct loop *loop;
};

/* Before anybody is served, while there are descriptors for it. */
static bool make(struct server *server, struct own *own, unsigned worker)
{
    own->server = *server;
    own->server.listen_fd = server->listen_fds[worker];
    own->loop = epoll_et_new(&own->server, model_slot(server, worker));
    return own->loop != NULL;
}

/* A socket that nobody accepts from would go on to be dealt clients. */
static void release(struct own *own)
{
    close(own->server.listen_fd);
    epoll_et_free(own->loop);
}

static void work(struct server *server, unsigned worker, void *shared)
{
    struct own *own = (struct own *)shared + worker;
    (void)server;
    if (worker > 0) /* the first one is watched already */
        stop_watch_listener(own->server.listen_fd);
    loop_run(own->loop);
    release(own);
}

static unsigned make_all(struct server *server, struct own *all)
{
    unsigned workers = model_workers(server), made = 0;
    while (made < workers && make(server, &all[made], made))
        made++;
    for (unsigned i = made; i < workers; i++)
        close(server->listen_fds[i]);
    return made;
}

static int epoll_reuseport_run(struct server *server)
{
    struct own *all = calloc(model_workers(server), sizeof *all);
    if (!all) {
        net_warn("calloc");
        return -1;
    }
    unsigned made = make_all(server, all);
    for (unsigned i = workers_start(server, 1, made, work, all); i < made; i++)
        release(&all[i]);
    if (made > 0)
        work(server, 0, all);
    if (threads_wait())
        free(all);
    return made > 0 ? 0 : -1;
}

const struct model_code epoll_reuseport_model = {.run = epoll_reuseport_run};
