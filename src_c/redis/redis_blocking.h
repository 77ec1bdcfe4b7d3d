/* redis_blocking.h -- the links to Redis that the threads of a process share.
 *
 * At most UPSTREAM_LINKS at once; who finds none free waits in line for one. A
 * process starts with none, so nothing is shared across a fork.
 */
#ifndef REDIS_BLOCKING_H
#define REDIS_BLOCKING_H

#include "redis_conn.h"

/* One turn of WANT_ASK for a thread or process that may block: a conversation
 * over a link of the pool. Returns what conn wants next. */
enum want links_ask(struct conn *conn);

#endif
