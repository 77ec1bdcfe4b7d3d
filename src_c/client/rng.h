/* rng.h -- random numbers that a seed repeats: SplitMix64.
 *
 * One step is an addition and five shifts and multiplications; good enough for
 * arrival times and message sizes, no good for secrets. Give each thread its
 * own rng, made from the seed and a number of its own (the stream).
 */
#ifndef RNG_H
#define RNG_H

#include <math.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline struct rng rng_make(uint64_t seed, uint64_t stream)
{
    return (struct rng){rng_mix(seed ^ rng_mix(stream + 1))};
}

static inline uint64_t rng_next(struct rng *d)
{
    return rng_mix(d->state += 0x9e3779b97f4a7c15u);
}

/* A number in (0, 1]: never 0, so that its logarithm exists. */
static inline double rng_unit(struct rng *d)
{
    return (double)((rng_next(d) >> 11) + 1) * 0x1p-53;
}

/* A whole number in [0, n), n > 0. */
static inline uint64_t rng_below(struct rng *d, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)rng_next(d) * n) >> 64);
}

static inline double rng_exponential(struct rng *d, double mean)
{
    return -log(rng_unit(d)) * mean;
}

#endif
