/* extra.h -- CPU time that each request costs besides: --extra-ns.
 *
 * A control for whoever measures CPU time: what was added has to be found
 * again. So it is work, counted in turns of a loop, and no wait until a clock
 * says so: reading a clock takes 20 to 50 ns, which half a microsecond of
 * waiting exceeds by one and a half readings, and a clock goes on while the
 * thread does not run.
 */
#ifndef EXTRA_H
#define EXTRA_H

#include <stdint.h>

/* Times the loop, for some milliseconds, before any thread is started. */
void extra_calibrate(void);

/* Computes for `ns` nanoseconds of CPU time, at the clock rate of then. */
void extra_spend(uint64_t ns);

#endif
