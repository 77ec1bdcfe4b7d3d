/* thread.c -- an echo server with a thread for each client.
 *
 *     main:    accept -> create a thread -> accept
 *     thread:  { receive -> send } -> close
 *
 * The loop of iterative.c again, and the scheduler again decides who runs; but
 * threads share one address space, so starting one costs 10 to 20 us and a few
 * pages, and data that two of them use needs a lock. (An echo server has none.)
 * A stack is address space, 8 MiB by default; only touched pages are memory.
 *
 * A thread is detached, because nobody waits for its end: one that is neither
 * joined nor detached leaks its stack.
 *
 * Try: strace -f -e trace=clone3,accept build/lessons/thread. See
 * models/thread.c, and models/pool.c, which has a fixed number of threads.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
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

static void *thread_main(void *argument)
{
    int fd = (int)(intptr_t)argument;
    serve(fd);
    close(fd);
    return NULL;
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
        pthread_t thread;
        /* By value: the address of fd would be the next client's soon. */
        if (pthread_create(&thread, NULL, thread_main, (void *)(intptr_t)fd))
            close(fd); /* no thread for it (EAGAIN), the others go on */
        else
            pthread_detach(thread);
    }
}
