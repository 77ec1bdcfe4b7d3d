/* epoll.c -- an echo server for all clients in one thread, with epoll(7).
 *
 *     { epoll_wait -> for each that is ready: accept, or receive -> send }
 *
 * The functions of poll.c (diff the two); what differs is who keeps the list.
 * epoll (Linux 2.6) is told once of each descriptor and has a list of those
 * that are ready: a call costs what is ready, however many others are idle.
 *
 * Level-triggered: as long as there is something to read, each call says so,
 * so some may be left for the next round. The interest is changed only when an
 * answer does not fit into the socket's buffer: no epoll_ctl() per request.
 *
 * Try: strace -c build/lessons/epoll. See models/epoll.c.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct client {
    int fd;
    unsigned events;   /* what epoll was told to wait for */
    size_t start, end; /* of what is unsent, in: */
    char buffer[16384];
};

static int epoll_fd;

static int start_listening(const char *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((unsigned short)atoi(port)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, length) || listen(fd, SOMAXCONN))
        err(1, "listen");
    getsockname(fd, (struct sockaddr *)&at, &length);
    dprintf(1,
            "{\"event\":\"ready\",\"model\":\"lesson\","
            "\"host\":\"127.0.0.1\",\"port\":%d}\n",
            ntohs(at.sin_port));
    return fd;
}

/* Whatever can be done now: reads when nothing is unsent, sends what is there.
 * Returns 0 when the client has ended or the connection is broken. */
static int advance(int fd, struct client *c)
{
    if (c->start == c->end) {
        ssize_t n = recv(fd, c->buffer, sizeof c->buffer, 0);
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        c->start = 0;
        c->end = (size_t)n;
    }
    ssize_t n = send(fd, c->buffer + c->start, c->end - c->start, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    c->start += (size_t)n;
    return 1;
}

static int watch(struct client *c, int operation, unsigned events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    c->events = events;
    return epoll_ctl(epoll_fd, operation, c->fd, &event);
}

static void serve_client(struct client *c)
{
    if (!advance(c->fd, c)) {
        close(c->fd); /* epoll forgets a descriptor that is closed */
        free(c);      /* it has one event a call: no other points here */
        return;
    }
    unsigned events = c->start == c->end ? EPOLLIN : EPOLLOUT;
    if (events != c->events)
        watch(c, EPOLL_CTL_MOD, events);
}

static void accept_client(int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK);
    struct client *c = fd < 0 ? NULL : calloc(1, sizeof *c);
    if (c)
        c->fd = fd;
    else if (fd < 0)
        usleep(1000); /* EMFILE: it is told of until another client leaves */
    if (fd >= 0 && (!c || watch(c, EPOLL_CTL_ADD, EPOLLIN) < 0)) {
        close(fd);
        free(c);
    }
}

int main(int argc, char **argv)
{
    int listen_fd = start_listening(argc > 1 ? argv[1] : "0");
    struct epoll_event events[256], listener = {.events = EPOLLIN};
    epoll_fd = epoll_create1(0);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &listener);
    for (;;) {
        int n = epoll_wait(epoll_fd, events, 256, -1); /* -1: EINTR */
        for (int i = 0; i < n; i++)
            if (events[i].data.ptr)
                serve_client(events[i].data.ptr);
            else /* not told with a pointer: the listening socket */
                accept_client(listen_fd);
    }
}
