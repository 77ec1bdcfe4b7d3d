/* client_epoll.c -- wait with epoll, edge-triggered.
 *
 *     epoll_wait -> recv, check; up to 16 times -> send, as often -> ...
 *
 * Every socket is added once, for everything, and never modified: an edge
 * says that something is new, and a user who wants to send simply tries. So a
 * request costs recv, send, and its share of an epoll_wait that fetches up to
 * 512 events; a short recv means empty, there is no second one to hear EAGAIN.
 * Edges also spare the kernel to look at each socket again in the next wait.
 *
 * Sends wait for up to 16 of their kind, or for the end of the batch: the code
 * of receiving, and then that of sending, stays in the processor's cache. This
 * saves 4 % of the client's time per request, and delays a send by some 40 µs
 * at most, when the client is at its limit; a single event is sent at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client_engine.h"
#include "common/clock.h"
#include "common/epoll_ns.h"

enum { EVENTS = 512, BUFFER_BYTES = 65536, SENDS = 16 };

struct pending { /* a user who wants to send … */
    struct user *user;
    uint32_t generation; /* … on this connection */
};

struct engine {
    struct client_thread *thread;
    int fd;
    struct epoll_event events[EVENTS];
    struct pending sends[SENDS];
    unsigned send_count;
    char buffer[BUFFER_BYTES];
};

static struct engine *epoll_open(struct client_thread *thread)
{
    struct engine *e = malloc(sizeof *e);
    if (!e)
        return NULL;
    e->thread = thread;
    e->send_count = 0;
    e->fd = epoll_create1(EPOLL_CLOEXEC);
    if (e->fd < 0) {
        free(e);
        return NULL;
    }
    return e;
}

static void epoll_close(struct engine *e)
{
    close(e->fd);
    free(e);
}

/* Number and generation of a user, so that an event tells whether its
 * connection is still the user's. */
static uint64_t epoll_tag(const struct engine *e, const struct user *u)
{
    return (uint64_t)u->generation << 32 | thread_index(e->thread, u);
}

static void epoll_connect(struct engine *e, struct user *u)
{
    const struct endpoints *endpoints = thread_endpoints(e->thread, u);
    int fd = connect_socket(endpoints, u->who + u->generation);
    if (fd < 0) {
        thread_on_connected(e->thread, u, errno);
        return;
    }
    user_connect(u, fd, clock_now_ns());
    int error = connect_begin(endpoints, fd);
    struct epoll_event event = {.events =
                                    EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.u64 = epoll_tag(e, u)};
    if ((error == 0 || error == EINPROGRESS) &&
        epoll_ctl(e->fd, EPOLL_CTL_ADD, fd, &event) < 0)
        error = errno;
    if (error != EINPROGRESS)
        thread_on_connected(e->thread, u, error);
}

static void epoll_send_now(struct engine *e, struct user *u)
{
    uint32_t generation = u->generation;
    size_t bytes;
    const char *data;
    u->blocked = false;
    while (u->generation == generation &&
           (data = user_outgoing(u, &bytes), bytes)) {
        ssize_t n = send(u->fd, data, bytes, MSG_NOSIGNAL);
        if (n >= 0) {
            thread_on_sent(e->thread, u, (size_t)n);
        } else if (errno == EAGAIN) {
            u->blocked = true;
            return;
        } else if (errno != EINTR) {
            thread_on_error(e->thread, u, true, errno);
            return;
        }
    }
}

static void epoll_flush(struct engine *e)
{
    unsigned count = e->send_count;
    e->send_count = 0;
    for (unsigned i = 0; i < count; i++)
        if (e->sends[i].user->generation == e->sends[i].generation)
            epoll_send_now(e, e->sends[i].user);
}

static void epoll_send(struct engine *e, struct user *u)
{
    e->sends[e->send_count++] = (struct pending){u, u->generation};
    if (e->send_count == SENDS)
        epoll_flush(e);
}

static void epoll_drop(struct engine *e, struct user *u)
{
    (void)e;
    close(u->fd); /* which also leaves the epoll set */
}

/* Reads until the socket is empty. A short read is the sign of that, unless
 * the event said that the end of the stream follows. */
static void epoll_receive(struct engine *e, struct user *u, bool to_the_end)
{
    uint32_t generation = u->generation;
    while (u->generation == generation) {
        ssize_t n = recv(u->fd, e->buffer, sizeof e->buffer, 0);
        if (n >= 0)
            thread_on_received(e->thread, u, e->buffer, (size_t)n,
                               clock_now_ns());
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR)
            thread_on_error(e->thread, u, false, errno);
        if (n == 0 || (n > 0 && (size_t)n < sizeof e->buffer && !to_the_end))
            return;
    }
}

static void epoll_connected(struct engine *e, struct user *u, uint32_t events)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (events & (EPOLLERR | EPOLLHUP))
        getsockopt(u->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    else if (!(events & EPOLLOUT))
        return;
    thread_on_connected(e->thread, u, error);
}

static void epoll_dispatch(struct engine *e, const struct epoll_event *event)
{
    struct user *u = thread_user(e->thread, (uint32_t)event->data.u64);
    uint32_t generation = (uint32_t)(event->data.u64 >> 32);
    uint32_t end = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    if (u->generation == generation && u->state == USER_CONNECTING)
        epoll_connected(e, u, event->events);
    if (u->generation == generation && u->blocked && event->events & EPOLLOUT)
        epoll_send_now(e, u);
    if (u->generation == generation && event->events & (EPOLLIN | end))
        epoll_receive(e, u, event->events & end);
}

static unsigned epoll_await(struct engine *e, uint64_t timeout_ns)
{
    epoll_flush(e);
    int n = epoll_wait_ns(e->fd, e->events, EVENTS, (int64_t)timeout_ns);
    if (n <= 0)
        return 0;
    thread_on_awake(e->thread, clock_now_ns());
    for (int i = 0; i < n; i++)
        epoll_dispatch(e, &e->events[i]);
    return (unsigned)n;
}

const struct engine_kind engine_epoll = {
    .name = "epoll",
    .open = epoll_open,
    .close = epoll_close,
    .connect = epoll_connect,
    .send = epoll_send,
    .drop = epoll_drop,
    .wait = epoll_await,
    .flush = epoll_flush,
};
