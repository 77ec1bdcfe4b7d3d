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

/* A batch takes some 10 to 40 us. No two cores of a machine are as far apart as
 * that: where no batch was shorter, the two halves never ran at once. */
enum { TRIPS = 100, FARTHEST_NS = 10000 };

/* Alone in its line, and in the pair of lines that a prefetcher brings: beside
 * what a thread uses it takes half as long, or twice. */
static struct {
    _Alignas(128) atomic_ullong turn; /* odd: the other core's */
    char rest[128 - sizeof(atomic_ullong)];
} line;

#define OVER (~0ULL)

static unsigned long long look(void)
{
    return atomic_load_explicit(&line.turn, memory_order_acquire);
}

static void hand_over(unsigned long long turn)
{
    atomic_store_explicit(&line.turn, turn, memory_order_release);
}

static void *other_main(void *argument)
{
    const struct floor_plan *plan = argument;
    unsigned long long turn;
    floor_pin(plan->cores[1]);
    while ((turn = look()) != OVER)
        if (turn % 2)
            hand_over(turn + 1);
    return NULL;
}

/* The least of batches: whatever takes a core from us makes a batch longer, and
 * a core that had nothing to do runs slower at first. */
static double trip_ns(double seconds)
{
    double least = INFINITY;
    unsigned long long turn = 0;
    uint64_t begin = clock_now_ns(), end = begin + clock_seconds_ns(seconds);
    while (begin < end) {
        for (int trip = 0; trip < TRIPS; trip++, turn += 2) {
            hand_over(turn + 1);
            while (look() != turn + 2)
                ;
        }
        uint64_t now = clock_now_ns();
        least = fmin(least, (double)(now - begin) / TRIPS);
        begin = now;
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
    double ns = trip_ns(plan->duration_s);
    hand_over(OVER);
    pthread_join(thread, NULL);
    return ns <= FARTHEST_NS ? ns : -1;
}
