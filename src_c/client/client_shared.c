/* client_shared.c -- see client_shared.h. */
#include "client_shared.h"

#include <sys/mman.h>

#include "common/clock.h"

/* Crews look for the start once a millisecond; all shall see it in time. */
enum { HEAD_START_NS = 2000000 };

/* Pages that nobody touches cost nothing: a timeline has room for an hour. */
static void *shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

struct board *board_make(const struct plan *plan)
{
    unsigned crews = (unsigned)plan_crews(plan);
    struct board *board = shared(sizeof *board);
    struct slice *slices = shared(crews * SLICES * sizeof *slices);
    if (!board || !slices)
        return NULL;
    board->crews = crews;
    board->records = shared(crews * sizeof *board->records);
    board->rows = shared(plan->connections * sizeof *board->rows);
    if (!board->records || !board->rows)
        return NULL;
    for (unsigned i = 0; i < crews; i++) {
        board->records[i].slices = slices + (size_t)i * SLICES;
        board->records[i].open_loop = plan->rate > 0;
    }
    board->began_ns = clock_now_ns();
    return board;
}

static void set_once(atomic_ullong *when)
{
    unsigned long long none = 0;
    atomic_compare_exchange_strong(when, &none, clock_now_ns() + HEAD_START_NS);
}

void board_ready(struct board *board, unsigned crews)
{
    unsigned before = atomic_fetch_add(&board->ready, crews);
    if (before < board->crews && before + crews >= board->crews)
        set_once(&board->start_ns);
}

void board_greeted(struct board *board, bool late)
{
    if (late || atomic_fetch_add(&board->greeted, 1) + 1 == board->crews)
        set_once(&board->greeted_ns);
}

void board_going(struct board *board)
{
    if (atomic_fetch_add(&board->going, 1) + 1 == board->crews)
        set_once(&board->going_ns);
}
