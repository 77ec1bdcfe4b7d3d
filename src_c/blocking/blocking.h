/* blocking.h -- serving one connection with calls that block.
 *
 * Every blocking model runs this same loop for a connection; they differ in
 * who runs it (the only process, a child, a thread, one of a pool, a
 * coroutine) and in nothing else.
 */
#ifndef BLOCKING_H
#define BLOCKING_H

#include <sys/types.h>

#include "server/conn.h"

/* How the loop waits. recv and send return a count, or -1 with errno: EAGAIN
 * says that conn_deadline_ns() has passed. */
struct blocking_calls {
    ssize_t (*receive)(struct conn *conn, char *buffer, size_t size);
    ssize_t (*send)(struct conn *conn); /* conn_unsent() */
    void (*sleep_until)(struct conn *conn, uint64_t ns);
    enum want (*ask)(struct conn *conn); /* one turn of WANT_ASK */
};

/* The ordinary ones: the thread blocks in the kernel. */
extern const struct blocking_calls blocking_kernel;

/* What one thread needs to serve a connection: large, but only the pages that
 * are touched cost memory. Meant to lie on the thread's stack. */
struct blocking_buffers {
    char in[CONN_CHUNK];
    char out[CONN_CHUNK];
};

/* Enough stack for a thread that serves with buffers on it.
 * (ThreadSanitizer puts its own state of a thread there as well.) */
#ifdef __SANITIZE_THREAD__
enum { BLOCKING_STACK_BYTES = 64 * CONN_CHUNK };
#else
enum { BLOCKING_STACK_BYTES = 4 * CONN_CHUNK };
#endif

/* With --timeout-idle: a call on the socket ends with EAGAIN once it has waited
 * that long (SO_RCVTIMEO, SO_SNDTIMEO). */
void blocking_limit_waits(const struct server *server, int fd);

/* Does what the connection wants until that is to close; the caller closes. */
void blocking_converse(struct conn *conn, char *buffer, size_t size,
                       const struct blocking_calls *calls);

/* Opens a connection on fd as `worker` index and serves it, buffers on the
 * stack: what a thread or process does with a socket it was given. */
void blocking_serve_fd(struct server *server, unsigned index, int fd,
                       const struct sockaddr_in6 *peer);

/* Accepts and serves one connection after the other as `worker` index, until
 * a stop: a whole server; or one of many, in threads or processes. */
void blocking_serve_all(struct server *server, unsigned index);

#endif
