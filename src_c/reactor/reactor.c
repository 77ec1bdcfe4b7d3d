/* reactor.c -- see reactor.h.
 *
 * The rule that makes one piece of code serve level- and edge-triggered
 * pollers: each source carries what is believed to be ready. An event sets
 * it; a call that finds nothing more clears it; nothing is tried without it.
 */
#include "reactor.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "handover.h"
#include "reactor_redis.h"
#include "server/net.h"
#include "common/owner.h"
#include "server/stop.h"

enum {
    ACCEPTS_A_ROUND = 64,   /* new clients must not starve the old ones */
    READS_A_ROUND = 4,      /* nor one client the others, ... */
    SENDS_IN_A_ROW = 8,     /* ... even if all it has us do is send */
};

static const size_t client_extra = offsetof(struct client, conn);

void loop_watch(struct loop *loop, struct source *source, uint8_t interest)
{
    if (loop->poller->edge || source->interest == interest)
        return;
    source->interest = interest;
    loop->poller->change(loop, source);
}

void loop_drop(struct loop *loop, struct source *source)
{
    if (source->fd < 0)
        return;
    loop->poller->drop(loop, source);
    source->kind = SOURCE_CLOSED;
    source->fd = -1;
}

/* --- the clients ------------------------------------------------------ */

void roster_init(struct roster *roster)
{
    pthread_mutex_init(&roster->lock, NULL);
    list_init(&roster->clients);
}

void roster_destroy(struct roster *roster)
{
    pthread_mutex_destroy(&roster->lock);
}

static void enlist(struct loop *loop, struct client *client)
{
    struct roster *roster = loop->roster;
    pthread_mutex_lock(&roster->lock);
    list_append(&roster->clients, &client->open);
    pthread_mutex_unlock(&roster->lock);
}

static void unlist(struct loop *loop, struct client *client)
{
    struct roster *roster = loop->roster;
    pthread_mutex_lock(&roster->lock);
    list_leave(&client->open);
    pthread_mutex_unlock(&roster->lock);
}

static bool any_client(const struct loop *loop)
{
    struct roster *roster = loop->roster;
    pthread_mutex_lock(&roster->lock);
    bool any = !list_empty(&roster->clients);
    pthread_mutex_unlock(&roster->lock);
    return any;
}

/* --- one client ------------------------------------------------------- */

static void client_close(struct loop *loop, struct client *client)
{
    timers_cancel(&loop->timers, &client->timer);
    redis_async_cancel(&loop->redis, &client->redis);
    loop_drop(loop, &client->source);
    conn_close(&client->conn);
    unlist(loop, client);
    loop->gone++;
    client->source.next = loop->closed;
    loop->closed = &client->source;
}

static enum want client_receive(struct loop *loop, struct client *client)
{
    struct source *source = &client->source;
    ssize_t n = recv(source->fd, loop->in, sizeof loop->in, 0);
    if (n < 0 && errno == EINTR)
        return WANT_READ;
    /* A full buffer: there may be more, and asking again costs less than
     * another turn of the loop. */
    bool drained = n <= 0 || (n < (ssize_t)sizeof loop->in &&
                              !(source->ready & READY_END));
    if (drained)
        source->ready &= (uint8_t)~READY_IN;
    if (n < 0)
        source->ready &= (uint8_t)~READY_END; /* not yet, or it would be 0 */
    if (n < 0)
        return errno == EAGAIN ? WANT_READ : conn_failed(&client->conn, errno);
    return conn_received(&client->conn, loop->in, (size_t)n);
}

static enum want client_send(struct client *client)
{
    struct span out = conn_unsent(&client->conn);
    ssize_t n = send(client->source.fd, out.bytes, out.length, MSG_NOSIGNAL);
    if (n >= 0)
        return conn_sent(&client->conn, (size_t)n);
    if (errno == EAGAIN)
        client->source.ready &= (uint8_t)~READY_OUT;
    else if (errno != EINTR)
        return conn_failed(&client->conn, errno);
    return WANT_WRITE;
}

/* Others are served before it goes on: its answer must not lie in our receive
 * buffer meanwhile. False: memory is out, and it is closed. */
static bool client_step_aside(struct loop *loop, struct client *client)
{
    if (conn_stash(&client->conn))
        return true;
    conn_failed(&client->conn, ENOMEM);
    client_close(loop, client);
    return false;
}

static void client_await(struct loop *loop, struct client *client,
                         uint8_t ready)
{
    if (client_step_aside(loop, client))
        loop_watch(loop, &client->source, ready);
}

static void client_sleep(struct loop *loop, struct client *client)
{
    if (timers_set(&loop->timers, &client->timer, client->conn.wake_ns))
        return;
    conn_failed(&client->conn, ENOMEM);
    client_close(loop, client);
}

static void client_ask(struct loop *loop, struct client *client)
{
    uint64_t deadline_ns = clock_now_ns() + REDIS_TIMEOUT_NS;
    if (timers_set(&loop->timers, &client->timer, deadline_ns)) {
        redis_async_begin(&loop->redis, &client->redis);
        return;
    }
    conn_failed(&client->conn, ENOMEM);
    client_close(loop, client);
}

/* It has had its share of this round and can go on at once. */
static void client_postpone(struct loop *loop, struct client *client)
{
    if (!client_step_aside(loop, client))
        return;
    client->source.postponed = true;
    client->source.next = loop->unfinished;
    loop->unfinished = &client->source;
}

/* Fulfils what is wanted for as long as that needs no waiting. Who is answered
 * read by read is postponed when it is to be read from, with nothing to send
 * that would have to be copied; a count of all sends would change that. */
void loop_pursue(struct loop *loop, struct client *client, enum want want)
{
    for (int reads = 0, sends = 0;;) {
        switch (want) {
        case WANT_READ:
            if (!(client->source.ready & READY_IN))
                return client_await(loop, client, READY_IN);
            if (reads++ == READS_A_ROUND)
                return client_postpone(loop, client);
            sends = 0;
            want = client_receive(loop, client);
            break;
        case WANT_WRITE:
            if (!(client->source.ready & READY_OUT))
                return client_await(loop, client, READY_OUT);
            if (sends++ == SENDS_IN_A_ROW)
                return client_postpone(loop, client);
            want = client_send(client);
            break;
        case WANT_SLEEP:
            return client_sleep(loop, client);
        case WANT_ASK:
            return client_ask(loop, client);
        case WANT_CLOSE:
            return client_close(loop, client);
        }
    }
}

static void handle_client(struct loop *loop, struct client *client,
                          unsigned ready)
{
    enum want want = (enum want)client->conn.want;
    bool waiting = want == WANT_SLEEP || want == WANT_ASK;
    client->source.ready |= (uint8_t)ready;
    if (!loop->poller->edge) /* a full socket buffer tells by EAGAIN */
        client->source.ready |= READY_OUT;
    if (client->source.postponed)
        return; /* its turn comes at the end of this round */
    if (waiting && ready & READY_HANGUP) {
        conn_failed(&client->conn, ECONNRESET);
        client_close(loop, client);
    } else if (waiting) {
        /* It speaks out of turn. Few do, so only now is its interest dropped:
         * for epoll that is a system call. */
        loop_watch(loop, &client->source, 0);
    } else {
        loop_pursue(loop, client, want);
    }
}

void loop_adopt(struct loop *loop, int fd, const struct sockaddr_in6 *peer)
{
    struct server *server = loop->worker.server;
    struct conn *conn = NULL;
    if (loop->poller->fits && !loop->poller->fits(fd))
        net_refuse(server, fd, REFUSED_FDSETSIZE);
    else
        conn = conn_open(&loop->worker, fd, peer, client_extra);
    if (!conn) {
        loop->gone++;
        return;
    }
    struct client *client = OWNER_OF(conn, struct client, conn);
    client->source = (struct source){
        .fd = fd, .kind = SOURCE_CLIENT, .interest = READY_IN};
    redis_request_init(&client->redis, conn);
    enlist(loop, client);
    if (!loop->poller->add(loop, &client->source)) {
        conn_failed(conn, errno);
        client->source.fd = -1; /* it is not watched */
        client_close(loop, client);
    }
}

/* --- the loop --------------------------------------------------------- */

static void handle_accept(struct loop *loop, struct source *listener)
{
    struct server *server = loop->worker.server;
    for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
        struct sockaddr_in6 peer;
        int fd = net_accept(server, &peer, SOCK_NONBLOCK);
        if (fd == ACCEPT_STOPPED)
            loop_drop(loop, listener);
        if (fd < 0)
            return;
        loop_adopt(loop, fd, &peer);
    }
}

static void handle_handover(struct loop *loop)
{
    struct arrival came[ACCEPTS_A_ROUND];
    int n = handover_take(loop->handover.fd, came, ACCEPTS_A_ROUND);
    if (n == 0)
        loop_drop(loop, &loop->handover);
    for (int i = 0; i < n; i++)
        loop_adopt(loop, came[i].fd, &came[i].peer);
}

void loop_ready(struct loop *loop, struct source *source, unsigned ready)
{
    switch ((enum source_kind)source->kind) {
    case SOURCE_LISTENER:
        return handle_accept(loop, source);
    case SOURCE_STOP:
        return loop_drop(loop, source);
    case SOURCE_CLIENT:
        return handle_client(loop, (struct client *)source, ready);
    case SOURCE_HANDOVER:
        return handle_handover(loop);
    case SOURCE_REDIS:
        return reactor_redis_ready(loop, source);
    case SOURCE_CLOSED:
        return;
    }
}

static void run_timers(struct loop *loop)
{
    if (loop->timers.count == 0)
        return;
    uint64_t now = clock_now_ns();
    for (struct timer *t; (t = timers_due(&loop->timers, now));) {
        struct client *client = OWNER_OF(t, struct client, timer);
        if (client->conn.want == WANT_ASK)
            redis_async_timed_out(&loop->redis, &client->redis);
        else
            loop_pursue(loop, client, conn_woken(&client->conn));
    }
}

static void run_unfinished(struct loop *loop)
{
    struct source *list = loop->unfinished;
    loop->unfinished = NULL;
    while (list) {
        struct source *source = list;
        list = source->next;
        source->postponed = false;
        loop_ready(loop, source, 0);
    }
}

static void free_closed(struct loop *loop)
{
    while (loop->closed) {
        struct client *client = (struct client *)loop->closed;
        loop->closed = client->source.next;
        conn_free(&client->conn, client_extra);
    }
}

static int64_t timeout_ns(const struct loop *loop, bool busy)
{
    if (busy || loop->unfinished)
        return 0;
    int64_t left = loop->timers.count
                       ? timers_left_ns(&loop->timers, clock_now_ns())
                       : -1;
    if (stop_requested() && (left < 0 || left > STOP_POLL_NS))
        return STOP_POLL_NS;
    return left;
}

static bool finished(const struct loop *loop)
{
    bool closed = loop->fed ? loop->handover.fd < 0 : stop_requested();
    return closed && (stop_overdue() || !any_client(loop));
}

static bool add_source(struct loop *loop, struct source *source, int fd,
                       enum source_kind kind)
{
    *source = (struct source){
        .fd = fd, .kind = (uint8_t)kind, .interest = READY_IN};
    if (loop->poller->fits && !loop->poller->fits(fd))
        errno = EMFILE;
    else if (loop->poller->add(loop, source))
        return true;
    source->fd = -1;
    net_warn("watch the listening socket");
    return false;
}

bool loop_listen(struct loop *loop)
{
    int listen_fd = loop->worker.server->listen_fd;
    if (fcntl(listen_fd, F_SETFL, O_NONBLOCK) < 0) {
        net_warn("fcntl O_NONBLOCK");
        return false;
    }
    return add_source(loop, &loop->stop, stop_fd(), SOURCE_STOP) &&
           add_source(loop, &loop->listener, listen_fd, SOURCE_LISTENER);
}

void loop_serve(struct loop *loop)
{
    stats_add(&loop->worker.server->stats->workers_started, 1);
    for (bool busy = false; !finished(loop);) {
        loop->poller->wait(loop, timeout_ns(loop, busy));
        run_timers(loop);
        run_unfinished(loop);
        busy = redis_async_round(&loop->redis);
        free_closed(loop);
    }
}

void loop_end(struct loop *loop)
{
    struct node *clients = &loop->roster->clients;
    for (struct node *at = clients->after, *next; at != clients; at = next) {
        struct client *client = OWNER_OF(at, struct client, open);
        next = at->after;
        if (client->conn.worker == &loop->worker)
            client_close(loop, client);
    }
    reactor_redis_close(loop);
    free_closed(loop);
}

int loop_run(struct loop *loop)
{
    if (!loop_listen(loop))
        return -1;
    loop_serve(loop);
    loop_end(loop);
    return 0;
}

int loop_run_fed(struct loop *loop, int take_fd)
{
    loop->fed = true;
    bool added = add_source(loop, &loop->handover, take_fd, SOURCE_HANDOVER);
    if (added) {
        loop_serve(loop);
        loop_end(loop);
    }
    close(take_fd);
    return added ? 0 : -1;
}

struct loop *loop_new(struct server *server, unsigned index,
                      const struct poller *poller, void *state)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    loop->worker = (struct worker){server, index, {0}};
    loop->poller = poller;
    loop->state = state;
    loop->listener.fd = loop->stop.fd = loop->handover.fd = -1;
    loop->roster = &loop->own;
    roster_init(&loop->own);
    reactor_redis_init(loop);
    return loop;
}

void loop_free(struct loop *loop)
{
    timers_free(&loop->timers);
    send_buffers_free(&loop->worker.buffers);
    roster_destroy(&loop->own);
    free(loop);
}

int loop_run_alone(struct server *server, const struct poller *poller,
                   void *state)
{
    struct loop *loop = loop_new(server, server->process, poller, state);
    if (!loop) {
        net_warn("calloc");
        return -1;
    }
    int result = loop_run(loop);
    loop_free(loop);
    return result;
}
