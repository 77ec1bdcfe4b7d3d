/* conn.c -- see conn.h.
 *
 *     conn_received -> conn_step -> call_workload -> keep_unused -> next_want
 *     conn_sent     -> all sent: release_out -> next_want, or again
 *
 * Called by every model: blocking.c, reactor/client.c, uring_client.c and the
 * two kinds of coroutine. It makes no system call for a request, only at the
 * ends of a connection, and takes no lock: a connection is one worker's at a
 * time. tests/test_conn.c runs it without a socket.
 *
 * Where bytes lie decides who copies them. What came is handed to the workload
 * in the model's own buffer; only a beginning that is not used yet is copied,
 * to kept_in. An answer built in a send buffer, or an echo of kept bytes,
 * changes hands without a copy; only an echo that has to wait is copied
 * (conn_stash).
 */
#include "conn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "extra.h"
#include "log.h"
#include "net.h"
#include "stop.h"

enum { DRAINS = 16 }; /* 1 MiB: who never stops sending is cut all the same */

/* Whose end deadline_ns is: one of enum timeout while it reads, or: */
enum { TIMING_NOTHING = TIMEOUTS, TIMING_WRITE };

/* --- deadlines -------------------------------------------------------- */

static const struct options *options_of(const struct conn *conn)
{
    return &conn->worker->server->options;
}

static void deadline_set(struct conn *conn, uint8_t timing)
{
    uint64_t limit_ns = 0;
    if (timing != TIMING_NOTHING)
        limit_ns =
            options_of(conn)
                ->timeout_ns[timing == TIMING_WRITE ? TIMEOUT_IDLE : timing];
    conn->timing = timing;
    conn->deadline_ns = limit_ns ? clock_now_ns() + limit_ns : UINT64_MAX;
}

/* To be called when bytes came or went. What begins anew at each such time is
 * only the patience with somebody who has begun nothing or reads his answer; a
 * request's head and its body have one deadline each. */
static void deadline_move(struct conn *conn)
{
    uint8_t timing = conn->want == WANT_READ    ? conn->phase
                     : conn->want == WANT_WRITE ? TIMING_WRITE
                                                : TIMING_NOTHING;
    bool begun = timing == TIMEOUT_HEADER || timing == TIMEOUT_BODY;
    if (timing != conn->timing || !begun)
        deadline_set(conn, timing);
}

/* --- from open to close ----------------------------------------------- */

struct conn *conn_open(struct worker *worker, int fd,
                       const struct sockaddr_in6 *peer, size_t extra)
{
    struct server *server = worker->server;
    size_t session = server->workload->session_bytes;
    char *block = calloc(1, extra + sizeof(struct conn) + session);
    if (!block) {
        net_refuse(server, fd, REFUSED_MEMORY);
        return NULL;
    }
    struct conn *conn = (struct conn *)(block + extra);
    conn->fd = fd;
    conn->want = conn->after = WANT_READ;
    conn->worker = worker;
    conn->peer = *peer;
    conn->session = session ? conn + 1 : NULL;
    conn->opened_ns = clock_now_ns();
    deadline_set(conn, TIMEOUT_IDLE);
    stats_opened(server->stats);
    stop_watch(fd);
    return conn;
}

/* Counts stand in the connection while it is served: adding to the server's, a
 * cache line that all workers write, would cost each request of each core. */
static void credit_worker(struct conn *conn)
{
    const struct worker *worker = conn->worker;
    stats_add(&worker->server->stats->workers[worker->index].requests,
              conn->requests - conn->credited);
    conn->credited = conn->requests;
}

void conn_move(struct conn *conn, struct worker *worker)
{
    if (conn->worker == worker)
        return;
    credit_worker(conn);
    conn->worker = worker;
}

static void conn_count(struct conn *conn)
{
    struct stats *stats = conn->worker->server->stats;
    stats_add(&stats->requests, conn->requests);
    stats_add(&stats->bytes_in, conn->bytes_in);
    stats_add(&stats->bytes_out, conn->bytes_out);
    credit_worker(conn);
    stats_closed(stats);
}

/* Closing a socket with unread bytes resets the connection, which may cost the
 * client our last answer: reads away what has come by now. */
static void conn_drain(const struct conn *conn)
{
    struct send_buffers *buffers = &conn->worker->buffers;
    char *scratch = send_buffer_take(buffers);
    for (int i = 0; scratch && i < DRAINS; i++)
        if (recv(conn->fd, scratch, CONN_CHUNK, MSG_TRUNC | MSG_DONTWAIT) <= 0)
            break;
    if (scratch)
        send_buffer_give(buffers, scratch);
}

/* All is sent, or never will be. */
static void release_out(struct conn *conn)
{
    if (conn->send_buffer)
        send_buffer_give(&conn->worker->buffers, conn->send_buffer);
    if (conn->kept_out) /* a call less for each answer */
        free(conn->kept_out);
    conn->send_buffer = conn->kept_out = NULL;
}

void conn_close(struct conn *conn)
{
    const struct workload *workload = conn->worker->server->workload;
    release_out(conn); /* conn_drain() needs a buffer: no second one, then */
    if (!conn->ended)
        conn_drain(conn);
    if (workload->close)
        workload->close(conn->session);
    conn_count(conn);
    log_write(conn);
    stop_unwatch(conn->fd);
    close(conn->fd);
    free(conn->kept_in.bytes);
}

void conn_free(struct conn *conn, size_t extra)
{
    free((char *)conn - extra);
}

/* An idle connection holds no buffer, so what is used up is freed at once. */
static void kept_free(struct kept *kept)
{
    free(kept->bytes);
    *kept = (struct kept){0};
}

/* The first bytes take what they need: most requests in pieces are in two. From
 * then on a quarter more, so that a body in many pieces is copied seldom. */
static bool kept_append(struct kept *kept, const char *bytes, size_t n)
{
    size_t length = kept->length + n;
    if (length > kept->capacity) {
        size_t capacity = kept->capacity ? length + length / 4 : length;
        char *moved = realloc(kept->bytes, capacity);
        if (!moved)
            return false;
        kept->bytes = moved;
        kept->capacity = (uint32_t)capacity;
    }
    memcpy(kept->bytes + kept->length, bytes, n);
    kept->length = (uint32_t)length;
    return true;
}

static void kept_drop(struct kept *kept, size_t n)
{
    if (n == kept->length) {
        kept_free(kept);
        return;
    }
    memmove(kept->bytes, kept->bytes + n, kept->length - n);
    kept->length -= (uint32_t)n;
}

/* --- one step --------------------------------------------------------- */

static bool lies_in(struct span span, const char *bytes, size_t size)
{
    return span.length > 0 && span.bytes >= bytes && span.bytes < bytes + size;
}

/* An answer that lies in what was kept: if all of that is used it just changes
 * hands; else it is copied, for what is unused is about to move there. */
static bool take_over(struct conn *conn, const struct step *step)
{
    struct kept *kept = &conn->kept_in;
    if (!lies_in(conn->out, kept->bytes, kept->length))
        return true;
    if (step->used < kept->length)
        return conn_stash(conn);
    conn->kept_out = kept->bytes;
    *kept = (struct kept){0};
    return true;
}

/* What the workload did not use stays for its next call. */
static bool keep_unused(struct conn *conn, const struct step *step)
{
    assert(step->used <= step->in_bytes);
    if (conn->kept_in.length > 0) {
        bool safe = take_over(conn, step);
        if (safe && conn->kept_in.length > 0)
            kept_drop(&conn->kept_in, step->used);
        return safe;
    }
    size_t left = step->in_bytes - step->used;
    const char *rest = step->in + step->used;
    return left == 0 || kept_append(&conn->kept_in, rest, left);
}

/* `out` goes first; then what the workload asked for. */
static enum want next_want(struct conn *conn)
{
    conn->want = conn->out.length > 0 ? WANT_WRITE : conn->after;
    if (options_of(conn)->timed)
        deadline_move(conn);
    return (enum want)conn->want;
}

/* The workload's turn, with a buffer to build an answer in: ours from now on
 * if it did. */
static void call_workload(struct conn *conn, struct step *s, char *buffer)
{
    struct worker *worker = conn->worker;
    s->in_end = conn->ended;
    s->room = buffer;
    s->room_bytes = CONN_CHUNK;
    conn->unseen = false;
    conn->after = worker->server->workload->step(conn->session, s);
    assert(conn->after != WANT_WRITE || s->out_bytes > 0);
    conn->requests += s->requests;
    if (options_of(conn)->extra_ns)
        extra_spend(s->requests * options_of(conn)->extra_ns);
    conn->out = (struct span){s->out, s->out_bytes};
    if (lies_in(conn->out, buffer, CONN_CHUNK))
        conn->send_buffer = buffer;
    else
        send_buffer_give(&worker->buffers, buffer);
}

static enum want conn_step(struct conn *conn, struct step *s)
{
    char *buffer = send_buffer_take(&conn->worker->buffers);
    if (!buffer)
        return conn_failed(conn, ENOMEM);
    call_workload(conn, s, buffer);
    if (conn->after == WANT_ASK)
        conn->ask = (struct span){s->ask, s->ask_bytes};
    else if (conn->after == WANT_SLEEP)
        conn->wake_ns = s->wake_ns;
    conn->hang_up = s->hang_up;
    if (!keep_unused(conn, s))
        return conn_failed(conn, ENOMEM);
    if (conn->after == WANT_READ && conn->ended)
        conn->after = WANT_CLOSE;
    conn->phase = s->in_body                 ? TIMEOUT_BODY
                  : conn->kept_in.length > 0 ? TIMEOUT_HEADER
                                             : TIMEOUT_IDLE;
    return next_want(conn);
}

/* A step on what was kept, because no fresh bytes came with this event. */
static enum want step_kept(struct conn *conn, struct step *s)
{
    s->in = conn->kept_in.bytes;
    s->in_bytes = conn->kept_in.length;
    return conn_step(conn, s);
}

/* Field by field: for an initializer of this size gcc clears the struct by `rep
 * stos`, which takes tens of cycles to begin. */
static void step_init(struct step *s, const char *in, size_t in_bytes)
{
    s->in = in;
    s->in_bytes = in_bytes;
    s->reply = s->out = s->ask = NULL;
    s->reply_bytes = s->used = s->out_bytes = s->ask_bytes = 0;
    s->reply_failed = s->timed_out = s->in_body = s->hang_up = false;
    s->wake_ns = s->requests = 0;
}

enum want conn_received(struct conn *conn, const char *bytes, size_t n)
{
    struct step s;
    step_init(&s, bytes, n);
    conn->bytes_in += n;
    conn->ended = n == 0;
    if (conn->kept_in.length == 0)
        return conn_step(conn, &s);
    if (n > 0 && !kept_append(&conn->kept_in, bytes, n))
        return conn_failed(conn, ENOMEM);
    return step_kept(conn, &s);
}

bool conn_keep(struct conn *conn, const char *bytes, size_t n)
{
    conn->bytes_in += n;
    conn->unseen = true;
    if (n == 0)
        conn->ended = true;
    return n == 0 || kept_append(&conn->kept_in, bytes, n);
}

enum want conn_sent(struct conn *conn, size_t n)
{
    assert(n <= conn->out.length);
    conn->bytes_out += n;
    conn->out.bytes += n;
    conn->out.length -= n;
    if (conn->out.length > 0) {
        if (n > 0 && options_of(conn)->timed && !conn->timed_out)
            deadline_move(conn);
        return WANT_WRITE;
    }
    release_out(conn);
    bool again =
        conn->after == WANT_WRITE || (conn->after == WANT_READ && conn->unseen);
    return again ? step_kept(conn, &(struct step){0}) : next_want(conn);
}

/* A large rest goes where answers are built, so that it costs no fresh memory
 * each time; a small one takes no more than it needs. */
bool conn_stash(struct conn *conn)
{
    struct span out = conn->out;
    if (!conn_borrows(conn))
        return true;
    char *copy;
    if (out.length > CONN_CHUNK / 4 && out.length <= CONN_CHUNK)
        copy = conn->send_buffer = send_buffer_take(&conn->worker->buffers);
    else
        copy = conn->kept_out = malloc(out.length);
    if (!copy)
        return false;
    memcpy(copy, out.bytes, out.length);
    conn->out.bytes = copy;
    return true;
}

enum want conn_woken(struct conn *conn)
{
    return step_kept(conn, &(struct step){0});
}

enum want conn_replied(struct conn *conn, const char *bytes, size_t n)
{
    return step_kept(conn, &(struct step){.reply = bytes, .reply_bytes = n});
}

enum want conn_unanswered(struct conn *conn)
{
    return step_kept(conn, &(struct step){.reply_failed = true});
}

/* An answer that a client does not read is dropped: it has been given time. */
static enum want give_up(struct conn *conn)
{
    conn->out.length = 0;
    conn->want = conn->after = WANT_CLOSE;
    return WANT_CLOSE;
}

enum want conn_timed_out(struct conn *conn)
{
    bool begun = conn->want == WANT_READ && conn->phase != TIMEOUT_IDLE;
    enum timeout kind = begun ? (enum timeout)conn->phase : TIMEOUT_IDLE;
    uint64_t limit_ns = options_of(conn)->timeout_ns[kind];
    if (conn->timed_out)
        return give_up(conn);
    stats_timeout(conn->worker->server->stats, kind);
    conn->timed_out = true;
    if (!begun)
        return give_up(conn);
    step_kept(conn, &(struct step){.timed_out = true});
    conn->after = WANT_CLOSE;
    if (conn->out.length == 0)
        return give_up(conn);
    if (conn->deadline_ns == UINT64_MAX) /* it may not read that either */
        conn->deadline_ns = clock_now_ns() + limit_ns;
    return WANT_WRITE;
}

enum want conn_failed(struct conn *conn, int error)
{
    stats_error(conn->worker->server->stats, error);
    conn->ended = true;
    conn->out.length = 0;
    conn->want = conn->after = WANT_CLOSE;
    return WANT_CLOSE;
}
