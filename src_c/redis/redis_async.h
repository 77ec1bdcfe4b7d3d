/* redis_async.h -- requests to Redis in an event loop, whatever it waits with.
 *
 *     redis_async_begin()   the request is queued
 *     redis_async_round()   at the end of a round: queued requests that get a
 *                           connection start, and say what to wait for:
 *                           watch(redis, out)
 *     redis_async_ready()   the loop says that redis->fd is ready
 *     answered()            conn->want says what the client does next
 *
 * Requests start in redis_async_round() only: one that fails at once, from a
 * client that has the next one ready, goes to the end of the queue, and no
 * chain of failures can fill the stack.
 *
 * The time limit is the loop's, which has timers: at REDIS_TIMEOUT_NS it calls
 * redis_async_timed_out().
 */
#ifndef REDIS_ASYNC_H
#define REDIS_ASYNC_H

#include "redis_pool.h"

struct redis_async {
    struct redis_pool pool;
    /* Set by the loop, like pool.unwatch: waits for redis->fd to be readable,
     * or writable, instead of what it waited for before. Returns false, with
     * errno, when the descriptor cannot be watched. */
    bool (*watch)(struct redis_async *async, struct redis_conn *redis,
                  bool out);
    /* The request has its reply, or will have none. */
    void (*answered)(struct redis_async *async, struct redis_request *request);
};

/* The connection wants WANT_ASK. */
void redis_async_begin(struct redis_async *async,
                       struct redis_request *request);

/* The client leaves; does nothing when it has no request. */
void redis_async_cancel(struct redis_async *async,
                        struct redis_request *request);
void redis_async_timed_out(struct redis_async *async,
                           struct redis_request *request);

/* redis->fd is ready, or was: an event that comes late does no harm. */
void redis_async_ready(struct redis_async *async, struct redis_conn *redis);

/* Starts requests that can get a connection. Returns whether it could go on at
 * once: call it again without waiting. */
bool redis_async_round(struct redis_async *async);

#endif
