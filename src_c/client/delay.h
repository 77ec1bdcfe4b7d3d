/* delay.h -- distributions of a time whose mean and spread move separately.
 *
 *     fixed:MEAN                 always the mean
 *     uniform:MEAN:SPREAD        evenly within mean - spread .. mean + spread
 *     bimodal:MEAN:SPREAD        mean - spread or mean + spread, half each
 *     exponential:MEAN           deviation = mean, no spread to choose
 *
 * A larger SPREAD never moves the mean, so an experiment may vary one alone;
 * therefore SPREAD is at most MEAN. Times are numbers of milliseconds, or
 * carry a unit: 250us, 5ms, 1.5s. A bare MEAN is fixed:MEAN.
 */
#ifndef DELAY_H
#define DELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"

enum delay_kind {
    DELAY_FIXED,
    DELAY_UNIFORM,
    DELAY_EXPONENTIAL,
    DELAY_BIMODAL
};

struct delay {
    enum delay_kind kind;
    double mean_ns, spread_ns;
};

/* False, and *delay untouched, when the text is none of the above. */
bool delay_parse(const char *text, struct delay *delay);

/* A time with a unit (ms when it has none) in nanoseconds; *end is set behind
 * it. Negative when there is no number. */
double delay_parse_time(const char *text, const char **end);

/* One draw, in nanoseconds. */
uint64_t delay_draw(const struct delay *delay, struct rng *rng);

const char *delay_name(enum delay_kind kind);

#endif
