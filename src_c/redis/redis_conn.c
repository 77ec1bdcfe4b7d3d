/* redis_conn.c -- see redis_conn.h. */
#include "redis_conn.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Redis's address, resolved once: looking up a name would block a loop. */
static struct sockaddr_storage redis;
static socklen_t redis_bytes; /* 0: there is none */

enum { REPLY_FIRST = 4096 };

static const char *resolve(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found;
    int error = getaddrinfo(host, port, &hints, &found);
    if (error)
        return gai_strerror(error);
    memcpy(&redis, found->ai_addr, found->ai_addrlen);
    redis_bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return NULL;
}

const char *upstream_setup(const char *address)
{
    static char wrong[320];
    char host[256];
    if (!address)
        return NULL;
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    const char *reason = "want HOST:PORT, such as 127.0.0.1:6379";
    if (length > 0 && length < sizeof host && colon[1]) {
        bool v6 = address[0] == '[' && address[length - 1] == ']';
        memcpy(host, address + v6, length - v6);
        host[length - 2 * v6] = '\0';
        reason = resolve(host, colon + 1);
    }
    snprintf(wrong, sizeof wrong, "--redis %.200s: %s", address,
             reason ? reason : "");
    return reason ? wrong : NULL;
}

/* --- one link --------------------------------------------------------- */

static enum link_news broke(struct link *link, int error)
{
    link->error = error;
    return LINK_BROKE;
}

static bool start_connecting(struct link *link)
{
    int on = 1;
    if (redis_bytes == 0) {
        link->error = EDESTADDRREQ;
        return false;
    }
    int fd = socket(redis.ss_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        link->fd = fd;
        link->state = LINK_CONNECTING;
        if (connect(fd, (const struct sockaddr *)&redis, redis_bytes) == 0 ||
            errno == EINPROGRESS)
            return true;
    }
    link->error = errno;
    link_close(link);
    return false;
}

static bool grow(struct link *link)
{
    size_t bytes = link->reply ? link->reply_bytes * 2 : REPLY_FIRST;
    char *moved = NULL;
    if (bytes <= UPSTREAM_REPLY_MAX)
        moved = realloc(link->reply, bytes);
    link->error = moved ? 0 : bytes > UPSTREAM_REPLY_MAX ? EMSGSIZE : ENOMEM;
    if (!moved)
        return false;
    link->reply = moved;
    link->reply_bytes = bytes;
    return true;
}

bool link_ask(struct link *link, struct span ask, struct stats *stats)
{
    link->ask = ask;
    link->got = 0;
    if (link->state == LINK_RESTING) {
        link->state = LINK_SENDING;
        return true;
    }
    assert(link->state == LINK_CLOSED);
    if (!start_connecting(link))
        return false;
    stats_add(&stats->upstream_opened, 1);
    return true;
}

static enum link_news go_on_connecting(struct link *link)
{
    int error = 0;
    socklen_t length = sizeof error;
    struct sockaddr_storage peer;
    socklen_t peer_length = sizeof peer;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        error = errno;
    if (error)
        return broke(link, error);
    if (getpeername(link->fd, (struct sockaddr *)&peer, &peer_length) < 0)
        return LINK_NEEDS_OUT; /* woken too early */
    link->state = LINK_SENDING;
    return link_go_on(link);
}

static enum link_news go_on_sending(struct link *link)
{
    while (link->ask.length > 0) {
        ssize_t n = send(link->fd, link->ask.bytes, link->ask.length,
                         MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return LINK_NEEDS_OUT;
        if (n < 0 && errno != EINTR)
            return broke(link, errno);
        if (n > 0) {
            link->ask.bytes += n;
            link->ask.length -= (size_t)n;
        }
    }
    link->state = LINK_RECEIVING;
    return LINK_NEEDS_IN; /* an answer cannot be there yet */
}

static enum link_news go_on_receiving(struct link *link)
{
    for (;;) {
        if (link->got == link->reply_bytes && !grow(link))
            return LINK_BROKE;
        ssize_t n = recv(link->fd, link->reply + link->got,
                         link->reply_bytes - link->got, 0);
        if (n > 0) {
            link->got += (size_t)n;
            return LINK_HAS_REPLY;
        }
        if (n < 0 && errno == EAGAIN)
            return LINK_NEEDS_IN;
        if (n == 0 || errno != EINTR)
            return broke(link, n ? errno : ECONNRESET);
    }
}

enum link_news link_go_on(struct link *link)
{
    switch (link->state) {
    case LINK_CONNECTING:
        return go_on_connecting(link);
    case LINK_SENDING:
        return go_on_sending(link);
    case LINK_RECEIVING:
        return go_on_receiving(link);
    case LINK_CLOSED:
    case LINK_RESTING:
        break;
    }
    assert(!"a link that talks");
    return LINK_BROKE;
}

enum want link_converse(struct link *link, struct conn *conn, link_wait *wait,
                        uint64_t deadline_ns)
{
    struct stats *stats = conn->worker->server->stats;
    if (link->state == LINK_RESTING && link_is_stale(link))
        link_close(link);
    bool talks = link_ask(link, conn->ask, stats);
    while (talks) {
        enum link_news news = link_go_on(link);
        if (news == LINK_HAS_REPLY) {
            enum want want = conn_replied(conn, link->reply, link->got);
            if (link_wants_more(conn))
                continue;
            if (conn->hang_up)
                link_close(link);
            else
                link_rest(link);
            return want;
        }
        talks = news != LINK_BROKE;
        if (talks && !wait(conn, link->fd, news == LINK_NEEDS_OUT,
                           deadline_ns)) {
            link->error = ETIMEDOUT;
            talks = false;
        }
    }
    link_close(link);
    stats_error(stats, link->error);
    return conn_unanswered(conn);
}

void link_rest(struct link *link)
{
    link->state = LINK_RESTING;
    link->got = 0;
}

bool link_is_stale(const struct link *link)
{
    char byte;
    ssize_t n = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n >= 0 || (errno != EAGAIN && errno != EINTR);
}

void link_close(struct link *link)
{
    if (link->state != LINK_CLOSED)
        close(link->fd);
    free(link->reply);
    *link = (struct link){.fd = -1, .error = link->error};
}
