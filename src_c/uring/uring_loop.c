/* uring_loop.c -- see uring_loop.h; a single client is the matter of
 * uring_client.c.
 *
 *     open -> { await, completions, timers, end of round } -> part -> close
 *
 * Called by the models uring, uring-workers and uring-handover, each ring by
 * the thread that opened it (IORING_SETUP_SINGLE_ISSUER). There are two groups
 * of receive buffers: small ones for multishot receives, large ones for those
 * that are armed one by one, for clients whose messages are long (flow.h).
 *
 * Nothing that the kernel may still write to is freed: at the end all
 * operations are cancelled first, and what has not completed STOP_PARTING_NS
 * later goes with the ring, whose closing ends it.
 */
#include "uring_loop.h"

#ifdef HAVE_URING

#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/owner.h"
#include "server/stop.h"

atomic_uint uring_messages;

enum {
    SMALL_BYTES = 32 * 1024,
    SMALL_FIRST = 64,
    SMALL_MOST = 4096,
    LARGE_BYTES = CONN_CHUNK,
    LARGE_FIRST = 8,
    LARGE_MOST = 512,
};

/* --- a round ---------------------------------------------------------- */

/* No new connection will come. */
static bool loop_ending(const struct uring_loop *loop)
{
    return loop->fed ? loop->ended : stop_requested();
}

bool uring_done(const struct uring_loop *loop)
{
    if (loop->parting_ns && clock_now_ns() > loop->parting_ns)
        return true;
    return (loop->lost || loop_ending(loop)) && list_empty(&loop->open);
}

static int64_t loop_timeout_ns(const struct uring_loop *loop)
{
    if (loop->busy || loop->worker.server->options.busy_wait)
        return 0;
    return timers_timeout_ns(&loop->timers,
                             loop->parting_ns || stop_requested());
}

void uring_await(struct uring_loop *loop)
{
    loop->built_bytes = 0;
    if (uring_wait(&loop->ring, loop_timeout_ns(loop)))
        return;
    stats_error(loop->worker.server->stats, EBADR);
    loop->lost = true;
}

static void loop_accept_late(struct uring_loop *loop)
{
    struct sockaddr_in6 peer;
    if (loop->parting_ns)
        return;
    int fd = uring_listener_ready(&loop->listener, &peer);
    uring_add_client(loop, fd, &peer);
}

/* A negative socket is the last message of the ring that accepts. */
static void loop_take(struct uring_loop *loop, int fd)
{
    loop->ended |= fd < 0;
    if (fd < 0)
        return;
    struct sockaddr_in6 peer = uring_peer(loop->worker.server, fd);
    uring_add_client(loop, fd, &peer);
}

void uring_other(struct uring_loop *loop, const struct io_uring_cqe *cqe)
{
    switch (uring_operation(cqe)) {
    case URING_REDIS_POLL:
        return uring_redis_completed(&loop->redis, uring_subject(cqe));
    case URING_CANCEL:
        return uring_client_cancelled(loop, uring_subject(cqe), cqe->res);
    case URING_LISTENER_READY: return loop_accept_late(loop);
    case URING_HANDED_OVER:
        atomic_load_explicit(&uring_messages, memory_order_acquire);
        return loop_take(loop, cqe->res);
    default: return;
    }
}

/* Its sleep is over; or it has not received or sent for too long, if its
 * deadline has not moved since the timer was set. */
static void client_timer(struct uring_loop *loop, struct uring_client *client,
                         uint64_t now_ns)
{
    struct conn *conn = &client->conn;
    if (conn->want == WANT_ASK)
        redis_async_timed_out(&loop->redis.async, &client->redis);
    else if (conn->want == WANT_SLEEP)
        uring_client_advance(loop, client, conn_woken(conn));
    else if (conn_deadline_ns(conn) <= now_ns)
        uring_client_cut(loop, client, now_ns);
    else
        uring_client_set_deadline(loop, client);
}

void uring_run_timers(struct uring_loop *loop)
{
    if (loop->timers.count == 0)
        return;
    uint64_t now = clock_now_ns();
    for (struct timer *t; (t = timers_due(&loop->timers, now));)
        client_timer(loop, OWNER_OF(t, struct uring_client, timer), now);
}

static void loop_answered(struct redis_async *async,
                          struct redis_request *request)
{
    struct uring_client *client = OWNER_OF(request, struct uring_client, redis);
    struct uring_loop *loop = OWNER_OF(async, struct uring_loop, redis.async);
    timers_cancel(&loop->timers, &client->timer);
    uring_client_advance(loop, client, (enum want)client->conn.want);
}

/* With all buffers there can be, receives are armed again and again until some
 * come back (ENOBUFS); counted, for it costs time. */
static void loop_grow(struct uring_loop *loop, struct uring_buffers *buffers,
                      bool *lack)
{
    if (*lack && !uring_buffers_grow(buffers))
        stats_error(loop->worker.server->stats, ENOBUFS);
    *lack = false;
}

/* Ends all operations, so that nothing is in the kernel's hands when its memory
 * goes; of those that were lost, nothing more will be heard. Clients that
 * connect meanwhile wait in the backlog for the next ring. */
static void loop_part(struct uring_loop *loop)
{
    loop->parting_ns = clock_now_ns() + STOP_PARTING_NS;
    if (!loop->fed)
        uring_accept_cancel(&loop->listener);
    uring_clients_close(loop);
}

void uring_end_round(struct uring_loop *loop)
{
    if ((loop->lost || stop_overdue()) && !loop->parting_ns)
        loop_part(loop);
    loop->busy = redis_async_round(&loop->redis.async);
    uring_clients_free(loop);
    loop_grow(loop, &loop->small, &loop->small_lack);
    loop_grow(loop, &loop->large, &loop->large_lack);
}

/* --- set-up and end --------------------------------------------------- */

struct uring_loop *uring_loop_new(struct server *server, unsigned index)
{
    struct uring_loop *loop =
        aligned_alloc(_Alignof(struct uring_loop), sizeof *loop);
    if (!loop) {
        warn("aligned_alloc");
        return NULL;
    }
    memset(loop, 0, sizeof *loop);
    loop->worker = (struct worker){server, index, {0}};
    loop->fed = server->listen_fd < 0;
    list_init(&loop->open);
    list_init(&loop->closed);
    return loop;
}

void uring_loop_free(struct uring_loop *loop)
{
    timers_free(&loop->timers);
    send_buffers_free(&loop->worker.buffers);
    free(loop);
}

/* A loop without a listener, whose accept ends with a stop, polls the stop. */
static void loop_watch(struct uring_loop *loop)
{
    loop->listener = (struct uring_listener){
        &loop->ring, loop->worker.server, URING_ACCEPT, URING_LISTENER_READY};
    if (!loop->fed) {
        uring_accept_arm(&loop->listener);
        return;
    }
    struct io_uring_sqe *entry = uring_entry(&loop->ring);
    io_uring_prep_poll_add(entry, stop_fd(), POLLIN);
    entry->user_data = URING_NOBODY;
}

bool uring_loop_open(struct uring_loop *loop)
{
    if (!uring_open(&loop->ring))
        return false;
    if (uring_buffers_open(&loop->small, &loop->ring, 0, SMALL_BYTES,
                           SMALL_FIRST, SMALL_MOST) &&
        uring_buffers_open(&loop->large, &loop->ring, 1, LARGE_BYTES,
                           LARGE_FIRST, LARGE_MOST)) {
        uring_redis_init(&loop->redis, &loop->ring, loop_answered);
        loop->lost = false;
        loop->parting_ns = 0;
        loop_watch(loop);
        return true;
    }
    uring_close(&loop->ring);
    uring_buffers_close(&loop->small);
    return false;
}

static void loop_close(struct uring_loop *loop)
{
    redis_pool_close_all(&loop->redis.async.pool);
    uring_close(&loop->ring);
    uring_clients_abandon(loop);
    uring_buffers_close(&loop->small);
    uring_buffers_close(&loop->large);
}

bool uring_loop_reopen(struct uring_loop *loop)
{
    bool again = loop->lost && !loop_ending(loop);
    loop_close(loop);
    return again && uring_loop_open(loop);
}

int uring_run(struct server *server, unsigned index,
              void (*serve)(struct uring_loop *))
{
    struct uring_loop *loop = uring_loop_new(server, index);
    bool opened = loop && uring_loop_open(loop);
    if (opened)
        stats_add(&server->stats->workers_started, 1);
    for (bool open = opened; open; open = uring_loop_reopen(loop))
        serve(loop);
    if (loop)
        uring_loop_free(loop);
    return opened ? 0 : -1;
}

#endif
