/* timers.c -- see timers.h.
 *
 * A binary heap of pointers, for the loops of reactor, rings and coroutines.
 * Indexes count from 1: the parent of i is i / 2, its children are 2 i and
 * 2 i + 1, the next timer that is due has 1. Setting and cancelling cost log n.
 * A server cancels nearly all of its timers, so each one knows its index
 * (heap_index; 0: it is not set) and is found without a search.
 */
#include "timers.h"

#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"
#include "server/stop.h"

static void heap_put(struct timers *t, size_t index, struct timer *timer)
{
    t->heap[index - 1] = timer;
    timer->heap_index = index;
}

static struct timer *at(const struct timers *t, size_t index)
{
    return t->heap[index - 1];
}

static void heap_rise(struct timers *t, struct timer *timer)
{
    size_t index = timer->heap_index;
    while (index > 1 && at(t, index / 2)->at_ns > timer->at_ns) {
        heap_put(t, index, at(t, index / 2));
        index /= 2;
    }
    heap_put(t, index, timer);
}

static void heap_sink(struct timers *t, struct timer *timer)
{
    size_t index = timer->heap_index;
    for (size_t child; (child = index * 2) <= t->count; index = child) {
        if (child < t->count && at(t, child + 1)->at_ns < at(t, child)->at_ns)
            child++;
        if (at(t, child)->at_ns >= timer->at_ns)
            break;
        heap_put(t, index, at(t, child));
    }
    heap_put(t, index, timer);
}

static bool grow(struct timers *t)
{
    size_t capacity = t->capacity ? t->capacity * 2 : 64;
    struct timer **heap = realloc(t->heap, capacity * sizeof *heap);
    if (!heap)
        return false;
    t->heap = heap;
    t->capacity = capacity;
    return true;
}

bool timers_set(struct timers *t, struct timer *timer, uint64_t at_ns)
{
    assert(timer->heap_index == 0);
    if (t->count == t->capacity && !grow(t))
        return false;
    timer->at_ns = at_ns;
    heap_put(t, ++t->count, timer);
    heap_rise(t, timer);
    return true;
}

/* The last one takes its place; it may belong higher or lower than that. */
void timers_cancel(struct timers *t, struct timer *timer)
{
    size_t index = timer->heap_index;
    if (index == 0)
        return;
    struct timer *last = at(t, t->count--);
    timer->heap_index = 0;
    if (last == timer)
        return;
    heap_put(t, index, last);
    heap_rise(t, last);
    heap_sink(t, last);
}

struct timer *timers_due(struct timers *t, uint64_t now_ns)
{
    if (t->count == 0 || at(t, 1)->at_ns > now_ns)
        return NULL;
    struct timer *first = at(t, 1);
    timers_cancel(t, first);
    return first;
}

int64_t timers_left_ns(const struct timers *t, uint64_t now_ns)
{
    if (t->count == 0)
        return -1;
    uint64_t first = at(t, 1)->at_ns;
    return first > now_ns ? (int64_t)(first - now_ns) : 0;
}

int64_t timers_timeout_ns(const struct timers *timers, bool ending)
{
    int64_t left_ns =
        timers->count ? timers_left_ns(timers, clock_now_ns()) : -1;
    if (ending && (left_ns < 0 || left_ns > STOP_POLL_NS))
        return STOP_POLL_NS;
    return left_ns;
}

void timers_free(struct timers *t)
{
    free(t->heap);
    *t = (struct timers){0};
}
