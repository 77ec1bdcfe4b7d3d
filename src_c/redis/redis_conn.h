/* redis_conn.h -- one connection to Redis, kept and reused; it never waits.
 *
 * A client that wants WANT_ASK needs a link to talk over. The link does the
 * system calls, all of them non-blocking, and says what has to be waited for;
 * who drives it waits in the way of its model:
 *
 *     link_ask(link, conn->ask)        -> then go on until there is a reply:
 *     link_go_on(link) LINK_NEEDS_IN      wait until link->fd is readable
 *                      LINK_NEEDS_OUT     ... or writable; then go on
 *                      LINK_HAS_REPLY     conn_replied(conn, link->reply, got)
 *                      LINK_BROKE         link_close(), conn_unanswered(conn)
 *
 * The workload may find the reply incomplete: link_wants_more(conn) is then
 * true, and the driver goes on with the same link. Otherwise link_rest() and
 * the link is free for the next client; or link_close(), if conn->hang_up says
 * that the reply made no sense. Redis gets UPSTREAM_PATIENCE_NS for an
 * answer, from the moment that the client wanted it, any wait for a free link
 * included; then link_close() and conn_unanswered(). Nobody reuses a link on
 * which a reply may still be on its way.
 *
 *     thread, process   link_converse(), poll(2) on link->fd      redis_blocking.c
 *     select ... epoll  the loop watches link->fd                redis_reactor.c
 *     uring             IORING_OP_POLL_ADD on link->fd
 *     coroutine         link_converse(), switching away until link->fd is ready
 *
 * Links must not cross a fork: open the first one in the child.
 */
#ifndef REDIS_CONN_H
#define REDIS_CONN_H

#include "server/conn.h"

#define UPSTREAM_PATIENCE_NS 1000000000ull

enum {
    UPSTREAM_LINKS = 16,             /* at most, for each process or loop */
    UPSTREAM_REPLY_MAX = 128 * 1024, /* a longer reply counts as broken */
};

enum link_state {
    LINK_CLOSED,                     /* 0: a zeroed link is a closed one */
    LINK_CONNECTING, LINK_SENDING, LINK_RECEIVING, LINK_RESTING,
};

struct link {
    int fd;                          /* unless closed */
    enum link_state state;
    int error;                       /* errno of what went wrong */
    struct span ask;                 /* not yet sent */
    size_t got, reply_bytes;         /* of the reply; of its buffer */
    char *reply;                     /* belongs to the link */
};

enum link_news { LINK_NEEDS_IN, LINK_NEEDS_OUT, LINK_HAS_REPLY, LINK_BROKE };

/* Where Redis is: "HOST:PORT" or NULL for nowhere, to be called once before
 * any fork. Returns NULL, or what is wrong. */
const char *upstream_setup(const char *address);

/* Begins a conversation on a link that is closed or rests and is not stale; a
 * closed one starts to connect. False when that fails at once (link->error),
 * then it is closed. `ask` must stay where it is until the reply has come. */
bool link_ask(struct link *link, struct span ask, struct stats *stats);

/* Does what can be done without waiting, and says what is next. */
enum link_news link_go_on(struct link *link);

/* After conn_replied(): does the client want more of the same reply? */
static inline bool link_wants_more(const struct conn *conn)
{
    return conn->want == WANT_ASK && conn->ask.length == 0;
}

/* The reply was complete: the link may be asked again. */
void link_rest(struct link *link);

/* Whether Redis has left a link that rests, or said what nobody asked for: one
 * system call, to be made before the link is asked again by those who do not
 * watch it meanwhile. */
bool link_is_stale(const struct link *link);

/* Closes the socket and frees the buffer; a closed link stays as it is. Who
 * watches link->fd stops that first. */
void link_close(struct link *link);

/* Waits until fd is readable, or writable with `out`; false: not in time. */
typedef bool link_wait(struct conn *conn, int fd, bool out,
                       uint64_t deadline_ns);

/* A whole conversation, written straight down, for those whose code may stop
 * and go on: threads, processes, coroutines. Returns what conn wants next. */
enum want link_converse(struct link *link, struct conn *conn, link_wait *wait,
                        uint64_t deadline_ns);

#endif
