/* uring_redis.c -- see uring_redis.h.
 *
 * The glue between redis_async.c and a ring: readiness by a one-shot poll
 * (IORING_OP_POLL_ADD), then the system calls of redis_conn.c. Requests to
 * Redis are few beside those of clients, so operations of their own for
 * connect, send and receive would save little.
 */
#include "uring_redis.h"

#ifdef HAVE_URING

#include <poll.h>

#include "common/owner.h"

static uint64_t user_data(const struct redis_conn *conn)
{
    return (uintptr_t)conn | URING_REDIS_TAG;
}

static bool uring_redis_watch(struct redis_async *async,
                              struct redis_conn *conn, bool out)
{
    struct uring_redis *redis = OWNER_OF(async, struct uring_redis, async);
    struct io_uring_sqe *entry = uring_entry(redis->ring);
    io_uring_prep_poll_add(entry, conn->fd, out ? POLLOUT : POLLIN);
    entry->user_data = user_data(conn);
    conn->watched = true;
    return true;
}

/* The poll completes as cancelled; until then the connection is not free. */
static void uring_redis_unwatch(struct redis_pool *pool,
                                struct redis_conn *conn)
{
    struct uring_redis *redis = OWNER_OF(pool, struct uring_redis, async.pool);
    struct io_uring_sqe *entry = uring_entry(redis->ring);
    io_uring_prep_poll_remove(entry, user_data(conn));
    entry->user_data = URING_NOBODY;
}

void uring_redis_init(struct uring_redis *redis, struct io_uring *ring,
                      void (*answered)(struct redis_async *async,
                                       struct redis_request *request))
{
    *redis = (struct uring_redis){.ring = ring};
    redis_pool_init(&redis->async.pool);
    redis->async.pool.unwatch = uring_redis_unwatch;
    redis->async.watch = uring_redis_watch;
    redis->async.answered = answered;
}

void uring_redis_completed(struct uring_redis *redis, struct redis_conn *conn)
{
    conn->watched = false;
    if (conn->request)
        redis_async_ready(&redis->async, conn);
}

#endif
