/* client_shared.h -- memory that all threads of the client share.
 *
 * One mapping, made before the first fork: a few words by which threads agree
 * on when to begin and to stop, a record and a timeline per thread, a row per
 * user.
 * Each record is written by its thread only and read when that has ended, so
 * nothing here needs a lock.
 */
#ifndef CLIENT_SHARED_H
#define CLIENT_SHARED_H

#include <stdatomic.h>
#include <stdio.h>

#include "client_plan.h"
#include "record.h"

enum stop_reason {
    STOP_NONE,
    STOP_DURATION,
    STOP_REQUESTS,
    STOP_SERVER_GONE,
    STOP_INTERRUPTED
};

/* How a run is cut short: by a signal, or by the loss of a process. */
enum { INTERRUPT_SOON = 1, INTERRUPT_NOW };

/* One thread's part in a slice. */
struct slice_part {
    uint64_t lead_in_requests;        /* answered before it was over */
    uint64_t response_ns;             /* in all, of those after it */
    uint64_t requests, bytes;         /* answered, received after it */
    uint64_t errors, probed, waiting; /* see client_probe.c */
    uint64_t cpu_ns, last_answer_ns;
    uint64_t user_ns, system_ns;          /* of cpu_ns */
    uint64_t lag_p99_ns, response_p99_ns; /* with --late; else 0 */
    bool given_up;
};

/* Why a target had no more turns. */
enum ended {
    ENDED_NOT,
    ENDED_REFUSED,
    ENDED_UNCONNECTED,
    ENDED_GONE,
    ENDED_HUNG
};

/* One target, summed over the counted rounds unless said otherwise. */
struct target_sums {
    atomic_uint live; /* its active users not gone */
    enum ended ended;
    uint64_t ended_round;
    uint64_t slices, late_slices, warmup_slices;
    uint64_t late_slice;               /* number of the last of these; or 0 */
    uint64_t warmup_ns, seconds_ns;    /* counted parts of slices */
    uint64_t slices_ns, all_slices_ns; /* whole ones; with warm-up */
    uint64_t lead_in_requests, requests;
    uint64_t response_ns;   /* of these requests, in all */
    uint64_t client_cpu_ns; /* whole slices */
    int64_t server_cpu_ns, rest_cpu_ns;
};

/* The slice that all threads are in, or are to join: number and all else are
 * written by the first thread while the others rest. */
struct slice {
    atomic_ullong number; /* from 1 on; 0 before the first */
    atomic_uint drained;  /* threads that came to rest */
    unsigned target;
    bool counted;          /* not warm-up */
    enum stop_reason stop; /* not STOP_NONE: there is none */
    uint64_t begin_ns;
};

struct shared {
    atomic_int interrupted;      /* INTERRUPT_…, or 0 */
    atomic_uint ready;           /* threads that have connected */
    atomic_uint busy;            /* threads that have not ended, of
                                    those with active users */
    atomic_ullong start_ns;      /* of the load; 0 before */
    atomic_uint asked_once;      /* threads whose users all were
                                    answered once */
    atomic_ullong asked_once_ns; /* users go on; 0 before */
    atomic_uint resumed;         /* threads whose users all go on */
    atomic_ullong resumed_ns;    /* the warm-up begins; 0 before */
    atomic_uint warmed;          /* threads whose warm-up is over */
    atomic_ullong warm_answers, warm_response_ns; /* theirs, in all */
    atomic_ullong to_ns;       /* of the window, if they decide;
                                  0 before */
    uint64_t began_ns;         /* of connecting */
    bool begin_told;           /* begin_at_ns is 0 until it is known */
    atomic_ullong begin_at_ns; /* start_ns is no sooner */
    unsigned threads;
    unsigned targets;
    struct record *records; /* one per thread and target */
    struct row *rows;       /* one per target and user */
    struct slice slice;
    struct slice_part *parts; /* one per thread */
    struct target_sums sums[MAX_TARGETS];
    FILE *slices_file; /* of the first thread; or NULL */
    uint64_t rounds, late_rounds, warmup_rounds;
    uint64_t repeated;  /* slices */
    uint64_t rounds_ns; /* the counted ones took */
};

/* NULL with errno when there is no memory. Lasts as long as the process. */
struct shared *shared_make(const struct plan *plan);

static inline struct record *shared_record(const struct shared *shared,
                                           unsigned thread, unsigned target)
{
    return &shared->records[(size_t)thread * shared->targets + target];
}

static inline struct row *shared_row(const struct shared *shared,
                                     const struct plan *plan, unsigned target,
                                     uint64_t who)
{
    return &shared->rows[plan->targets[target].first_row + who];
}

/* A thread (or, for threads that died, their parent) has tried to connect all
 * its users. The last one to say so starts the load, soon or at begin_at_ns; if
 * that is to be told, it prints that all have connected. */
void shared_ready(struct shared *shared, unsigned threads);

/* The moment that is to be told is known: the load begins then, or when all
 * have connected. */
void shared_told(struct shared *shared, uint64_t begin_at_ns);

/* The users of a thread have all been answered once, or (`late`) it has waited
 * long enough for all threads. The last one, or the first late one, lets users
 * go on. */
void shared_asked_once(struct shared *shared, bool late);

/* The users of a thread all go on. The last to say so starts the warm-up. */
void shared_resumed(struct shared *shared);

/* --response-times, without slices: the warm-up of a thread is over, and had so
 * many answers, which took so long in all. The last to say so knows how long a
 * window holds enough of them that began at from_ns. */
void shared_warmed(struct shared *shared, const struct plan *plan,
                   uint64_t answers, uint64_t response_ns, uint64_t from_ns);

#endif
