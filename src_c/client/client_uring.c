/* client_uring.c -- wait with io_uring (Linux 6.12).
 *
 *     submit sends, wait -> for each completion: check -> queue a send -> ...
 *
 * One multishot receive per connection stays armed for its whole life and
 * takes room from shared buffers when data comes, so receiving costs no
 * submission and idle connections hold no memory. The buffers are used up
 * incrementally: small answers lie side by side and stay in the cache. Sends
 * are queued and handed over many per system call. DEFER_TASKRUN: completions
 * are worked off when we ask for them, in this thread, never by interrupting.
 * Sockets that stay are registered under the numbers of their users: finding
 * a file, and counting who uses it, would cost at each operation.
 *
 * A request is timed when it is queued, at most SUBMIT_AT sends before the
 * kernel sees it, and its bytes count as sent from then on: a send that
 * succeeds is not reported, which saves a completion per request. So bytes sent
 * hold what was queued for a connection that broke, and an answer that comes
 * before the whole request has left is not noticed, which it is with epoll.
 * Looking at the clock for each answer would be 2 % of what an echo costs; a
 * look serves LOOK_EVERY answers, unless a system call came in between.
 */
#ifdef HAVE_URING
#include <err.h>
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client_engine.h"
#include "common/clock.h"
#include "common/ring.h"

enum {
    SQ_ENTRIES = 256,
    CQ_ENTRIES = 8192,
    SUBMIT_AT = 32,
    LOOK_EVERY = 4,
    BUFFERS = 16,
    BUFFER_BYTES = 65536,
    GROUP = 0,
    RING_BYTES = 4096, /* BUFFERS entries, a whole page */
};

/* From Linux 6.12, not yet in every liburing. */
enum { PBUF_RING_INCREMENTAL = 2, CQE_F_BUFFER_MORE = 1 << 4 };

enum operation { OP_CONNECT, OP_RECEIVE, OP_SEND };

struct engine {
    struct client_thread *thread;
    struct io_uring ring;
    struct io_uring_buf_ring *buffer_ring;
    char *buffers;
    size_t used[BUFFERS]; /* bytes of each that were filled */
    bool registers;       /* sockets, under users' numbers */
    uint64_t now_ns;      /* the last look at the clock */
};

/* --- opening ------------------------------------------------------------ */

static void give_buffer(struct engine *e, unsigned i)
{
    e->used[i] = 0;
    io_uring_buf_ring_add(e->buffer_ring, e->buffers + i * BUFFER_BYTES,
                          BUFFER_BYTES, (unsigned short)i,
                          io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(e->buffer_ring, 1);
}

/* Asks for buffers that are used up piece by piece. The field lies behind bgid;
 * it is called pad in liburing 2.3, flags in later ones. */
static void set_incremental(struct io_uring_buf_reg *reg)
{
    uint16_t flags = PBUF_RING_INCREMENTAL;
    memcpy((char *)(&reg->bgid + 1), &flags, sizeof flags);
}

/* 0 or an errno. */
static int make_buffers(struct engine *e)
{
    char *map =
        mmap(NULL, RING_BYTES + BUFFERS * BUFFER_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return errno;
    e->buffer_ring = (struct io_uring_buf_ring *)map;
    e->buffers = map + RING_BYTES;
    struct io_uring_buf_reg reg = {
        .ring_addr = (uintptr_t)map, .ring_entries = BUFFERS, .bgid = GROUP};
    set_incremental(&reg);
    int error = -io_uring_register_buf_ring(&e->ring, &reg, 0);
    if (error)
        return error;
    io_uring_buf_ring_init(e->buffer_ring);
    for (unsigned i = 0; i < BUFFERS; i++)
        give_buffer(e, i);
    return 0;
}

static void free_buffers(struct engine *e)
{
    if (e->buffer_ring)
        munmap(e->buffer_ring, RING_BYTES + BUFFERS * BUFFER_BYTES);
}

static int make_ring(struct engine *e)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
        .cq_entries = CQ_ENTRIES};
    int error = -ring_open(&e->ring, SQ_ENTRIES, &params);
    if (error)
        return error;
    io_uring_register_ring_fd(&e->ring); /* spares a look-up per call */
    e->registers =
        thread_keeps_connections(e->thread) &&
        !io_uring_register_files_sparse(&e->ring, thread_count(e->thread));
    error = make_buffers(e);
    if (error)
        io_uring_queue_exit(&e->ring);
    return error;
}

static struct engine *uring_open(struct client_thread *thread)
{
    struct engine *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->thread = thread;
    int error = make_ring(e);
    if (error) {
        if (error == ENOMEM)
            warnx("uring: %s", ring_error(error));
        free_buffers(e);
        free(e);
        errno = error;
        return NULL;
    }
    return e;
}

static void uring_close(struct engine *e)
{
    io_uring_queue_exit(&e->ring);
    free_buffers(e);
    free(e);
}

/* --- submitting --------------------------------------------------------- */

static void look_at_clock(struct engine *e)
{
    e->now_ns = clock_now_ns();
}

static void uring_submit(struct engine *e)
{
    io_uring_submit(&e->ring);
    look_at_clock(e);
}

/* generation | operation | index: whose completion it is, and of which of the
 * user's connections */
static uint64_t uring_tag(const struct engine *e, const struct user *u,
                          enum operation op)
{
    return (uint64_t)u->generation << 32 | (uint64_t)op << 30 |
           thread_index(e->thread, u);
}

/* The kernel may have no memory to take what is queued just now: once more. */
static struct io_uring_sqe *uring_entry(struct engine *e)
{
    struct io_uring_sqe *sqe;
    while (!(sqe = io_uring_get_sqe(&e->ring)))
        uring_submit(e);
    return sqe;
}

/* fd under the user's number; -1 takes it away. Returns 0 or an errno. */
static int register_socket(struct engine *e, const struct user *u, int fd)
{
    if (!e->registers)
        return 0;
    int done = io_uring_register_files_update(
        &e->ring, thread_index(e->thread, u), &fd, 1);
    return done < 0 ? -done : 0;
}

static void use_socket(struct engine *e, struct io_uring_sqe *sqe,
                       const struct user *u)
{
    sqe->fd = e->registers ? (int)thread_index(e->thread, u) : u->fd;
    sqe->flags |= e->registers ? IOSQE_FIXED_FILE : 0;
}

static void arm_receive(struct engine *e, struct user *u)
{
    struct io_uring_sqe *sqe = uring_entry(e);
    io_uring_prep_recv_multishot(sqe, -1, NULL, 0, 0);
    use_socket(e, sqe, u);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = GROUP;
    io_uring_sqe_set_data64(sqe, uring_tag(e, u, OP_RECEIVE));
}

static void uring_connected(struct engine *e, struct user *u, int error)
{
    if (error == 0)
        error = register_socket(e, u, u->fd);
    if (error == 0)
        arm_receive(e, u);
    thread_on_connected(e->thread, u, error);
}

/* On loopback connect(2) has its answer at once; elsewhere we wait for it. */
static void uring_connect(struct engine *e, struct user *u)
{
    const struct endpoints *endpoints = thread_endpoints(e->thread, u);
    int fd = connect_socket(endpoints, u->who + u->generation);
    if (fd < 0) {
        thread_on_connected(e->thread, u, errno);
        return;
    }
    user_connect(u, fd, clock_now_ns());
    int error = connect_begin(endpoints, fd);
    look_at_clock(e);
    if (error != EINPROGRESS) {
        uring_connected(e, u, error);
        return;
    }
    struct io_uring_sqe *sqe = uring_entry(e);
    io_uring_prep_poll_add(sqe, fd, POLLOUT);
    io_uring_sqe_set_data64(sqe, uring_tag(e, u, OP_CONNECT));
}

static void uring_flush(struct engine *e)
{
    if (io_uring_sq_ready(&e->ring))
        uring_submit(e);
}

/* MSG_WAITALL: the kernel sends all of it, and completes only if it cannot. */
static void uring_send(struct engine *e, struct user *u)
{
    size_t bytes;
    const char *data = user_outgoing(u, &bytes);
    struct io_uring_sqe *sqe = uring_entry(e);
    io_uring_prep_send(sqe, -1, data, bytes, MSG_NOSIGNAL | MSG_WAITALL);
    use_socket(e, sqe, u);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(sqe, uring_tag(e, u, OP_SEND));
    thread_on_sent(e->thread, u, bytes);
    if (io_uring_sq_ready(&e->ring) >= SUBMIT_AT)
        uring_submit(e);
}

/* What is queued for this user must reach the kernel before the number means
 * another socket. The shutdown ends the armed receive, which would hold
 * the socket open beyond close(2). */
static void uring_drop(struct engine *e, struct user *u)
{
    uring_flush(e);
    register_socket(e, u, -1);
    shutdown(u->fd, SHUT_RDWR);
    close(u->fd);
    look_at_clock(e);
}

/* --- completing --------------------------------------------------------- */

/* The bytes of a completion; they stay valid until the next io_uring_enter. */
static const char *take_bytes(struct engine *e, const struct io_uring_cqe *cqe,
                              unsigned buffer)
{
    const char *bytes = e->buffers + buffer * BUFFER_BYTES + e->used[buffer];
    e->used[buffer] += (size_t)cqe->res;
    return bytes;
}

static void uring_received(struct engine *e, struct user *u,
                           uint32_t generation, const struct io_uring_cqe *cqe)
{
    bool ours = u->generation == generation;
    if (cqe->flags & IORING_CQE_F_BUFFER) {
        unsigned buffer = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
        const char *bytes = take_bytes(e, cqe, buffer);
        if (ours)
            thread_on_received(e->thread, u, bytes, (size_t)cqe->res,
                               e->now_ns);
        if (!(cqe->flags & CQE_F_BUFFER_MORE))
            give_buffer(e, buffer);
    } else if (ours && cqe->res == 0) {
        thread_on_received(e->thread, u, NULL, 0, e->now_ns);
    } else if (ours && cqe->res != -ENOBUFS) {
        thread_on_error(e->thread, u, false, -cqe->res);
    }
    if (u->generation == generation && !(cqe->flags & IORING_CQE_F_MORE))
        arm_receive(e, u);
}

static void uring_polled(struct engine *e, struct user *u)
{
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(u->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    uring_connected(e, u, error);
}

static void uring_dispatch(struct engine *e, const struct io_uring_cqe *cqe)
{
    uint64_t data = cqe->user_data;
    uint32_t generation = (uint32_t)(data >> 32);
    struct user *u = thread_user(e->thread, (uint32_t)data & 0x3fffffff);
    switch ((enum operation)(data >> 30 & 3)) {
    case OP_RECEIVE: uring_received(e, u, generation, cqe); break;
    case OP_CONNECT:
        if (u->generation == generation && u->state == USER_CONNECTING)
            uring_polled(e, u);
        break;
    case OP_SEND:
        if (u->generation == generation && cqe->res < 0)
            thread_on_error(e->thread, u, true, -cqe->res);
        break;
    }
}

static void uring_enter(struct engine *e, uint64_t timeout_ns)
{
    struct io_uring_cqe *cqe;
    struct __kernel_timespec timeout = {
        .tv_sec = (long long)(timeout_ns / NS_PER_S),
        .tv_nsec = (long long)(timeout_ns % NS_PER_S)};
    if (timeout_ns)
        io_uring_submit_and_wait_timeout(&e->ring, &cqe, 1, &timeout, NULL);
    else
        io_uring_submit_and_get_events(&e->ring);
}

/* Completions that arrive while we answer these belong to the next round: the
 * thread must see to its clock in between. */
static unsigned uring_await(struct engine *e, uint64_t timeout_ns)
{
    uring_enter(e, timeout_ns);
    unsigned n = io_uring_cq_ready(&e->ring), mask = *e->ring.cq.kring_mask;
    for (unsigned i = 0; i < n; i++) {
        if (i % LOOK_EVERY == 0)
            look_at_clock(e);
        if (i == 0)
            thread_on_awake(e->thread, e->now_ns);
        uring_dispatch(e, &e->ring.cq.cqes[*e->ring.cq.khead & mask]);
        io_uring_cq_advance(&e->ring, 1);
    }
    return n;
}

const struct engine_kind engine_uring = {
    .name = "uring",
    .open = uring_open,
    .close = uring_close,
    .connect = uring_connect,
    .send = uring_send,
    .drop = uring_drop,
    .wait = uring_await,
    .flush = uring_flush,
};
#endif
