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

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "common/clock.h"

enum {
    CONNECTS_IN_FLIGHT = 128,                 /* few enough for any backlog */
    CONNECTS_AT_ONCE = 8, STARTS_AT_ONCE = 32, ARRIVALS_AT_ONCE = 64,
    LONGEST_LOOK_NS = 50000,
};
static const uint64_t STALL_NS = NS_PER_S;       /* a backlog that is full */
static const uint64_t NAP_NS = 20 * NS_PER_MS;   /* longest look away */

/* --- setting up --------------------------------------------------------- */

static _Noreturn void die(const char *call, int error)
{
    fprintf(stderr, "client: %s: %s\n", call, strerror(error));
    exit(1);
}

static void *zeroed(size_t count, size_t bytes)
{
    void *p = calloc(count ? count : 1, bytes);
    if (!p)
        die("calloc", errno);
    return p;
}

static void open_engine(struct client_thread *t)
{
    const struct plan *plan = t->plan;
    t->kind = plan->engine;
    t->engine = t->kind->open(t, &plan->endpoints);
    if (!t->engine && plan->any_engine) {
        t->kind = &engine_epoll;
        t->engine = t->kind->open(t, &plan->endpoints);
    }
    if (!t->engine)
        die(t->kind->name, errno);
    t->record->engine = t->kind->name;
}

static void make_users(struct client_thread *t)
{
    const struct plan *plan = t->plan;
    uint32_t first = plan_first_user(plan, t->number);
    t->count = plan_first_user(plan, t->number + 1) - first;
    t->users = zeroed(t->count, sizeof *t->users);
    t->live = zeroed(t->count, sizeof *t->live);
    for (uint32_t i = 0; i < t->count; i++) {
        struct user *u = &t->users[i];
        *u = (struct user){.fd = -1, .who = first + i,
                           .active = plan_is_active(plan, first + i),
                           .row = &t->shared->rows[first + i]};
        u->row->active = u->active;
        if (u->active) {
            u->live_index = t->live_count;
            t->live[t->live_count++] = i;
        }
    }
    t->active_count = t->live_count;
}

/* A block that is shared with another thread shares its rate in proportion. */
static void make_meters(struct client_thread *t)
{
    const struct plan *plan = t->plan;
    uint64_t first = t->users[0].who, end = first + t->count;
    if (plan->byte_rate == 0)
        return;
    t->first_block = first / plan->block;
    uint64_t blocks = (end - 1) / plan->block - t->first_block + 1;
    t->meters = zeroed(blocks, sizeof *t->meters);
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t from = (t->first_block + i) * plan->block;
        uint64_t to = from + plan->block;
        uint64_t all = (to < plan->connections ? to : plan->connections) - from;
        uint64_t ours = (to < end ? to : end) - (from > first ? from : first);
        t->meters[i] =
            meter_make(plan->byte_rate * (double)ours / (double)all);
    }
}

static void make_paces(struct client_thread *t, uint64_t now_ns)
{
    const struct plan *plan = t->plan;
    t->rng = rng_make(plan->seed, 2 * t->number);
    if (plan->connect_rate > 0)
        t->connects = pace_make(
            PACE_PACED, plan->connect_rate / (double)plan_threads(plan),
            (double)t->number / (double)plan_threads(plan), now_ns,
            t->rng);
}

/* --- what the clock makes due ------------------------------------------- */

/* A server that has taken nobody for a while may take nobody ever: the rest
 * then waits all at once for its timeout, not 128 by 128. */
static bool has_room(const struct client_thread *t, uint64_t now_ns)
{
    return t->connecting < CONNECTS_IN_FLIGHT
           || now_ns > t->connected_ns + STALL_NS;
}

static bool may_connect(const struct client_thread *t, uint64_t now_ns)
{
    return t->phase == PHASE_CONNECTING && t->next_connect < t->count
           && has_room(t, now_ns)
           && (t->connects.gap_ns == 0 || pace_due_ns(&t->connects) <= now_ns);
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

/* Closed loop: everybody's first request, but a few at a time, so that answers
 * are not left lying meanwhile. */
static bool may_start(const struct client_thread *t)
{
    return t->phase == PHASE_LOADING && t->plan->rate == 0
           && t->next_start < t->count;
}

static void start_some(struct client_thread *t, uint64_t now_ns)
{
    for (int i = 0; i < STARTS_AT_ONCE && may_start(t); i++) {
        struct user *u = &t->users[t->next_start++];
        if (u->active)
            thread_begin(t, u, now_ns, now_ns);
    }
}

/* Poisson arrivals fall on a random user, paced ones on each in turn. */
static void take_arrivals(struct client_thread *t)
{
    for (int i = 0; i < ARRIVALS_AT_ONCE && thread_has_arrivals(t); i++) {
        uint64_t now = clock_now_ns(), due = pace_due_ns(&t->arrivals);
        if (due > now || t->live_count == 0)
            return;
        pace_next(&t->arrivals);
        uint64_t pick = t->plan->arrivals == PACE_POISSON
                            ? rng_next(&t->rng) : t->next_arrival++;
        record_lag(t->record, due, now);
        t->record->arrivals++;
        t->record->window_arrivals += due >= t->record->from_ns;
        thread_arrive(t, &t->users[t->live[pick % t->live_count]],
                    due, now);
    }
}

static void wake_some(struct client_thread *t, uint64_t now_ns)
{
    while (wakeups_due_ns(&t->wakeups) <= now_ns) {
        struct wakeup entry = wakeups_take(&t->wakeups);
        struct user *u = &t->users[entry.who];
        if (u->wake_ns == entry.due_ns && t->phase == PHASE_LOADING)
            thread_wake(t, u);
    }
}

static void check_timeout(struct client_thread *t, struct user *u,
                          uint64_t now_ns)
{
    uint64_t waited = now_ns > u->since_ns ? now_ns - u->since_ns : 0;
    if (u->state == USER_CONNECTING
        && waited > clock_seconds_ns(t->plan->connect_timeout_s))
        thread_on_connected(t, u, ETIMEDOUT);
    else if (u->state == USER_ASKING
             && waited > clock_seconds_ns(t->plan->timeout_s))
        thread_fail(t, u, FAIL_TIMEOUT);
}

/* Looks at a few users per round of the loop, at all of them eight times per
 * timeout: a sweep over everybody at once would make others wait. */
static void scan_timeouts(struct client_thread *t, uint64_t now_ns)
{
    const struct plan *plan = t->plan;
    double shortest = plan->timeout_s < plan->connect_timeout_s
                          ? plan->timeout_s : plan->connect_timeout_s;
    double elapsed = (double)(now_ns - t->scanned_ns) / NS_PER_S;
    double share = 8 * elapsed / shortest * t->count;
    uint32_t some = share < t->count ? (uint32_t)share : t->count;
    if (some == 0)
        return;
    t->scanned_ns = now_ns;
    for (uint32_t i = 0; i < some; i++) {
        check_timeout(t, &t->users[t->next_scan], now_ns);
        t->next_scan = (t->next_scan + 1) % t->count;
    }
}

/* --- waiting ------------------------------------------------------------ */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When the next thing is due that should not be late. A dial without room waits
 * for an event, not for the clock. */
static uint64_t due_ns(const struct client_thread *t, uint64_t now_ns)
{
    uint64_t due = wakeups_due_ns(&t->wakeups);
    if (thread_has_arrivals(t))
        due = earlier(due, pace_due_ns(&t->arrivals));
    if (t->phase == PHASE_CONNECTING && t->connects.gap_ns > 0
        && t->next_connect < t->count && has_room(t, now_ns))
        due = earlier(due, pace_due_ns(&t->connects));
    return due;
}

/* How long the engine may sleep; 0: it should only look. */
static uint64_t patience_ns(const struct client_thread *t, uint64_t now_ns)
{
    uint64_t due = due_ns(t, now_ns), spin = t->plan->spin_ns;
    if (spin == UINT64_MAX || may_connect(t, now_ns) || may_start(t)
        || due <= now_ns || due - now_ns <= spin)
        return 0;
    uint64_t until = earlier(due - spin, now_ns + NAP_NS);
    if (t->phase == PHASE_WAITING || thread_is_settling(t))
        until = now_ns + NS_PER_MS;
    if (t->phase == PHASE_LOADING)
        until = earlier(until, now_ns < t->record->from_ns
                                   ? t->record->from_ns
                                   : t->record->to_ns);
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
        t->record->window_spin_ns += look_ns;
    t->looped_ns = now_ns;
}

static void loop_once(struct client_thread *t)
{
    uint64_t now = clock_now_ns();
    count_spin(t, now);
    thread_change_phase(t, now);
    connect_some(t, now);
    start_some(t, now);
    take_arrivals(t);
    wake_some(t, now);
    scan_timeouts(t, now);
    if (t->record->start_ns)
        record_timeline(t->record, now)->active = t->live_count;
    probe_look(t, now);
    uint64_t timeout = patience_ns(t, clock_now_ns());
    bool worked = t->worked;            /* what is queued leaves now */
    t->worked = false;
    unsigned events = t->kind->wait(t->engine, timeout);
    t->spun = timeout == 0 && events == 0 && !worked;
}

/* --- the end ------------------------------------------------------------ */

/* Who still waits has waited at least so long. */
static void count_waits(struct client_thread *t, uint64_t now_ns)
{
    for (uint32_t i = 0; i < t->count; i++) {
        struct user *u = &t->users[i];
        if (u->opened_ns)
            u->row->session_ns += now_ns - u->opened_ns;
        record_wait(t->record, u->row, thread_waits_since(t, u), now_ns);
    }
}

static uint64_t timeval_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_usec * 1000;
}

static void finish(struct client_thread *t)
{
    struct rusage usage;
    t->record->end_ns = clock_now_ns();
    count_waits(t, t->record->end_ns);
    getrusage(RUSAGE_THREAD, &usage);
    t->record->cpu_user_ns = timeval_ns(usage.ru_utime);
    t->record->cpu_system_ns = timeval_ns(usage.ru_stime);
    if (t->active_count)
        atomic_fetch_sub(&t->shared->busy, 1);
    t->kind->close(t->engine);       /* sockets close with the process */
    wakeups_free(&t->wakeups);
    backlog_free(&t->backlog);
    free(t->meters);
    free(t->live);
    free(t->users);
}

void thread_run(const struct plan *plan, struct shared *shared, unsigned number)
{
    struct client_thread thread = {.plan = plan, .shared = shared,
                        .number = number,
                        .record = &shared->records[number],
                        .timed = plan_is_timed(plan)};
    make_users(&thread);
    make_meters(&thread);
    if (thread.active_count)
        atomic_fetch_add(&shared->busy, 1);
    make_paces(&thread, clock_now_ns());
    thread.probe = probe_make(plan->seed, number);
    open_engine(&thread);
    thread.scanned_ns = thread.connected_ns = clock_now_ns();
    while (thread.phase != PHASE_OVER)
        loop_once(&thread);
    finish(&thread);
}
