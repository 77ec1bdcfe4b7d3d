/* pace.h -- when may the next one go? Two clockworks that never read a clock.
 *
 * A pace is a schedule of arrivals: the due times are a function of rate, seed
 * and number alone, fixed before the run, whatever the server does. A meter
 * lets so many bytes per second through. Both take the time as an argument and
 * give times back, so a test can run an hour of them in a millisecond.
 */
#ifndef PACE_H
#define PACE_H

#include <stdint.h>

#include "rng.h"

enum pace_kind {
    PACE_POISSON, /* independent gaps, exponential: a crowd */
    PACE_PACED,   /* equal gaps: a metronome */
};

struct pace {
    enum pace_kind kind;
    double gap_ns, next_ns;
    uint64_t start_ns;
    struct rng rng;
};

/* A schedule of `rate` per second from start_ns on. `phase`, 0 <= phase < 1,
 * shifts the first of equal gaps, so that several threads interleave; poisson
 * schedules differ by their rng and add up without it. */
struct pace pace_make(enum pace_kind kind, double rate, double phase,
                      uint64_t start_ns, struct rng rng);

/* When the next arrival is due, in ns of the clock that start_ns is of. */
static inline uint64_t pace_due_ns(const struct pace *p)
{
    return p->start_ns + (uint64_t)p->next_ns;
}

/* Takes that arrival off the schedule; returns when it was due. */
uint64_t pace_next(struct pace *p);

/* The next arrival is due at now_ns at the earliest, those after it follow at
 * their gaps: what was held up meanwhile is not made up for. */
void pace_put_off(struct pace *p, uint64_t now_ns);

struct meter {
    double ns_per_byte; /* 0: no limit */
    uint64_t free_ns;   /* when the bytes let through so far are paid for */
};

struct meter meter_make(double bytes_per_s);

/* Books `bytes`; returns when they may go: now, or when earlier ones are paid
 * for. Time in which nobody sent anything is not saved up. */
uint64_t meter_book(struct meter *m, uint64_t now_ns, uint64_t bytes);

#endif
