/* uring_redis.h -- requests to Redis in a ring: redis_async.h waits by its
 * polls (IORING_OP_POLL_ADD). */
#ifndef URING_REDIS_H
#define URING_REDIS_H

#include "redis/redis_async.h"
#include "uring.h"

#ifdef HAVE_URING

struct uring_redis {
    struct redis_async async;
    struct io_uring *ring;
};

/* user_data of a poll: a connection's address with this tag. */
enum { URING_REDIS_TAG = 0 };

/* Sets it up; answered() is the model's. */
void uring_redis_init(struct uring_redis *redis, struct io_uring *ring,
                      void (*answered)(struct redis_async *async,
                                       struct redis_request *request));

/* A completion with URING_REDIS_TAG came. */
void uring_redis_completed(struct uring_redis *redis, struct redis_conn *conn);

#endif
#endif
