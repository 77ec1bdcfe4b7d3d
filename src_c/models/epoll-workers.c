/* epoll-workers.c -- one thread accepts; N loops serve, each with an epoll.
 *
 *     acceptor: accept -> epoll_ctl: into the set of the next worker -> accept
 *     worker:   epoll_wait -> for each change: read -> answer -> epoll_wait
 *
 * Good: all cores, and no lock: a connection belongs to one worker for life.
 *       The acceptor assigns connections in turn, so each worker gets its
 *       share.
 * Bad:  every connection crosses from one thread to another. Shares are of
 *       connections, not of work: a worker with the busy ones lags while the
 *       others idle. Where workers share a core, one that wakes for an event
 *       preempts another and finds few events, unless it is told to wait.
 * Look: any thread may add to any epoll set (EPOLL_CTL_ADD), so the set itself
 *       is the hand-over, without a queue or a wake-up of our own. The loop is
 *       that of epoll-et: epoll_et_serve(), with workers_take_turns(). In
 *       epoll-reuseport the kernel chooses; epoll-pool deals out each event.
 * Needs: Linux 2.6.17; a descriptor a worker.
 * Try:  strace -f build/server epoll-workers --workers 2: accept4 and
 *       EPOLL_CTL_ADD in one thread, everything else in two others.
 */
#include <err.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "blocking/threads.h"
#include "blocking/workers.h"
#include "epoll-et.h"
#include "server/net.h"

struct epoll_workers {
    int end_fd; /* readable once the acceptor has ended */
    unsigned count;
    struct loop *loops[]; /* of each worker */
};

static bool epoll_workers_work(struct server *server, unsigned worker,
                               void *shared)
{
    struct epoll_workers *all = shared;
    (void)server;
    epoll_et_serve(all->loops[worker]);
    epoll_et_free(all->loops[worker]);
    return true;
}

/* One more loop, which ends after the acceptor has. */
static bool epoll_workers_make(struct server *server, struct epoll_workers *all)
{
    struct loop *loop = epoll_et_new(server, all->count);
    if (!loop)
        return false;
    loop->fed = true;
    if (loop_add(loop, &loop->stop, all->end_fd, SOURCE_STOP)) {
        all->loops[all->count++] = loop;
        return true;
    }
    epoll_et_free(loop);
    return false;
}

/* All loops before anybody is served, while there are descriptors for them. */
static void epoll_workers_start(struct server *server,
                                struct epoll_workers *all)
{
    unsigned workers = model_workers(server);
    while (all->count < workers && epoll_workers_make(server, all))
        continue;
    unsigned made = all->count;
    if (made < workers)
        workers_warn(server, made, "epoll_create1 or epoll_ctl");
    all->count = workers_start(server, 0, made, epoll_workers_work, all);
    for (unsigned i = all->count; i < made; i++)
        epoll_et_free(all->loops[i]);
}

/* SCHED_BATCH (Linux 2.6.16): where acceptor and workers share a core, a new
 * connection does not interrupt the worker that runs; it waits in the backlog
 * until that sleeps, and several are accepted at once. */
static void epoll_workers_accept(struct server *server,
                                 const struct epoll_workers *all)
{
    workers_wait_their_turn();
    for (unsigned next = 0;;) {
        struct sockaddr_in6 peer;
        int fd = net_accept(server, &peer, SOCK_NONBLOCK);
        if (fd == ACCEPT_STOPPED)
            return;
        if (fd >= 0)
            client_add(all->loops[next++ % all->count], fd, &peer);
    }
}

static int epoll_workers_run(struct server *server)
{
    unsigned workers = model_workers(server);
    struct epoll_workers *all =
        calloc(1, sizeof *all + workers * sizeof all->loops[0]);
    if (!all || (all->end_fd = eventfd(0, EFD_CLOEXEC)) < 0) {
        warn("calloc or eventfd");
        free(all);
        return -1;
    }
    epoll_workers_start(server, all);
    bool started = all->count > 0;
    if (started)
        epoll_workers_accept(server, all);
    for (unsigned i = 0; i < all->count; i++)
        source_release(&all->loops[i]->stop);
    eventfd_write(all->end_fd, 1);
    if (threads_wait()) {
        close(all->end_fd);
        free(all);
    }
    return started ? 0 : -1;
}

const struct model_code epoll_workers_model = {.run = epoll_workers_run};
