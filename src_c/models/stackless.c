/* stackless.c -- coroutines without stacks: a line number for each client.
 *
 *     a client:   receive -> answer -> send -> receive
 *     where it would block: note the line, return to the scheduler
 *     scheduler:  epoll_wait -> call whoever can go on: it jumps to its line
 *
 * Good: reads from top to bottom like a thread's code, and a client that waits
 *       takes as little as in epoll, some 300 bytes where coroutine takes 4400:
 *       no stack, no guard page, no switch in assembly.
 * Bad:  a wait can stand in one function only, not in what that calls, and no
 *       local variable outlives it: what would be on a stack moves to a struct
 *       by hand. (Compilers do so for async functions, hence their "colour".)
 *       Code that computes for long holds up everyone.
 * Look: beside coroutine, memory per idle client; beside epoll, where the same
 *       state is an enum and the same code is cut at each wait. In the wild:
 *       Contiki's protothreads; Rust's, C#'s and Python's async functions.
 * Needs: epoll with EPOLLRDHUP (Linux 2.6.17); C99.
 * Try:  gcc -E -Isrc_c src_c/models/stackless.c: the switch that it becomes.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/owner.h"
#include "coroutine/co_server.h"
#include "coroutine/stackless.h"
#include "server/net.h"

enum {
    CALLS_QUOTA = 16, /* calls in a row; then others are served ... */
    SENDS_QUOTA = 8,  /* ... at a receive, or so many calls later */
    ACCEPTS_QUOTA = 16,
};

/* All that outlives a wait. */
struct stackless_client {
    uint64_t redis_end_ns; /* when its request to Redis has to be done */
    uint16_t line;         /* where it stopped */
    uint8_t calls;         /* since it was resumed */
    uint8_t redis_next;    /* enum redis_next */
    struct co_client co;   /* last, with its conn and session */
};

static struct stackless_client *stackless_client_of(struct task *task)
{
    return OWNER_OF(task, struct stackless_client, co.task);
}

/* --- calls that never wait ------------------------------------------------ */

static void stackless_receive(struct stackless_client *client)
{
    struct conn *conn = &client->co.conn;
    char *in = co_loop_of(&client->co.task)->in;
    ssize_t n = recv(conn->fd, in, CONN_CHUNK, 0);
    bool drained = co_client_drained(&client->co, n, CONN_CHUNK);
    if (n >= 0)
        conn_received(conn, in, (size_t)n);
    else if (!drained && errno != EINTR)
        conn_failed(conn, errno);
}

static void stackless_send(struct stackless_client *client)
{
    struct conn *conn = &client->co.conn;
    struct span out = conn_unsent(conn);
    ssize_t n = send(conn->fd, out.bytes, out.length, MSG_NOSIGNAL);
    if (n >= 0)
        conn_sent(conn, (size_t)n);
    else if (errno == EAGAIN)
        client->co.task.events &= (uint8_t)~TASK_OUT;
    else if (errno != EINTR)
        conn_failed(conn, errno);
}

/* To be called before others are served: they use the buffer that an answer
 * may lie in, if it is an echo. */
static void stackless_save_output(struct stackless_client *client)
{
    if (!conn_stash(&client->co.conn))
        conn_failed(&client->co.conn, ENOMEM);
}

/* Rather before a receive: there is nothing to send that would be copied. */
static bool stackless_quota_spent(struct stackless_client *client)
{
    bool receives = client->co.conn.want == WANT_READ;
    return client->calls++ >= CALLS_QUOTA + (receives ? 0 : SENDS_QUOTA);
}

/* The socket did not get ready: all are to leave; or its deadline has passed,
 * but perhaps while others were served: what has come by now, or finds room, is
 * in time. */
static void stackless_not_ready(struct stackless_client *client)
{
    struct conn *conn = &client->co.conn;
    bool reads = conn->want == WANT_READ;
    if (!co_deadline_passed(conn)) {
        if (reads)
            conn_received(conn, NULL, 0); /* as if the client had left */
        else
            conn_failed(conn, ECANCELED);
        return;
    }
    if (reads)
        stackless_receive(client);
    else
        stackless_send(client);
    bool waits = conn->want == WANT_READ || conn->want == WANT_WRITE;
    if (waits && co_deadline_passed(conn))
        conn_timed_out(conn);
}

/* --- the tasks ------------------------------------------------------------ */

/* A chain of ifs where a switch would be: this is inside of one already. */
static void stackless_serve_client(struct task *task)
{
    struct stackless_client *client = stackless_client_of(task);
    struct co_client *co = &client->co;
    struct conn *conn = &co->conn;
    struct redis_pool *redis = &co_loop_of(task)->redis;
    uint16_t *line = &client->line;
    bool came;
    client->calls = 0;

    STACKLESS_BEGIN(line);
    if (!co_client_watch(co))
        conn_failed(conn, errno);
    while (conn->want != WANT_CLOSE) {
        if (stackless_quota_spent(client)) {
            stackless_save_output(client);
            task_wake(task);
            STACKLESS_YIELD(line);
        } else if (conn->want == WANT_READ) {
            STACKLESS_AWAIT(line, task, TASK_IN, conn_deadline_ns(conn), came);
            if (came)
                stackless_receive(client);
            else
                stackless_not_ready(client);
        } else if (conn->want == WANT_WRITE && task->events & TASK_OUT) {
            stackless_send(client);
        } else if (conn->want == WANT_WRITE) {
            stackless_save_output(client);
            STACKLESS_AWAIT(line, task, TASK_OUT, conn_deadline_ns(conn), came);
            if (!came)
                stackless_not_ready(client);
        } else if (conn->want == WANT_SLEEP) {
            STACKLESS_AWAIT(line, task, TASK_GONE, conn->wake_ns, came);
            if (came)
                conn_failed(conn, ECONNRESET);
            else
                conn_woken(conn);
        } else { /* WANT_ASK */
            client->redis_end_ns = clock_now_ns() + REDIS_TIMEOUT_NS;
            co_redis_queue(co);
            STACKLESS_AWAIT(line, task, TASK_TURN, client->redis_end_ns, came);
            errno = ETIMEDOUT; /* if it did not come */
            if (came)
                client->redis_next = redis_request_start(redis, &co->redis);
            while (came && client->redis_next != REDIS_DONE) {
                came = co_redis_watch(co);
                if (came) {
                    STACKLESS_AWAIT(line, task, TASK_REDIS,
                                    client->redis_end_ns, came);
                    errno = ETIMEDOUT;
                }
                co_redis_unwatch(co);
                if (came)
                    client->redis_next =
                        redis_request_advance(redis, &co->redis);
            }
            if (!came)
                redis_request_fail(redis, &co->redis, errno);
            co_redis_release(co);
        }
    }
    co_client_end(co);
    STACKLESS_END();
}

/* It has no place to remember: it begins anew each time. */
static void stackless_accept_clients(struct task *task)
{
    struct co_loop *loop = co_loop_of(task);
    for (int i = 0; i < ACCEPTS_QUOTA; i++) {
        struct sockaddr_in6 peer;
        int fd = net_accept(loop->worker.server, &peer, SOCK_NONBLOCK);
        if (fd == ACCEPT_STOPPED)
            return co_accept_end(loop, task);
        if (fd < 0)
            break;
        struct conn *conn = conn_open(&loop->worker, fd, &peer, loop->extra);
        if (conn)
            co_client_start(loop, co_client_of(conn), stackless_serve_client);
    }
    task->events = 0; /* the level is told again */
    task->awaited = TASK_IN;
}

/* --- the loop ------------------------------------------------------------- */

static int stackless_run(struct server *server)
{
    const size_t extra = offsetof(struct stackless_client, co.conn);
    struct co_loop *loop = co_loop_new(server, server->process, extra);
    struct task acceptor = {0};
    bool ready =
        loop && co_accept_start(loop, &acceptor, stackless_accept_clients);
    if (ready)
        stats_add(&server->stats->workers_started, 1);
    while (ready && !co_loop_done(loop)) {
        scheduler_wait(&loop->scheduler, server); /* who can go on? */
        scheduler_expire(&loop->scheduler); /* who has waited long enough? */
        scheduler_resume(&loop->scheduler); /* each until it waits again */
        co_loop_end_round(loop);
    }
    if (loop)
        co_loop_free(loop);
    return ready ? 0 : -1;
}

const struct model_code stackless_model = {.run = stackless_run};
