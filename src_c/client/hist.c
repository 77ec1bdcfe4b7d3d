/* hist.c -- see hist.h.
 *
 * The slot of a value comes from its highest bit and the 8 bits below it:
 *
 *     value  1 mmmmmmmm xxxxx     shift = number of x
 *     slot   shift * 256 + 1mmmmmmmm
 *
 * which continues without a gap the one-to-one slots of the values below 512.
 */
#include "hist.h"

#include <math.h>

enum { SLOTS_PER_DOUBLING = 1 << HIST_BITS };

size_t hist_slot(uint64_t ns)
{
    if (ns < SLOTS_PER_DOUBLING)
        return (size_t)ns;
    if (ns >> HIST_TOP)
        return HIST_SLOTS - 1;
    unsigned shift = 63 - HIST_BITS - (unsigned)__builtin_clzll(ns);
    return ((size_t)shift << HIST_BITS) + (size_t)(ns >> shift);
}

uint64_t hist_lower_ns(size_t slot)
{
    if (slot < 2 * SLOTS_PER_DOUBLING)
        return slot;
    unsigned shift = (unsigned)(slot >> HIST_BITS) - 1;
    return (uint64_t)(slot - ((size_t)shift << HIST_BITS)) << shift;
}

uint64_t hist_upper_ns(size_t slot)
{
    return hist_lower_ns(slot + 1);
}

void hist_add(struct hist *h, uint64_t ns)
{
    if (h->n == 0 || ns < h->min_ns)
        h->min_ns = ns;
    if (ns > h->max_ns)
        h->max_ns = ns;
    h->n++;
    h->sum_ns += ns;
    h->sum_squares += (unsigned __int128)ns * ns;
    h->slots[hist_slot(ns)]++;
}

void hist_merge(struct hist *into, const struct hist *from)
{
    if (from->n == 0)
        return;
    if (into->n == 0 || from->min_ns < into->min_ns)
        into->min_ns = from->min_ns;
    if (from->max_ns > into->max_ns)
        into->max_ns = from->max_ns;
    into->n += from->n;
    into->sum_ns += from->sum_ns;
    into->sum_squares += from->sum_squares;
    for (size_t i = 0; i < HIST_SLOTS; i++)
        into->slots[i] += from->slots[i];
}

double hist_mean_ns(const struct hist *h)
{
    return h->n ? (double)h->sum_ns / (double)h->n : 0;
}

/* Σ(x − m)² = Σx² − 2mΣx + nm² for the whole part m of the mean: integers that
 * may wrap around on the way, but not in the end. What m lacks is taken off
 * afterwards, so a small deviation of large values is not lost to rounding. */
double hist_sd_ns(const struct hist *h)
{
    if (h->n < 2)
        return 0;
    unsigned __int128 m = h->sum_ns / h->n;
    unsigned __int128 squares =
        h->sum_squares - 2 * m * h->sum_ns + m * m * h->n;
    long double rest = (long double)(h->sum_ns % h->n) / h->n;
    long double sum = (long double)squares - rest * rest * h->n;
    return sum > 0 ? (double)sqrtl(sum / (h->n - 1)) : 0;
}

static uint64_t clamp(uint64_t x, uint64_t low, uint64_t high)
{
    return x < low ? low : x > high ? high : x;
}

uint64_t hist_quantile_missing_ns(const struct hist *h, double q,
                                  uint64_t missing)
{
    uint64_t all = h->n + missing;
    if (all == 0)
        return 0;
    uint64_t rank = clamp((uint64_t)ceil(q * (double)all), 1, all);
    if (rank > h->n)
        return UINT64_MAX;
    if (rank == 1 || rank == h->n) /* the ends are known exactly */
        return rank == 1 ? h->min_ns : h->max_ns;
    uint64_t seen = 0;
    size_t slot = 0;
    while ((seen += h->slots[slot]) < rank)
        slot++;
    uint64_t middle = (hist_lower_ns(slot) + hist_upper_ns(slot)) / 2;
    return clamp(middle, h->min_ns, h->max_ns);
}

uint64_t hist_quantile_since_ns(const struct hist *h, const struct hist *before,
                                double q)
{
    uint64_t all = h->n - before->n, seen = 0;
    if (all == 0)
        return 0;
    uint64_t rank = clamp((uint64_t)ceil(q * (double)all), 1, all);
    size_t slot = 0;
    while ((seen += h->slots[slot] - before->slots[slot]) < rank)
        slot++;
    return (hist_lower_ns(slot) + hist_upper_ns(slot)) / 2;
}

uint64_t hist_quantile_ns(const struct hist *h, double q)
{
    return hist_quantile_missing_ns(h, q, 0);
}
