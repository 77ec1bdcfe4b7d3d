/* redis_pool.c -- see redis_pool.h.
 *
 *     queue -> assign -> start -> advance ... -> release
 *                          |         | broken, was reused, nothing came: retry
 *                          +---------+----- fail
 *
 * Called by redis_async.c for loops, by redis_request_converse() for models
 * whose code may block: blocking/blocking_redis.c under a mutex, and the
 * coroutines. Pure but for the socket: no clock (deadlines come in as
 * arguments), no waiting, so tests/test_redis_pool.c runs it with socket pairs.
 *
 * 16 connections are searched in order each time; a list of free ones would
 * save nothing at this length.
 */
#include "redis_pool.h"

#include <errno.h>

#include "common/owner.h"

void redis_pool_init(struct redis_pool *pool)
{
    list_init(&pool->queue);
}

void redis_request_init(struct redis_request *request, struct conn *conn)
{
    *request = (struct redis_request){.conn = conn};
    list_init(&request->node);
}

/* --- the queue ---------------------------------------------------------- */

void redis_pool_queue(struct redis_pool *pool, struct redis_request *request)
{
    list_append(&pool->queue, &request->node);
    pool->waiting++;
}

static void leave_queue(struct redis_pool *pool, struct redis_request *request)
{
    list_leave(&request->node);
    pool->waiting--;
}

/* A closed connection that is still watched has an event on its way: reused
 * now, it would take that event for its own. */
static bool is_free(const struct redis_conn *redis)
{
    return !redis->request && !(redis->state == REDIS_CLOSED && redis->watched);
}

/* The last idle one, so that few stay in use and the others may time out in
 * Redis; else a closed one. */
static struct redis_conn *find_free(const struct redis_pool *pool)
{
    const struct redis_conn *found = NULL;
    for (int i = 0; i < REDIS_CONNS; i++)
        if (is_free(&pool->conns[i]) &&
            (!found || pool->conns[i].state == REDIS_IDLE))
            found = &pool->conns[i];
    return (struct redis_conn *)found;
}

bool redis_pool_can_assign(const struct redis_pool *pool)
{
    return pool->waiting > 0 && find_free(pool);
}

struct redis_request *redis_pool_assign(struct redis_pool *pool)
{
    struct redis_conn *redis = pool->waiting ? find_free(pool) : NULL;
    if (!redis)
        return NULL;
    struct redis_request *request =
        OWNER_OF(pool->queue.after, struct redis_request, node);
    leave_queue(pool, request);
    request->redis = redis;
    redis->request = request;
    return request;
}

/* Also for a client that leaves in the middle: the request may be in the queue,
 * on a connection, or already done with. */
void redis_pool_release(struct redis_pool *pool, struct redis_request *request)
{
    struct redis_conn *redis = request->redis;
    if (list_joined(&request->node))
        leave_queue(pool, request);
    if (!redis)
        return;
    if (redis->state != REDIS_IDLE)
        redis_pool_close(pool, redis);
    request->redis = NULL;
    redis->request = NULL;
}

void redis_pool_close(struct redis_pool *pool, struct redis_conn *redis)
{
    if (redis->watched && pool->unwatch && redis->state != REDIS_CLOSED)
        pool->unwatch(pool, redis);
    redis_conn_close(redis);
}

void redis_pool_close_all(struct redis_pool *pool)
{
    for (int i = 0; i < REDIS_CONNS; i++)
        redis_pool_close(pool, &pool->conns[i]);
}

/* --- one request -------------------------------------------------------- */

void redis_request_fail(struct redis_pool *pool, struct redis_request *request,
                        int error)
{
    stats_error(request->conn->worker->server->stats, error);
    if (request->redis)
        redis_pool_close(pool, request->redis);
    conn_unanswered(request->conn);
}

static bool begin(struct redis_request *request)
{
    return redis_conn_begin(request->redis, request->conn->ask);
}

/* Counts each connection that is made, and none that is refused: a pool that
 * keeps them shows a small number of upstream_opened. */
static enum redis_next advance(struct redis_request *request)
{
    struct redis_conn *redis = request->redis;
    bool connecting = redis->state == REDIS_CONNECTING;
    enum redis_next next = redis_conn_advance(redis);
    if (connecting && redis->state != REDIS_CONNECTING)
        stats_add(&request->conn->worker->server->stats->upstream_opened, 1);
    return next;
}

/* A fresh connection is not `reused`, so there is one retry and no more. */
static bool retry(struct redis_pool *pool, struct redis_request *request)
{
    if (!redis_conn_may_retry(request->redis))
        return false;
    redis_pool_close(pool, request->redis);
    return begin(request);
}

/* conn_replied() found the reply incomplete: WANT_ASK with nothing to send. */
static bool wants_more(const struct conn *conn)
{
    return conn->want == WANT_ASK && conn->ask.length == 0;
}

/* False: the reply goes on. */
static bool take_reply(struct redis_pool *pool, struct redis_request *request)
{
    struct redis_conn *redis = request->redis;
    conn_replied(request->conn, redis->reply, redis->got);
    if (wants_more(request->conn))
        return false;
    /* it is not RESP; or memory is out, and the rest of it was not read */
    if (request->conn->hang_up || request->conn->want == WANT_CLOSE)
        redis_pool_close(pool, redis);
    else
        redis_conn_keep(redis);
    return true;
}

/* Goes on until the kernel says EAGAIN, the reply is whole, or there is none;
 * after a retry with the fresh connection. */
enum redis_next redis_request_advance(struct redis_pool *pool,
                                      struct redis_request *request)
{
    struct redis_conn *redis = request->redis;
    for (;;) {
        enum redis_next next = advance(request);
        if (next == REDIS_NEEDS_READ || next == REDIS_NEEDS_WRITE)
            return next;
        if (next == REDIS_HAS_REPLY) {
            if (take_reply(pool, request))
                return REDIS_DONE;
        } else if (!retry(pool, request)) {
            redis_request_fail(pool, request, redis->error);
            return REDIS_DONE;
        }
    }
}

enum redis_next redis_request_start(struct redis_pool *pool,
                                    struct redis_request *request)
{
    struct redis_conn *redis = request->redis;
    if (redis->state == REDIS_IDLE && !redis->watched &&
        redis_conn_is_stale(redis))
        redis_pool_close(pool, redis);
    if (begin(request))
        return redis_request_advance(pool, request);
    redis_request_fail(pool, request, redis->error);
    return REDIS_DONE;
}

void redis_request_converse(struct redis_pool *pool,
                            struct redis_request *request, redis_wait *wait,
                            uint64_t deadline_ns)
{
    enum redis_next next = redis_request_start(pool, request);
    while (next != REDIS_DONE) {
        bool out = next == REDIS_NEEDS_WRITE;
        if (!wait(request, request->redis->fd, out, deadline_ns)) {
            redis_request_fail(pool, request, errno);
            return;
        }
        next = redis_request_advance(pool, request);
    }
}
