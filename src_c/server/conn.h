/* conn.h -- one client's connection, apart from waiting: sans I/O.
 *
 * A model reads, writes, sleeps and asks; this stands between it and the
 * workload. Every call says what is wanted next, and the model's whole duty
 * is to fulfil it and report back:
 *
 *     WANT_READ    receive, then conn_received()  (0 bytes: the client ended)
 *     WANT_WRITE   send conn_unsent(), then conn_sent()
 *     WANT_SLEEP   wait until conn->wake_ns, then conn_woken()
 *     WANT_ASK     send conn->ask to Redis, see redis_pool.h
 *     WANT_CLOSE   conn_close()
 *
 * Backpressure follows: a model reads only when that is wanted, and that is
 * wanted only once the last answer is sent. An idle connection holds no
 * buffer: what comes is handled where the model received it, and only an
 * unfinished request is copied aside. An answer is built in a buffer that is
 * the connection's until the last byte is sent (send_buffers.h); one that lies
 * in the request itself, as that of echo, is copied only if it has to wait.
 *
 * With --timeout-… a wait for READ or WRITE has an end, conn_deadline_ns():
 * a model that still waits then calls conn_timed_out(). A byte that came
 * moves the end of no request that has begun, so a client that sends one byte
 * a second ("slow-loris") is cut like one that sends none.
 */
#ifndef CONN_H
#define CONN_H

#include <netinet/in.h>

#include "model.h"
#include "common/span.h"
#include "send_buffers.h"

/* What serves connections one step at a time: a loop, a thread, a process.
 * Not shared between threads. */
struct worker {
    struct server *server;
    unsigned index; /* its place in requests_per_worker */
    struct send_buffers buffers;
};

/* Bytes set aside until they can be used. */
struct kept {
    char *bytes;
    uint32_t length, capacity;
};

struct conn {
    int fd;
    uint8_t want;   /* enum want: the last one returned */
    uint8_t after;  /* what the workload wants once `out` is sent */
    bool ended;     /* the client will send no more */
    bool unseen;    /* kept_in holds bytes the workload has not seen */
    bool hang_up;   /* the reply is no RESP: close that connection */
    uint8_t phase;  /* enum timeout: how far a request has come */
    uint8_t timing; /* what deadline_ns is for: TIMING_…, conn.c */
    bool timed_out; /* is cut, and may be about to be told so */
    struct worker *worker;
    void *session;       /* the workload's, or NULL */
    struct span out;     /* not yet sent; lies in ... */
    char *send_buffer;   /* ... one of the worker's, ours until then, ... */
    char *kept_out;      /* ... memory of our own, or, if both are NULL, ...
                          * the bytes of the last conn_received() */
    struct kept kept_in; /* a request's beginning */
    uint64_t requests, bytes_in, bytes_out;
    /* What an echo does not touch: cache lines of their own. */
    struct span ask;      /* with WANT_ASK: to be sent upstream */
    uint64_t wake_ns;     /* with WANT_SLEEP */
    uint64_t deadline_ns; /* see conn_deadline_ns() */
    uint64_t opened_ns;
    uint64_t credited; /* requests that are in requests_per_worker */
    struct sockaddr_in6 peer;
};

/* Takes over a connected socket. `extra` bytes are allocated in front for the
 * model, zeroed: a model that embeds struct conn as its last member passes
 * offsetof(). Returns NULL when memory is out: refused, counted and closed. */
struct conn *conn_open(struct worker *worker, int fd,
                       const struct sockaddr_in6 *peer, size_t extra);

/* Closes the socket, adds the counts to the server's, writes the log's row.
 * The memory stays, for events that still point at it, until conn_free(). */
void conn_close(struct conn *conn);
void conn_free(struct conn *conn, size_t extra);

/* From now on another worker serves it; the requests until now stay with the
 * one before. */
void conn_move(struct conn *conn, struct worker *worker);

/* `n` bytes came and lie at `bytes` until the next call; n = 0: the end. */
enum want conn_received(struct conn *conn, const char *bytes, size_t n);

/* Bytes came at a time when they were not wanted (completion models).
 * Returns false when memory is out. */
bool conn_keep(struct conn *conn, const char *bytes, size_t n);

/* What is to be sent now. */
static inline struct span conn_unsent(const struct conn *conn)
{
    return conn->out;
}

/* The first n bytes of conn_unsent() were sent. */
enum want conn_sent(struct conn *conn, size_t n);

/* Whether what is unsent lies in the bytes of the last conn_received(): these
 * must then stay as they are until it is sent, or conn_stash() was called. */
static inline bool conn_borrows(const struct conn *conn)
{
    return conn->out.length > 0 && !conn->send_buffer && !conn->kept_out;
}

/* Copies what is borrowed to memory of the connection's own, which is what a
 * model with one receive buffer for all does before it waits. Returns false
 * when memory is out: close. */
bool conn_stash(struct conn *conn);

enum want conn_woken(struct conn *conn);

/* All of the reply of Redis so far; or that there will be none. */
enum want conn_replied(struct conn *conn, const char *bytes, size_t n);
enum want conn_unanswered(struct conn *conn);

/* When waiting for what is wanted has to end, on clock_now_ns(); UINT64_MAX:
 * never, as without --timeout-…, and for WANT_SLEEP and WANT_ASK, which end by
 * themselves. Each call that returns a new want may change it. */
static inline uint64_t conn_deadline_ns(const struct conn *conn)
{
    return conn->deadline_ns;
}

/* The deadline has passed: counts that by its kind. Returns WANT_CLOSE; or,
 * where a request had begun and the workload has an answer to that (http: 408),
 * WANT_WRITE, and closes once that is sent or its own deadline has passed. */
enum want conn_timed_out(struct conn *conn);

/* recv, send or Redis failed with `error`: counts it. Returns WANT_CLOSE. */
enum want conn_failed(struct conn *conn, int error);

#endif
