/* client.c -- one client of a loop, from its first byte to its close.
 *
 *     serve_client -> client_receive -> conn_received (the workload)
 *                  -> client_queue: a short echo waits for the next clients'
 *     send_answers -> client_advance -> client_send -> conn_sent
 *                                    -> nothing is ready: wait for an event
 *
 * Partial reads and writes are the rule on a non-blocking socket. What a client
 * wants next is kept in its conn; each event goes on from there.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "reactor.h"
#include "server/net.h"

/* Quotas: one client that always has more to do must not starve the others. */
enum {
    READS_A_ROUND = 4,
    SENDS_IN_A_ROW = 8, /* without a read between: a long answer */
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

/* --- the open ones ---------------------------------------------------- */

void client_list_init(struct client_list *list)
{
    pthread_mutex_init(&list->lock, NULL);
    list_init(&list->clients);
}

void client_list_destroy(struct client_list *list)
{
    pthread_mutex_destroy(&list->lock);
}

static void client_list_add(struct client_list *list, struct client *client)
{
    pthread_mutex_lock(&list->lock);
    list_append(&list->clients, &client->open);
    pthread_mutex_unlock(&list->lock);
}

static void client_list_remove(struct client_list *list, struct client *client)
{
    pthread_mutex_lock(&list->lock);
    list_leave(&client->open);
    pthread_mutex_unlock(&list->lock);
}

/* Bit 0 of a limit: the client waits to be sent to, not for what it sends. */
enum { LIMIT_SEND = 1 };

/* Whether what the client waits for has come, or has room: in time then, if no
 * loop has taken the event yet. */
static bool client_is_ready(const struct client *client, uint64_t limit)
{
    struct pollfd ready = {.fd = client->conn.fd,
                           .events = limit & LIMIT_SEND ? POLLOUT : POLLIN};
    return poll(&ready, 1, 0) > 0;
}

/* A loop that takes an event of the client at this moment has set its limit to
 * LIMIT_NONE, or finds LIMIT_CUT there. */
void client_list_cut(struct client_list *list, uint64_t now_ns)
{
    pthread_mutex_lock(&list->lock);
    for (struct node *at = list->clients.after; at != &list->clients;
         at = at->after) {
        struct client *client = OWNER_OF(at, struct client, open);
        uint64_t limit = client->limit;
        if (limit <= now_ns && !client_is_ready(client, limit) &&
            atomic_compare_exchange_strong(&client->limit, &limit, LIMIT_CUT))
            shutdown(client->conn.fd, limit & LIMIT_SEND ? SHUT_RDWR : SHUT_RD);
    }
    pthread_mutex_unlock(&list->lock);
}

void client_add(struct loop *loop, int fd, const struct sockaddr_in6 *peer)
{
    struct server *server = loop->worker.server;
    struct conn *conn = NULL;
    if (loop->poller->fits && !loop->poller->fits(fd))
        net_refuse(server, fd, REFUSED_FDSETSIZE);
    else
        conn = conn_open(&loop->worker, fd, peer, client_extra);
    if (!conn) {
        loop->closed_count++;
        return;
    }
    struct client *client = OWNER_OF(conn, struct client, conn);
    client->source =
        (struct source){.fd = fd, .kind = SOURCE_CLIENT, .interest = READY_IN};
    if (loop->timed) /* an event at once: client_limit() */
        client->source.interest |= READY_OUT;
    client->limit = LIMIT_NONE;
    redis_request_init(&client->redis, conn);
    client_list_add(loop->clients, client);
    if (loop->poller->add(loop, &client->source))
        return; /* from here on the client may be another thread's */
    conn_failed(conn, errno);
    client_list_remove(loop->clients, client);
    conn_close(conn);
    loop->closed_count++;
    conn_free(conn, client_extra);
}

void client_close(struct loop *loop, struct client *client)
{
    timers_cancel(&loop->timers, &client->timer);
    redis_async_cancel(&loop->redis, &client->redis);
    loop_drop(loop, &client->source);
    client_list_remove(loop->clients, client);
    conn_close(&client->conn);
    loop->closed_count++;
    client->source.next = loop->closed;
    loop->closed = &client->source;
}

void client_free(struct source *source)
{
    conn_free(&client_of(source)->conn, client_extra);
}

/* Its next step is another thread's; returns what client_leave() ends with. */
static enum want client_offload(struct loop *loop, struct client *client,
                                const char *bytes, size_t count)
{
    client->source.away = loop->offload(loop, client, bytes, count);
    return client->source.away ? WANT_CLOSE
                               : conn_failed(&client->conn, ENOMEM);
}

void client_return(struct loop *loop, struct client *client)
{
    client->source.away = false;
    client_advance(loop, client, (enum want)client->conn.want);
}

/* --- one system call -------------------------------------------------- */

static inline __attribute__((always_inline)) enum want
client_receive(struct loop *loop, struct client *client)
{
    struct source *source = &client->source;
    char *in = loop->in + loop->answer_bytes;
    ssize_t n = recv(source->fd, in, CONN_CHUNK, 0);
    if (n < 0 && errno == EINTR)
        return WANT_READ;
    /* A full buffer: there may be more, and asking again costs less than
     * another round of the loop. */
    bool empty = n <= 0 || (n < CONN_CHUNK && !(source->ready & READY_DRAIN));
    if (empty)
        source->ready &= (uint8_t)~READY_IN;
    if (n >= 0 && loop->offload)
        return client_offload(loop, client, in, (size_t)n);
    if (n >= 0)
        return conn_received(&client->conn, in, (size_t)n);
    source->ready &= (uint8_t)~READY_DRAIN; /* no end yet, or it would be 0 */
    return errno == EAGAIN ? WANT_READ : conn_failed(&client->conn, errno);
}

static inline __attribute__((always_inline)) enum want
client_send(struct loop *loop, struct client *client)
{
    struct span out = conn_unsent(&client->conn);
    ssize_t n = send(client->source.fd, out.bytes, out.length, MSG_NOSIGNAL);
    if (loop->offload && n == (ssize_t)out.length &&
        client->conn.after == WANT_WRITE)
        return client_offload(loop, client, NULL, (size_t)n);
    if (n >= 0)
        return conn_sent(&client->conn, (size_t)n);
    if (errno == EAGAIN)
        client->source.ready &= (uint8_t)~READY_OUT;
    else if (errno != EINTR)
        return conn_failed(&client->conn, errno);
    return WANT_WRITE;
}

/* --- what has to be waited for ---------------------------------------- */

/* Others are served before it goes on: its answer must not lie in our receive
 * buffer meanwhile. False: memory is out, and it is closed. */
__attribute__((noinline)) static bool client_save_output(struct loop *loop,
                                                         struct client *client)
{
    if (conn_stash(&client->conn))
        return true;
    conn_failed(&client->conn, ENOMEM);
    client_close(loop, client);
    return false;
}

/* Returns false when memory is out, and it is closed. */
static bool client_set_timer(struct loop *loop, struct client *client,
                             uint64_t at_ns)
{
    timers_cancel(&loop->timers, &client->timer);
    if (timers_set(&loop->timers, &client->timer, at_ns))
        return true;
    conn_failed(&client->conn, ENOMEM);
    client_close(loop, client);
    return false;
}

/* With --timeout-…, a wait ends at the connection's deadline. That moves with
 * each request, the timer does not: one that expires too early is set anew, so
 * that a request costs no work on the heap. Returns false when it is closed. */
__attribute__((noinline)) /* client_wait() is on the way of every request */
static bool
client_limit(struct loop *loop, struct client *client, uint8_t ready)
{
    uint64_t deadline_ns = conn_deadline_ns(&client->conn);
    if (loop->shared) {
        deadline_ns &= ~(uint64_t)LIMIT_SEND;
        client->limit = deadline_ns | (ready == READY_OUT ? LIMIT_SEND : 0u);
        return true;
    }
    bool early =
        timer_is_set(&client->timer) && client->timer.at_ns <= deadline_ns;
    return early || deadline_ns == UINT64_MAX ||
           client_set_timer(loop, client, deadline_ns);
}

static void client_wait(struct loop *loop, struct client *client, uint8_t ready)
{
    if (conn_borrows(&client->conn) && !client_save_output(loop, client))
        return;
    if (!loop->timed || client_limit(loop, client, ready))
        loop_watch(loop, &client->source, ready);
}

static void client_sleep(struct loop *loop, struct client *client)
{
    client_set_timer(loop, client, client->conn.wake_ns);
}

static void client_ask(struct loop *loop, struct client *client)
{
    if (client_set_timer(loop, client, clock_now_ns() + REDIS_TIMEOUT_NS))
        redis_async_begin(&loop->redis, &client->redis);
}

/* Its quota is used up: it goes on at the end of this round. */
static void client_defer(struct loop *loop, struct client *client)
{
    if (!client_save_output(loop, client))
        return;
    client->source.deferred = true;
    client->source.next = loop->deferred;
    loop->deferred = &client->source;
}

/* It cannot go on now, for another reason than a socket that is not ready. */
static void client_leave(struct loop *loop, struct client *client,
                         enum want want)
{
    if (client->source.away)
        return;
    switch (want) {
    case WANT_READ:
    case WANT_WRITE: return client_defer(loop, client);
    case WANT_SLEEP: return client_sleep(loop, client);
    case WANT_ASK: return client_ask(loop, client);
    case WANT_CLOSE: return client_close(loop, client);
    }
}

/* Sends are counted between two reads only: a client that is answered read by
 * read is then deferred before a read, when it has no output to save. */
void client_advance(struct loop *loop, struct client *client, enum want want)
{
    int reads = READS_A_ROUND, sends = SENDS_IN_A_ROW;
    for (;;) {
        if (want == WANT_READ) {
            if (!(client->source.ready & READY_IN))
                return client_wait(loop, client, READY_IN);
            if (reads-- == 0)
                break;
            sends = SENDS_IN_A_ROW;
            want = client_receive(loop, client);
        } else if (want == WANT_WRITE) {
            if (!(client->source.ready & READY_OUT))
                return client_wait(loop, client, READY_OUT);
            if (sends-- == 0)
                break;
            want = client_send(loop, client);
        } else {
            break;
        }
    }
    client_leave(loop, client, want);
}

/* --- answers that are sent together ----------------------------------- */

/* A short echo waits for those of the next clients, whose bytes come behind it:
 * in a cache line of their own. An answer that was built does not: what the
 * next one takes to compute or to find would be added to its response time.
 * Nor does it wait for more than one client that has another wish, or for
 * anything that is no client: see client_begin(), accept_clients(),
 * serve_other(). */
static bool client_queue(struct loop *loop, struct client *client)
{
    size_t length = client->conn.out.length;
    if (length > ANSWER_BYTES || !conn_borrows(&client->conn))
        return false;
    client->source.deferred = true;
    loop->answers[loop->answer_count++] = client;
    loop->answer_bytes += (length + CACHE_LINE - 1) & ~(CACHE_LINE - 1ul);
    if (loop->answer_count == ANSWERS_MOST)
        send_answers(loop);
    return true;
}

void send_answers(struct loop *loop)
{
    for (unsigned i = 0; i < loop->answer_count; i++) {
        loop->answers[i]->source.deferred = false;
        client_advance(loop, loop->answers[i], WANT_WRITE);
    }
    loop->answer_count = 0;
    loop->answer_bytes = 0;
}

/* Something came: the first call of an event. */
static void client_begin(struct loop *loop, struct client *client)
{
    enum want want = client_receive(loop, client);
    if (want == WANT_WRITE && client_queue(loop, client))
        return;
    /* Its bytes lie where those who wait may receive next: it goes first. */
    client_advance(loop, client, want);
    send_answers(loop);
}

/* Its deadline has passed, but perhaps while the loop served others: what has
 * come by now, or finds room, is in time. */
__attribute__((noinline)) static void
client_cut(struct loop *loop, struct client *client, uint64_t now_ns)
{
    struct source *source = &client->source;
    struct conn *conn = &client->conn;
    enum want want = (enum want)conn->want;
    source->ready |= want == WANT_READ ? READY_IN : READY_OUT;
    want = want == WANT_READ ? client_receive(loop, client)
                             : client_send(loop, client);
    if (source->away)
        return;
    bool waits = want == WANT_READ || want == WANT_WRITE;
    if (waits && conn_deadline_ns(conn) <= now_ns)
        want = conn_timed_out(conn);
    client_advance(loop, client, want);
}

void client_timer(struct loop *loop, struct client *client, uint64_t now_ns)
{
    struct conn *conn = &client->conn;
    if (client->source.away || client->source.deferred)
        return; /* the next wait sets it anew */
    enum want want = (enum want)conn->want;
    if (want == WANT_SLEEP)
        client_advance(loop, client, conn_woken(conn));
    else if (want == WANT_ASK)
        redis_async_timed_out(&loop->redis, &client->redis);
    else if (conn_deadline_ns(conn) <= now_ns)
        client_cut(loop, client, now_ns);
    else
        client_wait(loop, client, want == WANT_READ ? READY_IN : READY_OUT);
}

/* An event for a client that waits for a timer or for Redis, not for it. */
static void client_interrupts(struct loop *loop, struct client *client,
                              unsigned ready)
{
    if (ready & READY_HANGUP) {
        conn_failed(&client->conn, ECONNRESET);
        client_close(loop, client);
    } else {
        /* It sends before it is asked to. Few do, so only now is its interest
         * dropped: for epoll that is a system call. */
        loop_watch(loop, &client->source, 0);
    }
}

void serve_client(struct loop *loop, struct source *source, unsigned ready)
{
    struct client *client = client_of(source);
    source->ready |= (uint8_t)ready;
    if (!loop->poller->edge) /* a full socket buffer tells by EAGAIN */
        source->ready |= READY_OUT;
    if (source->deferred || source->away)
        return; /* it goes on at the end of this round, or when it returns */
    enum want want = (enum want)client->conn.want;
    if (want == WANT_SLEEP || want == WANT_ASK)
        client_interrupts(loop, client, ready);
    else if (want == WANT_READ && (source->ready & READY_IN))
        client_begin(loop, client);
    else
        client_advance(loop, client, want);
}
