/* client_slices.c -- see client_slices.h: what every thread does in a slice.
 *
 *     rest -> join -> ask until the edge -> drain -> leave -> rest
 *
 * The first thread also says, while all rest, whose turn it is next
 * (client_rounds.c).
 */
#include "client_slices.h"

#include <sys/resource.h>

#include "client_rounds.h"
#include "client_thread.h"
#include "common/clock.h"

static const uint64_t LOST_NS = 2 * NS_PER_S; /* beyond --drain */
/* A closed loop asks until each user has had ANSWERS_EACH answers, on average;
 * after LONG_SLICES times --slice ANSWERS_LEAST of them are enough, and after
 * LONGEST_SLICES times it ends. */
enum { ANSWERS_EACH = 25, ANSWERS_LEAST = 8 };
enum { LONG_SLICES = 5, LONGEST_SLICES = 25 };

static uint64_t count_failures(const struct record *r)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < FAIL_KINDS; i++)
        sum += r->failures[i];
    return sum;
}

/* Counters of the thread for this target, as they stand: a slice is the
 * difference of two such readings. getrusage(RUSAGE_THREAD) says how CPU time
 * divides into user and system; their sum is known better by its clock. */
static struct slice_part take_part(const struct client_thread *t)
{
    const struct record *r = t->current->record;
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (struct slice_part){
        .lead_in_requests = r->completed - r->window.requests,
        .requests = r->window.requests,
        .bytes = r->window.bytes,
        .response_ns = (uint64_t)r->window.response.sum_ns,
        .errors = count_failures(r),
        .probed = r->window.probed,
        .waiting = r->window.probed_waiting,
        .cpu_ns = clock_thread_cpu_ns(),
        .user_ns = clock_timeval_ns(usage.ru_utime),
        .system_ns = clock_timeval_ns(usage.ru_stime)};
}

/* Leaves targets that have ended, where another thread saw it first. */
static void give_up_ended(struct client_thread *t)
{
    for (unsigned i = 0; i < t->plan->target_count; i++)
        if (t->shared->sums[i].ended != ENDED_NOT && !t->targets[i].given_up)
            thread_give_up(t, &t->targets[i]);
}

/* The target's last slice is repeated, or its round was set aside. */
static bool was_late(const struct client_thread *t, unsigned number)
{
    const struct thread_target *target = &t->targets[number];
    return target->slice > 0 &&
           target->slice == t->shared->sums[number].late_slice;
}

/* NULL where the thread has no user of the target. */
static struct row *rows_of(const struct client_thread *t,
                           const struct thread_target *target)
{
    return target->count ? t->users[target->first].row : NULL;
}

/* --late: as if the target's last slice had not been, if it was late. */
static void forget_late(struct client_thread *t, unsigned number)
{
    struct thread_target *target = &t->targets[number];
    if (target->saved && was_late(t, number))
        record_restore(target->record, rows_of(t, target), target->count,
                       target->saved);
    target->slice = 0;
}

/* Whether the edge waits for answers: all users ask all the time, and clients
 * on other hosts do not go on by the clock. */
static bool is_for_answers(const struct plan *plan)
{
    return plan->rate == 0 && plan->think.mean_ns == 0 && !plan_is_fixed(plan);
}

/* The slice begins. Times of arrivals and wakeups are shifted by the rest that
 * the target just had, and in its slice k it meets those between k and k + 1
 * slices, unless its edges wait for answers: so every target meets the same
 * schedule. The window opens after the
 * lead-in, and stays open until the last answer. Without think times all users
 * ask at once, as at the beginning of a run. */
static void slices_join(struct client_thread *t)
{
    give_up_ended(t);
    const struct plan *plan = t->plan;
    const struct slice *slice = &t->shared->slice;
    struct thread_target *target = &t->targets[slice->target];
    struct record *r = target->record;
    t->current = target;
    t->in_slice = true;
    struct row *rows = rows_of(t, target);
    forget_late(t, slice->target);
    if (slice->counted && !target->counted)
        record_begin_window(r, rows, target->count);
    if (slice->counted && target->saved)
        record_save(r, rows, target->count, target->saved);
    target->slice = t->slice;
    target->counted = slice->counted;
    target->shift_ns = slice->begin_ns - target->had_ns;
    target->arrivals.start_ns = target->shift_ns;
    target->edge_ns =
        slice->begin_ns +
        plan->slice_ns * (is_for_answers(plan) ? LONGEST_SLICES : 1);
    if (plan->think.mean_ns == 0)
        target->next_start = 0;
    r->from_ns = slice->begin_ns + plan->lead_in_ns;
    r->to_ns = UINT64_MAX;
    t->scanned_ns = slice->begin_ns;
    t->before = take_part(t);
}

/* No request is in flight, and none waits for a connection. Of another target
 * one may, since --settle: it is seen to when that has its turn. */
static bool is_at_rest(const struct client_thread *t)
{
    return t->current->in_flight == 0 && t->current->connecting == 0;
}

/* --late: how late the client was in this slice, and how long answers took. */
static void take_p99(const struct client_thread *t, struct slice_part *part)
{
    const struct window *now = &t->current->record->window;
    const struct window *before = &t->current->saved->window;
    part->lag_p99_ns = hist_quantile_since_ns(&now->lag, &before->lag, 0.99);
    part->response_p99_ns =
        hist_quantile_since_ns(&now->response, &before->response, 0.99);
}

/* The part of this thread is over, and the slice when all have said so. */
static void slices_leave(struct client_thread *t)
{
    struct record *r = t->current->record;
    struct slice_part *part = &t->shared->parts[t->number], now;
    thread_measure(t, false);
    r->from_ns = UINT64_MAX;
    now = take_part(t);
    r->cpu_user_ns += now.user_ns - t->before.user_ns;
    r->cpu_system_ns += now.system_ns - t->before.system_ns;
    *part = (struct slice_part){
        .lead_in_requests = now.lead_in_requests - t->before.lead_in_requests,
        .requests = now.requests - t->before.requests,
        .bytes = now.bytes - t->before.bytes,
        .response_ns = now.response_ns - t->before.response_ns,
        .errors = now.errors - t->current->failures,
        .probed = now.probed - t->before.probed,
        .waiting = now.waiting - t->before.waiting,
        .cpu_ns = now.cpu_ns - t->before.cpu_ns,
        .last_answer_ns = r->last_answer_ns,
        .given_up = t->current->given_up};
    if (t->current->counted && t->current->saved)
        take_p99(t, part);
    t->current->failures = now.errors;
    t->current->had_ns = t->current->edge_ns - t->current->shift_ns;
    t->current->edge_ns = 0;
    t->in_slice = false;
    atomic_fetch_add(&t->shared->slice.drained, 1);
}

/* The edge is known once users have had their answers. */
static void set_edge(struct client_thread *t, uint64_t now_ns)
{
    struct thread_target *target = t->current;
    uint64_t before = t->before.lead_in_requests + t->before.requests;
    uint64_t answers = target->record->completed - before;
    uint64_t begin_ns = t->shared->slice.begin_ns;
    uint64_t least_ns = begin_ns + t->plan->slice_ns;
    bool is_long = now_ns >= begin_ns + LONG_SLICES * t->plan->slice_ns;
    uint64_t each = is_long ? ANSWERS_LEAST : ANSWERS_EACH;
    if (answers >= each * target->live_count)
        target->edge_ns =
            clock_earlier(target->edge_ns, clock_later(least_ns, now_ns));
}

/* Nothing is to be done while users ask; from the edge on, what is under way is
 * waited for, but not for ever. */
static void ask_or_drain(struct client_thread *t, uint64_t now_ns)
{
    struct thread_target *target = t->current;
    if (now_ns < target->edge_ns)
        set_edge(t, now_ns);
    uint64_t edge = target->edge_ns;
    if (now_ns >= target->record->from_ns)
        thread_measure(t, true);
    if (target->live_count > 0 && (now_ns < edge || thread_has_arrivals(t)))
        return;
    if (now_ns >= edge + clock_seconds_ns(t->plan->drain_s) && !is_at_rest(t))
        thread_give_up(t, target);
    if (is_at_rest(t))
        slices_leave(t);
}

/* A thread that died never comes to rest. */
static void check_lost(struct client_thread *t, uint64_t now_ns)
{
    uint64_t most = LONGEST_SLICES * t->plan->slice_ns + LOST_NS +
                    clock_seconds_ns(t->plan->drain_s);
    if (now_ns > t->shared->slice.begin_ns + most)
        atomic_store(&t->shared->interrupted, INTERRUPT_NOW);
}

/* The first thread's part, while it rests itself. */
static void slices_lead(struct client_thread *t, uint64_t now_ns)
{
    struct shared *shared = t->shared;
    if (!t->rounds)
        t->rounds = rounds_open(t->plan, shared);
    if (t->slice == 0 || atomic_load(&shared->slice.drained) == shared->threads)
        rounds_go_on(t->rounds);
    else
        check_lost(t, now_ns);
}

/* Called in every pass of the loop. The number of the slice is written last and
 * read first (sequentially consistent): all else in shared->slice belongs to
 * it. */
void thread_take_turns(struct client_thread *t, uint64_t now_ns)
{
    struct slice *slice = &t->shared->slice;
    if (t->in_slice)
        ask_or_drain(t, now_ns);
    if (t->in_slice)
        return;
    if (t->number == 0 && atomic_load(&slice->number) == t->slice)
        slices_lead(t, now_ns);
    if (atomic_load(&slice->number) == t->slice)
        return;
    if (slice->stop != STOP_NONE) {
        for (unsigned i = 0; i < t->plan->target_count; i++)
            forget_late(t, i);
        thread_end(t, slice->stop);
    } else if (clock_now_ns() >= slice->begin_ns) {
        t->slice = atomic_load(&slice->number);
        slices_join(t);
    }
}
