/* epoll-workers.c -- one thread accepts; N loops serve, each with an epoll.
 *
 *     acceptor: accept -> hand over to the next worker -> accept
 *     worker:   epoll_wait -> for each change: take over / read -> answer
 *
 * Good: all cores, and no lock: a connection belongs to one worker for life.
 *       The acceptor deals connections out in turn, so each gets its share.
 * Bad:  every connection costs a hand-over: a write and a read on a pipe and a
 *       wake-up. Shares are of connections, not of work: a worker with the busy
 *       ones lags while the others idle.
 * Look: requests per worker are even when clients are alike. epoll-reuseport
 *       leaves the dealing to the kernel; epoll-pool deals out each event. The
 *       loop is that of epoll-et (EPOLLRDHUP: Linux 2.6.17).
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "blocking/workers.h"
#include "reactor/handover.h"
#include "blocking/threads.h"
#include "epoll-et.h"

struct worker_thread {
    struct loop *loop;
    struct handover handover;
};

static void work(void *argument)
{
    struct worker_thread *self = argument;
    loop_run_fed(self->loop, self->handover.take_fd);
    epoll_et_free(self->loop);
}

static bool start(struct server *server, struct worker_thread *thread,
                  unsigned worker)
{
    if (!handover_open(&thread->handover))
        return false;
    thread->loop = epoll_et_new(server, model_slot(server, worker));
    if (thread->loop && threads_start(work, thread))
        return true;
    if (thread->loop)
        epoll_et_free(thread->loop);
    close(thread->handover.take_fd);
    close(thread->handover.give_fd);
    return false;
}

static unsigned start_all(struct server *server, struct worker_thread *threads)
{
    unsigned workers = model_workers(server), n = 0;
    while (n < workers && start(server, &threads[n], n))
        n++;
    if (n < workers)
        workers_warn(server, n, "pipe2, epoll_create1 or pthread_create");
    return n;
}

/* A worker that could not set itself up has closed its end: the next one. */
static void deal(struct server *server, const struct worker_thread *threads,
                 unsigned n, const struct arrival *arrival)
{
    static unsigned turn;
    for (unsigned tries = 0; tries < n; tries++)
        if (handover_give(&threads[turn++ % n].handover, arrival))
            return;
    net_refuse(server, arrival->fd, REFUSED_THREADS);
}

static void accept_all(struct server *server,
                       const struct worker_thread *threads, unsigned n)
{
    for (;;) {
        struct arrival arrival = {0};
        arrival.fd = net_accept(server, &arrival.peer, SOCK_NONBLOCK);
        if (arrival.fd == ACCEPT_STOPPED)
            return;
        if (arrival.fd >= 0)
            deal(server, threads, n, &arrival);
    }
}

static int epoll_workers_run(struct server *server)
{
    struct worker_thread *threads =
        calloc(model_workers(server), sizeof *threads);
    if (!threads) {
        net_warn("calloc");
        return -1;
    }
    unsigned n = start_all(server, threads);
    if (n > 0)
        accept_all(server, threads, n);
    for (unsigned i = 0; i < n; i++)
        close(threads[i].handover.give_fd);
    if (threads_wait())
        free(threads);
    return n > 0 ? 0 : -1;
}

const struct model_code epoll_workers_model = {.run = epoll_workers_run};
