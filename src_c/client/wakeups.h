/* wakeups.h -- who wants to be woken when: a binary heap of (time, who).
 *
 * Adding and taking cost log n. There is no removal: whoever no longer wants
 * to be woken ignores the call (see user.wake_ns).
 */
#ifndef WAKEUPS_H
#define WAKEUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wakeup {
    uint64_t due_ns;
    uint32_t who;
};

struct wakeups {
    struct wakeup *heap;
    size_t count, room;
};

/* An empty heap of wakeups is all zeros. False when there is no memory. */
bool wakeups_add(struct wakeups *a, uint64_t due_ns, uint32_t who);

/* When the earliest is due; UINT64_MAX when nobody waits. */
static inline uint64_t wakeups_due_ns(const struct wakeups *a)
{
    return a->count ? a->heap[0].due_ns : UINT64_MAX;
}

/* Takes the earliest off. Only when count > 0. */
struct wakeup wakeups_take(struct wakeups *a);

void wakeups_free(struct wakeups *a);

#endif
