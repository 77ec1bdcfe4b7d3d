/* test_timers.c -- the heap against the plain way: look for the least. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "reactor/timers.h"
#include "server/stop.h"

enum { TIMERS = 300, ROUNDS = 40000 };

static struct timer all[TIMERS];

static struct timer *earliest(void)
{
    struct timer *found = NULL;
    for (struct timer *t = all; t < all + TIMERS; t++)
        if (t->heap_index && (!found || t->at_ns < found->at_ns))
            found = t;
    return found;
}

static void agrees(struct timers *timers, uint64_t now)
{
    struct timer *first = earliest();
    int64_t left = timers_left_ns(timers, now);
    int64_t want = !first               ? -1
                   : first->at_ns > now ? (int64_t)(first->at_ns - now)
                                        : 0;
    assert(left == want);
}

static void any_order_of_setting_and_cancelling(void)
{
    struct timers timers = {0};
    srand(1);
    for (uint64_t now = 0; now < ROUNDS; now++) {
        struct timer *t = &all[rand() % TIMERS];
        if (!t->heap_index)
            assert(timers_set(&timers, t, now + (uint64_t)(rand() % 500)));
        else if (rand() % 2)
            timers_cancel(&timers, t);
        agrees(&timers, now);
        struct timer *expected = earliest();
        struct timer *due = timers_due(&timers, now);
        if (expected && expected->at_ns <= now)
            assert(due && due->at_ns == expected->at_ns && !due->heap_index);
        else
            assert(!due);
    }
    for (int i = 0; i < TIMERS; i++)
        timers_cancel(&timers, &all[i]);
    assert(timers.count == 0 && timers_left_ns(&timers, 0) == -1);
    timers_free(&timers);
}

static void due_ones_come_in_order(void)
{
    struct timers timers = {0};
    for (int i = 0; i < TIMERS; i++)
        timers_set(&timers, &all[i], (uint64_t)(i * 7919 % 1000));
    uint64_t before = 0;
    unsigned seen = 0;
    for (struct timer *t; (t = timers_due(&timers, 1000)); seen++) {
        assert(t->at_ns >= before);
        before = t->at_ns;
    }
    assert(seen == TIMERS);
    timers_free(&timers);
}

/* A poller sleeps until the first is due, and for ever without one; a server
 * that ends looks up from time to time. */
static void a_poller_sleeps_until_the_first_is_due(void)
{
    struct timers timers = {0};
    assert(timers_timeout_ns(&timers, false) == -1);
    assert(timers_timeout_ns(&timers, true) == STOP_POLL_NS);
    assert(timers_set(&timers, &all[0], clock_now_ns() + 90 * NS_PER_S));
    assert(timers_timeout_ns(&timers, false) > (int64_t)(80 * NS_PER_S));
    assert(timers_timeout_ns(&timers, true) == STOP_POLL_NS);
    assert(timers_set(&timers, &all[1], 1));
    assert(timers_timeout_ns(&timers, false) == 0);
    assert(timers_timeout_ns(&timers, true) == 0);
    timers_cancel(&timers, &all[0]);
    timers_cancel(&timers, &all[1]);
    timers_free(&timers);
}

int main(void)
{
    any_order_of_setting_and_cancelling();
    due_ones_come_in_order();
    a_poller_sleeps_until_the_first_is_due();
    puts("test_timers: passed");
    return 0;
}
