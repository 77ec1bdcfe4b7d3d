/* client_phases.c -- where a run stands, and what ends each phase.
 *
 *     connecting ─▶ waiting ─▶ loading ─▶ draining ─▶ over
 *                           asking once, warm-up, window
 */
#include "client_thread.h"
#include "common/clock.h"

/* --- the load begins ----------------------------------------------------- */

/* The warm-up begins, after which the window opens. */
static void begin_warmup(struct client_thread *t, uint64_t at_ns)
{
    const struct plan *plan = t->plan;
    uint64_t from = at_ns + clock_seconds_ns(plan->warmup_s);
    uint64_t to = plan->requests ? UINT64_MAX
                                 : from + clock_seconds_ns(plan->duration_s);
    record_begin(t->record, t->record->start_ns, from, to);
}

/* Arrivals in proportion to the thread's share of active users. */
static void make_arrivals(struct client_thread *t)
{
    const struct plan *plan = t->plan;
    if (plan->rate == 0 || t->active_count == 0)
        return;
    t->arrivals = pace_make(
        plan->arrivals,
        plan->rate * (double)t->active_count / (double)plan->active,
        (double)t->number / (double)plan_threads(plan),
        t->record->start_ns,
        rng_make(plan->seed, 2 * t->number + 1));
}

static void begin_load(struct client_thread *t, uint64_t start_ns)
{
    record_begin(t->record, start_ns, UINT64_MAX, UINT64_MAX);
    t->asking_once = t->plan->settle_s > 0;
    if (!t->asking_once)
        begin_warmup(t, start_ns);
    make_arrivals(t);
    t->phase = PHASE_LOADING;
}

/* --- settling ------------------------------------------------------------ */

bool thread_is_settling(const struct client_thread *t)
{
    return t->phase == PHASE_LOADING && t->record->from_ns == UINT64_MAX;
}

static void say_asked_once(struct client_thread *t, bool late)
{
    if (late || !t->said_asked_once)
        shared_asked_once(t->shared, late);
    t->said_asked_once = true;
}

static void say_resumed(struct client_thread *t)
{
    if (!t->said_resumed)
        shared_resumed(t->shared);
    t->said_resumed = true;
}

/* Everybody asks once and rests. A server that still starts a thread for each
 * client could not while the others press on, and they would have it alone. */
static void await_first_answers(struct client_thread *t, uint64_t now_ns)
{
    uint64_t patience = clock_seconds_ns(t->plan->settle_s);
    bool late = now_ns >= t->record->start_ns + patience;
    if (late || t->answered >= t->live_count)
        say_asked_once(t, late);
    uint64_t asked_once = atomic_load(&t->shared->asked_once_ns);
    if (asked_once && now_ns >= asked_once) {
        t->asking_once = false;
        t->next_start = 0;
    }
}

/* Greeted, all go on, and then the warm-up begins. */
static void settle(struct client_thread *t, uint64_t now_ns)
{
    if (t->asking_once) {
        await_first_answers(t, now_ns);
        return;
    }
    if (t->next_start == t->count)
        say_resumed(t);
    uint64_t resumed = atomic_load(&t->shared->resumed_ns);
    uint64_t asked_once = atomic_load(&t->shared->asked_once_ns);
    if (resumed || now_ns > asked_once + clock_seconds_ns(t->plan->settle_s))
        begin_warmup(t, resumed ? resumed : now_ns);
}

/* --- the load ends ------------------------------------------------------- */

static void measure(struct client_thread *t, bool on)
{
    if (on == t->measuring)
        return;
    t->measuring = on;
    if (on)
        t->cpu_at_from_ns = clock_thread_cpu_ns();
    else
        t->record->window_cpu_ns =
            clock_thread_cpu_ns() - t->cpu_at_from_ns;
}

static void end(struct client_thread *t, enum stop_reason why)
{
    measure(t, false);
    if (t->plan->settle_s > 0) {        /* nobody shall wait for us */
        say_asked_once(t, false);
        say_resumed(t);
    }
    t->record->end = why;
    t->phase = PHASE_OVER;
}

bool thread_has_arrivals(const struct client_thread *t)
{
    return t->phase == PHASE_LOADING && t->arrivals.gap_ns > 0
           && pace_due_ns(&t->arrivals) < t->record->to_ns;
}

static void end_load(struct client_thread *t, uint64_t now_ns)
{
    struct record *r = t->record;
    if (thread_is_settling(t))
        settle(t, now_ns);
    if (now_ns >= r->from_ns && now_ns < r->to_ns)
        measure(t, true);
    if (t->active_count && t->live_count == 0)
        end(t, t->finished ? STOP_REQUESTS : STOP_SERVER_GONE);
    else if (!t->active_count && atomic_load(&t->shared->busy) == 0)
        end(t, STOP_NONE);
    else if (now_ns >= r->to_ns && !thread_has_arrivals(t)) {
        measure(t, false);
        t->phase = PHASE_DRAINING;
    }
}

/* Requests that somebody still waits for: sent, or queued behind those. */
static bool is_drained(const struct client_thread *t, uint64_t now_ns)
{
    uint64_t patience = clock_seconds_ns(t->plan->drain_s);
    return (t->in_flight == 0 && t->connecting == 0)
           || now_ns >= t->record->to_ns + patience;
}

/* --- from one to the next ------------------------------------------------ */

void thread_change_phase(struct client_thread *t, uint64_t now_ns)
{
    uint64_t start;
    if (atomic_load(&t->shared->interrupted)) {
        end(t, STOP_INTERRUPTED);
        return;
    }
    switch (t->phase) {
    case PHASE_CONNECTING:
        if (t->tried == t->count) {
            t->phase = PHASE_WAITING;
            shared_ready(t->shared, 1);
        }
        break;
    case PHASE_WAITING:
        start = atomic_load(&t->shared->start_ns);
        if (start && now_ns >= start)
            begin_load(t, start);
        break;
    case PHASE_LOADING:
        end_load(t, now_ns);
        break;
    case PHASE_DRAINING:
        if (is_drained(t, now_ns))
            end(t, STOP_DURATION);
        break;
    case PHASE_OVER:
        break;
    }
}
