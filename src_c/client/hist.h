/* hist.h -- a histogram of nanoseconds: small, exact to 0.2 %, easy to merge.
 *
 * Below 256 ns every value has its own slot. Above, each doubling is cut into
 * 256 equal slots, so a slot is never wider than 1/256 of the values in it and
 * its middle is off by at most 1/512 (the idea of HdrHistogram). 7680 slots,
 * 60 KiB, reach to 137 s; what is longer is counted in the last slot, while
 * `max_ns` stays exact. The sums are integers of 128 bits: mean and deviation
 * do not depend on the order of adding, and merging is plain addition, so a
 * histogram per thread costs no lock and loses nothing.
 */
#ifndef HIST_H
#define HIST_H

#include <stddef.h>
#include <stdint.h>

enum {
    HIST_BITS = 8, /* slots per doubling: 2^8 */
    HIST_TOP = 37, /* values below 2^37 ns = 137 s */
    HIST_SLOTS = (HIST_TOP - HIST_BITS + 1) << HIST_BITS,
};

struct hist {
    uint64_t n, min_ns, max_ns; /* min_ns means nothing if n == 0 */
    unsigned __int128 sum_ns, sum_squares;
    uint64_t slots[HIST_SLOTS];
};

/* An empty histogram is all zeros: static, calloc() or mmap() will do. */

void hist_add(struct hist *h, uint64_t ns);

/* Adds all that `from` has seen to `into`. */
void hist_merge(struct hist *into, const struct hist *from);

/* 0 when nothing was added. */
double hist_mean_ns(const struct hist *h);

/* Standard deviation of the values seen, with n - 1; 0 for n < 2. */
double hist_sd_ns(const struct hist *h);

/* The value at rank ceil(q n), 0 <= q <= 1: the middle of its slot, but never
 * outside of what was seen; exact for the least and the greatest. 0 when
 * nothing was added. */
uint64_t hist_quantile_ns(const struct hist *h, double q);

/* The same among the values seen and `missing` more, each longer than any that
 * was seen: UINT64_MAX where the rank falls on one of those. */
uint64_t hist_quantile_missing_ns(const struct hist *h, double q,
                                  uint64_t missing);

/* Of what was added to `h` since it was `before`; exact to a slot's middle. */
uint64_t hist_quantile_since_ns(const struct hist *h, const struct hist *before,
                                double q);

/* Slot of a value, and the values [lower, upper) that a slot stands for. */
size_t hist_slot(uint64_t ns);
uint64_t hist_lower_ns(size_t slot);
uint64_t hist_upper_ns(size_t slot);

#endif
