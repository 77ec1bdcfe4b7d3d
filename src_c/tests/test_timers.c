/* test_timers.c -- the heap against the plain way: look for the least. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "reactor/timers.h"

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

int main(void)
{
    any_order_of_setting_and_cancelling();
    due_ones_come_in_order();
    puts("test_timers: passed");
    return 0;
}
