/* client_phases.c -- where a run stands, and what ends each phase.
 *
 *     dialing ─▶ waiting ─▶ loading ─▶ draining ─▶ over
 *                           greeting, warm-up, window
 */
#include "client_thread.h"
#include "common/clock.h"

/* --- the load begins ----------------------------------------------------- */

/* The warm-up begins, after which the window opens. */
static void begin_warmup(struct crew *crew, uint64_t at_ns)
{
    const struct plan *plan = crew->plan;
    uint64_t from = at_ns + clock_seconds_ns(plan->warmup_s);
    uint64_t to = plan->requests ? UINT64_MAX
                                 : from + clock_seconds_ns(plan->duration_s);
    record_begin(crew->record, crew->record->start_ns, from, to);
}

/* Arrivals in proportion to the crew's share of active users. */
static void make_arrivals(struct crew *crew)
{
    const struct plan *plan = crew->plan;
    if (plan->rate == 0 || crew->active_count == 0)
        return;
    crew->arrivals = pace_make(
        plan->arrivals,
        plan->rate * (double)crew->active_count / (double)plan->active,
        (double)crew->number / (double)plan_crews(plan),
        crew->record->start_ns,
        dice_make(plan->seed, 2 * crew->number + 1));
}

static void begin_load(struct crew *crew, uint64_t start_ns)
{
    record_begin(crew->record, start_ns, UINT64_MAX, UINT64_MAX);
    crew->greeting = crew->plan->settle_s > 0;
    if (!crew->greeting)
        begin_warmup(crew, start_ns);
    make_arrivals(crew);
    crew->phase = PHASE_LOADING;
}

/* --- settling ------------------------------------------------------------ */

bool crew_is_settling(const struct crew *crew)
{
    return crew->phase == PHASE_LOADING && crew->record->from_ns == UINT64_MAX;
}

static void say_greeted(struct crew *crew, bool late)
{
    if (late || !crew->said_greeted)
        board_greeted(crew->board, late);
    crew->said_greeted = true;
}

static void say_going(struct crew *crew)
{
    if (!crew->said_going)
        board_going(crew->board);
    crew->said_going = true;
}

/* Everybody asks once and rests. A server that still starts a thread for each
 * client could not while the others press on, and they would have it alone. */
static void greet(struct crew *crew, uint64_t now_ns)
{
    uint64_t patience = clock_seconds_ns(crew->plan->settle_s);
    bool late = now_ns >= crew->record->start_ns + patience;
    if (late || crew->answered >= crew->live_count)
        say_greeted(crew, late);
    uint64_t greeted = atomic_load(&crew->board->greeted_ns);
    if (greeted && now_ns >= greeted) {
        crew->greeting = false;
        crew->next_start = 0;
    }
}

/* Greeted, all go on, and then the warm-up begins. */
static void settle(struct crew *crew, uint64_t now_ns)
{
    if (crew->greeting) {
        greet(crew, now_ns);
        return;
    }
    if (crew->next_start == crew->count)
        say_going(crew);
    uint64_t going = atomic_load(&crew->board->going_ns);
    uint64_t greeted = atomic_load(&crew->board->greeted_ns);
    if (going || now_ns > greeted + clock_seconds_ns(crew->plan->settle_s))
        begin_warmup(crew, going ? going : now_ns);
}

/* --- the load ends ------------------------------------------------------- */

static void measure(struct crew *crew, bool on)
{
    if (on == crew->measuring)
        return;
    crew->measuring = on;
    if (on)
        crew->cpu_at_from_ns = clock_thread_cpu_ns();
    else
        crew->record->window_cpu_ns =
            clock_thread_cpu_ns() - crew->cpu_at_from_ns;
}

static void end(struct crew *crew, enum board_stop why)
{
    measure(crew, false);
    if (crew->plan->settle_s > 0) {        /* nobody shall wait for us */
        say_greeted(crew, false);
        say_going(crew);
    }
    crew->record->end = why;
    crew->phase = PHASE_OVER;
}

bool crew_has_arrivals(const struct crew *crew)
{
    return crew->phase == PHASE_LOADING && crew->arrivals.gap_ns > 0
           && pace_due_ns(&crew->arrivals) < crew->record->to_ns;
}

static void end_load(struct crew *crew, uint64_t now_ns)
{
    struct record *r = crew->record;
    if (crew_is_settling(crew))
        settle(crew, now_ns);
    if (now_ns >= r->from_ns && now_ns < r->to_ns)
        measure(crew, true);
    if (crew->active_count && crew->live_count == 0)
        end(crew, crew->finished ? STOP_REQUESTS : STOP_SERVER_GONE);
    else if (!crew->active_count && atomic_load(&crew->board->busy) == 0)
        end(crew, STOP_NONE);
    else if (now_ns >= r->to_ns && !crew_has_arrivals(crew)) {
        measure(crew, false);
        crew->phase = PHASE_DRAINING;
    }
}

/* Requests that somebody still waits for: sent, or queued behind those. */
static bool is_drained(const struct crew *crew, uint64_t now_ns)
{
    uint64_t patience = clock_seconds_ns(crew->plan->drain_s);
    return (crew->asking == 0 && crew->dialing == 0)
           || now_ns >= crew->record->to_ns + patience;
}

/* --- from one to the next ------------------------------------------------ */

void crew_change_phase(struct crew *crew, uint64_t now_ns)
{
    uint64_t start;
    if (atomic_load(&crew->board->interrupted)) {
        end(crew, STOP_INTERRUPTED);
        return;
    }
    switch (crew->phase) {
    case PHASE_DIALING:
        if (crew->settled == crew->count) {
            crew->phase = PHASE_WAITING;
            board_ready(crew->board, 1);
        }
        break;
    case PHASE_WAITING:
        start = atomic_load(&crew->board->start_ns);
        if (start && now_ns >= start)
            begin_load(crew, start);
        break;
    case PHASE_LOADING:
        end_load(crew, now_ns);
        break;
    case PHASE_DRAINING:
        if (is_drained(crew, now_ns))
            end(crew, STOP_DURATION);
        break;
    case PHASE_OVER:
        break;
    }
}
