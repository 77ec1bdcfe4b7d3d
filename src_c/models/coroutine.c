/* coroutine.c -- code as if there were one client; a stack for each of them.
 *
 *     in a coroutine:  receive -> answer -> send -> receive
 *     where it would block: switch to the scheduler
 *     scheduler:       epoll_wait -> resume whoever can go on -> epoll_wait
 *
 * Good: serves a client with the very loop that blocking models use, from
 *       blocking.c, and waits as cheaply as epoll: a switch of stacks is some
 *       twenty instructions and no system call.
 * Bad:  a stack for each client, if a small one; code that computes for long,
 *       or calls what really blocks, holds up everyone.
 * Look: the stack is the state. An idle client costs the page or two of it
 *       that were touched; a stack and its guard page are two mappings, so
 *       vm.max_map_count (65530) ends it near 32 thousand clients. The
 *       acceptor is a coroutine like any other.
 * Needs: epoll with EPOLLRDHUP (Linux 2.6.17); x86-64 and AArch64 switch in
 *       assembly, others by swapcontext(3), which adds a system call.
 * Try:  strace -c shows what epoll-et would; perf record -e page-faults shows
 *       the stacks. The same idea: libtask, State Threads, boost.context.
 */
#include "coroutine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "blocking/blocking.h"
#include "common/clock.h"
#include "common/owner.h"
#include "coroutine/coroutine.h"
#include "coroutine/scheduler.h"
#include "redis/redis_pool.h"
#include "server/net.h"
#include "server/stop.h"

enum {
    CALLS_QUOTA = 16,         /* calls in a row; then others are served ... */
    SENDS_QUOTA = 8,          /* ... or sends, without a receive in between */
    PARTING_NS = 200000000,   /* overdue: how long all may take to end */
};

struct co_task {
    struct task task;
    struct coroutine *coroutine;
    uint8_t calls, sends;     /* since it was resumed; since it received */
};

struct client {
    struct co_task co;
    struct redis_request redis;
    struct conn conn;         /* last: its session follows */
};

struct loop {
    struct scheduler scheduler;
    struct worker worker;
    struct co_task acceptor;
    struct redis_pool redis;
    struct task *redis_tasks[REDIS_CONNS]; /* wait for their fd */
    char in[CONN_CHUNK];
};

static const size_t client_extra = offsetof(struct client, conn);

static struct client *client_of(struct conn *conn)
{
    return OWNER_OF(conn, struct client, conn);
}

static struct loop *loop_of(const struct task *task)
{
    return OWNER_OF(task->scheduler, struct loop, scheduler);
}

/* --- waiting, seen from a coroutine -------------------------------------- */

/* Switches away until one of the events comes, or until deadline_ns (0: none).
 * False when none came: too late, or all are to leave. */
static bool await(struct task *task, unsigned events, uint64_t deadline_ns)
{
    if (!task_wait(task, events, deadline_ns))
        return false;
    if (!task_ready(task))
        coroutine_yield();
    return task_waited(task);
}

/* Lets all others who can go on do so first. */
static void let_others(struct co_task *co)
{
    task_wake(&co->task);
    coroutine_yield();
}

/* To be called before each call that may go on for ever without waiting. */
static void take_turns(struct co_task *co)
{
    if (co->calls++ >= CALLS_QUOTA)
        let_others(co);
}

/* --- the calls that blocking.c makes ------------------------------------- */

static ssize_t co_receive(struct conn *conn, char *buffer, size_t size)
{
    struct co_task *co = &client_of(conn)->co;
    struct task *task = &co->task;
    take_turns(co);
    co->sends = 0;
    for (;;) {
        if (!await(task, TASK_IN, 0))
            return 0; /* as if the client had left */
        ssize_t n = recv(conn->fd, buffer, size, 0);
        bool empty = n < 0 ? errno == EAGAIN
                           : n < (ssize_t)size && !(task->events & TASK_END);
        if (empty) /* now; we are told when it changes */
            task->events &= (uint8_t)~(TASK_IN | TASK_END);
        if (n >= 0 || !empty)
            return n;
    }
}

/* To be called before others are served: they use the buffer that an answer
 * may lie in, if it is an echo. False, with errno: memory is out. */
static bool save_output(struct conn *conn)
{
    errno = ENOMEM;
    return conn_stash(conn);
}

/* Who receives in between ends its turn there, with nothing to copy aside. */
static bool take_turns_sending(struct co_task *co, struct conn *conn)
{
    if (co->sends++ < SENDS_QUOTA)
        return true;
    if (!save_output(conn))
        return false;
    let_others(co);
    return true;
}

static ssize_t co_send(struct conn *conn)
{
    struct co_task *co = &client_of(conn)->co;
    if (!take_turns_sending(co, conn))
        return -1;
    for (;;) {
        struct span out = conn_unsent(conn);
        ssize_t n = send(conn->fd, out.bytes, out.length, MSG_NOSIGNAL);
        if (n >= 0 || errno != EAGAIN)
            return n;
        co->task.events &= (uint8_t)~TASK_OUT;
        if (!save_output(conn))
            return -1;
        if (!await(&co->task, TASK_OUT, 0)) {
            errno = ECANCELED; /* not before: errno is the thread's */
            return -1;
        }
    }
}

static void co_sleep_until(struct conn *conn, uint64_t ns)
{
    await(&client_of(conn)->co.task, 0, ns);
}

/* --- requests to Redis ---------------------------------------------------- */

/* A connection passes straight from hand to hand: were it free in between, the
 * client that gives it back would take it again before the other is resumed. */
static void assign_redis(struct loop *loop)
{
    struct redis_request *request;
    while ((request = redis_pool_assign(&loop->redis)))
        task_tell(&client_of(request->conn)->co.task, TASK_TURN);
}

/* False: none became free in time. */
static bool take_redis(struct client *client, uint64_t deadline_ns)
{
    struct task *task = &client->co.task;
    struct loop *loop = loop_of(task);
    task->events &= (uint8_t)~TASK_TURN;
    redis_pool_queue(&loop->redis, &client->redis);
    assign_redis(loop);
    return await(task, TASK_TURN, deadline_ns);
}

static bool await_redis(struct redis_request *request, int fd, bool out,
                        uint64_t deadline_ns)
{
    struct task *task = &client_of(request->conn)->co.task;
    struct loop *loop = loop_of(task);
    struct task **waits =
        &loop->redis_tasks[request->redis - loop->redis.conns];
    task->events &= (uint8_t)~TASK_REDIS;
    *waits = task;
    bool came = scheduler_watch_once(task->scheduler, fd, out, waits) &&
                await(task, TASK_REDIS, deadline_ns);
    *waits = NULL; /* an event that comes late is nobody's */
    return came;
}

static enum want co_ask(struct conn *conn)
{
    struct client *client = client_of(conn);
    struct loop *loop = loop_of(&client->co.task);
    uint64_t deadline_ns = clock_now_ns() + REDIS_TIMEOUT_NS;
    take_turns(&client->co);
    if (take_redis(client, deadline_ns))
        redis_request_converse(&loop->redis, &client->redis, await_redis,
                               deadline_ns);
    else
        redis_request_fail(&loop->redis, &client->redis, ETIMEDOUT);
    redis_pool_release(&loop->redis, &client->redis);
    assign_redis(loop);
    return (enum want)conn->want;
}

static const struct blocking_calls coroutine_calls = {
    .receive = co_receive,
    .send = co_send,
    .sleep_until = co_sleep_until,
    .ask = co_ask,
};

/* --- the coroutines ------------------------------------------------------- */

/* A client's socket is watched for every change, once (as in epoll-et.c). */
static void serve_client(void *value)
{
    struct client *client = value;
    struct conn *conn = &client->conn;
    struct task *task = &client->co.task;
    if (task_watch(task, conn->fd,
                   EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET))
        blocking_converse(conn, loop_of(task)->in, CONN_CHUNK,
                          &coroutine_calls);
    else
        conn_failed(conn, errno);
    conn_close(conn);
    task_end(task);
}

/* The value is for the first time only, when the coroutine begins. */
static void resume_client(struct task *task)
{
    struct client *client = OWNER_OF(task, struct client, co.task);
    client->co.calls = client->co.sends = 0;
    coroutine_resume(client->co.coroutine, client);
}

static void add_client(struct loop *loop, int fd,
                       const struct sockaddr_in6 *peer)
{
    struct coroutine *coroutine = coroutine_new(serve_client);
    if (!coroutine) {
        net_refuse(loop->worker.server, fd, REFUSED_MEMORY);
        return;
    }
    struct conn *conn = conn_open(&loop->worker, fd, peer, client_extra);
    if (!conn) {
        coroutine_drop(coroutine);
        return;
    }
    struct co_task *co = &client_of(conn)->co;
    co->coroutine = coroutine;
    redis_request_init(&client_of(conn)->redis, conn);
    task_start(&loop->scheduler, &co->task, resume_client);
}

/* The listening socket is watched for its level: one refused for want of
 * descriptors leaves others waiting that nobody tells us of again. */
static void accept_clients(void *value)
{
    struct loop *loop = value;
    struct task *task = &loop->acceptor.task;
    struct server *server = loop->worker.server;
    for (;;) {
        struct sockaddr_in6 peer;
        int fd = net_accept(server, &peer, SOCK_NONBLOCK);
        if (fd == ACCEPT_STOPPED)
            break;
        if (fd >= 0)
            add_client(loop, fd, &peer);
        else
            task->events = 0;
        take_turns(&loop->acceptor);
        await(task, TASK_IN, 0);
    }
    epoll_ctl(loop->scheduler.epoll_fd, EPOLL_CTL_DEL, server->listen_fd, NULL);
    list_leave(&task->open);
}

static void resume_acceptor(struct task *task)
{
    struct loop *loop = loop_of(task);
    loop->acceptor.calls = 0;
    coroutine_resume(loop->acceptor.coroutine, loop);
}

static bool start_acceptor(struct loop *loop)
{
    struct task *task = &loop->acceptor.task;
    int listen_fd = loop->worker.server->listen_fd;
    loop->acceptor.coroutine = coroutine_new(accept_clients);
    if (!loop->acceptor.coroutine ||
        fcntl(listen_fd, F_SETFL, O_NONBLOCK) < 0) {
        net_warn(loop->acceptor.coroutine ? "fcntl O_NONBLOCK" : "mmap");
        return false;
    }
    task_start(&loop->scheduler, task, resume_acceptor);
    if (!task_watch(task, listen_fd, EPOLLIN)) {
        net_warn("epoll_ctl");
        return false;
    }
    return true;
}

/* --- the loop ------------------------------------------------------------- */

static void free_ended(struct loop *loop)
{
    struct node *ended = &loop->scheduler.ended;
    while (!list_empty(ended)) {
        struct client *client =
            OWNER_OF(ended->after, struct client, co.task.open);
        list_leave(&client->co.task.open);
        conn_free(&client->conn, client_extra);
    }
}

static void run_round(struct loop *loop)
{
    scheduler_wait(&loop->scheduler);   /* epoll_wait: who can go on? */
    scheduler_expire(&loop->scheduler); /* who has slept long enough? */
    scheduler_resume(&loop->scheduler); /* each until it waits again */
    free_ended(loop);
}

/* A stop is overdue: a task that is woken now finds that no wait is left. */
static void close_all(struct loop *loop)
{
    uint64_t until_ns = clock_now_ns() + PARTING_NS;
    scheduler_wake_all(&loop->scheduler);
    while (!list_empty(&loop->scheduler.open) && clock_now_ns() < until_ns)
        run_round(loop);
}

static int serve(struct loop *loop)
{
    if (!start_acceptor(loop))
        return -1;
    stats_add(&loop->worker.server->stats->workers_started, 1);
    while (!list_empty(&loop->scheduler.open) && !stop_overdue())
        run_round(loop);
    close_all(loop);
    redis_pool_close_all(&loop->redis);
    return 0;
}

int coroutine_serve(struct server *server, unsigned index)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop) {
        net_warn("calloc");
        return -1;
    }
    loop->worker = (struct worker){server, index, {0}};
    redis_pool_init(&loop->redis);
    int result = -1;
    if (scheduler_init(&loop->scheduler)) {
        result = serve(loop);
        scheduler_destroy(&loop->scheduler);
    }
    coroutine_trim();
    send_buffers_free(&loop->worker.buffers);
    free(loop);
    return result;
}

static int coroutine_run(struct server *server)
{
    return coroutine_serve(server, server->process);
}

const struct model_code coroutine_model = {.run = coroutine_run};
