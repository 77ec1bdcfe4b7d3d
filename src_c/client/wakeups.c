/* wakeups.c -- see wakeups.h. Children of entry i are 2i + 1 and 2i + 2.
 *
 * Filled by client_events.c with users who think, requests that --byte-rate
 * holds back and connections to try again; emptied by client_thread.c. The
 * server's heap (reactor/timers.c) knows the index of each timer and can cancel
 * it; here entries are 16 bytes by value, next to each other in memory, and one
 * that is no longer wanted is dropped when it is due.
 */
#include "wakeups.h"

#include <assert.h>
#include <stdlib.h>

static bool wakeups_grow(struct wakeups *a)
{
    size_t room = a->room ? 2 * a->room : 64;
    struct wakeup *heap = realloc(a->heap, room * sizeof *heap);
    if (!heap)
        return false;
    a->heap = heap;
    a->room = room;
    return true;
}

bool wakeups_add(struct wakeups *a, uint64_t due_ns, uint32_t who)
{
    if (a->count == a->room && !wakeups_grow(a))
        return false;
    size_t i = a->count++;
    for (; i > 0 && a->heap[(i - 1) / 2].due_ns > due_ns; i = (i - 1) / 2)
        a->heap[i] = a->heap[(i - 1) / 2];
    a->heap[i] = (struct wakeup){due_ns, who};
    return true;
}

struct wakeup wakeups_take(struct wakeups *a)
{
    assert(a->count > 0);
    struct wakeup first = a->heap[0], last = a->heap[--a->count];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < a->count) {
        if (child + 1 < a->count &&
            a->heap[child + 1].due_ns < a->heap[child].due_ns)
            child++;
        if (last.due_ns <= a->heap[child].due_ns)
            break;
        a->heap[i] = a->heap[child];
        i = child;
    }
    a->heap[i] = last;
    return first;
}

void wakeups_free(struct wakeups *a)
{
    free(a->heap);
    *a = (struct wakeups){0};
}
