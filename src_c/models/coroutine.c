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
 *       that were touched. Before Linux 6.13 a stack and its guard page are
 *       two mappings, and vm.max_map_count (65530) ends it near 32 thousand
 *       clients. The acceptor is a coroutine like any other.
 * Needs: epoll with EPOLLRDHUP (Linux 2.6.17); x86-64 and AArch64 switch in
 *       assembly, others by swapcontext(3), which adds a system call.
 * Try:  strace -c shows what epoll-et would; perf record -e page-faults shows
 *       the stacks. The same idea: libtask, State Threads, boost.context.
 */
#include "coroutine.h"

#include <err.h>
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

#include "blocking/blocking.h"
#include "common/clock.h"
#include "common/owner.h"
#include "coroutine/co_server.h"
#include "coroutine/coroutine.h"
#include "server/net.h"

enum {
    CALLS_QUOTA = 16, /* calls in a row; then others are served ... */
    SENDS_QUOTA = 8,  /* ... or sends, without a receive in between */
};

struct stackful_client {
    struct coroutine *coroutine;
    uint8_t calls, sends; /* since it was resumed; since it received */
    struct co_client co;  /* last, with its conn and session */
};

struct stackful_acceptor {
    struct task task;
    struct coroutine *coroutine;
};

static struct stackful_client *stackful_client_of(struct conn *conn)
{
    return OWNER_OF(conn, struct stackful_client, co.conn);
}

/* --- waiting, seen from a coroutine -------------------------------------- */

/* Switches away until one of the events comes, or until deadline_ns. False when
 * none came: too late, or all are to leave. */
static bool co_await(struct task *task, unsigned events, uint64_t deadline_ns)
{
    if (!task_wait(task, events, deadline_ns))
        return false;
    if (!task_ready(task))
        coroutine_yield();
    return task_waited(task);
}

/* Lets all others who can go on do so first. */
static void co_let_others(struct task *task)
{
    task_wake(task);
    coroutine_yield();
}

/* To be called before each call that may go on for ever without waiting. */
static void co_take_turns(struct stackful_client *client)
{
    if (client->calls++ >= CALLS_QUOTA)
        co_let_others(&client->co.task);
}

/* --- the calls that blocking.c makes ------------------------------------- */

/* Waits for the event as long as the client is waited for. False: all are to
 * leave. Else one call may follow. With *late it is the last: the deadline has
 * passed, but perhaps while others were served, and what has come by now, or
 * finds room, is in time. */
static bool co_await_socket(struct stackful_client *client, unsigned event,
                            bool *late)
{
    const struct conn *conn = &client->co.conn;
    *late = !co_await(&client->co.task, event, conn_deadline_ns(conn));
    return !*late || co_deadline_passed(conn);
}

static ssize_t co_receive(struct conn *conn, char *buffer, size_t size)
{
    struct stackful_client *client = stackful_client_of(conn);
    co_take_turns(client);
    client->sends = 0;
    for (bool late;;) {
        if (!co_await_socket(client, TASK_IN, &late))
            return 0; /* as if the client had left */
        ssize_t n = recv(conn->fd, buffer, size, 0);
        if (!co_client_drained(&client->co, n, size) || n >= 0 || late)
            return n;
    }
}

/* To be called before others are served: they use the buffer that an answer
 * may lie in, if it is an echo. False, with errno: memory is out. */
static bool co_save_output(struct conn *conn)
{
    errno = ENOMEM;
    return conn_stash(conn);
}

/* Who receives in between ends its turn there, with nothing to copy aside. */
static bool co_take_turns_sending(struct stackful_client *client)
{
    if (client->sends++ < SENDS_QUOTA)
        return true;
    if (!co_save_output(&client->co.conn))
        return false;
    co_let_others(&client->co.task);
    return true;
}

static ssize_t co_send(struct conn *conn)
{
    struct stackful_client *client = stackful_client_of(conn);
    if (!co_take_turns_sending(client))
        return -1;
    for (bool late = false;;) {
        struct span out = conn_unsent(conn);
        ssize_t n = send(conn->fd, out.bytes, out.length, MSG_NOSIGNAL);
        if (n >= 0 || errno != EAGAIN || late)
            return n;
        client->co.task.events &= (uint8_t)~TASK_OUT;
        if (!co_save_output(conn))
            return -1;
        if (!co_await_socket(client, TASK_OUT, &late)) {
            /* Not before: errno is the thread's, and others ran. */
            errno = ECANCELED;
            return -1;
        }
    }
}

/* Ends early when the client is gone: then the answer's send says so. */
static void co_sleep_until(struct conn *conn, uint64_t ns)
{
    co_await(&stackful_client_of(conn)->co.task, TASK_GONE, ns);
}

static bool co_await_redis(struct redis_request *request, int fd, bool out,
                           uint64_t deadline_ns)
{
    struct co_client *client = co_client_of(request->conn);
    (void)fd, (void)out; /* of request->redis, which is watched for both */
    bool watched = co_redis_watch(client);
    int error = watched ? ETIMEDOUT : errno;
    bool came = watched && co_await(&client->task, TASK_REDIS, deadline_ns);
    co_redis_unwatch(client);
    errno = error; /* not before: it is the thread's, and others ran */
    return came;
}

static enum want co_ask(struct conn *conn)
{
    struct stackful_client *client = stackful_client_of(conn);
    struct co_client *co = &client->co;
    struct redis_pool *pool = &co_loop_of(&co->task)->redis;
    uint64_t deadline_ns = clock_now_ns() + REDIS_TIMEOUT_NS;
    co_take_turns(client);
    co_redis_queue(co);
    if (co_await(&co->task, TASK_TURN, deadline_ns))
        redis_request_converse(pool, &co->redis, co_await_redis, deadline_ns);
    else
        redis_request_fail(pool, &co->redis, ETIMEDOUT);
    co_redis_release(co);
    return (enum want)conn->want;
}

static const struct blocking_calls coroutine_calls = {
    .receive = co_receive,
    .send = co_send,
    .sleep_until = co_sleep_until,
    .ask = co_ask,
};

/* --- the coroutines ------------------------------------------------------- */

static void co_serve_client(void *value)
{
    struct stackful_client *client = value;
    struct conn *conn = &client->co.conn;
    if (co_client_watch(&client->co))
        blocking_converse(conn, co_loop_of(&client->co.task)->in, CONN_CHUNK,
                          &coroutine_calls);
    else
        conn_failed(conn, errno);
    co_client_end(&client->co);
}

/* The value is for the first time only, when the coroutine begins. */
static void co_resume_client(struct task *task)
{
    struct stackful_client *client =
        OWNER_OF(task, struct stackful_client, co.task);
    client->calls = client->sends = 0;
    coroutine_resume(client->coroutine, client);
}

static void co_add_client(struct co_loop *loop, int fd,
                          const struct sockaddr_in6 *peer)
{
    struct coroutine *coroutine = coroutine_new(co_serve_client);
    if (!coroutine) {
        net_refuse(loop->worker.server, fd, REFUSED_MEMORY);
        return;
    }
    struct conn *conn = conn_open(&loop->worker, fd, peer, loop->extra);
    if (!conn) {
        coroutine_drop(coroutine);
        return;
    }
    struct stackful_client *client = stackful_client_of(conn);
    client->coroutine = coroutine;
    co_client_start(loop, &client->co, co_resume_client);
}

static void co_accept_clients(void *value)
{
    struct stackful_acceptor *self = value;
    struct task *task = &self->task;
    struct co_loop *loop = co_loop_of(task);
    for (unsigned accepts = 1;; accepts++) {
        struct sockaddr_in6 peer;
        int fd = net_accept(loop->worker.server, &peer, SOCK_NONBLOCK);
        if (fd == ACCEPT_STOPPED)
            break;
        if (fd >= 0)
            co_add_client(loop, fd, &peer);
        else
            task->events = 0;
        if (accepts % CALLS_QUOTA == 0)
            co_let_others(task);
        co_await(task, TASK_IN, UINT64_MAX);
    }
    co_accept_end(loop, task);
}

static void co_resume_acceptor(struct task *task)
{
    struct stackful_acceptor *self =
        OWNER_OF(task, struct stackful_acceptor, task);
    coroutine_resume(self->coroutine, self);
}

/* --- the loop ------------------------------------------------------------- */

static int co_serve(struct co_loop *loop)
{
    struct scheduler *scheduler = &loop->scheduler;
    struct server *server = loop->worker.server;
    struct stackful_acceptor acceptor = {
        .coroutine = coroutine_new(co_accept_clients),
    };
    if (!acceptor.coroutine) {
        warn("mmap");
        return -1;
    }
    if (!co_accept_start(loop, &acceptor.task, co_resume_acceptor))
        return -1;
    stats_add(&server->stats->workers_started, 1);
    while (!co_loop_done(loop)) {
        scheduler_wait(scheduler, server); /* epoll_wait: who can go on? */
        scheduler_expire(scheduler);       /* who has waited long enough? */
        scheduler_resume(scheduler);       /* each until it waits again */
        co_loop_end_round(loop);
    }
    return 0;
}

int coroutine_serve(struct server *server, unsigned index)
{
    struct co_loop *loop =
        co_loop_new(server, index, offsetof(struct stackful_client, co.conn));
    if (!loop)
        return -1;
    int result = co_serve(loop);
    coroutine_trim();
    co_loop_free(loop);
    return result;
}

static int coroutine_run(struct server *server)
{
    return coroutine_serve(server, server->process);
}

const struct model_code coroutine_model = {.run = coroutine_run};
