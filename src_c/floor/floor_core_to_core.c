/* floor_core_to_core.c -- how far apart are two cores?
 *
 *     cores[0]  store 1 ->         load 2, store 3 -> ...
 *     cores[1]         load 1, store 2 ->        load 3 ...
 *
 * Each store takes the cache line from the other core. Cores that share a cache
 * hand it over in a fraction of the time that others take, and what a server
 * and its client tell each other goes the same way. A host that lends us cores
 * may move them, without a word; this tells.
 */
#include <err.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "floor.h"
#include "floor_setup.h"

enum { BATCHES = 100, TRIPS = 100 }; /* a batch: some 10 to 40 us */

/* Alone in its line, and in the pair of lines that a prefetcher brings: beside
 * what a thread uses it takes half as long, or twice. Odd: the other core's. */
static struct {
    _Alignas(128) atomic_uint turn;
    char rest[128 - sizeof(atomic_uint)];
} line;

static void await_turn(unsigned turn)
{
    while (atomic_load_explicit(&line.turn, memory_order_acquire) != turn)
        ;
}

static void hand_over(unsigned turn)
{
    atomic_store_explicit(&line.turn, turn, memory_order_release);
}

static void *other_main(void *argument)
{
    const struct floor_plan *plan = argument;
    floor_pin(plan->cores[1]);
    for (unsigned turn = 1; turn < 2 * BATCHES * TRIPS; turn += 2) {
        await_turn(turn);
        hand_over(turn + 1);
    }
    return NULL;
}

/* The least of batches: whatever takes a core from us makes a batch longer. */
static double trip_ns(void)
{
    double least = INFINITY;
    unsigned turn = 0;
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t begin = clock_now_ns();
        for (int trip = 0; trip < TRIPS; trip++, turn += 2) {
            hand_over(turn + 1);
            await_turn(turn + 2);
        }
        least = fmin(least, (double)(clock_now_ns() - begin) / TRIPS);
    }
    return least;
}

double floor_core_to_core_ns(const struct floor_plan *plan)
{
    if (plan->cores[0] == plan->cores[1])
        return -1;
    hand_over(0);
    pthread_t thread;
    errno = pthread_create(&thread, NULL, other_main, (void *)plan);
    if (errno)
        err(1, "pthread_create");
    floor_pin(plan->cores[0]);
    double ns = trip_ns();
    pthread_join(thread, NULL);
    return ns;
}
