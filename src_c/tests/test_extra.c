/* test_extra.c -- what a request costs besides is CPU time, in proportion. */
#include <assert.h>

#include "common/clock.h"
#include "server/extra.h"

enum { CALLS = 2000 };

/* CPU time of a call on average; the least of five tries, as a core that others
 * use, or a slow clock rate, can only make it more. */
static double spent_ns(uint64_t asked_ns)
{
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t began_ns = clock_thread_cpu_ns();
        for (int call = 0; call < CALLS; call++)
            extra_spend(asked_ns);
        uint64_t took_ns = clock_thread_cpu_ns() - began_ns;
        if (took_ns < least_ns)
            least_ns = took_ns;
    }
    return (double)least_ns / CALLS;
}

int main(void)
{
    extra_calibrate();
    double half_us = spent_ns(500), five_us = spent_ns(5000);
    assert(half_us > 350 && half_us < 2000);
    assert(five_us > 3500 && five_us < 20000);
    assert(five_us / half_us > 7 && five_us / half_us < 13);
    assert(spent_ns(0) < 100);
    return 0;
}
