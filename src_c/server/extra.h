/* extra.h -- CPU time that each request costs besides: --extra-ns.
 *
 * A control for whoever measures CPU time: what was added has to be found
 * again. So it is work, counted in turns of a loop, and no wait until a clock
 * says so: reading a clock takes 20 to 50 ns, which half a microsecond of
 * waiting exceeds by one and a half readings, and a clock goes on while the
 * thread does not run. How long a turn takes changes with the core's clock rate
 * and with who else is on the machine, by a tenth between an idle start and
 * full load. So one call in some tens is timed, and the mean of the
 * timed ones is kept at what was asked.
 */
#ifndef EXTRA_H
#define EXTRA_H

#include <stdint.h>

/* Times the loop, for some milliseconds, before any thread is started: the rate
 * that later calls begin with. */
void extra_calibrate(void);

/* Computes for `ns` nanoseconds of CPU time. */
void extra_spend(uint64_t ns);

#endif
