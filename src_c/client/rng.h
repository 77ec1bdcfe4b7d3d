/* rng.h -- random numbers that a seed repeats: SplitMix64.
 *
 * One step is an addition and five shifts and multiplications; good enough for
 * arrival times and message sizes, no good for secrets. Give each thread its
 * own dice, made from the seed and a number of its own (the stream).
 */
#ifndef RNG_H
#define RNG_H

#include <math.h>
#include <stdint.h>

struct dice { uint64_t state; };

static inline uint64_t dice_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline struct dice dice_make(uint64_t seed, uint64_t stream)
{
    return (struct dice){dice_mix(seed ^ dice_mix(stream + 1))};
}

static inline uint64_t dice_roll(struct dice *d)
{
    return dice_mix(d->state += 0x9e3779b97f4a7c15u);
}

/* A number in (0, 1]: never 0, so that its logarithm exists. */
static inline double dice_unit(struct dice *d)
{
    return (double)((dice_roll(d) >> 11) + 1) * 0x1p-53;
}

/* A whole number in [0, n), n > 0. */
static inline uint64_t dice_below(struct dice *d, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)dice_roll(d) * n) >> 64);
}

static inline double dice_exponential(struct dice *d, double mean)
{
    return -log(dice_unit(d)) * mean;
}

#endif
