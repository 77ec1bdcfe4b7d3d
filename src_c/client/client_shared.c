/* client_shared.c -- see client_shared.h. */
#include "client_shared.h"

#include <sys/mman.h>

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
    shared->rows = map_shared(plan->target_count * plan->connections
                              * sizeof *shared->rows);
    shared->parts = map_shared(threads * sizeof *shared->parts);
    if (!shared->records || !shared->rows || !shared->parts)
        return NULL;
    for (size_t i = 0; i < records; i++) {
        shared->records[i].timeline = timeline + i * timeline_rows;
        shared->records[i].timeline_rows = timeline_rows;
        shared->records[i].open_loop = plan->rate > 0;
    }
    shared->began_ns = clock_now_ns();
    return shared;
}

static void set_once(atomic_ullong *when)
{
    unsigned long long none = 0;
    atomic_compare_exchange_strong(when, &none, clock_now_ns() + HEAD_START_NS);
}

void shared_ready(struct shared *shared, unsigned threads)
{
    unsigned before = atomic_fetch_add(&shared->ready, threads);
    if (before < shared->threads && before + threads >= shared->threads)
        set_once(&shared->start_ns);
}

void shared_asked_once(struct shared *shared, bool late)
{
    if (late || atomic_fetch_add(&shared->asked_once, 1) + 1 == shared->threads)
        set_once(&shared->asked_once_ns);
}

void shared_resumed(struct shared *shared)
{
    if (atomic_fetch_add(&shared->resumed, 1) + 1 == shared->threads)
        set_once(&shared->resumed_ns);
}
