/* blocking_redis.h -- connections to Redis that threads of a process share.
 *
 * A pool of redis_pool.h with a mutex around it; a thread that finds no free
 * connection waits on a condition variable of its own. A process starts with
 * no connection open, so none crosses a fork.
 */
#ifndef BLOCKING_REDIS_H
#define BLOCKING_REDIS_H

#include "server/conn.h"

/* Fulfils WANT_ASK for a thread or process that may block. Returns what conn
 * wants next. */
enum want blocking_redis_ask(struct conn *conn);

#endif
