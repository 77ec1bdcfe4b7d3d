/* test_extra.c -- what a request costs besides is CPU time, in proportion. */
#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"

/* The clock that extra.c reads: the reading of this number takes a moment, as
 * if another program had the core meanwhile. */
static unsigned readings, late_reading;

static uint64_t read_clock_ns(void)
{
    uint64_t until_ns = clock_now_ns();
    if (++readings == late_reading)
        until_ns += 3 * NS_PER_MS;
    while (clock_now_ns() < until_ns)
        continue;
    return clock_now_ns();
}

#define clock_now_ns read_clock_ns
#include "server/extra.c"
#undef clock_now_ns

enum { CALLS = 2000, TRIES_SPENT = 41, TRY_NS = 500000 };

static int compare_ns(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* CPU time of a call on average, in the middle one of many tries that take as
 * long, whatever is asked for. A host that gives a virtual machine's core to
 * others, which its CPU clocks do not know, makes some dearer; a timed call
 * that was interrupted makes some that follow cheaper. */
static double spent_ns(uint64_t asked_ns)
{
    uint64_t calls = asked_ns ? TRY_NS / asked_ns : CALLS;
    uint64_t tries_ns[TRIES_SPENT];
    for (int i = 0; i < TRIES_SPENT; i++) {
        uint64_t began_ns = clock_thread_cpu_ns();
        for (uint64_t call = 0; call < calls; call++)
            extra_spend(asked_ns);
        tries_ns[i] = clock_thread_cpu_ns() - began_ns;
    }
    qsort(tries_ns, TRIES_SPENT, sizeof *tries_ns, compare_ns);
    return (double)tries_ns[TRIES_SPENT / 2] / (double)calls;
}

/* Of the three readings of a call that is timed any may be the late one. */
static void an_interruption_does_not_make_all_that_follow_dear(void)
{
    for (unsigned reading = 1; reading <= 3; reading++) {
        double before = turns_per_ns;
        late_reading = readings + reading;
        for (int call = 0; call < CALLS_TIMED; call++)
            extra_spend(500);
        assert(turns_per_ns > before * 0.8 && turns_per_ns < before * 1.1);
    }
}

int main(void)
{
    extra_calibrate();
    double half_us = spent_ns(500), five_us = spent_ns(5000);
    assert(half_us > 350 && half_us < 2000);
    assert(five_us > 3500 && five_us < 20000);
    assert(five_us / half_us > 7 && five_us / half_us < 13);
    assert(spent_ns(0) < 100);
    an_interruption_does_not_make_all_that_follow_dear();
    return 0;
}
