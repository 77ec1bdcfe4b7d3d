/* epoll-et.c -- as epoll, but told of changes only: edge-triggered.
 *
 *     epoll_wait -> for each change: accept / read on until there is nothing
 *                   left -> answer -> epoll_wait
 *
 * Good: each descriptor is watched for everything, once; no epoll_ctl when an
 *       answer does not fit, and no event for what was told before.
 * Bad:  what is told once must be remembered: who stops reading before the
 *       socket is empty waits for ever for bytes that are already there, and
 *       one client who never stops sending must not keep the others waiting.
 * Look: a read that returns less than asked for has emptied the socket, so it
 *       takes no second one to be told so; EPOLLRDHUP (Linux 2.6.17) tells of
 *       an end that came with the last bytes, EPOLLPRI of an urgent one, at
 *       which a read stops short. The listening socket stays level-triggered:
 *       a burst of clients is accepted in several turns.
 */
#include "epoll-et.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/epoll_ns.h"
#include "server/net.h"

enum { EVENTS = 512 };

struct state {
    int epoll_fd;
};

static bool control(struct loop *loop, int operation, struct source *source)
{
    const struct state *state = loop->state;
    bool edge =
        source->kind == SOURCE_CLIENT || source->kind == SOURCE_REDIS;
    struct epoll_event event = {.data.ptr = source};
    event.events =
        edge ? EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET : EPOLLIN;
    return epoll_ctl(state->epoll_fd, operation, source->fd, &event) == 0;
}

/* There is no change(): nothing ever changes. */

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
           (events & (EPOLLRDHUP | EPOLLPRI) ? READY_IN | READY_END : 0u) |
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

static const struct poller epoll_et_poller = {
    .edge = true, .add = add, .drop = drop, .wait = wait,
};

struct loop *epoll_et_new(struct server *server, unsigned slot)
{
    struct state *state = malloc(sizeof *state);
    struct loop *loop = NULL;
    if (state && (state->epoll_fd = epoll_create1(EPOLL_CLOEXEC)) >= 0) {
        loop = loop_new(server, slot, &epoll_et_poller, state);
        if (!loop)
            close(state->epoll_fd);
    }
    if (!loop) {
        net_warn("epoll_create1");
        free(state);
    }
    return loop;
}

void epoll_et_free(struct loop *loop)
{
    struct state *state = loop->state;
    close(state->epoll_fd);
    free(state);
    loop_free(loop);
}

static int epoll_et_run(struct server *server)
{
    struct loop *loop = epoll_et_new(server, model_slot(server, 0));
    if (!loop)
        return -1;
    int result = loop_run(loop);
    epoll_et_free(loop);
    return result;
}

const struct model_code epoll_et_model = {.run = epoll_et_run};
