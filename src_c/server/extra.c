/* extra.c -- see extra.h. */
#include "extra.h"

#include "common/clock.h"

enum {
    TRIES = 50,
    TURNS = 100000, /* of a try: 0.1 to 0.2 ms, so most are not interrupted */
};

static double turns_per_ns;

/* Each turn needs the result of the one before, so a CPU cannot overlap them,
 * nor a compiler leave them out. */
static void turn(uint64_t turns)
{
    uint64_t x = turns;
    for (uint64_t i = 0; i < turns; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
}

/* The quickest try counts: others were interrupted, or came before the core had
 * raised its clock rate. */
void extra_calibrate(void)
{
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t began_ns = clock_now_ns();
        turn(TURNS);
        uint64_t took_ns = clock_now_ns() - began_ns;
        if (took_ns < least_ns)
            least_ns = took_ns;
    }
    turns_per_ns = TURNS / (double)least_ns;
}

void extra_spend(uint64_t ns)
{
    turn((uint64_t)((double)ns * turns_per_ns + 0.5));
}
