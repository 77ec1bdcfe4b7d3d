/* co_server.c -- see co_server.h.
 *
 * What a server needs of either kind of coroutine, with stacks or without:
 * accepting, a client's task, requests to Redis, the end of a round. Waiting is
 * not here, because that is where the kinds differ: models/coroutine.c switches
 * stacks, models/stackless.c returns and is called again.
 */
#include "co_server.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "common/clock.h"
#include "common/owner.h"
#include "reactor/ready.h"
#include "server/net.h"
#include "server/stop.h"

struct co_loop *co_loop_of(const struct task *task)
{
    return OWNER_OF(task->scheduler, struct co_loop, scheduler);
}

struct co_client *co_client_of(struct conn *conn)
{
    return OWNER_OF(conn, struct co_client, conn);
}

/* It is about to be closed, and leaves the set by that. */
static void co_redis_closes(struct redis_pool *pool, struct redis_conn *redis)
{
    (void)pool;
    redis->watched = false;
}

/* An idle connection that Redis closes is closed here too. */
static void co_redis_unasked(struct scheduler *scheduler, struct task **user)
{
    struct co_loop *loop = OWNER_OF(scheduler, struct co_loop, scheduler);
    struct redis_conn *redis = &loop->redis.conns[user - loop->redis_tasks];
    if (redis->state == REDIS_IDLE && redis_conn_is_stale(redis))
        redis_pool_close(&loop->redis, redis);
}

struct co_loop *co_loop_new(struct server *server, unsigned index, size_t extra)
{
    struct co_loop *loop = calloc(1, sizeof *loop);
    if (!loop) {
        warn("calloc");
        return NULL;
    }
    loop->worker = (struct worker){server, index, {0}};
    loop->extra = extra;
    redis_pool_init(&loop->redis);
    if (!scheduler_init(&loop->scheduler)) {
        free(loop);
        return NULL;
    }
    loop->scheduler.busy_wait = server->options.busy_wait;
    loop->scheduler.unasked = co_redis_unasked;
    loop->redis.unwatch = co_redis_closes;
    return loop;
}

void co_loop_free(struct co_loop *loop)
{
    redis_pool_close_all(&loop->redis);
    scheduler_destroy(&loop->scheduler);
    send_buffers_free(&loop->worker.buffers);
    free(loop);
}

/* --- the listening socket ------------------------------------------------- */

/* It is watched for its level: a client that was refused for want of
 * descriptors leaves others waiting that no edge tells of again. */
bool co_accept_start(struct co_loop *loop, struct task *task,
                     void (*resume)(struct task *task))
{
    int listen_fd = loop->worker.server->listen_fd;
    if (fcntl(listen_fd, F_SETFL, O_NONBLOCK) < 0) {
        warn("fcntl O_NONBLOCK");
        return false;
    }
    task_start(&loop->scheduler, task, resume);
    if (task_watch(task, listen_fd, EPOLLIN))
        return true;
    warn("epoll_ctl");
    return false;
}

void co_accept_end(struct co_loop *loop, struct task *task)
{
    epoll_ctl(loop->scheduler.epoll_fd, EPOLL_CTL_DEL,
              loop->worker.server->listen_fd, NULL);
    list_leave(&task->open);
}

/* --- a client ------------------------------------------------------------- */

void co_client_start(struct co_loop *loop, struct co_client *client,
                     void (*resume)(struct task *task))
{
    redis_request_init(&client->redis, &client->conn);
    task_start(&loop->scheduler, &client->task, resume);
}

bool co_client_watch(struct co_client *client)
{
    return task_watch(&client->task, client->conn.fd, READY_EDGES | EPOLLET);
}

bool co_client_drained(struct co_client *client, ssize_t n, size_t size)
{
    struct task *task = &client->task;
    bool drained = n < 0 ? errno == EAGAIN
                         : n < (ssize_t)size && !(task->events & TASK_END);
    if (drained)
        task->events &= (uint8_t)~(TASK_IN | TASK_END);
    return drained;
}

/* In coroutine-workers another thread may have the signal of a stop. While its
 * handler shuts a socket down, that outlives close(2) and stays in the set: an
 * event would find a task that has been freed. */
void co_client_end(struct co_client *client)
{
    if (!stop_unwatch(client->conn.fd))
        task_unwatch(&client->task, client->conn.fd);
    conn_close(&client->conn);
    task_end(&client->task);
}

bool co_deadline_passed(const struct conn *conn)
{
    return clock_now_ns() >= conn_deadline_ns(conn);
}

/* --- requests to Redis ---------------------------------------------------- */

/* A connection passes straight from hand to hand: were it free in between, the
 * client that gives it back would take it again before the other is resumed. */
static void co_redis_assign(struct co_loop *loop)
{
    struct redis_request *request;
    while ((request = redis_pool_assign(&loop->redis)))
        task_tell(&co_client_of(request->conn)->task, TASK_TURN);
}

void co_redis_queue(struct co_client *client)
{
    struct co_loop *loop = co_loop_of(&client->task);
    client->task.events &= (uint8_t)~TASK_TURN;
    redis_pool_queue(&loop->redis, &client->redis);
    co_redis_assign(loop);
}

/* The task that waits for the client's connection to Redis, or NULL. */
static struct task **co_redis_task(const struct co_client *client)
{
    struct co_loop *loop = co_loop_of(&client->task);
    return &loop->redis_tasks[client->redis.redis - loop->redis.conns];
}

/* As clients are: each connection once, for every change. */
bool co_redis_watch(struct co_client *client)
{
    struct task *task = &client->task, **user = co_redis_task(client);
    struct redis_conn *redis = client->redis.redis;
    task->events &= (uint8_t)~TASK_REDIS;
    *user = task;
    if (!redis->watched)
        redis->watched = scheduler_watch(task->scheduler, redis->fd, user);
    return redis->watched;
}

/* An event that comes late is nobody's. */
void co_redis_unwatch(struct co_client *client)
{
    *co_redis_task(client) = NULL;
}

void co_redis_release(struct co_client *client)
{
    struct co_loop *loop = co_loop_of(&client->task);
    redis_pool_release(&loop->redis, &client->redis);
    co_redis_assign(loop);
}

/* --- a round -------------------------------------------------------------- */

void co_loop_end_round(struct co_loop *loop)
{
    struct node *ended = &loop->scheduler.ended;
    while (!list_empty(ended)) {
        struct co_client *client =
            OWNER_OF(ended->after, struct co_client, task.open);
        list_leave(&client->task.open);
        conn_free(&client->conn, loop->extra);
    }
}

bool co_loop_done(struct co_loop *loop)
{
    if (list_empty(&loop->scheduler.open))
        return true;
    if (!stop_overdue())
        return false;
    uint64_t now = clock_now_ns();
    if (loop->end_ns == 0) {
        loop->end_ns = now + STOP_PARTING_NS;
        scheduler_wake_all(&loop->scheduler);
    }
    return now >= loop->end_ns;
}
