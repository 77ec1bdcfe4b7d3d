/* redis_pool.h -- the connections to Redis that a process or a loop shares.
 *
 *     WANT_ASK -> redis_pool_queue()       behind the requests before it
 *              -> redis_pool_assign()      the first gets a free connection
 *              -> redis_request_start()    then, until REDIS_DONE:
 *                   wait for redis->fd, redis_request_advance()
 *              -> redis_pool_release()     and assign it to the next
 *
 * A pool has at most REDIS_CONNS connections, opens one when none is idle, and
 * keeps it. It takes no lock and never waits: blocking models put a mutex
 * around it, event-driven ones use redis_async.h.
 *
 * Retry. Redis may close an idle connection at any time (its `timeout`, CLIENT
 * KILL, a restart), also just before a request is sent over it. Such a request
 * is sent once more, over a fresh connection, if no byte of its reply had come;
 * one that breaks on a fresh connection fails. If Redis died between running
 * the commands and replying, they run twice: a visit counts twice, a remark
 * stands twice. More than twice cannot happen, and nothing is lost.
 */
#ifndef REDIS_POOL_H
#define REDIS_POOL_H

#include "common/list.h"
#include "redis_conn.h"
#include "server/conn.h"

enum { REDIS_CONNS = 16 }; /* at most, for each process or loop */

/* How long a request may take from the moment it is queued, a wait for a free
 * connection and a retry included; then redis_request_fail(). */
#define REDIS_TIMEOUT_NS 1000000000ull

/* One client's request; embedded in what the model has for a client. */
struct redis_request {
    struct conn *conn;
    struct node node;         /* in pool->queue, or in none */
    struct redis_conn *redis; /* that it is assigned, or NULL */
};

struct redis_pool {
    struct redis_conn conns[REDIS_CONNS];
    struct node queue; /* requests that wait for a connection */
    unsigned waiting;  /* how many */
    /* Stops watching redis->fd, before it is closed; NULL: nothing to do. */
    void (*unwatch)(struct redis_pool *pool, struct redis_conn *redis);
};

/* A static pool that is not set up at run time. */
#define REDIS_POOL_INIT(pool)                                                  \
    {                                                                          \
        .queue = {&(pool).queue, &(pool).queue}                                \
    }
void redis_pool_init(struct redis_pool *pool);
void redis_request_init(struct redis_request *request, struct conn *conn);

/* Puts a request at the end of the queue. */
void redis_pool_queue(struct redis_pool *pool, struct redis_request *request);

/* Gives the request that has waited longest a connection, an idle one rather
 * than a closed one. Returns it, or NULL: none waits, or none is free. */
struct redis_request *redis_pool_assign(struct redis_pool *pool);

/* Whether redis_pool_assign() would return a request. */
bool redis_pool_can_assign(const struct redis_pool *pool);

/* The request leaves the queue, or its connection. One on which a reply may
 * still come is closed: the next request would read it. */
void redis_pool_release(struct redis_pool *pool, struct redis_request *request);

/* Closes one connection; all of them. */
void redis_pool_close(struct redis_pool *pool, struct redis_conn *redis);
void redis_pool_close_all(struct redis_pool *pool);

/* Sends conn->ask over the assigned connection; an idle one is looked at first,
 * unless it is watched and would have told. Goes on when request->redis->fd is
 * ready. Both return REDIS_NEEDS_READ, REDIS_NEEDS_WRITE, or REDIS_DONE: then
 * conn has its reply or knows that there is none, and conn->want is set. */
enum redis_next redis_request_start(struct redis_pool *pool,
                                    struct redis_request *request);
enum redis_next redis_request_advance(struct redis_pool *pool,
                                      struct redis_request *request);

/* Counts `error` and tells conn that there is no reply, in the queue or later;
 * release it next. */
void redis_request_fail(struct redis_pool *pool, struct redis_request *request,
                        int error);

/* Waits until fd is readable, or writable with `out`. False with errno: it did
 * not get so in time (ETIMEDOUT), or cannot be waited for. */
typedef bool redis_wait(struct redis_request *request, int fd, bool out,
                        uint64_t deadline_ns);

/* Start to end of an assigned request, for models whose code may stop in the
 * middle: threads, processes, coroutines. It leaves the next want in
 * conn->want. */
void redis_request_converse(struct redis_pool *pool,
                            struct redis_request *request, redis_wait *wait,
                            uint64_t deadline_ns);

#endif
