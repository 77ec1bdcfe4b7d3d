/* redis_conn.c -- see redis_conn.h.
 *
 *     CLOSED -> CONNECTING -> SENDING -> RECEIVING -> IDLE -> SENDING ...
 *
 * Each state has one system call that may say EAGAIN; redis_conn_advance()
 * makes it, and goes on to the next state as long as none does. Called by
 * redis_pool.c only. What is in the reply is not looked at here: whoever asked
 * says when it is whole. Limits: one address for the whole process, the first
 * that getaddrinfo(3) finds; no TLS, no password, no database number.
 */
#include "redis_conn.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/address.h"

/* Redis's address, resolved once: looking up a name would block a loop. */
static struct sockaddr_storage redis_address;
static socklen_t redis_address_bytes; /* 0: there is none */

enum { REPLY_FIRST = 4096 };

const char *redis_setup(const char *address)
{
    static char wrong[320];
    if (!address)
        return NULL;
    const char *reason =
        address_find(address, 0, &redis_address, &redis_address_bytes);
    snprintf(wrong, sizeof wrong, "--redis %.200s: %s", address,
             reason ? reason : "");
    return reason ? wrong : NULL;
}

/* --- one connection ----------------------------------------------------- */

static enum redis_next broken(struct redis_conn *redis, int error)
{
    redis->error = error;
    return REDIS_BROKEN;
}

/* connect(2) on a non-blocking socket: 0 or EINPROGRESS. TCP_NODELAY, because a
 * request is one send and Nagle's algorithm could only delay it. */
static bool start_connecting(struct redis_conn *redis)
{
    int on = 1;
    if (redis_address_bytes == 0) {
        redis->error = EDESTADDRREQ;
        return false;
    }
    int fd = socket(redis_address.ss_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        redis->fd = fd;
        redis->state = REDIS_CONNECTING;
        if (connect(fd, (const struct sockaddr *)&redis_address,
                    redis_address_bytes) == 0 ||
            errno == EINPROGRESS)
            return true;
    }
    redis->error = errno;
    redis_conn_close(redis);
    return false;
}

bool redis_conn_begin(struct redis_conn *redis, struct span commands)
{
    redis->unsent = commands;
    redis->got = 0;
    redis->reused = redis->state == REDIS_IDLE;
    if (redis->reused) {
        redis->state = REDIS_SENDING;
        return true;
    }
    assert(redis->state == REDIS_CLOSED);
    return start_connecting(redis);
}

/* A non-blocking connect is done when the socket is writable and SO_ERROR is
 * 0 (connect(2), EINPROGRESS); getpeername fails after an early wake-up. */
static enum redis_next advance_connect(struct redis_conn *redis)
{
    int error = 0;
    socklen_t length = sizeof error;
    struct sockaddr_storage peer;
    socklen_t peer_length = sizeof peer;
    if (getsockopt(redis->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        error = errno;
    if (error)
        return broken(redis, error);
    if (getpeername(redis->fd, (struct sockaddr *)&peer, &peer_length) < 0)
        return REDIS_NEEDS_WRITE;
    redis->state = REDIS_SENDING;
    return redis_conn_advance(redis);
}

/* MSG_NOSIGNAL: EPIPE, not SIGPIPE, when Redis has reset the connection. */
static enum redis_next advance_send(struct redis_conn *redis)
{
    while (redis->unsent.length > 0) {
        ssize_t n = send(redis->fd, redis->unsent.bytes, redis->unsent.length,
                         MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return REDIS_NEEDS_WRITE;
        if (n < 0 && errno != EINTR)
            return broken(redis, errno);
        if (n > 0) {
            redis->unsent.bytes += n;
            redis->unsent.length -= (size_t)n;
        }
    }
    redis->state = REDIS_RECEIVING;
    return REDIS_NEEDS_READ; /* a reply cannot be there yet */
}

/* The buffer doubles: a page of 100 remarks takes one or two receives. */
static bool grow_reply(struct redis_conn *redis)
{
    size_t bytes = redis->reply ? redis->reply_bytes * 2 : REPLY_FIRST;
    char *moved = NULL;
    if (bytes <= REDIS_REPLY_MAX)
        moved = realloc(redis->reply, bytes);
    redis->error = moved ? 0 : bytes > REDIS_REPLY_MAX ? EMSGSIZE : ENOMEM;
    if (!moved)
        return false;
    redis->reply = moved;
    redis->reply_bytes = bytes;
    return true;
}

/* 0 bytes are the end of the stream: with a reply due, as bad as a reset. */
static enum redis_next advance_receive(struct redis_conn *redis)
{
    for (;;) {
        if (redis->got == redis->reply_bytes && !grow_reply(redis))
            return REDIS_BROKEN;
        ssize_t n = recv(redis->fd, redis->reply + redis->got,
                         redis->reply_bytes - redis->got, 0);
        if (n > 0) {
            redis->got += (size_t)n;
            return REDIS_HAS_REPLY;
        }
        if (n < 0 && errno == EAGAIN)
            return REDIS_NEEDS_READ;
        if (n == 0 || errno != EINTR)
            return broken(redis, n ? errno : ECONNRESET);
    }
}

enum redis_next redis_conn_advance(struct redis_conn *redis)
{
    switch (redis->state) {
    case REDIS_CONNECTING: return advance_connect(redis);
    case REDIS_SENDING: return advance_send(redis);
    case REDIS_RECEIVING: return advance_receive(redis);
    case REDIS_CLOSED:
    case REDIS_IDLE: break;
    }
    assert(!"a connection on which a request is made");
    return REDIS_BROKEN;
}

void redis_conn_keep(struct redis_conn *redis)
{
    redis->state = REDIS_IDLE;
    redis->got = 0;
}

bool redis_conn_is_stale(const struct redis_conn *redis)
{
    char byte;
    ssize_t n = recv(redis->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n >= 0 || (errno != EAGAIN && errno != EINTR);
}

bool redis_conn_may_retry(const struct redis_conn *redis)
{
    return redis->reused && redis->got == 0 &&
           (redis->error == ECONNRESET || redis->error == EPIPE);
}

void redis_conn_close(struct redis_conn *redis)
{
    if (redis->state != REDIS_CLOSED)
        close(redis->fd);
    free(redis->reply);
    redis->reply = NULL;
    redis->got = redis->reply_bytes = 0;
    redis->fd = -1;
    redis->state = REDIS_CLOSED;
}
