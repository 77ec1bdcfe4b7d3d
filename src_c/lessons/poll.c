/* poll.c -- an echo server for all clients in one thread, with poll(2).
 *
 *     { poll -> for each that is ready: accept, or receive -> send }
 *
 * Nothing may block but poll(), since others wait. What a blocking server has
 * on its stack, "this answer is half sent", lies in a struct for each client.
 * A client is read from when nothing is unsent, else written to: one that does
 * not read our answers is not read from either, which is backpressure.
 *
 * poll() is handed all descriptors at each call, and the kernel looks at each:
 * with 10 000 idle clients one request costs 10 000 looks. See epoll.c.
 *
 * Try: strace -c build/lessons/poll. See models/poll.c, models/select.c.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct client {
    size_t start, end; /* of what is unsent, in: */
    char buffer[16384];
};

enum { MOST = 65536 };
static struct pollfd fds[MOST];      /* [0] is the listening socket */
static struct client *clients[MOST]; /* the one of fds[i] */
static nfds_t count;

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

static void serve_client(nfds_t i)
{
    struct client *c = clients[i];
    if (advance(fds[i].fd, c)) {
        fds[i].events = c->start == c->end ? POLLIN : POLLOUT;
        return;
    }
    close(fds[i].fd);
    free(c);
    fds[i] = fds[--count]; /* the last one takes its place */
    clients[i] = clients[count];
}

static void accept_client(int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK);
    if (fd < 0) /* EMFILE: poll() tells of it until another client leaves */
        usleep(1000);
    else if (count == MOST || !(clients[count] = calloc(1, sizeof **clients)))
        close(fd);
    else
        fds[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

int main(int argc, char **argv)
{
    int listen_fd = start_listening(argc > 1 ? argv[1] : "0");
    fds[count++] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
    for (;;) {
        if (poll(fds, count, -1) < 0)
            continue; /* EINTR */
        /* Backwards: the one that takes a free place was looked at before. */
        for (nfds_t i = count; i-- > 1;)
            if (fds[i].revents)
                serve_client(i);
        if (fds[0].revents)
            accept_client(listen_fd);
    }
}
