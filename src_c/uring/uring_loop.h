/* uring_loop.h -- what every server that lives from completions does with one.
 *
 * The proactor pattern: instead of waiting until an operation could be done,
 * hand it over and be told that it was. The model holds the loop:
 *
 *     while (!uring_done(loop)) {
 *         uring_wait(...)
 *         for each completion
 *             URING_ACCEPT:  uring_add_client()
 *             URING_RECEIVE: uring_received()
 *             URING_SEND:    uring_sent()
 *             anything else: uring_other()
 *         uring_run_timers(loop);
 *         uring_end_round(loop);
 *     }
 *
 * Here is what stands behind these. What an operation points at belongs to the
 * kernel until it completes, so a client that is to be closed has its
 * operations cancelled first (uring_client.c), and its memory goes at the end
 * of a round in which none is left.
 */
#ifndef URING_LOOP_H
#define URING_LOOP_H

#include "common/list.h"
#include "flow.h"
#include "reactor/timers.h"
#include "redis/redis_async.h"
#include "server/conn.h"
#include "uring_accept.h"
#include "uring_buffers.h"
#include "uring_redis.h"

#ifdef HAVE_URING

/* What completes: the low bits of user_data; the others are the address of
 * what it is about. */
enum uring_operation {
    URING_REDIS_POLL = URING_REDIS_TAG,
    URING_RECEIVE,
    URING_SEND,
    URING_CANCEL,
    URING_ACCEPT,
    URING_LISTENER_READY,
    URING_HANDED_OVER, /* by another ring; the result is a socket */
    URING_TAGS = URING_NOBODY,
};

struct uring_loop {
    struct worker worker; /* first: a client's conn.worker is its loop */
    struct io_uring ring;
    struct uring_listener listener;
    struct uring_buffers small, large; /* of multishot, of one-shot */
    struct uring_redis redis;
    struct timers timers;
    struct node open, closed;    /* clients; freed at the end of the round */
    size_t built_bytes;          /* of answers whose sends are not submitted */
    bool small_lack, large_lack; /* a receive found no buffer this round */
    bool busy;                   /* a client can go on without a completion */
    bool fed, ended;             /* another ring hands clients over; no more */
    bool lost;                   /* completions were dropped: a new ring */
    uint64_t parting_ns;         /* not 0: all are cut, and gone by then */
};

/* A client as the loop sees it. `conn` comes last: its session follows it. */
struct uring_client {
    _Alignas(16) struct timer timer;
    struct node open; /* in loop->open, or loop->closed */
    struct redis_request redis;
    struct flow flow;
    bool receiving, sending;      /* operations that the kernel holds */
    bool cancelling;              /* another that ends the receive */
    bool closing;                 /* to be closed when it holds none */
    bool late;                    /* its timer is for a second look, a round
                                   * after its deadline had passed */
    struct uring_buffers *source; /* of what it receives */
    struct uring_buffers *lender; /* of the buffer that is sent from, or
                                   * NULL, ... */
    unsigned buffer;              /* ... and which one */
    struct conn conn;
};

/* --- a model's loop --------------------------------------------------- */

/* Whether the loop is at its end: no connection will come any more, and all
 * are closed, or should have been when a stop was overdue. */
bool uring_done(const struct uring_loop *loop);

/* Submits what is new, and waits for completions: up to the next timer. */
void uring_await(struct uring_loop *loop);

static inline enum uring_operation
uring_operation(const struct io_uring_cqe *cqe)
{
    return (enum uring_operation)(cqe->user_data & URING_TAGS);
}

static inline void *uring_subject(const struct io_uring_cqe *cqe)
{
    return (void *)(uintptr_t)(cqe->user_data & ~(uint64_t)URING_TAGS);
}

/* Serves a connected socket from now on; a negative fd is nobody. */
void uring_add_client(struct uring_loop *loop, int fd,
                      const struct sockaddr_in6 *peer);

/* Why a connection is refused whose ring is about to close: a stop, or memory
 * was out for its completions. */
enum refusal uring_refusal(void);

/* Bytes came, or the end, or an error: hands them to the workload. */
void uring_received(struct uring_loop *loop, struct uring_client *client,
                    const struct io_uring_cqe *cqe);

/* `result` bytes were sent, or it is a negative errno. */
void uring_sent(struct uring_loop *loop, struct uring_client *client,
                int result);

/* Any other completion: Redis, a cancellation, a limit at the listener. */
void uring_other(struct uring_loop *loop, const struct io_uring_cqe *cqe);

/* Goes on with clients whose sleep is over, or which Redis or a timeout of the
 * command line keeps waiting no longer. */
void uring_run_timers(struct uring_loop *loop);

/* After all completions: clients that wait for Redis; more buffers where a
 * receive found none; cuts all when a stop is overdue, or completions were
 * lost; frees the clients that were closed. */
void uring_end_round(struct uring_loop *loop);

/* --- set-up and end --------------------------------------------------- */

/* A loop for worker `index` that accepts from the server's listening socket;
 * with -1 there, clients come from another ring. NULL after warn(3). */
struct uring_loop *uring_loop_new(struct server *server, unsigned index);
void uring_loop_free(struct uring_loop *loop);

/* Opens the ring, which only the calling thread will use, and arms what brings
 * clients. Returns false after warn(3). */
bool uring_loop_open(struct uring_loop *loop);

/* Closes the ring and what clients there are; and opens another one if it was
 * because of lost completions. Returns whether there is one. */
bool uring_loop_reopen(struct uring_loop *loop);

/* All of these in turn, with `serve` for a model's loop. Returns what a model's
 * run() does. */
int uring_run(struct server *server, unsigned index,
              void (*serve)(struct uring_loop *));

/* --- between the files of this folder --------------------------------- */

/* Fulfils what the client wants: new operations, or a timer. */
void uring_client_advance(struct uring_loop *loop, struct uring_client *client,
                          enum want want);

/* Closes it; at once, or when its operations have ended. */
void uring_client_close(struct uring_loop *loop, struct uring_client *client);

/* Sets its timer to its deadline, if it has one. */
void uring_client_set_deadline(struct uring_loop *loop,
                               struct uring_client *client);

/* Its deadline has passed: in the next round too, it is cut. */
void uring_client_cut(struct uring_loop *loop, struct uring_client *client,
                      uint64_t now_ns);

/* Its cancellation completed. */
void uring_client_cancelled(struct uring_loop *loop,
                            struct uring_client *client, int result);

/* All of them: begins to close them; closes them once there is no ring any
 * more; frees those that were closed. */
void uring_clients_close(struct uring_loop *loop);
void uring_clients_abandon(struct uring_loop *loop);
void uring_clients_free(struct uring_loop *loop);

/* Counts messages to other rings. The kernel orders what one thread did before
 * a message and what another does after it; this tells it to C11. */
extern atomic_uint uring_messages;

#endif
#endif
