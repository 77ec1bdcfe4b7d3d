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
 */
#include "coroutine/coroutine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "blocking/blocking.h"
#include "common/clock.h"
#include "common/epoll_ns.h"
#include "common/list.h"
#include "server/net.h"
#include "common/owner.h"
#include "server/stop.h"
#include "reactor/timers.h"
#include "redis/redis_conn.h"

enum {
    EVENTS = 512,
    TURN = 16,                /* calls in a row; then it is others' turn ... */
    SENDS_IN_A_ROW = 8,       /* ... or sends, without a receive in between */
    STOP_POLL_NS = 50000000,  /* while stopping: how often to look around */
    PARTING_NS = 200000000,   /* overdue: how long all may take to end */
};

/* What a coroutine can wait for. */
enum news {
    IN = 1, OUT = 2,          /* its own socket is ready */
    END = 4,                  /* a short read may not be all: see READY_END */
    LINK = 8,                 /* the link to Redis is ready */
    LINE = 16,                /* it was handed a link */
};

/* A coroutine and what it waits for. */
struct task {
    struct coroutine *coroutine;
    struct loop *loop;
    struct node open;         /* in loop->open, or loop->closed */
    struct node place;        /* in loop->runnable or loop->waiting, or none */
    struct timer timer;
    uint8_t news, awaited;
    uint8_t calls, sends;     /* since it was resumed; since it received */
    bool runnable;
};

struct client {
    struct task task;
    struct line *line;        /* while it asks upstream */
    struct conn conn;         /* last: its session follows */
};

struct line {
    struct link link;
    struct task *user;        /* NULL: it is free */
};

struct loop {
    struct worker worker;
    int epoll_fd;
    struct timers timers;
    struct node open, closed; /* clients; those to be freed after the round */
    struct node runnable;     /* to be resumed in this round */
    struct node waiting;      /* for a line */
    struct task acceptor;
    bool accepting;
    struct line lines[UPSTREAM_LINKS];
    char in[CONN_CHUNK], room[CONN_CHUNK];
};

static const size_t client_extra = offsetof(struct client, conn);

static struct client *client_of(struct conn *conn)
{
    return OWNER_OF(conn, struct client, conn);
}

/* --- waiting, seen from a coroutine -------------------------------------- */

static void wake(struct task *task)
{
    if (task->runnable)
        return;
    task->runnable = true;
    list_leave(&task->place); /* it may have waited for a line */
    list_append(&task->loop->runnable, &task->place);
}

static void tell(struct task *task, unsigned news)
{
    task->news |= (uint8_t)news;
    if (task->news & task->awaited)
        wake(task);
}

/* Switches away until there is news of the wanted kind, or until deadline_ns
 * (0: none). False when there is none: too late, or everyone is to leave. */
static bool await(struct task *task, unsigned wanted, uint64_t deadline_ns)
{
    struct timers *timers = &task->loop->timers;
    if (stop_overdue() ||
        (deadline_ns && !timers_set(timers, &task->timer, deadline_ns)))
        return false;
    task->awaited = (uint8_t)wanted;
    if (!(task->news & wanted))
        coroutine_yield();
    task->awaited = 0;
    timers_cancel(timers, &task->timer);
    return task->news & wanted;
}

/* Lets all others who can go on do so first. */
static void let_others(struct task *task)
{
    wake(task);
    coroutine_yield();
}

/* To be called before each call that may go on for ever without waiting. */
static void take_turns(struct task *task)
{
    if (task->calls++ >= TURN)
        let_others(task);
}

/* --- the calls that blocking.c makes ------------------------------------- */

static ssize_t co_receive(struct conn *conn, char *buffer, size_t size)
{
    struct task *task = &client_of(conn)->task;
    take_turns(task);
    task->sends = 0;
    for (;;) {
        if (!await(task, IN, 0))
            return 0; /* as if the client had left */
        ssize_t n = recv(conn->fd, buffer, size, 0);
        bool empty = n < 0 ? errno == EAGAIN
                           : n < (ssize_t)size && !(task->news & END);
        if (empty) /* now; we are told when it changes */
            task->news &= (uint8_t)~(IN | END);
        if (n >= 0 || !empty)
            return n;
    }
}

/* To be called before others are served: they use the buffer that the answer
 * lies in. False, with errno: memory is out. */
static bool step_aside(struct conn *conn)
{
    errno = ENOMEM;
    return conn_stash(conn);
}

/* Who receives in between ends its turn there, with nothing to copy aside. */
static bool take_turns_sending(struct task *task, struct conn *conn)
{
    if (task->sends++ < SENDS_IN_A_ROW)
        return true;
    if (!step_aside(conn))
        return false;
    let_others(task);
    return true;
}

static ssize_t co_send(struct conn *conn)
{
    struct task *task = &client_of(conn)->task;
    if (!take_turns_sending(task, conn))
        return -1;
    for (;;) {
        struct span out = conn_unsent(conn);
        ssize_t n = send(conn->fd, out.bytes, out.length, MSG_NOSIGNAL);
        if (n >= 0 || errno != EAGAIN)
            return n;
        task->news &= (uint8_t)~OUT;
        if (!step_aside(conn))
            return -1;
        errno = ECANCELED;
        if (!await(task, OUT, 0))
            return -1;
    }
}

static void co_sleep_until(struct conn *conn, uint64_t ns)
{
    await(&client_of(conn)->task, 0, ns);
}

/* --- asking upstream ------------------------------------------------------ */

/* A line that nobody uses: rather one that rests than one to be opened. */
static struct line *find_free(struct loop *loop)
{
    struct line *found = NULL;
    for (int i = 0; i < UPSTREAM_LINKS; i++) {
        struct line *line = &loop->lines[i];
        if (!line->user && (!found || line->link.state == LINK_RESTING))
            found = line;
    }
    return found;
}

static void hand_over(struct line *line, struct client *to)
{
    line->user = &to->task;
    to->line = line;
}

/* False: none was to be had in time. */
static bool take_line(struct client *client, uint64_t deadline_ns)
{
    struct task *task = &client->task;
    struct line *line = find_free(task->loop);
    if (line) {
        hand_over(line, client);
        return true;
    }
    task->news &= (uint8_t)~LINE;
    list_append(&task->loop->waiting, &task->place);
    bool handed = await(task, LINE, deadline_ns);
    list_leave(&task->place);
    return handed;
}

/* To the one who has waited longest, without being free in between: else who
 * just had it would take it again before the other is resumed. */
static void give_back(struct loop *loop, struct line *line)
{
    line->user = NULL;
    if (list_empty(&loop->waiting))
        return;
    struct client *next =
        OWNER_OF(loop->waiting.after, struct client, task.place);
    hand_over(line, next);
    tell(&next->task, LINE);
}

/* The event carries the line, so that a late one finds nobody, or somebody who
 * looks again. One-shot: each wait asks for the state as it is now. */
static bool await_link(struct conn *conn, int fd, bool out,
                       uint64_t deadline_ns)
{
    struct client *client = client_of(conn);
    int epoll_fd = client->task.loop->epoll_fd;
    struct epoll_event event = {
        .events = (out ? EPOLLOUT : EPOLLIN) | EPOLLONESHOT,
        .data.u64 = (uintptr_t)client->line | 1,
    };
    client->task.news &= (uint8_t)~LINK;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0 &&
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return false;
    return await(&client->task, LINK, deadline_ns);
}

static enum want co_ask(struct conn *conn)
{
    struct client *client = client_of(conn);
    uint64_t deadline_ns = clock_now_ns() + UPSTREAM_PATIENCE_NS;
    take_turns(&client->task);
    if (!take_line(client, deadline_ns)) {
        stats_error(conn->worker->server->stats, ETIMEDOUT);
        return conn_unanswered(conn);
    }
    enum want want = link_converse(&client->line->link, conn, await_link,
                                   deadline_ns);
    give_back(client->task.loop, client->line);
    return want;
}

static const struct blocking_calls coroutine_calls = {
    .receive = co_receive,
    .send = co_send,
    .sleep_until = co_sleep_until,
    .ask = co_ask,
};

/* --- the coroutines ------------------------------------------------------- */

/* What is watched: a task, or a line, which is marked by the lowest bit. */
static bool watch(struct task *task, int fd, unsigned events)
{
    struct epoll_event event = {.events = events, .data.ptr = task};
    return epoll_ctl(task->loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* A client's socket is watched for every change, once (as in epoll-et.c). */
static void serve(void *value)
{
    struct client *client = value;
    struct conn *conn = &client->conn;
    struct loop *loop = client->task.loop;
    if (watch(&client->task, conn->fd,
              EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET))
        blocking_converse(conn, loop->in, sizeof loop->in, &coroutine_calls);
    else
        conn_failed(conn, errno);
    conn_close(conn);
    list_leave(&client->task.open);
    list_append(&loop->closed, &client->task.open);
}

static void task_start(struct task *task, struct loop *loop,
                       struct coroutine *coroutine)
{
    task->loop = loop;
    task->coroutine = coroutine;
    list_init(&task->place);
    list_init(&task->open);
    wake(task);
}

static void adopt(struct loop *loop, int fd, const struct sockaddr_in6 *peer)
{
    struct coroutine *coroutine = coroutine_new(serve);
    if (!coroutine) {
        net_refuse(loop->worker.server, fd, REFUSED_MEMORY);
        return;
    }
    struct conn *conn = conn_open(&loop->worker, fd, peer, client_extra);
    if (!conn) {
        coroutine_drop(coroutine);
        return;
    }
    struct task *task = &client_of(conn)->task;
    task_start(task, loop, coroutine);
    list_append(&loop->open, &task->open);
}

/* The listening socket is watched for its level: one refused for want of
 * descriptors leaves others waiting that nobody tells us of again. */
static void accept_all(void *value)
{
    struct task *task = value;
    struct loop *loop = task->loop;
    struct server *server = loop->worker.server;
    for (;;) {
        struct sockaddr_in6 peer;
        int fd = net_accept(server, &peer, SOCK_NONBLOCK);
        if (fd == ACCEPT_STOPPED)
            break;
        if (fd >= 0)
            adopt(loop, fd, &peer);
        else
            task->news = 0;
        take_turns(task);
        await(task, IN, 0);
    }
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, server->listen_fd, NULL);
    loop->accepting = false;
}

/* --- the scheduler -------------------------------------------------------- */

static void on_event(const struct epoll_event *event)
{
    unsigned is = event->events;
    unsigned news = (is & EPOLLIN ? IN : 0u) | (is & EPOLLOUT ? OUT : 0u) |
                    (is & (EPOLLRDHUP | EPOLLPRI) ? IN | END : 0u) |
                    (is & (EPOLLERR | EPOLLHUP) ? IN | OUT : 0u);
    if (!(event->data.u64 & 1)) {
        tell(event->data.ptr, news);
        return;
    }
    struct line *line = (struct line *)(uintptr_t)(event->data.u64 - 1);
    if (line->user)
        tell(line->user, LINK);
}

static void run_timers(struct loop *loop)
{
    if (loop->timers.count == 0)
        return;
    uint64_t now = clock_now_ns();
    for (struct timer *t; (t = timers_due(&loop->timers, now));)
        wake(OWNER_OF(t, struct task, timer));
}

/* Who becomes runnable meanwhile has its turn in the next round. */
static void resume_all(struct loop *loop)
{
    struct node batch;
    list_init(&batch);
    list_move(&loop->runnable, &batch);
    while (!list_empty(&batch)) {
        struct task *task = OWNER_OF(batch.after, struct task, place);
        list_leave(&task->place);
        task->runnable = false;
        task->calls = task->sends = 0;
        coroutine_resume(task->coroutine, task);
    }
}

static void free_closed(struct loop *loop)
{
    while (!list_empty(&loop->closed)) {
        struct client *client =
            OWNER_OF(loop->closed.after, struct client, task.open);
        list_leave(&client->task.open);
        conn_free(&client->conn, client_extra);
    }
}

static int64_t timeout_ns(const struct loop *loop)
{
    if (!list_empty(&loop->runnable))
        return 0;
    int64_t left = loop->timers.count
                       ? timers_left_ns(&loop->timers, clock_now_ns())
                       : -1;
    if (stop_requested() && (left < 0 || left > STOP_POLL_NS))
        return STOP_POLL_NS;
    return left;
}

static void turn(struct loop *loop)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait_ns(loop->epoll_fd, events, EVENTS, timeout_ns(loop));
    if (n < 0 && errno != EINTR)
        net_die("epoll_wait");
    for (int i = 0; i < n; i++)
        on_event(&events[i]);
    run_timers(loop);
    resume_all(loop);
    free_closed(loop);
}

static bool anyone_left(const struct loop *loop)
{
    return loop->accepting || !list_empty(&loop->open);
}

/* A stop is overdue: whoever is woken now finds that waiting has an end. */
static void part(struct loop *loop)
{
    for (struct node *n = loop->open.after; n != &loop->open; n = n->after)
        wake(OWNER_OF(n, struct task, open));
    uint64_t until_ns = clock_now_ns() + PARTING_NS;
    while (anyone_left(loop) && clock_now_ns() < until_ns)
        turn(loop);
}

static int run(struct loop *loop)
{
    struct server *server = loop->worker.server;
    struct coroutine *acceptor = coroutine_new(accept_all);
    if (!acceptor || fcntl(server->listen_fd, F_SETFL, O_NONBLOCK) < 0) {
        net_warn(acceptor ? "fcntl O_NONBLOCK" : "mmap");
        return -1;
    }
    task_start(&loop->acceptor, loop, acceptor);
    if (!watch(&loop->acceptor, server->listen_fd, EPOLLIN)) {
        net_warn("epoll_ctl");
        return -1;
    }
    loop->accepting = true;
    stats_add(&server->stats->workers_started, 1);
    while (anyone_left(loop) && !stop_overdue())
        turn(loop);
    part(loop);
    for (int i = 0; i < UPSTREAM_LINKS; i++)
        link_close(&loop->lines[i].link);
    coroutine_trim();
    return 0;
}

static int coroutine_run(struct server *server)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop) {
        net_warn("calloc");
        return -1;
    }
    loop->worker = (struct worker){server, server->process, loop->room};
    list_init(&loop->open);
    list_init(&loop->closed);
    list_init(&loop->runnable);
    list_init(&loop->waiting);
    int result = -1;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        net_warn("epoll_create1");
    else
        result = run(loop);
    close(loop->epoll_fd);
    timers_free(&loop->timers);
    free(loop);
    return result;
}

const struct model_code coroutine_model = {.run = coroutine_run};
