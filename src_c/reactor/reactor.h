/* reactor.h -- what every readiness model does once a descriptor is ready.
 *
 * The reactor pattern: wait for many descriptors at once, then call a handler
 * for each that is ready. The waiting differs between select, poll, epoll and
 * their kin, and so each of their files holds its own loop:
 *
 *     while (!reactor_done(loop)) {
 *         wait in the kernel, at most reactor_timeout_ns(loop)
 *         for each descriptor that is ready
 *             SOURCE_LISTENER: accept_clients()
 *             SOURCE_CLIENT:   serve_client()
 *             anything else:   serve_other()
 *         run_timers(loop);
 *         end_round(loop);
 *     }
 *
 * Here is what the loops have in common: those handlers, the timers, and the
 * end. The reactor tells the model which descriptors to watch, and what for,
 * by the functions of a `struct poller`.
 *
 * Every source carries what is believed to be ready. An event sets a bit, a
 * call that finds nothing more (EAGAIN) clears it, and nothing is tried
 * without it: so one piece of code serves level- and edge-triggered pollers.
 */
#ifndef REACTOR_H
#define REACTOR_H

#include <pthread.h>

#include "common/list.h"
#include "common/owner.h"
#include "redis/redis_async.h"
#include "ready.h"
#include "server/conn.h"
#include "timers.h"

enum source_kind {
    SOURCE_LISTENER,
    SOURCE_STOP, /* stop_fd(), or what else ends the loop */
    SOURCE_CLIENT,
    SOURCE_REDIS,    /* a connection to Redis: reactor_redis.h */
    SOURCE_HANDOVER, /* a pipe of connections: handover.h */
    SOURCE_JOBS,     /* epoll-offload: requests that other threads have done */
    SOURCE_CLOSED,   /* closed in this round; its memory is still there */
};

/* A descriptor that a loop watches; embedded in what it stands for. */
struct source {
    int fd;
    uint8_t kind;
    uint8_t interest;    /* READY_IN, READY_OUT, 0: what it waits for */
    uint8_t ready;       /* READY_…: what is believed to be ready */
    bool deferred;       /* is in loop->deferred or loop->answers */
    bool away;           /* a client whose step another thread runs */
    unsigned slot;       /* for the poller's own use */
    struct source *next; /* in a list of the loop */
};

/* A source that one thread gives to an epoll set changes hands through the
 * kernel: whoever takes its event sees what the other thread wrote before. C11
 * knows nothing of that, so it is told. With these, a poller has no use for
 * `slot`. */
static inline void source_release(struct source *source)
{
    __atomic_store_n(&source->slot, 0, __ATOMIC_RELEASE);
}

static inline struct source *source_acquire(void *event_data)
{
    struct source *source = event_data;
    __atomic_load_n(&source->slot, __ATOMIC_ACQUIRE);
    return source;
}

struct loop;
struct client;

/* How a model watches descriptors. */
struct poller {
    bool edge; /* edge-triggered: everything is watched from the start, and
                * reads go on until the socket is empty */
    /* Whether the descriptor can be watched at all; left out: always. */
    bool (*fits)(int fd);
    /* Returns false with errno when it cannot. */
    bool (*add)(struct loop *loop, struct source *source);
    void (*change)(struct loop *loop, struct source *source);
    void (*drop)(struct loop *loop, struct source *source);
};

/* The open connections of a loop, or of several loops that share them. */
struct client_list {
    pthread_mutex_t lock;
    struct node clients;
};

/* A client's limit where it does not wait; and where it has waited for too
 * long, and its socket was shut. */
#define LIMIT_NONE UINT64_MAX
#define LIMIT_CUT (UINT64_MAX / 2)

void client_list_init(struct client_list *list);
void client_list_destroy(struct client_list *list);

/* With --timeout-…, for loops that share clients, where no loop has a timer for
 * a client that any of them may be serving: shuts down those that have waited
 * for too long, unless their sockets are ready. That is an event, and the loop
 * which takes it finds LIMIT_CUT, and cuts them. */
void client_list_cut(struct client_list *list, uint64_t now_ns);

/* A loop receives from some clients of echo before it answers them: while one
 * system call is made again and again, its code stays in the instruction cache.
 * So few that no answer waits long, and so short that all stay in the data
 * cache. */
enum { ANSWERS_MOST = 32, ANSWER_BYTES = 512, CACHE_LINE = 64 };

struct loop {
    struct worker worker; /* first: a client's conn.worker is its loop */
    const struct poller *poller;
    void *state; /* the poller's */
    struct timers timers;
    struct source listener, stop, handover, jobs;
    bool fed;    /* its clients come from another thread ... */
    bool ending; /* ... which has ended */
    bool busy;   /* a client can go on without any event */
    _Atomic unsigned closed_count;
    struct source *closed;   /* freed at the end of the round */
    struct source *deferred; /* clients that have had their quota */
    struct client *answers[ANSWERS_MOST]; /* whose short echo waits */
    unsigned answer_count;
    size_t answer_bytes;         /* of `in` that those echoes take up */
    struct client_list *clients; /* by default its own */
    struct client_list own;
    bool shared; /* `clients` are served by several loops */
    bool timed;  /* --timeout-… was given */
    /* Where a client's steps do not run in this thread (epoll-offload): `count`
     * bytes came and lie at `bytes` until it returns; or, with NULL, were sent,
     * and the workload has more. The client is away until client_return().
     * Returns false when memory is out. */
    bool (*offload)(struct loop *loop, struct client *client, const char *bytes,
                    size_t count);
    void *offload_state;
    struct redis_async redis;
    struct source redis_sources[REDIS_CONNS];
    _Alignas(CACHE_LINE) char in[ANSWERS_MOST * ANSWER_BYTES + CONN_CHUNK];
};

/* A client as the loop sees it. `conn` comes last: its session follows it. */
struct client {
    struct timer timer;
    _Atomic uint64_t limit; /* with loop->shared: see client_list_cut() */
    struct node open;       /* in loop->clients */
    struct redis_request redis;
    struct source source; /* beside conn: both are touched by each event */
    struct conn conn;
};

static inline struct client *client_of(struct source *source)
{
    return OWNER_OF(source, struct client, source);
}

/* --- a model's loop --------------------------------------------------- */

/* Whether the loop is at its end: no connection will come any more, and all are
 * closed, or a stop is overdue. */
bool reactor_done(const struct loop *loop);

/* How long the wait may last: until the next timer; -1: for ever. */
int64_t reactor_timeout_ns(const struct loop *loop);

/* The listening socket is ready: accepts some clients and watches them. */
void accept_clients(struct loop *loop, struct source *listener);

/* A SOURCE_CLIENT is ready: receives, has the workload answer, sends, for as
 * long as that needs no waiting and others are not held up. A short echo is
 * sent together with those of the next clients, or by end_round(). */
void serve_client(struct loop *loop, struct source *source, unsigned ready);

/* Any other source is ready: the stop, Redis, a handover. */
void serve_other(struct loop *loop, struct source *source);

/* Goes on with clients whose sleep is over or which Redis kept waiting, and
 * cuts those that have taken longer than --timeout-… allows. */
void run_timers(struct loop *loop);

/* After all events: clients that were deferred, the last answers, clients that
 * wait for Redis; frees the clients that were closed. */
void end_round(struct loop *loop);

/* --- set-up and end --------------------------------------------------- */

/* A loop for worker `index` around a poller and its state; NULL after warn(3),
 * which loop_free() takes as free(3) does. That does not touch `state`. */
struct loop *loop_new(struct server *server, unsigned index,
                      const struct poller *poller, void *state);
void loop_free(struct loop *loop);

/* Watches the server's listening socket, which becomes non-blocking, and the
 * stop. Returns false after warn(3). */
bool loop_listen(struct loop *loop);

/* Watches `fd` as a source of the loop that is not a client's. Returns false
 * after warn(3). */
bool loop_add(struct loop *loop, struct source *source, int fd,
              enum source_kind kind);

/* Closes the connections whose worker this is, and those to Redis, once no
 * thread serves them any more. */
void loop_end(struct loop *loop);

/* The body of a model that is one loop in one thread: `serve` is its loop.
 * Returns what a model's run() does. */
int loop_run(struct server *server, const struct poller *poller, void *state,
             void (*serve)(struct loop *));

/* --- for the parts of a reactor that stand in files of their own ------ */

/* Serves a connected, non-blocking socket in this loop from now on. Another
 * thread than the loop's may call it where the poller's add() allows that. */
void client_add(struct loop *loop, int fd, const struct sockaddr_in6 *peer);

/* Closes a client; its memory stays until the end of the round, for events that
 * still point at it. */
void client_close(struct loop *loop, struct client *client);
void client_free(struct source *source);

/* Fulfils what the client wants, as far as that is possible now. */
void client_advance(struct loop *loop, struct client *client, enum want want);

/* Sends the answers that wait for each other. */
void send_answers(struct loop *loop);

/* A client that was away goes on with what its conn wants. */
void client_return(struct loop *loop, struct client *client);

/* The client's timer has expired, and is not set any more. */
void client_timer(struct loop *loop, struct client *client, uint64_t now_ns);

/* What a source waits for from now on; the end of its watch. */
void loop_watch(struct loop *loop, struct source *source, uint8_t interest);
void loop_drop(struct loop *loop, struct source *source);

#endif
