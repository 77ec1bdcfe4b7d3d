/* uring.c -- an echo server with io_uring: completions instead of readiness.
 *
 *     { submit and wait -> for each completion: start the client's next call }
 *
 * epoll says "now you may read"; io_uring (Linux 5.1) says "it is read". Calls
 * and results are entries of two rings shared with the kernel; one system call
 * hands over new calls and waits for results. A buffer is the kernel's until
 * its call is done; so a client lives until then. The accept is multishot
 * (5.19): one entry, many completions; in models/uring.c receives are, too.
 * Needs liburing 2.2 (cc ... -luring). Try: strace -c build/lessons/uring.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct client {
    int fd;
    size_t start, end; /* of what is unsent, in: */
    char buffer[16384];
};
static struct io_uring ring;

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

/* A free entry; a full ring is handed to the kernel first. */
static struct io_uring_sqe *new_entry(void)
{
    struct io_uring_sqe *sqe;
    while (!(sqe = io_uring_get_sqe(&ring)))
        io_uring_submit(&ring);
    return sqe;
}

static void start_next(struct client *c)
{
    struct io_uring_sqe *sqe = new_entry();
    if (c->start == c->end)
        io_uring_prep_recv(sqe, c->fd, c->buffer, sizeof c->buffer, 0);
    else
        io_uring_prep_send(sqe, c->fd, c->buffer + c->start, c->end - c->start,
                           MSG_NOSIGNAL);
    io_uring_sqe_set_data(sqe, c); /* comes back with the completion */
}

static void start_accept(int listen_fd)
{
    struct io_uring_sqe *sqe = new_entry();
    io_uring_prep_multishot_accept(sqe, listen_fd, NULL, NULL, 0);
    io_uring_sqe_set_data(sqe, NULL);
}

static void on_accept(int fd)
{
    struct client *c = fd < 0 ? NULL : calloc(1, sizeof *c);
    if (c) {
        c->fd = fd;
        start_next(c);
    } else
        fd < 0 ? usleep(1000) : close(fd); /* EMFILE: not at once again */
}

static void on_client(int result, struct client *c)
{
    if (result == 0 || (result < 0 && result != -EINTR && result != -EAGAIN)) {
        close(c->fd); /* the client has ended, or the connection is broken */
        free(c);
        return;
    }
    size_t n = result > 0 ? (size_t)result : 0;
    if (c->start < c->end)
        c->start += n; /* fewer than asked for: the rest is submitted anew */
    else
        c->start = 0, c->end = n;
    start_next(c);
}

int main(int argc, char **argv)
{
    int listen_fd = start_listening(argc > 1 ? argv[1] : "0");
    if (io_uring_queue_init(1024, &ring, 0) < 0)
        errx(1, "io_uring is not available here");
    for (start_accept(listen_fd);;) {
        struct io_uring_cqe *cqe;
        unsigned head, n = 0;
        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, head, cqe) {
            n++;
            if (cqe->user_data)
                on_client(cqe->res, io_uring_cqe_get_data(cqe));
            else
                on_accept(cqe->res);
            if (!cqe->user_data && !(cqe->flags & IORING_CQE_F_MORE))
                start_accept(listen_fd); /* it ended, by -EMFILE for one */
        }
        io_uring_cq_advance(&ring, n);
    }
}
