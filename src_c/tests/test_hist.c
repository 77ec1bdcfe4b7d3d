/* test_hist.c -- the histogram keeps its promises: error, sums, merging. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/rng.h"
#include "client/hist.h"

enum { VALUES = 20000 };
static uint64_t values[VALUES];
static struct hist a, b, both;

static void slots_follow_each_other_without_gaps(void)
{
    assert(hist_lower_ns(0) == 0);
    for (size_t i = 0; i < HIST_SLOTS; i++) {
        uint64_t low = hist_lower_ns(i), high = hist_upper_ns(i);
        assert(low < high && hist_slot(low) == i && hist_slot(high - 1) == i);
        assert((double)(high - low) <= 1 + (double)low / 256);
    }
    assert(hist_upper_ns(HIST_SLOTS - 1) == 1ull << HIST_TOP);
}

/* 1 µs to 100 s, as promised within 1 %; the promise kept is 0.2 %. */
static void middle_of_a_slot_is_within_two_per_mille(void)
{
    for (double ns = 1e3; ns <= 100e9; ns *= 1.0007) {
        size_t slot = hist_slot((uint64_t)ns);
        double middle = (double)(hist_lower_ns(slot) + hist_upper_ns(slot)) / 2;
        assert(fabs(middle - floor(ns)) <= 0.002 * ns);
    }
}

static int ascending(const void *x, const void *y)
{
    uint64_t p = *(const uint64_t *)x, q = *(const uint64_t *)y;
    return (p > q) - (p < q);
}

/* Another way to know a quantile: sort. */
static void quantiles_agree_with_sorting(void)
{
    struct rng rng = rng_make(1, 1);
    for (int i = 0; i < VALUES; i++) {
        values[i] = (uint64_t)(exp(rng_unit(&rng) * 18) * 1000);
        hist_add(i % 2 ? &a : &b, values[i]);
    }
    hist_merge(&both, &a);
    hist_merge(&both, &b);
    qsort(values, VALUES, sizeof *values, ascending);
    for (double q = 0.001; q < 1; q += 0.001) {
        double sorted = (double)values[(size_t)ceil(q * VALUES) - 1];
        double ours = (double)hist_quantile_ns(&both, q);
        assert(fabs(ours - sorted) <= 0.0021 * sorted);
    }
    assert(hist_quantile_ns(&both, 0) == values[0]);
    assert(hist_quantile_ns(&both, 1) == values[VALUES - 1]);
}

static void moments_agree_with_two_passes(void)
{
    long double sum = 0, squares = 0;
    for (int i = 0; i < VALUES; i++)
        sum += (long double)values[i];
    for (int i = 0; i < VALUES; i++)
        squares += powl((long double)values[i] - sum / VALUES, 2);
    double sd = (double)sqrtl(squares / (VALUES - 1));
    assert(both.n == VALUES && both.min_ns == values[0]);
    assert(fabs(hist_mean_ns(&both) - (double)(sum / VALUES)) < 1e-3);
    assert(fabs(hist_sd_ns(&both) - sd) < 1e-9 * sd);
}

/* A deviation far smaller than the mean must not drown in rounding. */
static void small_deviation_of_large_values(void)
{
    static struct hist h;
    for (int i = 0; i < 1000; i++)
        hist_add(&h, 90000000000u + (uint64_t)(i % 2));
    assert(fabs(hist_sd_ns(&h) - 0.50025) < 1e-4);
}

static void beyond_the_range_is_counted_and_the_maximum_exact(void)
{
    static struct hist h;
    hist_add(&h, 500000000000u);
    assert(h.slots[HIST_SLOTS - 1] == 1 && h.max_ns == 500000000000u);
    assert(hist_quantile_ns(&h, 0.5) == h.max_ns);
}

/* Of a hundred requests ten were never answered: the 91st is not known. */
static void what_is_missing_is_longer_than_all_else(void)
{
    static struct hist h;
    for (uint64_t ns = 1; ns <= 90; ns++)
        hist_add(&h, ns);
    assert(hist_quantile_missing_ns(&h, 0.5, 10) == 50);
    assert(hist_quantile_missing_ns(&h, 0.9, 10) == 90);
    assert(hist_quantile_missing_ns(&h, 0.91, 10) == UINT64_MAX);
    assert(hist_quantile_missing_ns(&h, 0.91, 0) == 82);
    static struct hist none;
    assert(hist_quantile_missing_ns(&none, 0.5, 1) == UINT64_MAX);
    assert(hist_quantile_missing_ns(&none, 0.5, 0) == 0);
}

static void a_part_is_what_came_since(void)
{
    static struct hist h, before;
    for (uint64_t ns = 1; ns <= 50; ns++)
        hist_add(&h, 200);
    before = h;
    assert(hist_quantile_since_ns(&h, &before, 0.5) == 0);
    for (uint64_t ns = 1; ns <= 100; ns++)
        hist_add(&h, ns);
    assert(hist_quantile_since_ns(&h, &before, 0.99) == 99);
    assert(hist_quantile_since_ns(&h, &before, 0) == 1);
    assert(hist_quantile_since_ns(&h, &before, 1) == 100);
}

static void nothing_seen_is_zero(void)
{
    static struct hist empty, other;
    hist_merge(&empty, &other);
    assert(hist_mean_ns(&empty) == 0 && hist_sd_ns(&empty) == 0);
    assert(hist_quantile_ns(&empty, 0.99) == 0);
    hist_add(&other, 7);
    hist_merge(&empty, &other);
    assert(empty.min_ns == 7 && empty.max_ns == 7);
}

int main(void)
{
    slots_follow_each_other_without_gaps();
    middle_of_a_slot_is_within_two_per_mille();
    quantiles_agree_with_sorting();
    moments_agree_with_two_passes();
    small_deviation_of_large_values();
    beyond_the_range_is_counted_and_the_maximum_exact();
    what_is_missing_is_longer_than_all_else();
    a_part_is_what_came_since();
    nothing_seen_is_zero();
    puts("test_hist: passed");
    return 0;
}
