/* reactor_redis.c -- see reactor_redis.h.
 *
 * The glue between redis_async.c and a poller: a connection to Redis is one
 * more source of the loop (SOURCE_REDIS), watched as clients are, also while it
 * is idle: one that Redis closes is closed here too. An edge-triggered poller
 * watches it for everything from the start, so loop_watch() does nothing there.
 */
#include "reactor_redis.h"

#include <errno.h>

#include "common/owner.h"

/* A connection and its source have the same index. */
static struct source *source_of(struct loop *loop,
                                const struct redis_conn *redis)
{
    return &loop->redis_sources[redis - loop->redis.pool.conns];
}

static bool reactor_redis_add(struct loop *loop, struct redis_conn *redis,
                              struct source *source, uint8_t interest)
{
    *source = (struct source){
        .fd = redis->fd, .kind = SOURCE_REDIS, .interest = interest};
    bool fits = !loop->poller->fits || loop->poller->fits(source->fd);
    errno = EMFILE;
    redis->watched = fits && loop->poller->add(loop, source);
    if (!redis->watched)
        source->kind = SOURCE_CLOSED;
    return redis->watched;
}

static bool reactor_redis_watch(struct redis_async *async,
                                struct redis_conn *redis, bool out)
{
    struct loop *loop = OWNER_OF(async, struct loop, redis);
    struct source *source = source_of(loop, redis);
    uint8_t interest = out ? READY_OUT : READY_IN;
    if (!redis->watched)
        return reactor_redis_add(loop, redis, source, interest);
    loop_watch(loop, source, interest);
    return true;
}

static void reactor_redis_unwatch(struct redis_pool *pool,
                                  struct redis_conn *redis)
{
    struct loop *loop = OWNER_OF(pool, struct loop, redis.pool);
    loop_drop(loop, source_of(loop, redis));
    redis->watched = false;
}

/* The reply is whole, or there will be none: the client goes on at once. */
static void reactor_redis_answered(struct redis_async *async,
                                   struct redis_request *request)
{
    struct loop *loop = OWNER_OF(async, struct loop, redis);
    struct client *client = OWNER_OF(request, struct client, redis);
    timers_cancel(&loop->timers, &client->timer);
    client_advance(loop, client, (enum want)client->conn.want);
}

void reactor_redis_init(struct loop *loop)
{
    redis_pool_init(&loop->redis.pool);
    loop->redis.pool.unwatch = reactor_redis_unwatch;
    loop->redis.watch = reactor_redis_watch;
    loop->redis.answered = reactor_redis_answered;
}

void reactor_redis_ready(struct loop *loop, struct source *source)
{
    long index = source - loop->redis_sources;
    redis_async_ready(&loop->redis, &loop->redis.pool.conns[index]);
}
