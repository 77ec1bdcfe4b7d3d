/* test_pace.c -- schedules, byte rates, delays, wakeups, backlogs. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/wakeups.h"
#include "common/clock.h"
#include "client/delay.h"
#include "client/backlog.h"
#include "client/pace.h"

enum { ARRIVALS = 200000 };

static void paced_arrivals_are_equally_far_apart(void)
{
    struct pace p = pace_make(PACE_PACED, 1000, 0.25, 500, rng_make(1, 1));
    for (uint64_t i = 0; i < 1000; i++)
        assert(pace_next(&p) == 500 + 250000 + i * NS_PER_MS);
}

/* Stalled at 3 ms for 7 ms: one goes at once, the others keep their gaps. */
static void what_was_held_up_is_not_made_up_for(void)
{
    struct pace p = pace_make(PACE_PACED, 1000, 0, 500, rng_make(1, 1));
    for (uint64_t i = 0; i < 3; i++)
        assert(pace_next(&p) == 500 + i * NS_PER_MS);
    pace_put_off(&p, 10 * NS_PER_MS);
    for (uint64_t i = 0; i < 1000; i++)
        assert(pace_next(&p) == (10 + i) * NS_PER_MS);
    pace_put_off(&p, 20 * NS_PER_MS); /* what is due later stays */
    assert(pace_due_ns(&p) == 1010 * NS_PER_MS);
}

/* Gaps of a Poisson process: mean = deviation = 1 / rate. */
static void poisson_gaps_have_mean_and_deviation_of_the_rate(void)
{
    struct pace p = pace_make(PACE_POISSON, 50000, 0, 0, rng_make(7, 1));
    double sum = 0, squares = 0, last = 0;
    for (int i = 0; i < ARRIVALS; i++) {
        double due = (double)pace_next(&p), gap = due - last;
        assert(gap >= 0);
        last = due;
        sum += gap;
        squares += gap * gap;
    }
    double mean = sum / ARRIVALS, sd = sqrt(squares / ARRIVALS - mean * mean);
    assert(fabs(mean - 20000) < 20000 * 4 / sqrt(ARRIVALS));
    assert(fabs(sd - 20000) < 20000 * 8 / sqrt(ARRIVALS));
}

static void the_seed_fixes_the_schedule(void)
{
    struct pace p = pace_make(PACE_POISSON, 1e4, 0, 99, rng_make(3, 1));
    struct pace q = pace_make(PACE_POISSON, 1e4, 0, 99, rng_make(3, 1));
    struct pace r = pace_make(PACE_POISSON, 1e4, 0, 99, rng_make(4, 1));
    unsigned same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t due = pace_next(&p);
        assert(due == pace_next(&q));
        same += due == pace_next(&r);
    }
    assert(same < 5);
}

/* 1000 bytes/s: ten messages of 100 bytes leave at 0, 0.1, … 0.9 s. */
static void a_meter_spaces_messages_by_their_bytes(void)
{
    struct meter m = meter_make(1000);
    for (uint64_t i = 0; i < 10; i++)
        assert(meter_book(&m, 0, 100) == i * NS_PER_S / 10);
    assert(meter_book(&m, 5 * NS_PER_S, 100) == 5 * NS_PER_S);
    assert(meter_book(&m, 5 * NS_PER_S, 1) == 51 * NS_PER_S / 10);
    struct meter slow = meter_make(0.5);
    assert(meter_book(&slow, 0, 1) == 0);
    assert(meter_book(&slow, 0, 1) == 2 * NS_PER_S);
    struct meter fast = meter_make(6e8); /* 1.67 ns a byte */
    assert(meter_book(&fast, 0, 1) == 0 && meter_book(&fast, 0, 1) == 2);
    struct meter unlimited = meter_make(0);
    assert(meter_book(&unlimited, 42, 1 << 30) == 42);
    assert(meter_book(&unlimited, 42, 1 << 30) == 42);
}

static struct delay delay_of(const char *text)
{
    struct delay d;
    assert(delay_parse(text, &d));
    return d;
}

static void check_delay(const char *text, double mean_ms, double sd_ms)
{
    struct delay d = delay_of(text);
    struct rng rng = rng_make(11, 2);
    double sum = 0, squares = 0;
    for (int i = 0; i < ARRIVALS; i++) {
        double ms = (double)delay_draw(&d, &rng) / 1e6;
        sum += ms;
        squares += ms * ms;
    }
    double mean = sum / ARRIVALS;
    double sd = sqrt(fmax(squares / ARRIVALS - mean * mean, 0));
    assert(fabs(mean - mean_ms) < 1e-5 + sd_ms * 4 / sqrt(ARRIVALS));
    assert(fabs(sd - sd_ms) < 1e-3 + sd_ms * 0.02);
}

/* The spread must not move the mean: that would be two factors at once. */
static void spread_leaves_the_mean_alone(void)
{
    check_delay("5", 5, 0);
    check_delay("fixed:250us", 0.25, 0);
    check_delay("uniform:5:2", 5, 2 / sqrt(3));
    check_delay("uniform:5:5", 5, 5 / sqrt(3));
    check_delay("bimodal:5:4", 5, 4);
    check_delay("exponential:5ms", 5, 5);
}

static void wrong_delays_are_refused(void)
{
    const char *const wrong[] = {
        "",          "x",           "-1",         "5x",     "uniform:5",
        "fixed:5:1", "uniform:5:6", "normal:5:1", "fixed:", "exponential:1:1",
        "nan",       "5 ms"};
    struct delay d;
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert(!delay_parse(wrong[i], &d));
}

static void wakeups_come_in_order(void)
{
    struct wakeups a = {0};
    struct rng rng = rng_make(5, 5);
    for (uint32_t i = 0; i < 5000; i++)
        assert(wakeups_add(&a, rng_below(&rng, 1000), i));
    for (uint64_t last = 0; a.count;) {
        assert(wakeups_due_ns(&a) >= last);
        last = wakeups_take(&a).due_ns;
        if (last % 7 == 0 && last < 900) /* grow while shrinking */
            assert(wakeups_add(&a, last + 50, 1));
    }
    assert(wakeups_due_ns(&a) == UINT64_MAX);
    wakeups_free(&a);
}

static void backlogs_share_an_array_and_keep_their_order(void)
{
    struct backlog f = {0};
    uint32_t first[3] = {0}, last[3] = {0};
    uint64_t put[3] = {0}, taken[3] = {0};
    struct rng rng = rng_make(8, 8);
    for (int i = 0; i < 100000; i++) {
        uint64_t k = rng_below(&rng, 3);
        if (first[k])
            assert(backlog_first_ns(&f, first[k]) == taken[k]);
        if (first[k] && rng_below(&rng, 2))
            assert(backlog_take(&f, &first[k], &last[k]) == taken[k]++);
        else if (put[k] - taken[k] < 500)
            assert(backlog_put(&f, &first[k], &last[k], put[k]++));
    }
    assert(f.count <= 1500); /* entries are used again */
    backlog_free(&f);
}

int main(void)
{
    paced_arrivals_are_equally_far_apart();
    what_was_held_up_is_not_made_up_for();
    poisson_gaps_have_mean_and_deviation_of_the_rate();
    the_seed_fixes_the_schedule();
    a_meter_spaces_messages_by_their_bytes();
    spread_leaves_the_mean_alone();
    wrong_delays_are_refused();
    wakeups_come_in_order();
    backlogs_share_an_array_and_keep_their_order();
    puts("test_pace: passed");
    return 0;
}
