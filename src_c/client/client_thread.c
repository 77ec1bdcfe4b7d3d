/* client_thread.c -- the loop of one thread of the client.
 *
 *     look at the clock -> do what is due -> wait for sockets -> ...
 *
 * Due by the clock are: connections to open, users to start, arrivals of the
 * open loop, wakeups, timeouts, and the end of a phase. Between
 * them the engine waits; where something precise is due within --spin it only
 * looks, again and again, since waking up may take longer than that.
 */
#include "client_thread.h"

#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "client_rounds.h"
#include "common/clock.h"

enum {
    CONNECTS_IN_FLIGHT = 128, /* few enough for any backlog */
    CONNECTS_IN_SLICE = 1024, /* no server in runtimes/ queues fewer */
    CONNECTS_AT_ONCE = 8,
    STARTS_AT_ONCE = 32,
    ARRIVALS_AT_ONCE = 64,
    LONGEST_LOOK_NS = 50000,
};
static const uint64_t STALL_NS = NS_PER_S;     /* a backlog that is full */
static const uint64_t REST_NS = 20000;         /* between looks for a turn */
static const uint64_t NAP_NS = 20 * NS_PER_MS; /* longest look away */

/* --- setting up --------------------------------------------------------- */

static void *zeroed(size_t count, size_t bytes)
{
    void *p = calloc(count ? count : 1, bytes);
    if (!p)
        err(1, "calloc");
    return p;
}

static void open_engine(struct client_thread *t)
{
    const struct plan *plan = t->plan;
    t->kind = plan->engine;
    t->engine = t->kind->open(t);
    if (!t->engine && plan->any_engine) {
        t->kind = &engine_epoll;
        t->engine = t->kind->open(t);
    }
    if (!t->engine)
        err(1, "%s", t->kind->name);
    for (unsigned i = 0; i < plan->target_count; i++)
        t->targets[i].record->engine = t->kind->name;
}

/* The users of target number i; they lie behind those of targets before it. */
static void make_users(struct client_thread *t, unsigned i)
{
    const struct plan *plan = t->plan;
    struct thread_target *target = &t->targets[i];
    uint32_t first = plan_first_user(plan, i, t->number);
    target->live = zeroed(target->count, sizeof *target->live);
    for (uint32_t j = 0; j < target->count; j++) {
        struct user *u = &t->users[target->first + j];
        uint32_t who = first + j;
        *u = (struct user){.fd = -1,
                           .who = who,
                           .target = i,
                           .active = plan_is_active(&plan->targets[i], who),
                           .row = shared_row(t->shared, plan, i, who)};
        u->row->active = u->active;
        if (u->active) {
            u->live_index = target->live_count;
            target->live[target->live_count++] = target->first + j;
        }
    }
    target->active_count = target->live_count;
    atomic_fetch_add(&t->shared->sums[i].live, target->live_count);
}

/* So many users of a target the thread plays. */
static uint32_t own_users(const struct client_thread *t, unsigned i)
{
    return plan_first_user(t->plan, i, t->number + 1) -
           plan_first_user(t->plan, i, t->number);
}

/* Users of every target draw the same numbers. */
static void make_targets(struct client_thread *t)
{
    const struct plan *plan = t->plan;
    for (unsigned i = 0; i < plan->target_count; i++)
        t->count += own_users(t, i);
    t->users = zeroed(t->count, sizeof *t->users);
    t->targets = zeroed(plan->target_count, sizeof *t->targets);
    t->current = &t->targets[0];
    for (unsigned i = 0, first = 0; i < plan->target_count; i++) {
        uint32_t count = own_users(t, i);
        t->targets[i] = (struct thread_target){
            .record = shared_record(t->shared, t->number, i),
            .asks = &plan->targets[i].asks,
            .first = first,
            .count = count,
            .edge_ns = UINT64_MAX,
            .rng = rng_make(plan->seed, 2 * t->number)};
        make_users(t, i);
        first += count;
        if (plan->late_ns && !(t->targets[i].saved = saved_window_make(count)))
            err(1, "calloc");
    }
}

static uint64_t active_between(const struct plan_target *target, uint64_t first,
                               uint64_t end)
{
    return plan_active_before(target, end) - plan_active_before(target, first);
}

/* A block that is shared with another thread shares its rate in proportion to
 * those who ask. */
static void make_meters(struct client_thread *t)
{
    const struct plan *plan = t->plan;
    const struct plan_target *target = &plan->targets[0];
    uint64_t first = t->users[0].who, end = first + t->count;
    if (plan->byte_rate == 0)
        return;
    t->first_block = first / plan->block;
    uint64_t blocks = (end - 1) / plan->block - t->first_block + 1;
    t->meters = zeroed(blocks, sizeof *t->meters);
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t from = (t->first_block + i) * plan->block;
        uint64_t to = from + plan->block, last = target->connections;
        uint64_t all = active_between(target, from, to < last ? to : last);
        uint64_t ours = active_between(target, from > first ? from : first,
                                       to < end ? to : end);
        if (ours > 0) /* else nobody asks it */
            t->meters[i] =
                meter_make(plan->byte_rate * (double)ours / (double)all);
    }
}

static void make_paces(struct client_thread *t, uint64_t now_ns)
{
    const struct plan *plan = t->plan;
    if (plan->connect_rate > 0)
        t->connects = pace_make(PACE_PACED,
                                plan->connect_rate / (double)plan_threads(plan),
                                (double)t->number / (double)plan_threads(plan),
                                now_ns, rng_make(plan->seed, 2 * t->number));
}

/* --- what the clock makes due ------------------------------------------- */

/* A server that has taken nobody for a while may take nobody ever: the rest
 * then waits all at once for its timeout, not 128 by 128. */
static bool has_room(const struct client_thread *t, uint64_t now_ns)
{
    uint32_t connecting = 0;
    for (unsigned i = 0; i < t->plan->target_count; i++)
        connecting += t->targets[i].connecting;
    return connecting < CONNECTS_IN_FLIGHT ||
           now_ns > t->connected_ns + STALL_NS;
}

static bool may_connect(const struct client_thread *t, uint64_t now_ns)
{
    return t->phase == PHASE_CONNECTING && t->next_connect < t->count &&
           has_room(t, now_ns) &&
           (t->connects.gap_ns == 0 || pace_due_ns(&t->connects) <= now_ns);
}

/* Dials that had no room are not made up for: --connect-rate is a promise to
 * the server. Those that are late because of us are, or it would be missed. */
static void keep_connect_rate(struct client_thread *t, uint64_t now_ns)
{
    bool room = has_room(t, now_ns);
    if (t->connects_blocked && room)
        pace_put_off(&t->connects, now_ns);
    t->connects_blocked = !room && pace_due_ns(&t->connects) <= now_ns;
}

static void connect_some(struct client_thread *t, uint64_t now_ns)
{
    if (t->phase == PHASE_CONNECTING && t->connects.gap_ns > 0)
        keep_connect_rate(t, now_ns);
    for (int i = 0; i < CONNECTS_AT_ONCE && may_connect(t, now_ns); i++) {
        if (t->connects.gap_ns > 0)
            pace_next(&t->connects);
        thread_connect(t, &t->users[t->next_connect++]);
    }
}

/* Closed loop: everybody's first request. */
static bool may_start(const struct client_thread *t)
{
    return t->phase == PHASE_LOADING && t->plan->rate == 0 &&
           t->current->next_start < t->current->count;
}

/* Starts users that have nothing pending: a user that thinks, or pauses after a
 * failure (exponential backoff), has a wakeup of its own. */
static void start_few(struct client_thread *t)
{
    struct thread_target *target = t->current;
    uint64_t now = clock_now_ns();
    for (int i = 0; i < STARTS_AT_ONCE && may_start(t); i++) {
        struct user *u = &t->users[target->first + target->next_start];
        if (!thread_may_ask(target, now))
            return;
        target->next_start++;
        if (u->active && !u->wake_ns)
            thread_begin(t, u, now, now);
    }
}

/* A run begins a few at a time, so that answers are not left lying meanwhile.
 * A slice is too short for that: of 1000 users 400 to 600 would wait for an
 * answer at a time, and fewer the faster the server. There all begin before
 * the first answer is read, but for connects, of which a backlog holds so many;
 * and the lead-in may be over before they have. With 128 of 2500 at a time, who
 * was answered first connected again and took their room: 0.2 to 0.6 of them
 * waited at a time, 0.8 to 0.9 do with 1024 (guestbook, Linux 6.18).
 */
static void start_some(struct client_thread *t)
{
    uint32_t before;
    if (!may_start(t))
        return;
    do {
        before = t->current->next_start;
        start_few(t);
        if (t->in_slice && clock_now_ns() >= t->current->record->from_ns)
            thread_measure(t, true);
    } while (t->in_slice && t->current->next_start > before &&
             t->current->connecting < CONNECTS_IN_SLICE);
}

/* Open loop: requests become due by the schedule alone. One that finds its user
 * busy joins that user's backlog and keeps its due time, from which the
 * response time counts; else a slow server would thin out its own load
 * (coordinated omission). Poisson arrivals fall on a random user, paced ones on
 * each in turn. */
static void take_arrivals(struct client_thread *t)
{
    struct thread_target *target = t->current;
    struct record *r = target->record;
    for (int i = 0; i < ARRIVALS_AT_ONCE && thread_has_arrivals(t); i++) {
        uint64_t now = clock_now_ns(), due = pace_due_ns(&target->arrivals);
        if (due > now || target->live_count == 0)
            return;
        pace_next(&target->arrivals);
        uint64_t pick = t->plan->arrivals == PACE_POISSON
                            ? rng_next(&target->rng)
                            : target->next_arrival++;
        record_lag(r, due, now);
        r->arrivals++;
        r->window.arrivals += due >= r->from_ns;
        thread_arrive(t, &t->users[target->live[pick % target->live_count]],
                      due, now);
    }
}

/* When the earliest wakeup is due by the clock of everybody. */
static uint64_t wakeup_due_ns(const struct thread_target *target)
{
    uint64_t due = wakeups_due_ns(&target->wakeups);
    return due == UINT64_MAX ? due : due + target->shift_ns;
}

/* Wakeups that were overtaken (the user hung up, or was given a later one) stay
 * in the heap and are recognised by their time. */
static void wake_some(struct client_thread *t, uint64_t now_ns)
{
    struct thread_target *target = t->current;
    while (thread_may_ask(target, now_ns) && wakeup_due_ns(target) <= now_ns) {
        struct wakeup entry = wakeups_take(&target->wakeups);
        struct user *u = &t->users[entry.who];
        if (u->wake_ns == entry.due_ns && t->phase == PHASE_LOADING)
            thread_wake(t, u);
    }
}

/* A connection that takes longer than --timeout to answer, or than
 * --connect-timeout to open, is given up. */
static void check_timeout(struct client_thread *t, struct user *u,
                          uint64_t now_ns)
{
    uint64_t waited = now_ns > u->since_ns ? now_ns - u->since_ns : 0;
    if (u->state == USER_CONNECTING &&
        waited > clock_seconds_ns(t->plan->connect_timeout_s))
        thread_on_connected(t, u, ETIMEDOUT);
    else if (u->state == USER_ASKING &&
             waited > clock_seconds_ns(t->plan->timeout_s))
        thread_fail(t, u, FAIL_TIMEOUT);
}

/* Looks at a few users per round of the loop, at all of them eight times per
 * timeout: a sweep over everybody at once would make others wait. A slice that
 * has just begun counts from its beginning, which `now_ns` may be before. */
static void scan_timeouts(struct client_thread *t, uint64_t now_ns)
{
    const struct plan *plan = t->plan;
    bool all = t->phase < PHASE_LOADING || t->asking_once;
    uint32_t first = all ? 0 : t->current->first;
    uint32_t count = all ? t->count : t->current->count;
    double shortest = plan->timeout_s < plan->connect_timeout_s
                          ? plan->timeout_s
                          : plan->connect_timeout_s;
    if (now_ns <= t->scanned_ns)
        return;
    double elapsed = (double)(now_ns - t->scanned_ns) / NS_PER_S;
    double share = 8 * elapsed / shortest * count;
    uint32_t some = share < count ? (uint32_t)share : count;
    if (some == 0)
        return;
    t->scanned_ns = now_ns;
    for (uint32_t i = 0; i < some; i++) {
        t->next_scan = (t->next_scan + 1) % count;
        check_timeout(t, &t->users[first + t->next_scan], now_ns);
    }
}

/* --- waiting ------------------------------------------------------------ */

/* When the next thing is due that should not be late. A dial without room waits
 * for an event, not for the clock. */
static uint64_t due_ns(const struct client_thread *t, uint64_t now_ns)
{
    uint64_t due = UINT64_MAX;
    if (thread_may_ask(t->current, now_ns))
        due = wakeup_due_ns(t->current);
    if (thread_has_arrivals(t))
        due = clock_earlier(due, pace_due_ns(&t->current->arrivals));
    if (t->phase == PHASE_CONNECTING && t->connects.gap_ns > 0 &&
        t->next_connect < t->count && has_room(t, now_ns))
        due = clock_earlier(due, pace_due_ns(&t->connects));
    return due;
}

/* When a phase or a slice goes on. */
static uint64_t next_edge_ns(const struct thread_target *target,
                             uint64_t now_ns)
{
    const struct record *r = target->record;
    uint64_t end = now_ns < target->edge_ns
                       ? clock_earlier(r->to_ns, target->edge_ns)
                       : r->to_ns;
    return now_ns < r->from_ns ? clock_earlier(end, r->from_ns) : end;
}

/* Between slices. Before the first of them nobody is in a hurry, and processes
 * that looked every 20 us kept those of another host from connecting (Linux
 * 6.18). */
static bool awaits_turn(const struct client_thread *t)
{
    return plan_is_sliced(t->plan) && t->phase == PHASE_LOADING &&
           !t->asking_once && !t->in_slice;
}

/* The run is over, with nothing under way; or the phase or slice, by what was
 * seen outside the wait, as where a connection is refused at once, or a user is
 * given up: no event will tell. */
static bool is_over(const struct client_thread *t)
{
    const struct thread_target *target = t->current;
    bool asks = t->in_slice || !plan_is_sliced(t->plan);
    if (t->phase == PHASE_CONNECTING)
        return t->tried == t->count;
    if (t->phase == PHASE_LOADING && asks)
        return target->active_count && target->live_count == 0;
    return t->phase == PHASE_OVER && target->in_flight == 0;
}

/* How long the engine may sleep; 0: it should only look. */
static uint64_t patience_ns(const struct client_thread *t, uint64_t now_ns)
{
    uint64_t due = due_ns(t, now_ns), spin = t->plan->spin_ns;
    if (spin == UINT64_MAX || is_over(t) || may_connect(t, now_ns) ||
        (may_start(t) && thread_may_ask(t->current, now_ns)) || due <= now_ns ||
        due - now_ns <= spin)
        return 0;
    uint64_t until = clock_earlier(due - spin, now_ns + NAP_NS);
    if (t->phase == PHASE_WAITING || thread_is_settling(t) ||
        thread_awaits_end(t, now_ns))
        until = clock_earlier(until, now_ns + NS_PER_MS);
    else if (t->phase == PHASE_LOADING)
        until = clock_earlier(until, next_edge_ns(t->current, now_ns));
    if (awaits_turn(t))
        until = clock_earlier(until, now_ns + REST_NS);
    return until > now_ns ? until - now_ns : 0;
}

/* Only rounds count that did nothing but look: one that sends is what the load
 * needs, whether or not an answer is there at once. They count whole, as the
 * turn around a look costs a third of it. It takes a microsecond or two; when
 * it took much longer, this thread was not running meanwhile. */
static void count_spin(struct client_thread *t, uint64_t now_ns)
{
    uint64_t look_ns = now_ns - t->looped_ns;
    if (t->spun && t->measuring && look_ns < LONGEST_LOOK_NS)
        t->current->record->window.spin_ns += look_ns;
    t->looped_ns = now_ns;
}

static void loop_once(struct client_thread *t)
{
    uint64_t now = clock_now_ns();
    count_spin(t, now);
    thread_change_phase(t, now);
    now = clock_now_ns(); /* between slices it waits for servers to sleep */
    connect_some(t, now);
    start_some(t);
    take_arrivals(t);
    wake_some(t, now);
    scan_timeouts(t, now);
    if (t->current->record->start_ns)
        record_timeline(t->current->record, now)->active =
            t->current->live_count;
    probe_look(t, now);
    uint64_t timeout = patience_ns(t, clock_now_ns());
    bool worked = t->worked; /* what is queued leaves now */
    t->worked = false;
    unsigned events = t->kind->wait(t->engine, timeout);
    t->spun = timeout == 0 && events == 0 && !worked;
}

/* --- the end ------------------------------------------------------------ */

/* A request without an answer at the end has waited at least so long: left out,
 * the longest waits would be the ones nobody sees. */
static void count_waits(struct client_thread *t, uint64_t now_ns)
{
    for (uint32_t i = 0; i < t->count; i++) {
        struct user *u = &t->users[i];
        if (u->opened_ns)
            u->row->session_ns += now_ns - u->opened_ns;
        record_wait(thread_target(t, u)->record, u->row,
                    thread_waits_since(t, u), now_ns);
    }
}

/* CPU time of the thread's life goes to the only target; where there are
 * slices, to the target of each (client_slices.c). */
static void finish_record(struct client_thread *t, struct record *r)
{
    struct rusage usage;
    r->end_ns = clock_now_ns();
    if (plan_is_sliced(t->plan))
        return;
    getrusage(RUSAGE_THREAD, &usage);
    r->cpu_user_ns = clock_timeval_ns(usage.ru_utime);
    r->cpu_system_ns = clock_timeval_ns(usage.ru_stime);
}

static void finish(struct client_thread *t)
{
    count_waits(t, clock_now_ns());
    for (unsigned i = 0; i < t->plan->target_count; i++) {
        finish_record(t, t->targets[i].record);
        wakeups_free(&t->targets[i].wakeups);
        free(t->targets[i].live);
        free(t->targets[i].saved);
    }
    if (t->targets[0].active_count)
        atomic_fetch_sub(&t->shared->busy, 1);
    t->kind->close(t->engine); /* sockets close with the process */
    backlog_free(&t->backlog);
    free(t->meters);
    free(t->targets);
    if (t->rounds)
        rounds_close(t->rounds);
    free(t->users);
}

void thread_run(const struct plan *plan, struct shared *shared, unsigned number)
{
    struct client_thread thread = {.plan = plan,
                                   .shared = shared,
                                   .number = number,
                                   .timed = plan_is_timed(plan)};
    make_targets(&thread);
    make_meters(&thread);
    if (thread.targets[0].active_count)
        atomic_fetch_add(&shared->busy, 1);
    make_paces(&thread, clock_now_ns());
    thread.probe = probe_make(plan->seed, number);
    open_engine(&thread);
    thread.scanned_ns = thread.connected_ns = clock_now_ns();
    while (thread.phase != PHASE_OVER)
        loop_once(&thread);
    finish(&thread);
}
