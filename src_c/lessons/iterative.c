/* iterative.c -- an echo server for one client at a time.
 *
 *     socket -> bind -> listen -> { accept -> { receive -> send } -> close }
 *
 * The shortest server there is. While it serves one client, the kernel keeps
 * the next ones in the listening socket's backlog, connected and unanswered.
 * What it has right, and every other lesson repeats:
 *   - send() may take less than it is given: what is left goes next;
 *   - a client that has gone must not kill us: MSG_NOSIGNAL, not SIGPIPE;
 *   - recv() returns 0 when the client will send no more; it may still read,
 *     so the answer to what came before is sent first (half-close);
 *   - accept() may fail for now (EMFILE), and is tried again. A client that has
 *     left is accepted all the same: recv() tells (ECONNRESET);
 *   - SO_REUSEADDR lets bind() succeed although old connections of the port are
 *     in TIME_WAIT;
 *   - TCP_NODELAY, which accepted sockets inherit: a small answer does not wait
 *     until the client has acknowledged the one before it (Nagle's algorithm).
 * What it leaves out: limits, statistics, a clean stop, timeouts. See
 * models/iterative.c, which has them.
 *
 * Usage: build/lessons/iterative [PORT]        (0 or none: any that is free)
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* A socket that accepts connections from this machine. Its port is told as a
 * line of JSON, as the project's tests and bench read it. */
static int start_listening(const char *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((unsigned short)atoi(port)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
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

/* Returns 0 when the connection is broken. */
static int send_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return 0;
        if (sent > 0) {
            bytes += sent;
            n -= (size_t)sent;
        }
    }
    return 1;
}

static void serve(int fd)
{
    static char buffer[65536];
    for (;;) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);
        if (n < 0 && errno == EINTR) /* a signal came, and nothing else */
            continue;
        if (n <= 0 || !send_all(fd, buffer, (size_t)n))
            return;
    }
}

int main(int argc, char **argv)
{
    int listen_fd = start_listening(argc > 1 ? argv[1] : "0");
    for (;;) {
        int fd = accept(listen_fd, NULL, NULL);
        if (fd < 0) { /* no descriptor is free (EMFILE), for one */
            usleep(1000);
            continue;
        }
        serve(fd);
        close(fd);
    }
}
