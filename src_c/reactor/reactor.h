/* reactor.h -- what every readiness model does once something is ready.
 *
 * select, poll, epoll and their kin differ in how they learn which descriptor
 * is ready. A model supplies that as a `struct poller`; accepting, receiving,
 * sending and timers are the same for all and live here; so do requests to
 * Redis (reactor_redis.h).
 *
 *     model:    wait in the kernel -> loop_ready(loop, source, ready) each
 *     reactor:  handle_accept / handle_client / reactor_redis_ready
 */
#ifndef REACTOR_H
#define REACTOR_H

#include <pthread.h>

#include "server/conn.h"
#include "common/list.h"
#include "redis/redis_async.h"
#include "timers.h"

enum {
    READY_IN = 1,
    READY_OUT = 2,
    READY_END = 4,      /* read until 0 bytes, or until there are none now: the
                         * peer ended its stream, or a mark that stops a read
                         * (TCP's urgent bytes) lies in it */
    READY_HANGUP = 8,   /* the connection is gone in both directions */
};

enum source_kind {
    SOURCE_LISTENER,
    SOURCE_STOP,        /* stop_fd() */
    SOURCE_CLIENT,
    SOURCE_REDIS,       /* a connection to Redis */
    SOURCE_HANDOVER,    /* connections that another thread hands us */
    SOURCE_CLOSED,      /* dropped in this round; its memory is still there */
};

/* A descriptor that a loop watches; embedded first in what it stands for. */
struct source {
    int fd;
    uint8_t kind;
    uint8_t interest;    /* READY_IN, READY_OUT, 0: what it waits for */
    uint8_t ready;       /* READY_…: what is believed to be ready */
    bool postponed;      /* is in the loop's list of unfinished ones */
    unsigned slot;       /* for the poller's own use */
    struct source *next; /* in a list of the loop */
};

struct loop;

/* How a model watches descriptors. Only `wait` may block. */
struct poller {
    bool edge;   /* tells of changes only: everything is watched from the start,
                  * and reads go on until there is nothing left */
    /* Whether the descriptor can be watched at all; left out: always. */
    bool (*fits)(int fd);
    /* Returns false with errno when it cannot. */
    bool (*add)(struct loop *loop, struct source *source);
    void (*change)(struct loop *loop, struct source *source);
    void (*drop)(struct loop *loop, struct source *source);
    /* Waits up to timeout_ns (-1: for ever) and calls loop_ready() for each. */
    void (*wait)(struct loop *loop, int64_t timeout_ns);
};

/* The open connections of a loop, or of several that share them. */
struct roster {
    pthread_mutex_t lock;
    struct node clients;
};

void roster_init(struct roster *roster);
void roster_destroy(struct roster *roster);

struct loop {
    struct worker worker;        /* first: a client's conn.worker is its loop */
    const struct poller *poller;
    void *state;                 /* the poller's */
    struct timers timers;
    struct source listener, stop, handover;
    bool fed;                    /* by a handover: see loop_run_fed() */
    _Atomic unsigned gone;       /* connections that it has done with */
    struct source *closed;       /* freed at the end of the round */
    struct source *unfinished;   /* edge: had more to do than its share */
    struct roster *roster;       /* by default its own */
    struct roster own;
    struct redis_async redis;
    struct source redis_sources[REDIS_CONNS];
    char in[CONN_CHUNK];
};

/* A client as the loop sees it. `conn` comes last: its session follows it. */
struct client {
    struct source source;
    struct timer timer;
    struct node open;       /* in the roster */
    struct redis_request redis;
    struct conn conn;
};

/* A loop for worker `index` around a poller and its state; NULL with errno
 * when memory is out. loop_free() does not touch `state`. */
struct loop *loop_new(struct server *server, unsigned index,
                      const struct poller *poller, void *state);
void loop_free(struct loop *loop);

/* Serves connections from the server's listening socket (which becomes
 * non-blocking) until a stop is requested and every connection is done.
 * Returns 0, or -1 after net_warn(). */
int loop_run(struct loop *loop);

/* The parts of loop_run(), for loops that share one poller and one roster:
 * watches the listening socket and the stop; takes turns until a stop is
 * requested and the roster is empty or a stop overdue; closes the connections
 * whose worker it is, when no other thread serves them any more. */
bool loop_listen(struct loop *loop);
void loop_serve(struct loop *loop);
void loop_end(struct loop *loop);

/* Serves connections that come by a handover (its take_fd, which is closed in
 * the end), until that has ended and every connection is done. */
int loop_run_fed(struct loop *loop, int take_fd);

/* `source` is ready: called by the poller's wait. */
void loop_ready(struct loop *loop, struct source *source, unsigned ready);

/* Serves a connected, non-blocking socket in this loop from now on. */
void loop_adopt(struct loop *loop, int fd, const struct sockaddr_in6 *peer);

/* For the parts of a loop that stand in files of their own: what a source
 * waits for; the end of its watch; and going on with what a client wants. */
void loop_watch(struct loop *loop, struct source *source, uint8_t interest);
void loop_drop(struct loop *loop, struct source *source);
void loop_pursue(struct loop *loop, struct client *client, enum want want);

/* The body of a model that is one loop in one thread. */
int loop_run_alone(struct server *server, const struct poller *poller,
                   void *state);

#endif
