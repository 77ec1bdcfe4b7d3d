/* uring_client.c -- one client of a ring: its operations, from first to last.
 *
 *     receive armed -> bytes in a buffer of the kernel's choice -> workload
 *          ^                                                          |
 *          |                                                          v
 *     buffer returned  <-  sent: from that buffer, or from the answer's own
 *
 * An echo lies where the request came, so the receive buffer is lent to the
 * send. Lent buffers must come back soon: such a send does not wait
 * (MSG_DONTWAIT), and what does not fit into the socket's buffer is copied
 * aside. A client that never reads holds a copy, not a receive buffer.
 */
#include "uring_loop.h"

#ifdef HAVE_URING

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/owner.h"
#include "server/stop.h"

enum {
    KEEP_MOST = 32 * 1024,  /* bytes of a client that nobody wants yet */
    BUILT_MOST = 128 * 1024 /* bytes of answers that are built, not submitted */
};

static const size_t uring_client_extra = offsetof(struct uring_client, conn);

static uint64_t client_user_data(const struct uring_client *client,
                                 enum uring_operation operation)
{
    return (uintptr_t)client | operation;
}

/* --- operations ------------------------------------------------------- */

/* One-shot receives queue behind those whose bytes came earlier
 * (IORING_RECVSEND_POLL_FIRST, Linux 5.19): tried at once, they would take
 * buffers before all others, and some of 1000 clients starved. */
static void client_arm_receive(struct uring_loop *loop,
                               struct uring_client *client)
{
    if (client->receiving)
        return;
    struct io_uring_sqe *entry = uring_entry(&loop->ring);
    if (client->flow.one_shot) {
        io_uring_prep_recv(entry, client->conn.fd, NULL, 0, 0);
        entry->ioprio |= IORING_RECVSEND_POLL_FIRST;
        client->source = &loop->large;
    } else {
        io_uring_prep_recv_multishot(entry, client->conn.fd, NULL, 0, 0);
        client->source = &loop->small;
    }
    entry->flags |= IOSQE_BUFFER_SELECT;
    entry->buf_group = (uint16_t)client->source->group;
    entry->user_data = client_user_data(client, URING_RECEIVE);
    client->receiving = true;
}

/* While a delay passes or Redis is asked it is received from as well, for a
 * receive tells of a reset; until there is much that nobody wants yet. */
static void client_heed(struct uring_loop *loop, struct uring_client *client)
{
    const struct conn *conn = &client->conn;
    if (!conn->ended && conn->kept_in.length <= KEEP_MOST)
        client_arm_receive(loop, client);
}

static void client_arm_send(struct uring_loop *loop,
                            struct uring_client *client)
{
    struct span out = conn_unsent(&client->conn);
    int wait = client->lender ? MSG_DONTWAIT : 0;
    struct io_uring_sqe *entry = uring_entry(&loop->ring);
    io_uring_prep_send(entry, client->conn.fd, out.bytes, out.length,
                       MSG_NOSIGNAL | wait);
    entry->user_data = client_user_data(client, URING_SEND);
    client->sending = true;
    if (client->conn.send_buffer)
        loop->built_bytes += out.length;
}

static void client_cancel(struct uring_loop *loop,
                          const struct uring_client *client,
                          enum uring_operation operation, uint64_t user_data)
{
    struct io_uring_sqe *entry = uring_entry(&loop->ring);
    io_uring_prep_cancel64(entry, client_user_data(client, operation), 0);
    entry->user_data = user_data;
}

static void client_cancel_receive(struct uring_loop *loop,
                                  struct uring_client *client)
{
    if (!client->receiving || client->cancelling)
        return;
    client_cancel(loop, client, URING_RECEIVE,
                  client_user_data(client, URING_CANCEL));
    client->cancelling = true;
}

static void client_return_buffer(struct uring_client *client)
{
    if (client->lender)
        uring_buffer_return(client->lender, client->buffer);
    client->lender = NULL;
}

/* --- the end ---------------------------------------------------------- */

/* The socket closes only once the kernel holds nothing of it any more. */
static void client_close_if_idle(struct uring_loop *loop,
                                 struct uring_client *client)
{
    if (client->receiving || client->sending || client->cancelling)
        return;
    client_return_buffer(client);
    conn_close(&client->conn);
    list_leave(&client->open);
    list_append(&loop->closed, &client->open);
}

void uring_client_close(struct uring_loop *loop, struct uring_client *client)
{
    if (client->closing)
        return;
    client->closing = true;
    timers_cancel(&loop->timers, &client->timer);
    redis_async_cancel(&loop->redis.async, &client->redis);
    client_cancel_receive(loop, client);
    if (client->sending)
        client_cancel(loop, client, URING_SEND, URING_NOBODY);
    client_close_if_idle(loop, client);
}

static void client_fail(struct uring_loop *loop, struct uring_client *client,
                        int error)
{
    conn_failed(&client->conn, error);
    uring_client_close(loop, client);
}

void uring_clients_close(struct uring_loop *loop)
{
    struct node *open = &loop->open;
    for (struct node *at = open->after, *next; at != open; at = next) {
        next = at->after;
        uring_client_close(loop, OWNER_OF(at, struct uring_client, open));
    }
}

/* The kernel has forgotten their operations with the ring. */
void uring_clients_abandon(struct uring_loop *loop)
{
    while (!list_empty(&loop->open)) {
        struct uring_client *client =
            OWNER_OF(loop->open.after, struct uring_client, open);
        client->receiving = client->sending = client->cancelling = false;
        client->lender = NULL;
        client_close_if_idle(loop, client);
    }
    uring_clients_free(loop);
}

void uring_clients_free(struct uring_loop *loop)
{
    while (!list_empty(&loop->closed)) {
        struct uring_client *client =
            OWNER_OF(loop->closed.after, struct uring_client, open);
        list_leave(&client->open);
        conn_free(&client->conn, uring_client_extra);
    }
}

/* --- what it wants ---------------------------------------------------- */

static void uring_client_set_timer(struct uring_loop *loop,
                                   struct uring_client *client, uint64_t at_ns)
{
    timers_cancel(&loop->timers, &client->timer);
    client->late = false;
    if (!timers_set(&loop->timers, &client->timer, at_ns))
        client_fail(loop, client, ENOMEM);
}

/* One timer a client, never for later than its deadline. A deadline that moves
 * on, as with each request, leaves the timer alone: it is looked at again when
 * that goes off. */
void uring_client_set_deadline(struct uring_loop *loop,
                               struct uring_client *client)
{
    uint64_t at_ns = conn_deadline_ns(&client->conn);
    bool earlier = timer_is_set(&client->timer) && client->timer.at_ns <= at_ns;
    if (at_ns != UINT64_MAX && !earlier && !client->closing)
        uring_client_set_timer(loop, client, at_ns);
}

/* What came while the loop served others, and so in time, is known only after
 * the next wait: then its deadline has moved on. */
void uring_client_cut(struct uring_loop *loop, struct uring_client *client,
                      uint64_t now_ns)
{
    if (client->late) {
        uring_client_advance(loop, client, conn_timed_out(&client->conn));
        return;
    }
    uring_client_set_timer(loop, client, now_ns + 1);
    client->late = true;
}

static void uring_client_ask(struct uring_loop *loop,
                             struct uring_client *client)
{
    client_heed(loop, client);
    uring_client_set_timer(loop, client, clock_now_ns() + REDIS_TIMEOUT_NS);
    if (!client->closing)
        redis_async_begin(&loop->redis.async, &client->redis);
}

void uring_client_advance(struct uring_loop *loop, struct uring_client *client,
                          enum want want)
{
    switch (want) {
    case WANT_READ:
        client_arm_receive(loop, client);
        return uring_client_set_deadline(loop, client);
    case WANT_WRITE:
        client_arm_send(loop, client);
        return uring_client_set_deadline(loop, client);
    case WANT_SLEEP:
        client_heed(loop, client);
        return uring_client_set_timer(loop, client, client->conn.wake_ns);
    case WANT_ASK: return uring_client_ask(loop, client);
    case WANT_CLOSE: return uring_client_close(loop, client);
    }
}

enum refusal uring_refusal(void)
{
    return stop_requested() ? REFUSED_STOPPING : REFUSED_MEMORY;
}

void uring_add_client(struct uring_loop *loop, int fd,
                      const struct sockaddr_in6 *peer)
{
    if (fd < 0)
        return;
    if (loop->parting_ns) {
        net_refuse(loop->worker.server, fd, uring_refusal());
        return;
    }
    struct conn *conn = conn_open(&loop->worker, fd, peer, uring_client_extra);
    if (!conn)
        return;
    struct uring_client *client = OWNER_OF(conn, struct uring_client, conn);
    redis_request_init(&client->redis, conn);
    list_append(&loop->open, &client->open);
    uring_client_advance(loop, client, WANT_READ);
}

/* --- completions ------------------------------------------------------ */

/* From now on it is received from only when that is wanted. */
static void client_slow(struct uring_loop *loop, struct uring_client *client)
{
    if (flow_slow(&client->flow))
        client_cancel_receive(loop, client);
}

static void client_flow(struct uring_loop *loop, struct uring_client *client,
                        size_t n)
{
    if (client->source == &loop->large)
        flow_received(&client->flow, n, loop->small.bytes);
    else if (n == loop->small.bytes)
        client_slow(loop, client);
}

/* Bytes that came while an answer is on its way are copied aside. */
static void client_keep(struct uring_loop *loop, struct uring_client *client,
                        const char *bytes, size_t n)
{
    if (!conn_keep(&client->conn, bytes, n))
        client_fail(loop, client, ENOMEM);
    else if (client->conn.kept_in.length > KEEP_MOST)
        client_slow(loop, client);
}

/* n bytes lie in buffer `id` of its source; 0 bytes: the end, no buffer. */
static void client_take(struct uring_loop *loop, struct uring_client *client,
                        unsigned id, size_t n)
{
    struct conn *conn = &client->conn;
    struct uring_buffers *source = client->source;
    const char *bytes = n ? uring_buffer(source, id) : NULL;
    client_flow(loop, client, n);
    if (conn->want != WANT_READ) {
        client_keep(loop, client, bytes, n);
        if (n)
            uring_buffer_return(source, id);
        return;
    }
    enum want want = conn_received(conn, bytes, n);
    client->lender = n ? source : NULL;
    client->buffer = id;
    if (!conn_borrows(conn))
        client_return_buffer(client);
    uring_client_advance(loop, client, want);
}

/* A receive that ended though the stream did not: the kernel found no buffer
 * or no room for a completion, or it was one-shot, or we cancelled it. */
static void client_receive_again(struct uring_loop *loop,
                                 struct uring_client *client, int error)
{
    if (error == ENOBUFS && client->source == &loop->small)
        loop->small_lack = true;
    else if (error == ENOBUFS)
        loop->large_lack = true;
    const struct conn *conn = &client->conn;
    bool wanted = conn->want == WANT_READ || !client->flow.one_shot;
    if (wanted && !conn->ended)
        client_arm_receive(loop, client);
    else if (conn->want == WANT_SLEEP || conn->want == WANT_ASK)
        client_heed(loop, client);
}

/* Large answers are sent before many more are built: the next are built in the
 * same buffers, which are then still in the L2 cache. A send that fits into the
 * socket's buffer completes while it is submitted; its completion stands in the
 * ring behind others that came before, and is taken before these. What it would
 * have said to the loop is then URING_NOBODY's. */
static void client_send_built(struct uring_loop *loop)
{
    struct io_uring *ring = &loop->ring;
    unsigned at = io_uring_smp_load_acquire(ring->cq.ktail);
    loop->built_bytes = 0;
    uring_submit(ring);
    for (; at != io_uring_smp_load_acquire(ring->cq.ktail); at++) {
        struct io_uring_cqe *cqe = &ring->cq.cqes[at & *ring->cq.kring_mask];
        struct uring_client *client = uring_subject(cqe);
        if (uring_operation(cqe) != URING_SEND)
            continue;
        cqe->user_data = URING_NOBODY;
        uring_sent(loop, client, cqe->res);
    }
}

void uring_received(struct uring_loop *loop, struct uring_client *client,
                    const struct io_uring_cqe *cqe)
{
    bool has_buffer = cqe->flags & IORING_CQE_F_BUFFER;
    unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    int error = cqe->res < 0 ? -cqe->res : 0;
    bool fatal =
        error != 0 && error != ENOBUFS && error != ECANCELED && error != EINTR;
    client->receiving = cqe->flags & IORING_CQE_F_MORE;
    if (has_buffer && (client->closing || cqe->res <= 0))
        uring_buffer_return(client->source, id);
    if (client->closing)
        return client_close_if_idle(loop, client);
    if (fatal)
        return client_fail(loop, client, error);
    if (error == 0)
        client_take(loop, client, id, (size_t)cqe->res);
    if (!client->closing && !client->receiving)
        client_receive_again(loop, client, error);
    if (loop->built_bytes >= BUILT_MOST)
        client_send_built(loop);
}

/* A receive that is just completing may not be found (ENOENT, EALREADY): if it
 * is still armed, and not the one that took its place, tries again. */
void uring_client_cancelled(struct uring_loop *loop,
                            struct uring_client *client, int result)
{
    client->cancelling = false;
    bool unwanted = client->closing ||
                    (client->flow.one_shot && client->source == &loop->small);
    if (result < 0 && unwanted)
        client_cancel_receive(loop, client);
    if (client->closing)
        client_close_if_idle(loop, client);
}

void uring_sent(struct uring_loop *loop, struct uring_client *client,
                int result)
{
    struct conn *conn = &client->conn;
    client->sending = false;
    if (client->closing)
        return client_close_if_idle(loop, client);
    if (result == -EAGAIN || result == -EINTR)
        result = 0;
    if (result < 0)
        return client_fail(loop, client, -result);
    enum want want = conn_sent(conn, (size_t)result);
    if (!conn_stash(conn))
        return client_fail(loop, client, ENOMEM);
    client_return_buffer(client);
    uring_client_advance(loop, client, want);
}

#endif
