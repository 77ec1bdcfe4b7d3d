/* coroutine.c -- an echo server that reads as if each client had a thread.
 *
 *     in a coroutine:  { receive -> send }
 *     where it would block: switch to the loop in main()
 *     main:            { epoll_wait -> accept, or switch to whoever can go on }
 *
 * No struct says how far a client has come: its stack does. A coroutine is a
 * stack that we leave and come back to; swapcontext(3) swaps registers and, by
 * a system call, the signal mask. No lock is needed: each goes on until it
 * waits. Try: strace -c build/lessons/coroutine. Clients that pause (--think
 * 5ms) cost two rt_sigprocmask a request; models/coroutine.c does without.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

struct coroutine {
    ucontext_t context;
    int fd; /* -1: it has ended */
    char stack[32768];
};

static ucontext_t loop;
static struct coroutine *current;

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

/* After a call that failed: when only for now, others run until epoll tells of
 * a change. Returns whether to call again. */
static int await(struct coroutine *c)
{
    if (errno != EAGAIN)
        return errno == EINTR;
    swapcontext(&c->context, &loop);
    return 1;
}

/* The first function on a new stack, which main() frees: nobody can free what
 * it stands on. */
static void serve(void)
{
    struct coroutine *c = current;
    char buffer[16384];
    for (;;) {
        ssize_t n = recv(c->fd, buffer, sizeof buffer, 0), sent;
        if (n == 0 || (n < 0 && !await(c)))
            break;
        for (ssize_t at = 0; at < n; at += sent > 0 ? sent : 0) {
            sent = send(c->fd, buffer + at, (size_t)(n - at), MSG_NOSIGNAL);
            if (sent < 0 && !await(c))
                goto end;
        }
    }
end:
    close(c->fd);
    c->fd = -1;
    setcontext(&loop);
}

static void accept_client(int listen_fd, int epoll_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK);
    struct coroutine *c = fd < 0 ? NULL : calloc(1, sizeof *c);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
                                .data.ptr = c};
    if (c && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) {
        c->fd = fd;
        getcontext(&c->context);
        c->context.uc_stack.ss_sp = c->stack;
        c->context.uc_stack.ss_size = sizeof c->stack;
        makecontext(&c->context, serve, 0); /* the first event resumes it */
    } else {
        free(c);
        fd < 0 ? usleep(1000) : close(fd); /* EMFILE: epoll goes on telling */
    }
}

int main(int argc, char **argv)
{
    int listen_fd = start_listening(argc > 1 ? argv[1] : "0");
    struct epoll_event events[256], listener = {.events = EPOLLIN};
    int epoll_fd = epoll_create1(0);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &listener);
    for (;;) {
        int n = epoll_wait(epoll_fd, events, 256, -1); /* -1: EINTR */
        for (int i = 0; i < n; i++) {
            if (!(current = events[i].data.ptr)) { /* the listening socket */
                accept_client(listen_fd, epoll_fd);
                continue;
            }
            swapcontext(&loop, &current->context);
            if (current->fd < 0)
                free(current);
        }
    }
}
