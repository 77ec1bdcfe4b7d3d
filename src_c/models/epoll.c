/* epoll.c -- one thread, and a set of descriptors that stays in the kernel.
 *
 *     epoll_wait -> for each event: accept / read -> answer -> epoll_wait
 *
 * Good: a round costs in proportion to the clients that sent something; the
 *       kernel keeps the set between calls and returns only what is ready.
 * Bad:  Linux and illumos only; each change of interest is a system call; one
 *       thread uses one core.
 * Look: level-triggered: as long as bytes are there, every wait says so, and
 *       one read a round is enough. The interest changes only when an answer
 *       does not fit into the socket's buffer.
 * Needs: Linux 2.6 (2003); epoll_pwait2 (5.11) for timeouts in nanoseconds, or
 *       milliseconds are used; /proc/sys/fs/epoll/max_user_watches.
 * Try:  strace -f -c build/server epoll: two calls a request, recvfrom and
 *       sendto, and one epoll_pwait2 for all clients that were ready at once.
 */
#include <err.h>
#include <unistd.h>

#include "common/epoll_ns.h"
#include "server/net.h"
#include "reactor/reactor.h"

enum { EVENTS = 512 };

struct epoll_set {
    int epoll_fd;
};

static bool epoll_control(struct loop *loop, int operation,
                          struct source *source)
{
    const struct epoll_set *set = loop->state;
    struct epoll_event event = {.events = source->interest, .data.ptr = source};
    return epoll_ctl(set->epoll_fd, operation, source->fd, &event) == 0;
}

static void epoll_change(struct loop *loop, struct source *source)
{
    if (!epoll_control(loop, EPOLL_CTL_MOD, source))
        err(1, "epoll_ctl EPOLL_CTL_MOD");
}

static bool epoll_add(struct loop *loop, struct source *source)
{
    return epoll_control(loop, EPOLL_CTL_ADD, source);
}

static void epoll_drop(struct loop *loop, struct source *source)
{
    epoll_control(loop, EPOLL_CTL_DEL, source);
}

static const struct poller epoll_poller = {
    .add = epoll_add,
    .change = epoll_change,
    .drop = epoll_drop,
};

static void epoll_serve(struct loop *loop)
{
    const struct epoll_set *set = loop->state;
    struct epoll_event events[EVENTS];
    while (!reactor_done(loop)) {
        int n = epoll_wait_ns(set->epoll_fd, events, EVENTS,
                              reactor_timeout_ns(loop));
        if (n < 0)
            net_wait_failed(loop->worker.server, "epoll_wait");
        for (int i = 0; i < n; i++) {
            struct source *source = events[i].data.ptr;
            unsigned ready = ready_of(events[i].events);
            if (source->kind == SOURCE_LISTENER)
                accept_clients(loop, source);
            else if (source->kind == SOURCE_CLIENT)
                serve_client(loop, source, ready);
            else /* Redis; the stop */
                serve_other(loop, source);
        }
        run_timers(loop);
        end_round(loop);
    }
}

static int epoll_run(struct server *server)
{
    struct epoll_set set = {.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    if (set.epoll_fd < 0) {
        warn("epoll_create1");
        return -1;
    }
    int result = loop_run(server, &epoll_poller, &set, epoll_serve);
    close(set.epoll_fd);
    return result;
}

const struct model_code epoll_model = {.run = epoll_run};
