/* timers.h -- a binary heap of wake-up times; embedded, so nothing allocates
 * for a timer but the heap's array. */
#ifndef TIMERS_H
#define TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
    uint64_t at_ns;
    size_t heap_index; /* from 1; 0: not set */
};

struct timers {
    struct timer **heap;
    size_t count, capacity;
};

static inline bool timer_is_set(const struct timer *timer)
{
    return timer->heap_index != 0;
}

/* Sets a timer that is not set. Returns false when memory is out. */
bool timers_set(struct timers *timers, struct timer *timer, uint64_t at_ns);

/* Takes a timer out; does nothing when it is not set. */
void timers_cancel(struct timers *timers, struct timer *timer);

/* Takes out and returns the earliest timer that is due, or NULL. */
struct timer *timers_due(struct timers *timers, uint64_t now_ns);

/* Nanoseconds until the earliest one: 0 when it is due, -1 when none is set. */
int64_t timers_left_ns(const struct timers *timers, uint64_t now_ns);

/* How long a loop may wait for anything else: until the earliest timer, -1: for
 * ever; once its end began, no longer than STOP_POLL_NS. */
int64_t timers_timeout_ns(const struct timers *timers, bool ending);

void timers_free(struct timers *timers);

#endif
