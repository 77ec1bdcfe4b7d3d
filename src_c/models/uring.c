/* uring.c -- hand the kernel whole operations; it says when they are done.
 *
 *     io_uring_enter -> for each completion: accepted / received / sent
 *                    -> new operations into the ring -> io_uring_enter
 *
 * Good: one system call a turn, however many clients: accept and receive stay
 *       armed and complete again and again; the kernel picks a receive buffer
 *       only when bytes are there, so an idle client holds none.
 * Bad:  Linux 6.0 (2022), and often switched off; bytes come whether they are
 *       wanted or not, so backpressure is our task; what an operation points
 *       at belongs to the kernel until it completes, so closing takes a turn.
 * Look: an answer is first sent straight from the buffer in which the request
 *       came, without waiting (MSG_DONTWAIT): so the buffer is back after one
 *       turn, and a client that never reads holds a copy, not a buffer. Who
 *       fills a small buffer is taken for one who streams and received from
 *       one by one, into large buffers, only when more is wanted.
 */
#include "uring/uring.h"
#include "uring/uring_redis.h"

#include "model.h"

#ifdef HAVE_URING

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "server/conn.h"
#include "common/list.h"
#include "server/net.h"
#include "common/owner.h"
#include "server/stop.h"
#include "reactor/timers.h"

enum {
    SMALL_BYTES = 4096, SMALL_FIRST = 64, SMALL_MOST = 4096,
    LARGE_BYTES = CONN_CHUNK, LARGE_FIRST = 8, LARGE_MOST = 512,
    KEEP_MOST = 16 * 1024,    /* bytes of a client that are not wanted yet */
    PARTING_NS = 200000000,   /* overdue: how long operations may take to end */
};

/* What completes: the low bits of user_data, beside the client's address. */
enum operation {
    REDIS_POLL = URING_REDIS_TAG,
    RECEIVE, SEND, CANCEL, ACCEPT, LISTENER_READY,
    NOBODY = URING_NOBODY,
};

struct client {
    struct timer timer;
    struct node open;               /* in loop->open, or loop->closed */
    struct redis_request redis;
    bool receiving, sending;        /* operations that the kernel holds */
    bool cancelling;                /* another that ends the receive */
    bool streams;                   /* sends more at once than we take */
    bool closing;                   /* to be closed when it holds none */
    struct uring_buffers *source;   /* of what it receives */
    struct uring_buffers *lender;   /* of the buffer that `out` lies in, ... */
    unsigned buffer;                /* ... and which; NULL: it does not */
    struct conn conn;               /* last: its session follows */
};

struct loop {
    struct io_uring ring;
    struct uring_buffers small, large;
    struct uring_redis redis;
    struct worker worker;
    struct timers timers;
    struct node open, closed;       /* clients; freed at the end of the turn */
    bool small_lack, large_lack;    /* a receive found no buffer this turn */
};

static const size_t client_extra = offsetof(struct client, conn);

static void pursue(struct loop *loop, struct client *client, enum want want);

/* --- operations --------------------------------------------------------- */

static uint64_t name(const struct client *client, enum operation operation)
{
    return (uintptr_t)client | operation;
}

/* Each completion brings one buffer; it stays armed until one says no more.
 * For a client who streams it completes once, and queues behind those whose
 * bytes came earlier: tried at once, a receive takes a buffer before them all,
 * who are served 20 a system call, and some of 1000 starved. */
static void arm_receive(struct loop *loop, struct client *client)
{
    if (client->receiving)
        return;
    struct io_uring_sqe *entry = uring_entry(&loop->ring);
    if (client->streams) {
        io_uring_prep_recv(entry, client->conn.fd, NULL, 0, 0);
        entry->ioprio |= IORING_RECVSEND_POLL_FIRST;
    } else {
        io_uring_prep_recv_multishot(entry, client->conn.fd, NULL, 0, 0);
    }
    client->source = client->streams ? &loop->large : &loop->small;
    entry->flags |= IOSQE_BUFFER_SELECT;
    entry->buf_group = (uint16_t)client->source->group;
    entry->user_data = name(client, RECEIVE);
    client->receiving = true;
}

static void arm_send(struct loop *loop, struct client *client)
{
    struct span out = conn_unsent(&client->conn);
    int wait = client->lender ? MSG_DONTWAIT : 0;
    struct io_uring_sqe *entry = uring_entry(&loop->ring);
    io_uring_prep_send(entry, client->conn.fd, out.bytes, out.length,
                       MSG_NOSIGNAL | wait);
    entry->user_data = name(client, SEND);
    client->sending = true;
}

static void cancel_receive(struct loop *loop, struct client *client)
{
    if (!client->receiving || client->cancelling)
        return;
    struct io_uring_sqe *entry = uring_entry(&loop->ring);
    io_uring_prep_cancel64(entry, name(client, RECEIVE), 0);
    entry->user_data = name(client, CANCEL);
    client->cancelling = true;
}

static void cancel_send(struct loop *loop, const struct client *client)
{
    if (!client->sending)
        return;
    struct io_uring_sqe *entry = uring_entry(&loop->ring);
    io_uring_prep_cancel64(entry, name(client, SEND), 0);
    entry->user_data = NOBODY;
}

static void arm_accept(struct loop *loop)
{
    struct io_uring_sqe *entry = uring_entry(&loop->ring);
    io_uring_prep_multishot_accept(entry, loop->worker.server->listen_fd,
                                   NULL, NULL, SOCK_CLOEXEC);
    entry->user_data = ACCEPT;
}

/* At a limit, an armed accept fails at once and for ever, even with nobody at
 * the door: wait for somebody, then let net_accept() refuse. */
static void await_knock(struct loop *loop)
{
    struct io_uring_sqe *entry = uring_entry(&loop->ring);
    io_uring_prep_poll_add(entry, loop->worker.server->listen_fd, POLLIN);
    entry->user_data = LISTENER_READY;
}

/* --- one client --------------------------------------------------------- */

static void buffer_return(struct client *client)
{
    if (client->lender)
        uring_buffer_return(client->lender, client->buffer);
    client->lender = NULL;
}

/* The socket closes only once the kernel holds nothing of it any more. */
static void close_if_idle(struct loop *loop, struct client *client)
{
    if (client->receiving || client->sending || client->cancelling)
        return;
    buffer_return(client);
    conn_close(&client->conn);
    list_leave(&client->open);
    list_append(&loop->closed, &client->open);
}

static void free_closed(struct loop *loop)
{
    while (!list_empty(&loop->closed)) {
        struct client *client =
            OWNER_OF(loop->closed.after, struct client, open);
        list_leave(&client->open);
        conn_free(&client->conn, client_extra);
    }
}

static void client_close(struct loop *loop, struct client *client)
{
    if (client->closing)
        return;
    client->closing = true;
    timers_cancel(&loop->timers, &client->timer);
    redis_async_cancel(&loop->redis.async, &client->redis);
    cancel_receive(loop, client);
    cancel_send(loop, client);
    close_if_idle(loop, client);
}

static void client_fail(struct loop *loop, struct client *client, int error)
{
    conn_failed(&client->conn, error);
    client_close(loop, client);
}

static void client_set_timer(struct loop *loop, struct client *client,
                             uint64_t at_ns)
{
    if (!timers_set(&loop->timers, &client->timer, at_ns))
        client_fail(loop, client, ENOMEM);
}

static void client_ask(struct loop *loop, struct client *client)
{
    client_set_timer(loop, client, clock_now_ns() + REDIS_TIMEOUT_NS);
    if (!client->closing)
        redis_async_begin(&loop->redis.async, &client->redis);
}

/* Puts what is wanted into the ring; or, what cannot go there, on a list. */
static void pursue(struct loop *loop, struct client *client, enum want want)
{
    switch (want) {
    case WANT_READ:
        return arm_receive(loop, client);
    case WANT_WRITE:
        return arm_send(loop, client);
    case WANT_SLEEP:
        return client_set_timer(loop, client, client->conn.wake_ns);
    case WANT_ASK:
        return client_ask(loop, client);
    case WANT_CLOSE:
        return client_close(loop, client);
    }
}

/* --- completions -------------------------------------------------------- */

/* From now on it is asked for more only when we want it. */
static void slow_down(struct loop *loop, struct client *client)
{
    if (client->streams)
        return;
    client->streams = true;
    cancel_receive(loop, client);
}

/* Bytes that came while an answer is on its way are copied aside. */
static void keep(struct loop *loop, struct client *client, const char *bytes,
                 size_t n)
{
    if (!conn_keep(&client->conn, bytes, n))
        client_fail(loop, client, ENOMEM);
    else if (client->conn.kept_in.length > KEEP_MOST)
        slow_down(loop, client);
}

/* n bytes lie in buffer `id` of its source; 0 bytes: the end, no buffer. */
static void client_received(struct loop *loop, struct client *client,
                            unsigned id, size_t n)
{
    struct conn *conn = &client->conn;
    struct uring_buffers *source = client->source;
    const char *bytes = n ? uring_buffer(source, id) : NULL;
    if (n == source->bytes)
        slow_down(loop, client);
    if (conn->want != WANT_READ) {
        keep(loop, client, bytes, n);
        if (n)
            uring_buffer_return(source, id);
        return;
    }
    enum want want = conn_received(conn, bytes, n);
    client->lender = n ? source : NULL;
    client->buffer = id;
    if (!conn_borrows(conn))
        buffer_return(client);
    pursue(loop, client, want);
}

/* A receive that ended though the stream did not: the kernel found no buffer
 * or no room for a completion, or it was to complete once, or we cancelled. */
static void receive_again(struct loop *loop, struct client *client, int error)
{
    if (error == ENOBUFS && client->source == &loop->small)
        loop->small_lack = true;
    else if (error == ENOBUFS)
        loop->large_lack = true;
    bool wanted = client->conn.want == WANT_READ || !client->streams;
    if (wanted && !client->conn.ended)
        arm_receive(loop, client);
}

static void on_received(struct loop *loop, struct client *client,
                        const struct io_uring_cqe *cqe)
{
    bool has_buffer = cqe->flags & IORING_CQE_F_BUFFER;
    unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    int error = cqe->res < 0 ? -cqe->res : 0;
    bool fatal = error != 0 && error != ENOBUFS && error != ECANCELED &&
                 error != EINTR;
    client->receiving = cqe->flags & IORING_CQE_F_MORE;
    if (has_buffer && (client->closing || cqe->res <= 0))
        uring_buffer_return(client->source, id);
    if (client->closing)
        return close_if_idle(loop, client);
    if (fatal)
        return client_fail(loop, client, error);
    if (error == 0)
        client_received(loop, client, id, (size_t)cqe->res);
    if (!client->closing && !client->receiving)
        receive_again(loop, client, error);
}

/* A receive that is just completing may not be found (ENOENT, EALREADY): if it
 * is armed yet, and not the one that took its place, tries again. */
static void on_cancelled(struct loop *loop, struct client *client, int result)
{
    client->cancelling = false;
    bool unwanted = client->closing || (client->streams &&
                                        client->source == &loop->small);
    if (result < 0 && unwanted)
        cancel_receive(loop, client);
    if (client->closing)
        close_if_idle(loop, client);
}

static void on_sent(struct loop *loop, struct client *client, int result)
{
    struct conn *conn = &client->conn;
    client->sending = false;
    if (client->closing)
        return close_if_idle(loop, client);
    if (result == -EAGAIN || result == -EINTR)
        result = 0;
    if (result < 0)
        return client_fail(loop, client, -result);
    enum want want = conn_sent(conn, (size_t)result);
    if (!conn_stash(conn))
        return client_fail(loop, client, ENOMEM);
    buffer_return(client);
    pursue(loop, client, want);
}

static void on_answered(struct redis_async *async,
                        struct redis_request *request)
{
    struct client *client = OWNER_OF(request, struct client, redis);
    struct loop *loop = OWNER_OF(async, struct loop, redis.async);
    timers_cancel(&loop->timers, &client->timer);
    pursue(loop, client, (enum want)client->conn.want);
}

static void adopt(struct loop *loop, int fd, const struct sockaddr_in6 *peer)
{
    struct conn *conn = conn_open(&loop->worker, fd, peer, client_extra);
    if (!conn)
        return;
    struct client *client = OWNER_OF(conn, struct client, conn);
    redis_request_init(&client->redis, conn);
    list_append(&loop->open, &client->open);
    arm_receive(loop, client);
}

/* The armed accept has one place for an address, not one for each. */
static void on_accepted(struct loop *loop, const struct io_uring_cqe *cqe)
{
    struct sockaddr_in6 peer = {0};
    socklen_t length = sizeof peer;
    if (cqe->res >= 0) {
        getpeername(cqe->res, (struct sockaddr *)&peer, &length);
        adopt(loop, cqe->res, &peer);
    }
    if (cqe->flags & IORING_CQE_F_MORE)
        return;
    if (cqe->res >= 0)
        arm_accept(loop);
    else
        await_knock(loop);
}

static void on_knock(struct loop *loop)
{
    struct server *server = loop->worker.server;
    struct sockaddr_in6 peer;
    fcntl(server->listen_fd, F_SETFL, O_NONBLOCK);
    int fd = net_accept(server, &peer, 0);
    fcntl(server->listen_fd, F_SETFL, 0); /* or an armed accept would fail */
    if (fd == ACCEPT_STOPPED)
        return;
    if (fd >= 0)
        adopt(loop, fd, &peer);
    arm_accept(loop);
}

static void on_completion(struct loop *loop, const struct io_uring_cqe *cqe)
{
    void *whose = (void *)(uintptr_t)(cqe->user_data & ~(uint64_t)NOBODY);
    switch ((enum operation)(cqe->user_data & NOBODY)) {
    case REDIS_POLL:
        return uring_redis_completed(&loop->redis, whose);
    case RECEIVE:
        return on_received(loop, whose, cqe);
    case SEND:
        return on_sent(loop, whose, cqe->res);
    case CANCEL:
        return on_cancelled(loop, whose, cqe->res);
    case ACCEPT:
        return on_accepted(loop, cqe);
    case LISTENER_READY:
        return on_knock(loop);
    case NOBODY:
        return;
    }
}

/* --- the loop ----------------------------------------------------------- */

static void run_timers(struct loop *loop)
{
    if (loop->timers.count == 0)
        return;
    uint64_t now = clock_now_ns();
    for (struct timer *t; (t = timers_due(&loop->timers, now));) {
        struct client *client = OWNER_OF(t, struct client, timer);
        if (client->conn.want == WANT_ASK)
            redis_async_timed_out(&loop->redis.async, &client->redis);
        else
            pursue(loop, client, conn_woken(&client->conn));
    }
}

static int64_t timeout_ns(const struct loop *loop)
{
    int64_t left = loop->timers.count
                       ? timers_left_ns(&loop->timers, clock_now_ns())
                       : -1;
    if (stop_requested() && (left < 0 || left > STOP_POLL_NS))
        return STOP_POLL_NS;
    return left;
}

/* With all buffers there can be, receives are armed again and again until some
 * come back; counted, for it costs time. */
static void relieve(struct loop *loop, struct uring_buffers *buffers,
                    bool *lack)
{
    if (*lack && !uring_buffers_grow(buffers))
        stats_error(loop->worker.server->stats, ENOBUFS);
    *lack = false;
}

static void turn(struct loop *loop)
{
    uring_wait(&loop->ring, timeout_ns(loop));
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;
    io_uring_for_each_cqe(&loop->ring, head, cqe) {
        on_completion(loop, cqe);
        count++;
    }
    io_uring_cq_advance(&loop->ring, count);
    run_timers(loop);
    redis_async_round(&loop->redis.async);
    free_closed(loop);
    relieve(loop, &loop->small, &loop->small_lack);
    relieve(loop, &loop->large, &loop->large_lack);
}

/* A stop is overdue: ends all operations, so that nothing is in the kernel's
 * hands when its memory goes. */
static void part(struct loop *loop)
{
    struct node *open = &loop->open;
    for (struct node *at = open->after, *next; at != open; at = next) {
        next = at->after;
        client_close(loop, OWNER_OF(at, struct client, open));
    }
    uint64_t until_ns = clock_now_ns() + PARTING_NS;
    while (!list_empty(open) && clock_now_ns() < until_ns)
        turn(loop);
    free_closed(loop);
}

static void serve(struct loop *loop)
{
    stats_add(&loop->worker.server->stats->workers_started, 1);
    arm_accept(loop);
    while (!stop_requested() || (!list_empty(&loop->open) && !stop_overdue()))
        turn(loop);
    part(loop);
    redis_pool_close_all(&loop->redis.async.pool);
}

static bool open_all(struct loop *loop)
{
    if (!uring_open(&loop->ring))
        return false;
    if (uring_buffers_open(&loop->small, &loop->ring, 0, SMALL_BYTES,
                           SMALL_FIRST, SMALL_MOST) &&
        uring_buffers_open(&loop->large, &loop->ring, 1, LARGE_BYTES,
                           LARGE_FIRST, LARGE_MOST))
        return true;
    io_uring_queue_exit(&loop->ring);
    return false;
}

static int uring_run(struct server *server)
{
    struct loop *loop = aligned_alloc(16, sizeof *loop);
    if (!loop) {
        net_warn("aligned_alloc");
        return -1;
    }
    memset(loop, 0, sizeof *loop);
    loop->worker = (struct worker){server, server->process, {0}};
    uring_redis_init(&loop->redis, &loop->ring, on_answered);
    list_init(&loop->open);
    list_init(&loop->closed);
    int result = -1;
    if (open_all(loop)) {
        serve(loop);
        io_uring_queue_exit(&loop->ring);
        result = 0;
    }
    uring_buffers_close(&loop->small);
    uring_buffers_close(&loop->large);
    timers_free(&loop->timers);
    send_buffers_free(&loop->worker.buffers);
    free(loop);
    return result;
}

#else

static int uring_run(struct server *server)
{
    (void)server;
    return -1;
}

#endif

const struct model_code uring_model = {
    .run = uring_run, .missing = uring_missing,
};
