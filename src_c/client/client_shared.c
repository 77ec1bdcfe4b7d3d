/* client_shared.c -- see client_shared.h.
 *
 *     each thread: I have connected -> count -> the last one sets start_ns
 *
 * A barrier without a lock, for threads and processes alike (MAP_SHARED before
 * fork): who comes last sets a moment in the near future by compare-and-swap,
 * and all who see it begin then. A pthread_barrier_t would stop threads that
 * have sockets to serve meanwhile, and wait for ever for a process that died.
 */
#include "client_shared.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"

/* Threads look for the start once a millisecond; all shall see it in time. */
enum { HEAD_START_NS = 2000000 };

/* Pages that nobody touches cost nothing: a timeline has room for an hour. */
static void *map_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

struct shared *shared_make(const struct plan *plan)
{
    unsigned threads = (unsigned)plan_threads(plan);
    size_t records = (size_t)threads * plan->target_count;
    unsigned timeline_rows = plan_is_sliced(plan) ? 1 : TIMELINE_ROWS;
    struct shared *shared = map_shared(sizeof *shared);
    struct timeline_row *timeline =
        map_shared(records * timeline_rows * sizeof *timeline);
    if (!shared || !timeline)
        return NULL;
    shared->threads = threads;
    shared->targets = plan->target_count;
    shared->records = map_shared(records * sizeof *shared->records);
    shared->rows = map_shared(plan_users(plan) * sizeof *shared->rows);
    shared->parts = map_shared(threads * sizeof *shared->parts);
    if (!shared->records || !shared->rows || !shared->parts)
        return NULL;
    for (size_t i = 0; i < records; i++) {
        shared->records[i].timeline = timeline + i * timeline_rows;
        shared->records[i].timeline_rows = timeline_rows;
        shared->records[i].open_loop = plan->rate > 0;
    }
    shared->begin_told = plan->begin_told;
    atomic_store(&shared->begin_at_ns, plan->begin_at_ns);
    shared->began_ns = clock_now_ns();
    return shared;
}

static void set_once(atomic_ullong *when, uint64_t soonest_ns)
{
    unsigned long long none = 0, at_ns = clock_now_ns() + HEAD_START_NS;
    if (at_ns < soonest_ns)
        at_ns = soonest_ns;
    atomic_compare_exchange_strong(when, &none, at_ns);
}

void shared_ready(struct shared *shared, unsigned threads)
{
    unsigned before = atomic_fetch_add(&shared->ready, threads);
    if (before >= shared->threads || before + threads < shared->threads)
        return;
    if (shared->begin_told) /* in one write: the report is of another process */
        dprintf(STDOUT_FILENO, "{\"event\":\"connected\"}\n");
    uint64_t begin_at_ns = atomic_load(&shared->begin_at_ns);
    if (!shared->begin_told || begin_at_ns)
        set_once(&shared->start_ns, begin_at_ns);
}

void shared_told(struct shared *shared, uint64_t begin_at_ns)
{
    atomic_store(&shared->begin_at_ns, begin_at_ns);
    if (atomic_load(&shared->ready) >= shared->threads)
        set_once(&shared->start_ns, begin_at_ns);
}

void shared_asked_once(struct shared *shared, bool late)
{
    if (late || atomic_fetch_add(&shared->asked_once, 1) + 1 == shared->threads)
        set_once(&shared->asked_once_ns, 0);
}

/* In the closed loop without think times users / rate, as Little's law has it:
 * that also counts requests which the warm-up was too short to see answered. */
static double mean_response_ns(const struct shared *shared,
                               const struct plan *plan, double answers)
{
    if (plan_is_timed(plan))
        return (double)atomic_load(&shared->warm_response_ns) / answers;
    return (double)plan->targets[0].active * plan->warmup_s * NS_PER_S /
           answers;
}

void shared_warmed(struct shared *shared, const struct plan *plan,
                   uint64_t answers, uint64_t response_ns, uint64_t from_ns)
{
    uint64_t least = clock_seconds_ns(plan->duration_s);
    uint64_t most = clock_seconds_ns(plan->duration_max_s);
    atomic_fetch_add(&shared->warm_answers, answers);
    atomic_fetch_add(&shared->warm_response_ns, response_ns);
    if (atomic_fetch_add(&shared->warmed, 1) + 1 < shared->threads)
        return;
    double all = (double)atomic_load(&shared->warm_answers);
    /* answers of no time, as without a warm-up, tell of no rate */
    bool told = all > 0 && (plan_is_timed(plan) || plan->warmup_s > 0);
    double wanted =
        told ? plan->response_times * mean_response_ns(shared, plan, all)
             : (double)most;
    uint64_t width = wanted < (double)most ? (uint64_t)wanted : most;
    atomic_store(&shared->to_ns, from_ns + (width > least ? width : least));
}

void shared_resumed(struct shared *shared)
{
    if (atomic_fetch_add(&shared->resumed, 1) + 1 == shared->threads)
        set_once(&shared->resumed_ns, 0);
}
