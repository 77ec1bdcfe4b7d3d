/* stats.h -- what a server counts, in memory that all its processes share.
 *
 * A connection counts for itself and adds its sums here once, when it closes:
 * in steady state no two threads write the same cache line.
 */
#ifndef STATS_H
#define STATS_H

#include <stdatomic.h>
#include <stdint.h>

/* Why a connection was turned away: never the peer's fault, and but for a stop
 * a limit of ours. */
enum refusal {
    REFUSED_DESCRIPTORS, /* EMFILE or ENFILE */
    REFUSED_FDSETSIZE,   /* the descriptor does not fit into an fd_set */
    REFUSED_THREADS,     /* pthread_create failed with EAGAIN */
    REFUSED_PROCESSES,   /* fork failed */
    REFUSED_QUEUE_FULL,  /* the pool's queue has no place */
    REFUSED_MEMORY,      /* none left for its state or its stack */
    REFUSED_STOPPING,    /* it came as we were about to end */
    REFUSALS
};

/* What a client took too long for, and how far its request had come. */
enum timeout {
    TIMEOUT_IDLE,   /* to begin one, or to take its answer */
    TIMEOUT_HEADER, /* from its first byte to the end of its head */
    TIMEOUT_BODY,   /* from there to the end of its body */
    TIMEOUTS
};

enum { STATS_ERRNOS = 134 }; /* Linux's errno values are 1 .. 133 */

typedef _Atomic uint64_t counter;

/* On a cache line of its own: a connection that moves between workers adds to
 * it each time (epoll-pool, epoll-offload). */
struct stats_worker {
    _Alignas(64) counter requests;
};

struct stats {
    counter accepted;
    /* A process that is killed closes nothing here: its connections stay open
     * for good, so that open_max is too large by those it had, and requests and
     * bytes are too small. */
    counter open_now, open_max;
    counter requests, bytes_in, bytes_out;
    counter refused[REFUSALS];
    counter errors[STATS_ERRNOS];
    counter timeouts[TIMEOUTS];
    counter workers_started;
    counter workers_lost;    /* processes that died of a fault */
    counter upstream_opened; /* connections made to Redis */
    unsigned slots;          /* length of workers */
    struct stats_worker workers[];
};

/* Zeroed counters with `slots` workers in shared memory, or NULL (errno). */
struct stats *stats_new(unsigned slots);
void stats_free(struct stats *stats);

void stats_opened(struct stats *stats);
void stats_closed(struct stats *stats);
void stats_refused(struct stats *stats, enum refusal reason);
void stats_error(struct stats *stats, int error);
void stats_timeout(struct stats *stats, enum timeout kind);

static inline void stats_add(counter *c, uint64_t n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

/* Prints the members that stats add to a JSON object, from "accepted" on. */
void stats_print_json(const struct stats *stats);

#endif
