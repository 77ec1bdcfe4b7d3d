/* client_phases.c -- the state machine of a run, and what ends each phase.
 *
 *     connecting ─▶ waiting ─▶ loading ─▶ draining ─▶ over
 *                           asking once, warm-up, window
 */
#include "client_slices.h"
#include "client_thread.h"
#include "common/clock.h"

/* --- the load begins ----------------------------------------------------- */

/* The warm-up begins, after which the window opens. */
static void begin_warmup(struct client_thread *t, uint64_t at_ns)
{
    const struct plan *plan = t->plan;
    uint64_t from = at_ns + clock_seconds_ns(plan->warmup_s);
    uint64_t to = plan->requests || plan->response_times > 0
                      ? UINT64_MAX
                      : from + clock_seconds_ns(plan->duration_s);
    struct record *r = t->targets[0].record;
    record_begin(r, r->start_ns, from, to);
    t->cold_answers = r->completed;
    t->cold_response_ns = r->completed_ns;
}

/* Arrivals in proportion to the thread's share of active users. */
static void make_arrivals(struct client_thread *t, unsigned i)
{
    const struct plan *plan = t->plan;
    struct thread_target *target = &t->targets[i];
    if (plan->rate == 0 || target->active_count == 0)
        return;
    target->arrivals = pace_make(plan->arrivals,
                                 plan->rate * (double)target->active_count /
                                     (double)plan->targets[i].active,
                                 (double)t->number / (double)plan_threads(plan),
                                 target->record->start_ns,
                                 rng_make(plan->seed, 2 * t->number + 1));
}

static void begin_load(struct client_thread *t, uint64_t start_ns)
{
    bool sliced = plan_is_sliced(t->plan);
    t->asking_once = t->plan->settle_s > 0;
    for (unsigned i = 0; i < t->plan->target_count; i++) {
        struct thread_target *target = &t->targets[i];
        record_begin(target->record, start_ns, UINT64_MAX, UINT64_MAX);
        make_arrivals(t, i);
        target->shift_ns = sliced ? start_ns : 0;
        target->edge_ns = sliced && !t->asking_once ? 0 : UINT64_MAX;
    }
    if (!t->asking_once && !sliced)
        begin_warmup(t, start_ns);
    t->phase = PHASE_LOADING;
}

/* --- settling ------------------------------------------------------------ */

bool thread_is_settling(const struct client_thread *t)
{
    if (plan_is_sliced(t->plan))
        return t->phase == PHASE_LOADING && t->asking_once;
    return t->phase == PHASE_LOADING &&
           t->targets[0].record->from_ns == UINT64_MAX;
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

static uint32_t live_count(const struct client_thread *t)
{
    uint32_t count = 0;
    for (unsigned i = 0; i < t->plan->target_count; i++)
        count += t->targets[i].live_count;
    return count;
}

/* All were asked once: everybody begins anew, in slices when it is their turn.
 * Who paused after a failure does not do so again. */
static void rest_all(struct client_thread *t, uint64_t now_ns)
{
    for (unsigned i = 0; i < t->plan->target_count; i++) {
        struct thread_target *target = &t->targets[i];
        target->next_start = 0;
        target->had_ns = now_ns - target->shift_ns;
        target->edge_ns = plan_is_sliced(t->plan) ? 0 : UINT64_MAX;
    }
    t->current = &t->targets[0];
}

/* --settle: each user asks once and rests. A server that still starts a thread
 * for each client could not do so while others press on, who would have it
 * alone. */
static void await_first_answers(struct client_thread *t, uint64_t now_ns)
{
    uint64_t patience = clock_seconds_ns(t->plan->settle_s);
    bool late = now_ns >= t->targets[0].record->start_ns + patience;
    if (late || t->answered >= live_count(t))
        say_asked_once(t, late);
    uint64_t asked_once = atomic_load(&t->shared->asked_once_ns);
    if (asked_once && now_ns >= asked_once) {
        t->asking_once = false;
        rest_all(t, now_ns);
    }
}

/* The users of this target have been answered once, or its part of the time for
 * that is over, and there is another target. All targets at once would ask of
 * what they share, Redis for one, several times what it ever gets in slices. */
static bool is_asked_once(const struct client_thread *t, uint64_t now_ns)
{
    unsigned count = t->plan->target_count;
    unsigned number = (unsigned)(t->current - t->targets);
    double part_s = t->plan->settle_s * (number + 1) / count;
    uint64_t until = t->targets[0].record->start_ns + clock_seconds_ns(part_s);
    uint32_t live = 0;
    for (unsigned i = 0; i <= number; i++)
        live += t->targets[i].live_count;
    return number + 1 < count && (t->answered >= live || now_ns >= until);
}

/* All were answered once: all go on, and then the warm-up begins. */
static void settle(struct client_thread *t, uint64_t now_ns)
{
    bool begun = t->current->next_start == t->current->count;
    if (t->asking_once) {
        if (begun && is_asked_once(t, now_ns))
            t->current++;
        await_first_answers(t, now_ns);
        return;
    }
    if (begun)
        say_resumed(t);
    uint64_t resumed = atomic_load(&t->shared->resumed_ns);
    uint64_t asked_once = atomic_load(&t->shared->asked_once_ns);
    if (resumed || now_ns > asked_once + clock_seconds_ns(t->plan->settle_s))
        begin_warmup(t, resumed ? resumed : now_ns);
}

/* --- how long the window is ---------------------------------------------- */

bool thread_awaits_end(const struct client_thread *t, uint64_t now_ns)
{
    const struct record *r = t->targets[0].record;
    return t->phase == PHASE_LOADING && t->plan->response_times > 0 &&
           !plan_is_sliced(t->plan) && now_ns >= r->from_ns &&
           r->to_ns == UINT64_MAX;
}

static void say_warmed(struct client_thread *t)
{
    const struct record *r = t->targets[0].record;
    if (!t->said_warmed)
        shared_warmed(t->shared, t->plan, r->completed - t->cold_answers,
                      r->completed_ns - t->cold_response_ns, r->from_ns);
    t->said_warmed = true;
}

/* --response-times: the warm-up of all threads says how long theirs take. */
static void await_end(struct client_thread *t)
{
    say_warmed(t);
    uint64_t to = atomic_load(&t->shared->to_ns);
    if (to)
        t->targets[0].record->to_ns = to;
}

/* --- the load ends ------------------------------------------------------- */

/* CPU time of the window, apart from that of connecting and warming up. */
void thread_measure(struct client_thread *t, bool on)
{
    if (on == t->measuring)
        return;
    t->measuring = on;
    if (on)
        t->cpu_at_from_ns = clock_thread_cpu_ns();
    else
        t->current->record->window.cpu_ns +=
            clock_thread_cpu_ns() - t->cpu_at_from_ns;
}

void thread_end(struct client_thread *t, enum stop_reason why)
{
    thread_measure(t, false);
    if (t->plan->settle_s > 0) { /* nobody shall wait for us */
        say_asked_once(t, false);
        say_resumed(t);
    }
    if (t->plan->response_times > 0 && !plan_is_sliced(t->plan))
        say_warmed(t);
    for (unsigned i = 0; i < t->plan->target_count; i++)
        t->targets[i].record->end = why;
    t->phase = PHASE_OVER;
}

/* Arrivals that fall before the end are made even when it has passed meanwhile:
 * the schedule says what was due, not the clock. */
bool thread_has_arrivals(const struct client_thread *t)
{
    const struct thread_target *target = t->current;
    uint64_t due = pace_due_ns(&target->arrivals);
    return t->phase == PHASE_LOADING && target->arrivals.gap_ns > 0 &&
           due < target->record->to_ns && due < target->edge_ns;
}

static void end_load(struct client_thread *t, uint64_t now_ns)
{
    const struct thread_target *target = t->current;
    struct record *r = target->record;
    if (thread_is_settling(t))
        settle(t, now_ns);
    if (thread_awaits_end(t, now_ns))
        await_end(t);
    if (plan_is_sliced(t->plan))
        return; /* it settles: who has no users by then gets no turn */
    if (now_ns >= r->from_ns && now_ns < r->to_ns)
        thread_measure(t, true);
    if (target->active_count && target->live_count == 0)
        thread_end(t, target->finished ? STOP_REQUESTS : STOP_SERVER_GONE);
    else if (!target->active_count && atomic_load(&t->shared->busy) == 0)
        thread_end(t, STOP_NONE);
    else if (now_ns >= r->to_ns && !thread_has_arrivals(t)) {
        thread_measure(t, false);
        t->phase = PHASE_DRAINING;
    }
}

/* Requests that somebody still waits for: sent, or queued behind those. */
static bool is_drained(const struct client_thread *t, uint64_t now_ns)
{
    uint64_t patience = clock_seconds_ns(t->plan->drain_s);
    return (t->targets[0].in_flight == 0 && t->targets[0].connecting == 0) ||
           now_ns >= t->targets[0].record->to_ns + patience;
}

/* A signal ends slices at an edge, so that the last one is whole; the loss of a
 * process at once, as it would never come to rest, and so does a signal that a
 * thread sees which has not begun to take turns. */
static bool is_interrupted(const struct client_thread *t)
{
    int how = atomic_load(&t->shared->interrupted);
    bool in_turns =
        plan_is_sliced(t->plan) && t->phase == PHASE_LOADING && !t->asking_once;
    return how == INTERRUPT_NOW || (how && !in_turns);
}

/* --- from one to the next ------------------------------------------------ */

void thread_change_phase(struct client_thread *t, uint64_t now_ns)
{
    uint64_t start;
    if (is_interrupted(t)) {
        if (plan_is_sliced(t->plan)) /* no turn of others would end */
            atomic_store(&t->shared->interrupted, INTERRUPT_NOW);
        thread_end(t, STOP_INTERRUPTED);
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
        if (plan_is_sliced(t->plan) && !t->asking_once)
            thread_take_turns(t, now_ns);
        else
            end_load(t, now_ns);
        break;
    case PHASE_DRAINING:
        if (is_drained(t, now_ns))
            thread_end(t, STOP_DURATION);
        break;
    case PHASE_OVER: break;
    }
}
