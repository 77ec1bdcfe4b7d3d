/* blocking_redis.h -- connections to Redis that threads of a process share: a
 * pool of redis_pool.h with a mutex around it. */
#ifndef BLOCKING_REDIS_H
#define BLOCKING_REDIS_H

#include "server/conn.h"

/* Fulfils WANT_ASK for a thread or process that may block. Returns what conn
 * wants next. */
enum want blocking_redis_ask(struct conn *conn);

#endif
