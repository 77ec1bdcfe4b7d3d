/* redis_async.c -- see redis_async.h.
 *
 *     redis_async_round -> assign -> redis_request_start   -> watch() or
 *     redis_async_ready           -> redis_request_advance -> answered()
 *
 * The drivers are reactor/reactor_redis.c, where watch() is that of the model's
 * poller, and uring/uring_redis.c, where it is a poll on the ring
 * (IORING_OP_POLL_ADD). One loop calls it, from one thread: there is no lock.
 */
#include "redis_async.h"

#include <errno.h>

void redis_async_begin(struct redis_async *async, struct redis_request *request)
{
    redis_pool_queue(&async->pool, request);
}

void redis_async_cancel(struct redis_async *async,
                        struct redis_request *request)
{
    redis_pool_release(&async->pool, request);
}

/* answered() may free the request, or begin the client's next. */
static void async_finish(struct redis_async *async,
                         struct redis_request *request)
{
    redis_pool_release(&async->pool, request);
    async->answered(async, request);
}

void redis_async_timed_out(struct redis_async *async,
                           struct redis_request *request)
{
    redis_request_fail(&async->pool, request, ETIMEDOUT);
    async_finish(async, request);
}

/* watch() replaces what was waited for before: in or out, never both. */
static void async_wait_or_finish(struct redis_async *async,
                                 struct redis_request *request,
                                 enum redis_next next)
{
    bool out = next == REDIS_NEEDS_WRITE;
    if (next != REDIS_DONE) {
        if (async->watch(async, request->redis, out))
            return;
        redis_request_fail(&async->pool, request, errno);
    }
    async_finish(async, request);
}

/* An idle connection that becomes readable was closed by Redis: it is closed
 * here too, before a request finds out. */
void redis_async_ready(struct redis_async *async, struct redis_conn *redis)
{
    struct redis_request *request = redis->request;
    if (request)
        async_wait_or_finish(async, request,
                             redis_request_advance(&async->pool, request));
    else if (redis->state == REDIS_IDLE && redis_conn_is_stale(redis))
        redis_pool_close(&async->pool, redis);
}

/* At most as many as waited when the round began: those that queue meanwhile
 * have their turn in the next one, after clients were served. */
bool redis_async_round(struct redis_async *async)
{
    struct redis_pool *pool = &async->pool;
    struct redis_request *request;
    for (unsigned n = pool->waiting;
         n > 0 && (request = redis_pool_assign(pool)); n--)
        async_wait_or_finish(async, request,
                             redis_request_start(pool, request));
    return redis_pool_can_assign(pool);
}
