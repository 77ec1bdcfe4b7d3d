/* clock.h -- the one clock, monotonic nanoseconds, never set back; and the CPU
 * time of a thread. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull

/* Nanoseconds since an unspecified start; costs about 20 ns (vDSO). */
static inline uint64_t clock_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Nanoseconds of CPU time that this thread has used; a system call. */
static inline uint64_t clock_thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_seconds_ns(double s)
{
    return (uint64_t)(s * (double)NS_PER_S);
}

static inline uint64_t clock_timeval_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_usec * 1000;
}

static inline struct timespec clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S),
                             .tv_nsec = (long)(ns % NS_PER_S)};
}

static inline uint64_t clock_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t clock_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
