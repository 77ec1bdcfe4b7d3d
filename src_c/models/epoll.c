/* epoll.c -- one thread, and a set of descriptors that stays in the kernel.
 *
 *     epoll_wait -> for each event: accept / read -> answer -> epoll_wait
 *
 * Good: a turn costs in proportion to those who have something to say; the
 *       kernel keeps the set between calls and hands out only what is ready.
 * Bad:  Linux only (2.6, 2003); each change of interest is a system call of
 *       its own; one thread is one core.
 * Look: level-triggered: as long as bytes are there, every wait says so, and
 *       one read a turn is enough. The interest changes only when an answer
 *       does not fit into the socket's buffer.
 */
#include <errno.h>
#include <unistd.h>

#include "common/epoll_ns.h"
#include "server/net.h"
#include "reactor/reactor.h"

enum { EVENTS = 512 };

struct state {
    int epoll_fd;
};

static bool control(struct loop *loop, int operation, struct source *source)
{
    const struct state *state = loop->state;
    struct epoll_event event = {.data.ptr = source};
    event.events = (source->interest & READY_IN ? EPOLLIN : 0u) |
                   (source->interest & READY_OUT ? EPOLLOUT : 0u);
    return epoll_ctl(state->epoll_fd, operation, source->fd, &event) == 0;
}

static void change(struct loop *loop, struct source *source)
{
    if (!control(loop, EPOLL_CTL_MOD, source))
        net_die("epoll_ctl EPOLL_CTL_MOD");
}

static bool add(struct loop *loop, struct source *source)
{
    return control(loop, EPOLL_CTL_ADD, source);
}

static void drop(struct loop *loop, struct source *source)
{
    control(loop, EPOLL_CTL_DEL, source);
}

static unsigned ready_of(unsigned events)
{
    return (events & EPOLLIN ? READY_IN : 0u) |
           (events & EPOLLOUT ? READY_OUT : 0u) |
           (events & (EPOLLERR | EPOLLHUP)
                ? READY_IN | READY_OUT | READY_HANGUP : 0u);
}

static void wait(struct loop *loop, int64_t timeout_ns)
{
    const struct state *state = loop->state;
    struct epoll_event events[EVENTS];
    int n = epoll_wait_ns(state->epoll_fd, events, EVENTS, timeout_ns);
    if (n < 0 && errno != EINTR)
        net_die("epoll_wait");
    for (int i = 0; i < n; i++)
        loop_ready(loop, events[i].data.ptr, ready_of(events[i].events));
}

static const struct poller epoll_poller = {
    .add = add, .change = change, .drop = drop, .wait = wait,
};

static int epoll_run(struct server *server)
{
    struct state state = {.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    if (state.epoll_fd < 0) {
        net_warn("epoll_create1");
        return -1;
    }
    int result = loop_run_alone(server, &epoll_poller, &state);
    close(state.epoll_fd);
    return result;
}

const struct model_code epoll_model = {.run = epoll_run};
