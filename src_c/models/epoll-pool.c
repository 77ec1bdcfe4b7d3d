/* epoll-pool.c -- one epoll, N threads that wait on it; each event goes to one.
 *
 *     each thread: epoll_wait -> accept / read -> answer -> arm again -> wait
 *
 * Good: whoever is free takes the next event, from whichever client: no client
 *       waits behind a busy worker while another worker idles.
 * Bad:  EPOLLONESHOT (Linux 2.6.2) disarms a descriptor with each event, so
 *       that no two threads serve one client at a time; arming it again is a
 *       system call per request. A connection wanders from core to core.
 * Look: few events are taken at a time: what one thread has taken no other can
 *       help with. A client that sleeps stays with its thread, unarmed. Links
 *       to Redis belong to a thread too, in an epoll set of its own: once it
 *       has any, the thread waits on that set, which holds the shared one;
 *       then an event wakes every such thread, and one finds it.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "blocking/workers.h"
#include "common/epoll_ns.h"
#include "server/net.h"
#include "reactor/reactor.h"
#include "blocking/threads.h"

enum { EVENTS = 8 };

struct pool {
    int epoll_fd;
    struct roster roster;
    _Atomic unsigned untold;    /* workers that have not seen the stop */
    unsigned made;
    struct loop *loops[];       /* of each worker */
};

struct state {
    struct pool *pool;
    int own_fd;                 /* holds links to Redis, and pool->epoll_fd */
    unsigned links;
    bool told;
};

/* ThreadSanitizer believes that a thread which armed a descriptor still uses
 * it when the next thread closes it. */
#ifdef __SANITIZE_THREAD__
#define epoll_ctl(...) ((int)syscall(SYS_epoll_ctl, __VA_ARGS__))
#endif

/* What the thread before us wrote into a source, or what hangs on it, is seen
 * by who takes it next: the kernel sees to that, but C has to be told. */
static void pass_on(struct source *source)
{
    __atomic_store_n(&source->slot, 0, __ATOMIC_RELEASE);
}

static void take_up(struct source *source)
{
    __atomic_load_n(&source->slot, __ATOMIC_ACQUIRE);
}

static bool control(struct loop *loop, int operation, struct source *source)
{
    const struct state *state = loop->state;
    bool link = source->kind == SOURCE_REDIS;
    bool stop = source->kind == SOURCE_STOP;
    struct epoll_event event = {.data.ptr = source};
    event.events = (source->interest & READY_IN ? EPOLLIN : 0u) |
                   (source->interest & READY_OUT ? EPOLLOUT : 0u) |
                   (link || stop ? 0u : EPOLLONESHOT);
    int epoll_fd = link ? state->own_fd : state->pool->epoll_fd;
    int fd = source->fd;
    pass_on(source);
    return epoll_ctl(epoll_fd, operation, fd, &event) == 0;
}

static void change(struct loop *loop, struct source *source)
{
    if (!control(loop, EPOLL_CTL_MOD, source))
        net_die("epoll_ctl EPOLL_CTL_MOD");
}

static bool add(struct loop *loop, struct source *source)
{
    struct state *state = loop->state;
    bool link = source->kind == SOURCE_REDIS;
    bool added = control(loop, EPOLL_CTL_ADD, source);
    state->links += link && added;
    return added;
}

static void drop(struct loop *loop, struct source *source)
{
    struct state *state = loop->state;
    state->links -= source->kind == SOURCE_REDIS;
    control(loop, EPOLL_CTL_DEL, source);
}

static unsigned ready_of(unsigned events)
{
    return (events & EPOLLIN ? READY_IN : 0u) |
           (events & EPOLLOUT ? READY_OUT : 0u) |
           (events & (EPOLLERR | EPOLLHUP)
                ? READY_IN | READY_OUT | READY_HANGUP : 0u);
}

/* The stop stays ready until the last worker has seen it. */
static void see_stop(struct loop *loop, struct source *source)
{
    struct state *state = loop->state;
    if (!state->told)
        state->pool->untold--;
    state->told = true;
    if (state->pool->untold == 0)
        control(loop, EPOLL_CTL_DEL, source);
}

/* A client may be another thread's, or be freed, as soon as it is armed. */
static void handle(struct loop *loop, const struct epoll_event *event)
{
    struct source *source = event->data.ptr;
    take_up(source);
    switch (source->kind) {
    case SOURCE_STOP:
        return see_stop(loop, source);
    case SOURCE_LISTENER:
        loop_ready(loop, source, READY_IN);
        if (source->fd >= 0)
            change(loop, source);
        return;
    case SOURCE_CLIENT:
        source->interest = 0;
        conn_move(&((struct client *)source)->conn, &loop->worker);
    }
    loop_ready(loop, source, ready_of(event->events));
}

static void wait_on(struct loop *loop, int epoll_fd, int64_t timeout_ns)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait_ns(epoll_fd, events, EVENTS, timeout_ns);
    if (n < 0 && errno != EINTR)
        net_die("epoll_wait");
    const struct state *state = loop->state;
    for (int i = 0; i < n; i++)
        if (events[i].data.ptr)
            handle(loop, &events[i]);
        else
            wait_on(loop, state->pool->epoll_fd, 0);
}

static void wait(struct loop *loop, int64_t timeout_ns)
{
    const struct state *state = loop->state;
    wait_on(loop, state->links > 0 ? state->own_fd : state->pool->epoll_fd,
            timeout_ns);
}

static const struct poller epoll_pool_poller = {
    .add = add, .change = change, .drop = drop, .wait = wait,
};

/* --- the pool --------------------------------------------------------- */

static bool open_own(struct state *state)
{
    struct epoll_event event = {.events = EPOLLIN};
    state->own_fd = epoll_create1(EPOLL_CLOEXEC);
    return state->own_fd >= 0 &&
           epoll_ctl(state->own_fd, EPOLL_CTL_ADD, state->pool->epoll_fd,
                     &event) == 0;
}

static void free_loop(struct loop *loop)
{
    struct state *state = loop->state;
    if (state->own_fd >= 0)
        close(state->own_fd);
    free(state);
    loop_free(loop);
}

static struct loop *make_loop(struct server *server, struct pool *pool,
                              unsigned worker)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state)
        return NULL;
    state->pool = pool;
    struct loop *loop = loop_new(server, model_slot(server, worker),
                                 &epoll_pool_poller, state);
    if (!loop) {
        free(state);
        return NULL;
    }
    loop->roster = &pool->roster;
    if (open_own(state))
        return loop;
    free_loop(loop);
    return NULL;
}

static void work(struct server *server, unsigned worker, void *shared)
{
    const struct pool *pool = shared;
    (void)server;
    loop_serve(pool->loops[worker]);
}

static void release(struct pool *pool)
{
    for (unsigned i = 0; i < pool->made; i++)
        loop_end(pool->loops[i]);
    for (unsigned i = 0; i < pool->made; i++)
        free_loop(pool->loops[i]);
    if (pool->epoll_fd >= 0)
        close(pool->epoll_fd);
    roster_destroy(&pool->roster);
    free(pool);
}

/* All loops before anybody is served, while there are descriptors for them. */
static struct pool *make(struct server *server)
{
    unsigned workers = model_workers(server);
    struct pool *pool =
        calloc(1, sizeof *pool + workers * sizeof pool->loops[0]);
    if (!pool) {
        net_warn("calloc");
        return NULL;
    }
    roster_init(&pool->roster);
    pool->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    while (pool->epoll_fd >= 0 && pool->made < workers &&
           (pool->loops[pool->made] = make_loop(server, pool, pool->made)))
        pool->made++;
    if (pool->made < workers)
        workers_warn(server, pool->made, "epoll_create1");
    return pool;
}

/* Worker 0 is the calling thread, and has the listening socket watched. */
static int epoll_pool_run(struct server *server)
{
    struct pool *pool = make(server);
    if (!pool)
        return -1;
    bool listens = pool->made > 0 && loop_listen(pool->loops[0]);
    if (listens) {
        unsigned made = pool->made;
        pool->untold = made;
        pool->untold -= made - workers_start(server, 1, made, work, pool);
        work(server, 0, pool);
    }
    if (threads_wait())
        release(pool);
    return listens ? 0 : -1;
}

const struct model_code epoll_pool_model = {.run = epoll_pool_run};
