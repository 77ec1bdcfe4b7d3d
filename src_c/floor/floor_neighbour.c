/* floor_neighbour.c -- are two cores two?
 *
 *     count alone -> count beside a busy core -> alone -> beside -> ...
 *
 * Two hardware threads of one physical core take from each other, and so may
 * two cores that a host lends us, where no file says that they are one. Then
 * what a server costs depends on what the client does meanwhile.
 */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "floor.h"
#include "floor_setup.h"

enum { SLICE_NS = 5000000, CELLS = 2048 }; /* 16 KiB, in any L1 cache */

struct cells {
    uint64_t of[CELLS];
};

struct neighbour {
    int core;
    sem_t begin;
    atomic_bool wanted, busy, over;
};

/* Four chains that do not wait for each other: they leave little of a core to
 * its other thread. */
static void stir(struct cells *cells)
{
    uint64_t a = cells->of[0] + 1, b = a ^ 2, c = a ^ 3, d = a ^ 4;
    for (unsigned i = 0; i < CELLS; i += 4) {
        a = a * 5 + cells->of[i];
        b = (b << 7 ^ b) + cells->of[i + 1];
        c = c * 9 ^ cells->of[i + 2];
        d = (d >> 3) + d + cells->of[i + 3];
        cells->of[i] = d, cells->of[i + 1] = a;
        cells->of[i + 2] = b, cells->of[i + 3] = c;
    }
}

/* How often one slice lets us stir, per nanosecond that we had the core: others
 * may take it, but are not asked about. */
static double stirs_per_ns(struct cells *cells)
{
    uint64_t begin = clock_thread_cpu_ns(), end = clock_now_ns() + SLICE_NS;
    uint64_t times = 0;
    for (; clock_now_ns() < end; times++)
        stir(cells);
    return (double)times / (double)(clock_thread_cpu_ns() - begin);
}

static void *neighbour_main(void *argument)
{
    struct neighbour *n = argument;
    struct cells cells = {{0}};
    floor_pin(n->core);
    while (sem_wait(&n->begin) == 0 && !atomic_load(&n->over)) {
        atomic_store(&n->busy, true);
        while (atomic_load(&n->wanted))
            stir(&cells);
        atomic_store(&n->busy, false);
    }
    return NULL;
}

/* Returns when the neighbour has begun, or has gone to sleep. */
static void set_busy(struct neighbour *n, bool on)
{
    atomic_store(&n->wanted, on);
    if (on)
        sem_post(&n->begin);
    while (atomic_load(&n->busy) != on)
        ;
}

static double compare_slices(struct neighbour *n, double seconds)
{
    static struct cells cells;
    double alone = 0, beside = 0;
    uint64_t end = clock_now_ns() + clock_seconds_ns(seconds);
    do {
        alone += stirs_per_ns(&cells);
        set_busy(n, true);
        beside += stirs_per_ns(&cells);
        set_busy(n, false);
    } while (clock_now_ns() < end);
    return alone / beside;
}

double floor_neighbour(const struct floor_plan *plan)
{
    if (plan->cores[0] == plan->cores[1])
        return -1;
    struct neighbour n = {.core = plan->cores[1]};
    pthread_t thread;
    if (sem_init(&n.begin, 0, 0) < 0)
        err(1, "sem_init");
    errno = pthread_create(&thread, NULL, neighbour_main, &n);
    if (errno)
        err(1, "pthread_create");
    floor_pin(plan->cores[0]);
    double slower = compare_slices(&n, plan->duration_s);
    atomic_store(&n.over, true);
    sem_post(&n.begin);
    pthread_join(thread, NULL);
    sem_destroy(&n.begin);
    return slower;
}
