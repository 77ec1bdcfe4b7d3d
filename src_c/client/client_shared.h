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

#include "client_plan.h"
#include "record.h"

enum stop_reason {
    STOP_NONE, STOP_DURATION, STOP_REQUESTS, STOP_SERVER_GONE, STOP_INTERRUPTED
};

struct shared {
    atomic_int interrupted;                /* a signal came */
    atomic_uint ready;                     /* threads that have connected */
    atomic_uint busy;                      /* threads that have not ended, of
                                              those with active users */
    atomic_ullong start_ns;                /* of the load; 0 before */
    atomic_uint asked_once;                /* threads whose users all were
                                              answered once */
    atomic_ullong asked_once_ns;              /* users go on; 0 before */
    atomic_uint resumed;                   /* threads whose users all go on */
    atomic_ullong resumed_ns;                /* the warm-up begins; 0 before */
    uint64_t began_ns;                     /* of connecting */
    unsigned threads;
    struct record *records;                /* one per thread */
    struct row *rows;                      /* one per user */
};

/* NULL with errno when there is no memory. Lasts as long as the process. */
struct shared *shared_make(const struct plan *plan);

/* A thread (or, for threads that died, their parent) has tried to connect all
 * its users. The last one to say so starts the load. */
void shared_ready(struct shared *shared, unsigned threads);

/* The users of a thread have all been answered once, or (`late`) it has waited
 * long enough for all threads. The last one, or the first late one, lets users
 * go on. */
void shared_asked_once(struct shared *shared, bool late);

/* The users of a thread all go on. The last to say so starts the warm-up. */
void shared_resumed(struct shared *shared);

#endif
