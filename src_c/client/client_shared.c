/* client_shared.c -- see client_shared.h. */
#include "client_shared.h"

#include <sys/mman.h>

#include "common/clock.h"

/* Crews look for the start once a millisecond; all shall see it in time. */
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
    struct shared *shared = map_shared(sizeof *shared);
    struct timeline_row *timeline =
        map_shared(threads * TIMELINE_ROWS * sizeof *timeline);
    if (!shared || !timeline)
        return NULL;
    shared->threads = threads;
    shared->records = map_shared(threads * sizeof *shared->records);
    shared->rows = map_shared(plan->connections * sizeof *shared->rows);
    if (!shared->records || !shared->rows)
        return NULL;
    for (unsigned i = 0; i < threads; i++) {
        shared->records[i].timeline = timeline + (size_t)i * TIMELINE_ROWS;
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
