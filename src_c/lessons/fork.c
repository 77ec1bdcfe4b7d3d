/* fork.c -- an echo server with a process for each client.
 *
 *     parent:  accept -> fork -> accept
 *     child:   { receive -> send } -> close -> exit
 *
 * The oldest way to serve many: the child runs the loop of iterative.c for its
 * one client, and the kernel's scheduler does the rest. A child that crashes
 * takes nobody with it, and no memory is shared by accident. It costs a copy
 * of the page tables for each connection, and some 100 KiB while it lasts.
 *
 * Both processes hold the client's descriptor after fork(), and the connection
 * ends only when both have closed it: forgetting the parent's close() is the
 * classic fault here. So is the zombie: a child's exit status is kept until
 * somebody waits for it, unless SIGCHLD is ignored (POSIX.1-2001).
 *
 * Try: strace -f build/lessons/fork. See models/fork.c, and models/prefork.c,
 * which starts its children before the clients come.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

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
    char buffer[65536];
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
    signal(SIGCHLD, SIG_IGN); /* the kernel reaps our children */
    for (;;) {
        int fd = accept(listen_fd, NULL, NULL);
        if (fd < 0) { /* no descriptor is free (EMFILE), for one */
            usleep(1000);
            continue;
        }
        if (fork() == 0) {
            close(listen_fd);
            serve(fd);
            _exit(0); /* closes the rest, and flushes nothing twice */
        }
        close(fd); /* the child has it; after a failed fork() nobody does */
    }
}
