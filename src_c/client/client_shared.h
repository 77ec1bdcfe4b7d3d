/* client_shared.h -- memory that all crews of the client share.
 *
 * One mapping, made before the first fork: a few words by which crews agree on
 * when to begin and to stop, a record and a timeline per crew, a row per user.
 * Each record is written by its crew only and read when that has ended, so
 * nothing here needs a lock.
 */
#ifndef CLIENT_SHARED_H
#define CLIENT_SHARED_H

#include <stdatomic.h>

#include "client_plan.h"
#include "record.h"

enum board_stop {
    STOP_NONE, STOP_DURATION, STOP_REQUESTS, STOP_SERVER_GONE, STOP_INTERRUPTED
};

struct board {
    atomic_int interrupted;                /* a signal came */
    atomic_uint ready;                     /* crews whose users have dialed */
    atomic_uint busy;                      /* crews that have not ended, of
                                              those with active users */
    atomic_ullong start_ns;                /* of the load; 0 before */
    atomic_uint greeted;                   /* crews whose users all were */
    atomic_ullong greeted_ns;              /* users go on; 0 before */
    atomic_uint going;                     /* crews whose users all go on */
    atomic_ullong going_ns;                /* the warm-up begins; 0 before */
    uint64_t began_ns;                     /* of dialing */
    unsigned crews;
    struct record *records;                /* one per crew */
    struct row *rows;                      /* one per user */
};

/* NULL with errno when there is no memory. Lasts as long as the process. */
struct board *board_make(const struct plan *plan);

/* A crew (or, for crews that died, their parent) has all its users settled.
 * The last one to say so starts the load. */
void board_ready(struct board *board, unsigned crews);

/* The users of a crew have all been answered once, or (`late`) it has waited
 * long enough for all crews. The last one, or the first late one, lets users go
 * on. */
void board_greeted(struct board *board, bool late);

/* The users of a crew all go on. The last one to say so starts the warm-up. */
void board_going(struct board *board);

#endif
