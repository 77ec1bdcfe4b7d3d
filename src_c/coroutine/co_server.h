/* co_server.h -- what servers made of tasks share, whatever a task is.
 *
 * models/coroutine.c gives each client a stack, models/stackless.c a line
 * number; both run on a scheduler, talk to Redis and end in the same way.
 */
#ifndef CO_SERVER_H
#define CO_SERVER_H

#include "redis/redis_pool.h"
#include "scheduler.h"
#include "server/conn.h"

/* One thread's tasks. */
struct co_loop {
    struct scheduler scheduler;
    struct worker worker;
    struct redis_pool redis;
    struct task *redis_tasks[REDIS_CONNS]; /* that wait for a connection's fd */
    size_t extra;        /* bytes that the model has in front of a conn */
    uint64_t end_ns;     /* once a stop is overdue: when to leave */
    char in[CONN_CHUNK]; /* where all clients receive */
};

/* The end of what a model has for a client. */
struct co_client {
    struct task task;
    struct redis_request redis;
    struct conn conn; /* last: its session follows */
};

struct co_loop *co_loop_of(const struct task *task);
struct co_client *co_client_of(struct conn *conn);

/* A loop for worker `index`; `extra` is the offset of conn in the model's
 * struct. Returns NULL after warn(3). */
struct co_loop *co_loop_new(struct server *server, unsigned index,
                            size_t extra);
void co_loop_free(struct co_loop *loop);

/* Starts the task that accepts, told when a client waits; its end. Returns
 * false after warn(3). */
bool co_accept_start(struct co_loop *loop, struct task *task,
                     void (*resume)(struct task *task));
void co_accept_end(struct co_loop *loop, struct task *task);

/* Starts a connection's task; watches its socket for every change, once, as in
 * epoll-et.c. Returns false with errno when it cannot be watched. */
void co_client_start(struct co_loop *loop, struct co_client *client,
                     void (*resume)(struct task *task));
bool co_client_watch(struct co_client *client);

/* A receive of n bytes, or a failed one, asked for `size`: whether there is
 * nothing more for now. Then the task is told when that changes. */
bool co_client_drained(struct co_client *client, ssize_t n, size_t size);

/* Closes the connection, and ends its task: the last call of it. */
void co_client_end(struct co_client *client);

/* Whether an event did not come because the connection's deadline has passed:
 * else a stop is overdue, or memory is out. */
bool co_deadline_passed(const struct conn *conn);

/* Joins the queue for a connection to Redis: wait for TASK_TURN. */
void co_redis_queue(struct co_client *client);

/* Has the task told of changes of its connection to Redis, after a call that
 * would have had to wait: wait for TASK_REDIS, then stop that. Returns false
 * with errno. */
bool co_redis_watch(struct co_client *client);
void co_redis_unwatch(struct co_client *client);

/* The request has its reply, or none: the connection passes to the next. */
void co_redis_release(struct co_client *client);

/* Frees the clients that ended in this round. */
void co_loop_end_round(struct co_loop *loop);

/* Whether the last task has ended; or a stop is overdue and all were woken,
 * to find that no wait is left, and had a moment to end. */
bool co_loop_done(struct co_loop *loop);

#endif
