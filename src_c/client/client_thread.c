/* client_thread.c -- the loop of one thread of the client.
 *
 *     look at the clock -> do what is due -> wait for sockets -> ...
 *
 * Due by the clock are: connections to open, users to start, arrivals of the
 * open loop, wake-ups of the agenda, timeouts, and the end of a phase. Between
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
    DIALS_IN_FLIGHT = 128,                 /* few enough for any backlog */
    DIALS_AT_ONCE = 8, STARTS_AT_ONCE = 32, ARRIVALS_AT_ONCE = 64,
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

static void open_engine(struct crew *crew)
{
    const struct plan *plan = crew->plan;
    crew->kind = plan->engine;
    crew->engine = crew->kind->open(crew, &plan->dial);
    if (!crew->engine && plan->any_engine) {
        crew->kind = &engine_epoll;
        crew->engine = crew->kind->open(crew, &plan->dial);
    }
    if (!crew->engine)
        die(crew->kind->name, errno);
    crew->record->engine = crew->kind->name;
}

static void make_users(struct crew *crew)
{
    const struct plan *plan = crew->plan;
    uint32_t first = plan_first_user(plan, crew->number);
    crew->count = plan_first_user(plan, crew->number + 1) - first;
    crew->users = zeroed(crew->count, sizeof *crew->users);
    crew->live = zeroed(crew->count, sizeof *crew->live);
    for (uint32_t i = 0; i < crew->count; i++) {
        struct user *u = &crew->users[i];
        *u = (struct user){.fd = -1, .who = first + i,
                           .active = plan_is_active(plan, first + i),
                           .row = &crew->board->rows[first + i]};
        u->row->active = u->active;
        if (u->active) {
            u->place = crew->live_count;
            crew->live[crew->live_count++] = i;
        }
    }
    crew->active_count = crew->live_count;
}

/* A block that is shared with another crew shares its rate in proportion. */
static void make_meters(struct crew *crew)
{
    const struct plan *plan = crew->plan;
    uint64_t first = crew->users[0].who, end = first + crew->count;
    if (plan->byte_rate == 0)
        return;
    crew->first_block = first / plan->block;
    uint64_t blocks = (end - 1) / plan->block - crew->first_block + 1;
    crew->meters = zeroed(blocks, sizeof *crew->meters);
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t from = (crew->first_block + i) * plan->block;
        uint64_t to = from + plan->block;
        uint64_t all = (to < plan->connections ? to : plan->connections) - from;
        uint64_t ours = (to < end ? to : end) - (from > first ? from : first);
        crew->meters[i] =
            meter_make(plan->byte_rate * (double)ours / (double)all);
    }
}

static void make_paces(struct crew *crew, uint64_t now_ns)
{
    const struct plan *plan = crew->plan;
    crew->dice = dice_make(plan->seed, 2 * crew->number);
    if (plan->connect_rate > 0)
        crew->dials = pace_make(
            PACE_PACED, plan->connect_rate / (double)plan_crews(plan),
            (double)crew->number / (double)plan_crews(plan), now_ns,
            crew->dice);
}

/* --- what the clock makes due ------------------------------------------- */

/* A server that has taken nobody for a while may take nobody ever: the rest
 * then waits all at once for its timeout, not 128 by 128. */
static bool has_room(const struct crew *crew, uint64_t now_ns)
{
    return crew->dialing < DIALS_IN_FLIGHT
           || now_ns > crew->connected_ns + STALL_NS;
}

static bool may_dial(const struct crew *crew, uint64_t now_ns)
{
    return crew->phase == PHASE_DIALING && crew->next_dial < crew->count
           && has_room(crew, now_ns)
           && (crew->dials.gap_ns == 0 || pace_due_ns(&crew->dials) <= now_ns);
}

/* Dials that had no room are not made up for: --connect-rate is a promise to
 * the server. Those that are late because of us are, or it would be missed. */
static void keep_dial_rate(struct crew *crew, uint64_t now_ns)
{
    bool room = has_room(crew, now_ns);
    if (crew->cramped && room)
        pace_put_off(&crew->dials, now_ns);
    crew->cramped = !room && pace_due_ns(&crew->dials) <= now_ns;
}

static void dial_some(struct crew *crew, uint64_t now_ns)
{
    if (crew->phase == PHASE_DIALING && crew->dials.gap_ns > 0)
        keep_dial_rate(crew, now_ns);
    for (int i = 0; i < DIALS_AT_ONCE && may_dial(crew, now_ns); i++) {
        if (crew->dials.gap_ns > 0)
            pace_next(&crew->dials);
        crew_dial(crew, &crew->users[crew->next_dial++]);
    }
}

/* Closed loop: everybody's first request, but a few at a time, so that answers
 * are not left lying meanwhile. */
static bool may_start(const struct crew *crew)
{
    return crew->phase == PHASE_LOADING && crew->plan->rate == 0
           && crew->next_start < crew->count;
}

static void start_some(struct crew *crew, uint64_t now_ns)
{
    for (int i = 0; i < STARTS_AT_ONCE && may_start(crew); i++) {
        struct user *u = &crew->users[crew->next_start++];
        if (u->active)
            crew_begin(crew, u, now_ns, now_ns);
    }
}

/* Poisson arrivals fall on a random user, paced ones on each in turn. */
static void take_arrivals(struct crew *crew)
{
    for (int i = 0; i < ARRIVALS_AT_ONCE && crew_has_arrivals(crew); i++) {
        uint64_t now = clock_now_ns(), due = pace_due_ns(&crew->arrivals);
        if (due > now || crew->live_count == 0)
            return;
        pace_next(&crew->arrivals);
        uint64_t pick = crew->plan->arrivals == PACE_POISSON
                            ? dice_roll(&crew->dice) : crew->next_turn++;
        record_lag(crew->record, due, now);
        crew->record->arrivals++;
        crew->record->window_arrivals += due >= crew->record->from_ns;
        crew_arrive(crew, &crew->users[crew->live[pick % crew->live_count]],
                    due, now);
    }
}

static void wake_some(struct crew *crew, uint64_t now_ns)
{
    while (agenda_due_ns(&crew->agenda) <= now_ns) {
        struct agenda_entry entry = agenda_take(&crew->agenda);
        struct user *u = &crew->users[entry.who];
        if (u->wake_ns == entry.due_ns && crew->phase == PHASE_LOADING)
            crew_wake(crew, u);
    }
}

static void check_timeout(struct crew *crew, struct user *u, uint64_t now_ns)
{
    uint64_t waited = now_ns > u->since_ns ? now_ns - u->since_ns : 0;
    if (u->state == USER_DIALING
        && waited > clock_seconds_ns(crew->plan->connect_timeout_s))
        crew_on_connected(crew, u, ETIMEDOUT);
    else if (u->state == USER_ASKING
             && waited > clock_seconds_ns(crew->plan->timeout_s))
        crew_fail(crew, u, FAIL_TIMEOUT);
}

/* Looks at a few users per turn, at all of them eight times per timeout: a
 * sweep over everybody at once would make others wait. */
static void scan_timeouts(struct crew *crew, uint64_t now_ns)
{
    const struct plan *plan = crew->plan;
    double shortest = plan->timeout_s < plan->connect_timeout_s
                          ? plan->timeout_s : plan->connect_timeout_s;
    double elapsed = (double)(now_ns - crew->scanned_ns) / NS_PER_S;
    double share = 8 * elapsed / shortest * crew->count;
    uint32_t some = share < crew->count ? (uint32_t)share : crew->count;
    if (some == 0)
        return;
    crew->scanned_ns = now_ns;
    for (uint32_t i = 0; i < some; i++) {
        check_timeout(crew, &crew->users[crew->next_scan], now_ns);
        crew->next_scan = (crew->next_scan + 1) % crew->count;
    }
}

/* --- waiting ------------------------------------------------------------ */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When the next thing is due that should not be late. A dial without room waits
 * for an event, not for the clock. */
static uint64_t due_ns(const struct crew *crew, uint64_t now_ns)
{
    uint64_t due = agenda_due_ns(&crew->agenda);
    if (crew_has_arrivals(crew))
        due = earlier(due, pace_due_ns(&crew->arrivals));
    if (crew->phase == PHASE_DIALING && crew->dials.gap_ns > 0
        && crew->next_dial < crew->count && has_room(crew, now_ns))
        due = earlier(due, pace_due_ns(&crew->dials));
    return due;
}

/* How long the engine may sleep; 0: it should only look. */
static uint64_t patience_ns(const struct crew *crew, uint64_t now_ns)
{
    uint64_t due = due_ns(crew, now_ns), spin = crew->plan->spin_ns;
    if (spin == UINT64_MAX || may_dial(crew, now_ns) || may_start(crew)
        || due <= now_ns || due - now_ns <= spin)
        return 0;
    uint64_t until = earlier(due - spin, now_ns + NAP_NS);
    if (crew->phase == PHASE_WAITING || crew_is_settling(crew))
        until = now_ns + NS_PER_MS;
    if (crew->phase == PHASE_LOADING)
        until = earlier(until, now_ns < crew->record->from_ns
                                   ? crew->record->from_ns
                                   : crew->record->to_ns);
    return until > now_ns ? until - now_ns : 0;
}

/* Only turns count that did nothing but look: one that sends is what the load
 * needs, whether or not an answer is there at once. They count whole, as the
 * turn around a look costs a third of it. It takes a microsecond or two; when
 * it took much longer, this thread was not running meanwhile. */
static void count_spin(struct crew *crew, uint64_t now_ns)
{
    uint64_t look_ns = now_ns - crew->turn_ns;
    if (crew->spun && crew->measuring && look_ns < LONGEST_LOOK_NS)
        crew->record->window_spin_ns += look_ns;
    crew->turn_ns = now_ns;
}

static void turn(struct crew *crew)
{
    uint64_t now = clock_now_ns();
    count_spin(crew, now);
    crew_change_phase(crew, now);
    dial_some(crew, now);
    start_some(crew, now);
    take_arrivals(crew);
    wake_some(crew, now);
    scan_timeouts(crew, now);
    if (crew->record->start_ns)
        record_slice(crew->record, now)->active = crew->live_count;
    probe_look(crew, now);
    uint64_t timeout = patience_ns(crew, clock_now_ns());
    bool worked = crew->worked;            /* what is queued leaves now */
    crew->worked = false;
    unsigned events = crew->kind->wait(crew->engine, timeout);
    crew->spun = timeout == 0 && events == 0 && !worked;
}

/* --- the end ------------------------------------------------------------ */

/* Who still waits has waited at least so long. */
static void count_waits(struct crew *crew, uint64_t now_ns)
{
    for (uint32_t i = 0; i < crew->count; i++) {
        struct user *u = &crew->users[i];
        if (u->opened_ns)
            u->row->session_ns += now_ns - u->opened_ns;
        record_wait(crew->record, u->row, crew_waits_since(crew, u), now_ns);
    }
}

static uint64_t timeval_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_usec * 1000;
}

static void finish(struct crew *crew)
{
    struct rusage usage;
    crew->record->end_ns = clock_now_ns();
    count_waits(crew, crew->record->end_ns);
    getrusage(RUSAGE_THREAD, &usage);
    crew->record->cpu_user_ns = timeval_ns(usage.ru_utime);
    crew->record->cpu_system_ns = timeval_ns(usage.ru_stime);
    if (crew->active_count)
        atomic_fetch_sub(&crew->board->busy, 1);
    crew->kind->close(crew->engine);       /* sockets close with the process */
    agenda_free(&crew->agenda);
    fifo_free(&crew->waiting);
    free(crew->meters);
    free(crew->live);
    free(crew->users);
}

void crew_run(const struct plan *plan, struct board *board, unsigned number)
{
    struct crew crew = {.plan = plan, .board = board, .number = number,
                        .record = &board->records[number],
                        .timed = plan_is_timed(plan)};
    make_users(&crew);
    make_meters(&crew);
    if (crew.active_count)
        atomic_fetch_add(&board->busy, 1);
    make_paces(&crew, clock_now_ns());
    crew.probe = probe_make(plan->seed, number);
    open_engine(&crew);
    crew.scanned_ns = crew.connected_ns = clock_now_ns();
    while (crew.phase != PHASE_OVER)
        turn(&crew);
    finish(&crew);
}
