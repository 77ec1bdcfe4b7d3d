/* reactor_redis.h -- requests to Redis in a loop over ready descriptors: how a
 * poller waits for redis_async.h, which knows nothing of loops, and calls back.
 */
#ifndef REACTOR_REDIS_H
#define REACTOR_REDIS_H

#include "reactor.h"

/* Sets up loop->redis. */
void reactor_redis_init(struct loop *loop);

/* A SOURCE_REDIS is ready. */
void reactor_redis_ready(struct loop *loop, struct source *source);

#endif
