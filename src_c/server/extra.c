/* extra.c -- see extra.h. */
#include "extra.h"

#include <stdatomic.h>

#include "common/clock.h"

enum {
    TRIES = 50,
    TURNS = 100000,  /* of a try: 0.1 to 0.2 ms, so most are not interrupted */
    CALLS_TIMED = 32 /* one call in so many is timed */
};

/* How far a timed call moves the rate: a server follows its core within some
 * thousand requests, two slices. */
static const double STEP = 1.0 / 64;

/* A call that a scheduler interrupted counts as one that took so many times as
 * long besides; interrupts, which are shorter, count as they are, since the CPU
 * clock of a process counts them, too. */
static const double LATE_MOST = 8;

static _Atomic double turns_per_ns;

/* Each turn needs the result of the one before, so a CPU cannot overlap them,
 * nor a compiler leave them out. */
static void extra_turn(uint64_t turns)
{
    uint64_t x = turns;
    for (uint64_t i = 0; i < turns; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
}

/* The quickest try counts: others were interrupted, or came before the core had
 * raised its clock rate. */
void extra_calibrate(void)
{
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t began_ns = clock_now_ns();
        extra_turn(TURNS);
        uint64_t took_ns = clock_now_ns() - began_ns;
        if (took_ns < least_ns)
            least_ns = took_ns;
    }
    turns_per_ns = TURNS / (double)least_ns;
}

static void compute(uint64_t ns, double rate)
{
    extra_turn((uint64_t)((double)ns * rate + 0.5));
}

/* Moves the rate so that timed calls take what was asked, on average. Two
 * readings of the clock in a row tell what a reading takes. */
static double compute_timed(uint64_t ns, double rate)
{
    uint64_t before_ns = clock_now_ns();
    uint64_t began_ns = clock_now_ns();
    compute(ns, rate);
    uint64_t took_ns = clock_now_ns() - began_ns;
    uint64_t reading_ns = began_ns - before_ns;
    if (reading_ns > took_ns) /* it was interrupted, and tells nothing */
        return rate;
    double late = ((double)took_ns - (double)reading_ns) / (double)ns - 1;
    return rate * (1 - STEP * (late < LATE_MOST ? late : LATE_MOST));
}

void extra_spend(uint64_t ns)
{
    static _Thread_local unsigned calls;
    double rate = atomic_load_explicit(&turns_per_ns, memory_order_relaxed);
    if (++calls % CALLS_TIMED != 0 || ns == 0) {
        compute(ns, rate);
        return;
    }
    rate = compute_timed(ns, rate);
    atomic_store_explicit(&turns_per_ns, rate, memory_order_relaxed);
}
