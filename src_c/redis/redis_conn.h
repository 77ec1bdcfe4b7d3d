/* redis_conn.h -- one connection to Redis, kept and reused; it never waits.
 *
 *     redis_conn_begin()     commands to send; a closed connection connects
 *     redis_conn_advance()   connect, send, receive: as far as it goes at once
 *           REDIS_NEEDS_READ    wait until redis->fd is readable, advance again
 *           REDIS_NEEDS_WRITE   ... or writable
 *           REDIS_HAS_REPLY     some bytes of the reply: redis->reply, ->got
 *           REDIS_BROKEN        redis->error says why: close it
 *     redis_conn_keep()      the reply is whole: idle, open for the next
 *
 * All calls are non-blocking system calls; redis_pool.h puts conversations
 * together, and each family of models waits in its own way:
 *
 *     thread, process   poll(2) on redis->fd            blocking_redis.c
 *     select ... epoll  the loop watches redis->fd      reactor_redis.c
 *     uring             IORING_OP_POLL_ADD              uring_redis.c
 *     coroutine         switches away until it is ready coroutine.c
 *
 * Connections must not cross a fork: two processes would read each other's
 * replies. Open the first one in the child.
 */
#ifndef REDIS_CONN_H
#define REDIS_CONN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/span.h"

enum { REDIS_REPLY_MAX = 128 * 1024 }; /* a longer reply counts as broken */

enum redis_state {
    REDIS_CLOSED, /* 0: a zeroed connection is a closed one */
    REDIS_CONNECTING,
    REDIS_SENDING,
    REDIS_RECEIVING,
    REDIS_IDLE, /* open, and no reply is due */
};

struct redis_request;

/* Its address leaves four bits for a tag (user_data, epoll_data). */
struct redis_conn {
    _Alignas(16) int fd; /* unless closed */
    enum redis_state state;
    int error;    /* errno of what went wrong */
    bool reused;  /* was idle when this request began */
    bool watched; /* the driver has the kernel watch fd; a
                   * closed one is not free before it ends */
    struct span unsent;
    size_t got, reply_bytes;       /* of the reply; of its buffer */
    char *reply;                   /* belongs to the connection */
    struct redis_request *request; /* whose turn it is; NULL: nobody's */
};

enum redis_next {
    REDIS_NEEDS_READ,
    REDIS_NEEDS_WRITE,
    REDIS_HAS_REPLY,
    REDIS_BROKEN,
    REDIS_DONE, /* of a request: see redis_pool.h */
};

/* Where Redis is: "HOST:PORT" or NULL for nowhere, to be called once before
 * any fork. Returns NULL, or what is wrong. */
const char *redis_setup(const char *address);

/* Begins a conversation on a closed connection, which starts to connect, or on
 * an idle one. `commands` must stay where they are until the reply has come.
 * Returns false when it fails at once (redis->error). */
bool redis_conn_begin(struct redis_conn *redis, struct span commands);

/* Does what can be done without waiting, and says what is next. */
enum redis_next redis_conn_advance(struct redis_conn *redis);

/* The reply was whole: the connection is idle. */
void redis_conn_keep(struct redis_conn *redis);

/* Whether Redis closed an idle connection, or sent what no command asked for
 * (the next request would take it for its reply): one recv(2), MSG_PEEK. */
bool redis_conn_is_stale(const struct redis_conn *redis);

/* Whether it broke though the commands may simply be sent again: it had been
 * idle, Redis closed or reset it, and no byte of the reply had come. */
bool redis_conn_may_retry(const struct redis_conn *redis);

/* Closes the socket and frees the buffer; a closed one stays as it is. Whoever
 * watches redis->fd stops that first. */
void redis_conn_close(struct redis_conn *redis);

#endif
