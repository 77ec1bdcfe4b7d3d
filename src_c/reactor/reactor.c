/* reactor.c -- see reactor.h; a single client is the matter of client.c.
 *
 *     a model's loop -> accept_clients | serve_client | serve_other
 *                    -> run_timers -> end_round: deferred clients, Redis, frees
 *
 * Called by the models of the readiness family, each from the thread that runs
 * the loop: nothing here is locked but the list of clients, which epoll-pool's
 * loops share. Memory of a client that was closed is kept to the end of the
 * round, because an event that was fetched in the same wait may point at it.
 */
#include "reactor.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "handover.h"
#include "reactor_redis.h"
#include "server/net.h"
#include "server/stop.h"

enum { ACCEPTS_A_ROUND = 64 }; /* new clients must not starve the old ones */

/* --- a round ---------------------------------------------------------- */

/* Asked only once a stop began; epoll-workers' acceptor may be adding one. */
static bool any_client(const struct loop *loop)
{
    struct client_list *list = loop->clients;
    pthread_mutex_lock(&list->lock);
    bool any = !list_empty(&list->clients);
    pthread_mutex_unlock(&list->lock);
    return any;
}

/* No new connection will come. */
static bool ending(const struct loop *loop)
{
    return loop->fed ? loop->ending : stop_requested();
}

bool reactor_done(const struct loop *loop)
{
    return ending(loop) && (stop_overdue() || !any_client(loop));
}

int64_t reactor_timeout_ns(const struct loop *loop)
{
    if (loop->busy || loop->worker.server->options.busy_wait)
        return 0;
    return timers_timeout_ns(&loop->timers, ending(loop));
}

void accept_clients(struct loop *loop, struct source *listener)
{
    struct server *server = loop->worker.server;
    send_answers(loop);
    for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
        struct sockaddr_in6 peer;
        int fd = net_accept(server, &peer, SOCK_NONBLOCK);
        if (fd == ACCEPT_STOPPED)
            loop_drop(loop, listener);
        if (fd < 0)
            return;
        client_add(loop, fd, &peer);
    }
}

/* poll-groups: the end of the pipe says that the acceptor has ended. */
static void take_handover(struct loop *loop, struct source *source)
{
    struct arrival came[ACCEPTS_A_ROUND];
    int n = handover_take(source->fd, came, ACCEPTS_A_ROUND);
    if (n == 0) {
        loop->ending = true;
        loop_drop(loop, source);
    }
    for (int i = 0; i < n; i++)
        client_add(loop, came[i].fd, &came[i].peer);
}

void serve_other(struct loop *loop, struct source *source)
{
    send_answers(loop);
    switch ((enum source_kind)source->kind) {
    case SOURCE_STOP: loop->ending = true; return loop_drop(loop, source);
    case SOURCE_HANDOVER: return take_handover(loop, source);
    case SOURCE_REDIS: return reactor_redis_ready(loop, source);
    case SOURCE_LISTENER:
    case SOURCE_CLIENT:
    case SOURCE_JOBS:
    case SOURCE_CLOSED: /* by an earlier event of this round */ return;
    }
}

void run_timers(struct loop *loop)
{
    if (loop->timers.count == 0)
        return;
    uint64_t now = clock_now_ns();
    for (struct timer *t; (t = timers_due(&loop->timers, now));)
        client_timer(loop, OWNER_OF(t, struct client, timer), now);
}

/* Clients that had their quota: their sockets are ready still, and an
 * edge-triggered poller would not tell again. The list is taken off first: a
 * client that is deferred once more waits for the next round. */
static void run_deferred(struct loop *loop)
{
    struct source *list = loop->deferred;
    loop->deferred = NULL;
    while (list) {
        struct source *source = list;
        list = source->next;
        source->deferred = false;
        if (source->kind == SOURCE_CLIENT)
            serve_client(loop, source, 0);
    }
}

static void free_closed(struct loop *loop)
{
    while (loop->closed) {
        struct source *source = loop->closed;
        loop->closed = source->next;
        client_free(source);
    }
}

void end_round(struct loop *loop)
{
    run_deferred(loop);
    send_answers(loop);
    bool asks = redis_async_round(&loop->redis);
    free_closed(loop);
    loop->busy = asks || loop->deferred;
}

/* --- set-up and end --------------------------------------------------- */

struct loop *loop_new(struct server *server, unsigned index,
                      const struct poller *poller, void *state)
{
    struct loop *loop = aligned_alloc(CACHE_LINE, sizeof *loop);
    if (!loop) {
        warn("aligned_alloc");
        return NULL;
    }
    memset(loop, 0, offsetof(struct loop, in));
    loop->worker = (struct worker){server, index, {0}};
    loop->poller = poller;
    loop->state = state;
    loop->timed = server->options.timed;
    loop->clients = &loop->own;
    client_list_init(&loop->own);
    reactor_redis_init(loop);
    return loop;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    timers_free(&loop->timers);
    send_buffers_free(&loop->worker.buffers);
    client_list_destroy(&loop->own);
    free(loop);
}

bool loop_add(struct loop *loop, struct source *source, int fd,
              enum source_kind kind)
{
    static const char *const names[] = {
        [SOURCE_LISTENER] = "the listening socket",
        [SOURCE_STOP] = "for a stop",
        [SOURCE_HANDOVER] = "for connections of another thread",
        [SOURCE_JOBS] = "for requests that are done",
    };
    *source =
        (struct source){.fd = fd, .kind = (uint8_t)kind, .interest = READY_IN};
    if (loop->poller->fits && !loop->poller->fits(fd))
        errno = EMFILE;
    else if (loop->poller->add(loop, source))
        return true;
    source->fd = -1;
    warn("watch %s", names[kind]);
    return false;
}

bool loop_listen(struct loop *loop)
{
    int listen_fd = loop->worker.server->listen_fd;
    if (fcntl(listen_fd, F_SETFL, O_NONBLOCK) < 0) {
        warn("fcntl O_NONBLOCK");
        return false;
    }
    return loop_add(loop, &loop->stop, stop_fd(), SOURCE_STOP) &&
           loop_add(loop, &loop->listener, listen_fd, SOURCE_LISTENER);
}

void loop_end(struct loop *loop)
{
    struct node *clients = &loop->clients->clients;
    for (struct node *at = clients->after, *next; at != clients; at = next) {
        struct client *client = OWNER_OF(at, struct client, open);
        next = at->after;
        if (client->conn.worker == &loop->worker)
            client_close(loop, client);
    }
    redis_pool_close_all(&loop->redis.pool);
    free_closed(loop);
}

int loop_run(struct server *server, const struct poller *poller, void *state,
             void (*serve)(struct loop *))
{
    struct loop *loop = loop_new(server, model_slot(server, 0), poller, state);
    bool listens = loop && loop_listen(loop);
    if (listens) {
        stats_add(&server->stats->workers_started, 1);
        serve(loop);
        loop_end(loop);
    }
    loop_free(loop);
    return listens ? 0 : -1;
}
