/* epoll-pool.c -- one epoll, N threads that wait on it; each event goes to one.
 *
 *     each thread: epoll_wait -> accept / read -> answer -> arm again -> wait
 *
 * Good: whichever thread is free takes the next event, of any client: no client
 *       waits behind a busy worker while another worker idles.
 * Bad:  EPOLLONESHOT disarms a descriptor with each event, so that no two
 *       threads serve one client at a time; arming it again is a system call
 *       per request. A connection moves from core to core.
 * Look: few events are taken at a time: what one thread has taken no other can
 *       help with. A client that sleeps stays with its thread, unarmed.
 *       Connections to Redis belong to a thread too, in an epoll set of its
 *       own: once it has any, the thread waits on that set, which holds the
 *       shared one; then an event wakes every such thread, and one finds it.
 * Needs: Linux 2.6.2 (EPOLLONESHOT); a descriptor a worker. Linux lets 500 sets
 *       hold another (path_limits in fs/eventpoll.c), so 500 workers at most.
 * Try:  strace -f -c build/server epoll-pool: an epoll_ctl for each request.
 */
#include <err.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "blocking/threads.h"
#include "blocking/workers.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/epoll_ns.h"
#include "reactor/reactor.h"
#include "server/net.h"

enum { EVENTS = 8, SWEEP_NS = 20000000 };

struct pool {
    int epoll_fd;
    struct client_list clients;
    _Atomic unsigned untold;   /* workers that have not seen the stop */
    _Atomic uint64_t swept_ns; /* when client_list_cut() was last called */
    unsigned made;
    struct loop *loops[]; /* of each worker */
};

struct pool_worker {
    struct pool *pool;
    int own_fd;           /* connections to Redis, and pool->epoll_fd */
    unsigned redis_conns; /* how many such connections there are */
    int64_t sweep_ns;     /* after which it calls client_list_cut(), if
                           * nobody else has */
};

static bool epoll_pool_control(struct loop *loop, int operation,
                               struct source *source)
{
    const struct pool_worker *self = loop->state;
    bool redis = source->kind == SOURCE_REDIS;
    bool all = redis || source->kind == SOURCE_STOP;
    struct epoll_event event = {.events = source->interest |
                                          (all ? 0u : EPOLLONESHOT),
                                .data.ptr = source};
    int epoll_fd = redis ? self->own_fd : self->pool->epoll_fd;
    int fd = source->fd;
    source_release(source);
    return epoll_ctl(epoll_fd, operation, fd, &event) == 0;
}

/* Arms it, from which moment it may be another thread's, or freed by it. */
static void epoll_pool_change(struct loop *loop, struct source *source)
{
    if (!epoll_pool_control(loop, EPOLL_CTL_MOD, source))
        err(1, "epoll_ctl EPOLL_CTL_MOD");
}

static bool epoll_pool_add(struct loop *loop, struct source *source)
{
    struct pool_worker *self = loop->state;
    bool redis = source->kind == SOURCE_REDIS;
    bool added = epoll_pool_control(loop, EPOLL_CTL_ADD, source);
    self->redis_conns += redis && added;
    return added;
}

static void epoll_pool_drop(struct loop *loop, struct source *source)
{
    struct pool_worker *self = loop->state;
    self->redis_conns -= source->kind == SOURCE_REDIS;
    epoll_pool_control(loop, EPOLL_CTL_DEL, source);
}

static const struct poller epoll_pool_poller = {
    .add = epoll_pool_add,
    .change = epoll_pool_change,
    .drop = epoll_pool_drop,
};

/* With --timeout-…, worker 0 looks at all clients every SWEEP_NS; while it is
 * busy, worker 1 every 2 SWEEP_NS, and so on: hundreds of workers that wait
 * need not all wake every SWEEP_NS. */
static int64_t epoll_pool_timeout_ns(struct loop *loop)
{
    const struct pool_worker *self = loop->state;
    int64_t timeout_ns = reactor_timeout_ns(loop), sweep_ns = self->sweep_ns;
    if (!loop->timed)
        return timeout_ns;
    uint64_t now = clock_now_ns();
    if (now >= self->pool->swept_ns + (uint64_t)sweep_ns) {
        self->pool->swept_ns = now;
        client_list_cut(loop->clients, now);
    }
    return timeout_ns < 0 || timeout_ns > sweep_ns ? sweep_ns : timeout_ns;
}

/* Waits on the shared set; or, with connections to Redis, on a set of one's own
 * which holds the shared one: an entry without a source. `events` has room for
 * 2 * EVENTS. */
static int epoll_pool_wait(struct loop *loop, struct epoll_event *events)
{
    const struct pool_worker *self = loop->state;
    int64_t timeout_ns = epoll_pool_timeout_ns(loop);
    int shared_fd = self->pool->epoll_fd;
    if (self->redis_conns == 0)
        return epoll_wait_ns(shared_fd, events, EVENTS, timeout_ns);
    int n = epoll_wait_ns(self->own_fd, events, EVENTS, timeout_ns);
    for (int i = 0; i < n; i++)
        if (!events[i].data.ptr) {
            events[i] = events[--n];
            int more = epoll_wait_ns(shared_fd, events + n, EVENTS, 0);
            return more > 0 ? n + more : n;
        }
    return n;
}

/* The stop stays ready until the last worker has seen it. */
static void epoll_pool_stop(struct loop *loop, struct source *stop)
{
    const struct pool_worker *self = loop->state;
    bool first = !loop->ending;
    loop->ending = true;
    if (first && --self->pool->untold == 0)
        epoll_pool_control(loop, EPOLL_CTL_DEL, stop);
}

static void epoll_pool_accept(struct loop *loop, struct source *listener)
{
    accept_clients(loop, listener);
    if (listener->fd >= 0)
        epoll_pool_change(loop, listener);
}

/* The client is this thread's until it is armed again. */
static void epoll_pool_client(struct loop *loop, struct source *source,
                              unsigned ready)
{
    struct client *client = client_of(source);
    uint64_t now = loop->timed ? clock_now_ns() : 0;
    uint64_t limit = atomic_exchange(&client->limit, LIMIT_NONE);
    source->interest = 0;
    conn_move(&client->conn, &loop->worker);
    if (limit == LIMIT_CUT)
        client_advance(loop, client, conn_timed_out(&client->conn));
    else if (conn_deadline_ns(&client->conn) <= now)
        client_timer(loop, client, now);
    else
        serve_client(loop, source, ready);
}

static void epoll_pool_serve(struct loop *loop)
{
    struct epoll_event events[2 * EVENTS];
    stats_add(&loop->worker.server->stats->workers_started, 1);
    while (!reactor_done(loop)) {
        int n = epoll_pool_wait(loop, events);
        if (n < 0)
            net_wait_failed(loop->worker.server, "epoll_wait");
        for (int i = 0; i < n; i++) {
            struct source *source = source_acquire(events[i].data.ptr);
            unsigned ready = ready_of(events[i].events);
            if (source->kind == SOURCE_LISTENER)
                epoll_pool_accept(loop, source);
            else if (source->kind == SOURCE_CLIENT)
                epoll_pool_client(loop, source, ready);
            else if (source->kind == SOURCE_STOP)
                epoll_pool_stop(loop, source);
            else /* Redis */
                serve_other(loop, source);
        }
        run_timers(loop);
        end_round(loop);
    }
}

/* --- the pool --------------------------------------------------------- */

static bool pool_worker_open(struct pool_worker *self)
{
    struct epoll_event event = {.events = EPOLLIN};
    self->own_fd = epoll_create1(EPOLL_CLOEXEC);
    return self->own_fd >= 0 && epoll_ctl(self->own_fd, EPOLL_CTL_ADD,
                                          self->pool->epoll_fd, &event) == 0;
}

static void pool_worker_free(struct loop *loop)
{
    struct pool_worker *self = loop->state;
    if (self->own_fd >= 0)
        close(self->own_fd);
    free(self);
    loop_free(loop);
}

static struct loop *pool_worker_new(struct server *server, struct pool *pool,
                                    unsigned worker)
{
    struct pool_worker *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->pool = pool;
    self->sweep_ns = (int64_t)SWEEP_NS * (worker + 1);
    struct loop *loop =
        loop_new(server, model_slot(server, worker), &epoll_pool_poller, self);
    if (!loop) {
        free(self);
        return NULL;
    }
    loop->clients = &pool->clients;
    loop->shared = true;
    if (pool_worker_open(self))
        return loop;
    pool_worker_free(loop);
    return NULL;
}

static bool epoll_pool_work(struct server *server, unsigned worker,
                            void *shared)
{
    const struct pool *pool = shared;
    workers_take_turns(server);
    epoll_pool_serve(pool->loops[worker]);
    return true;
}

static void pool_free(struct pool *pool)
{
    for (unsigned i = 0; i < pool->made; i++)
        loop_end(pool->loops[i]);
    for (unsigned i = 0; i < pool->made; i++)
        pool_worker_free(pool->loops[i]);
    if (pool->epoll_fd >= 0)
        close(pool->epoll_fd);
    client_list_destroy(&pool->clients);
    free(pool);
}

/* All loops before anybody is served, while there are descriptors for them. */
static void pool_make(struct server *server, struct pool *pool, unsigned end)
{
    struct loop *loop;
    while (pool->epoll_fd >= 0 && pool->made < end &&
           (loop = pool_worker_new(server, pool, pool->made)))
        pool->loops[pool->made++] = loop;
    if (pool->made < end)
        workers_warn(server, pool->made, "epoll_create1 or epoll_ctl");
}

static struct pool *pool_new(const struct server *server)
{
    unsigned workers = model_workers(server);
    struct pool *pool =
        calloc(1, sizeof *pool + workers * sizeof pool->loops[0]);
    if (!pool) {
        warn("calloc");
        return NULL;
    }
    client_list_init(&pool->clients);
    pool->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return pool;
}

/* Worker 0 is the calling thread, and has the listening socket watched; before
 * the others are made, for the kernel counts the sets that hold the shared one
 * once there is something in it. */
static int epoll_pool_run(struct server *server)
{
    struct pool *pool = pool_new(server);
    if (!pool)
        return -1;
    pool_make(server, pool, 1);
    bool listens = pool->made > 0 && loop_listen(pool->loops[0]);
    if (listens) {
        pool_make(server, pool, model_workers(server));
        unsigned made = pool->made;
        pool->untold = made;
        unsigned end = workers_start(server, 1, made, epoll_pool_work, pool);
        pool->untold -= made - end;
        epoll_pool_work(server, 0, pool);
    }
    if (threads_wait())
        pool_free(pool);
    return listens ? 0 : -1;
}

const struct model_code epoll_pool_model = {.run = epoll_pool_run};
