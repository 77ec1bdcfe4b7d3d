/* client_events.c -- what an event of a connection leads to.
 *
 *     connected ─▶ ready ─▶ begin ─▶ depart ─▶ … answered ─▶ next ─▶ begin …
 *                                                            or hang up, leave
 *
 * An engine reports events through thread_on_…; the loop in client_thread.c
 * adds what falls due by the clock (thread_begin, thread_arrive, thread_wake).
 */
#include <err.h>
#include <errno.h>

#include "client_thread.h"
#include "client_engine.h"
#include "common/clock.h"

enum { RETRIES = 10 }; /* then a user is gone */
static const uint64_t FIRST_PAUSE_NS = NS_PER_MS;

/* The target's own time, which stands still while it rests: who lost its
 * connection meanwhile pauses no longer for that. */
static uint64_t own_time(const struct thread_target *target, uint64_t now_ns)
{
    return target->edge_ns ? now_ns - target->shift_ns : target->had_ns;
}

static void wake_after(struct client_thread *t, struct user *u, uint64_t now_ns,
                       uint64_t pause_ns)
{
    struct thread_target *target = thread_target(t, u);
    u->wake_ns = own_time(target, now_ns) + pause_ns;
    if (!wakeups_add(&target->wakeups, u->wake_ns, thread_index(t, u)))
        err(1, "realloc");
}

/* --- beginning a request ------------------------------------------------ */

/* The request leaves: now in flight, and the engine's to send. */
static void depart(struct client_thread *t, struct user *u)
{
    struct thread_target *target = thread_target(t, u);
    target->record->sent++;
    target->in_flight++;
    t->worked = true;
    t->kind->send(t->engine, u);
}

/* Whether the byte rate of the user's block makes the request wait. */
static bool hold_back(struct client_thread *t, struct user *u, uint64_t now_ns)
{
    if (!t->meters)
        return false;
    uint64_t block = u->who / t->plan->block - t->first_block;
    uint64_t when = meter_book(&t->meters[block], now_ns, u->ask.out_bytes);
    if (when <= now_ns)
        return false;
    u->held = true;
    u->intended_ns = u->since_ns = when;
    wake_after(t, u, now_ns, when - now_ns);
    return true;
}

/* A limit of 0 is none. */
static bool is_reached(uint64_t limit, uint64_t count)
{
    return limit && count >= limit;
}

/* Makes the next request of a user that is connected. The last one of its
 * connection says so to the server (http: Connection: close). */
static void ask(struct client_thread *t, struct user *u, uint64_t intended_ns,
                uint64_t now_ns)
{
    const struct plan *plan = t->plan;
    bool last = is_reached(plan->requests, u->asked + 1) ||
                is_reached(plan->requests_per_connection, u->asked_here + 1);
    struct thread_target *target = thread_target(t, u);
    user_ask(u, target->asks, last, intended_ns, now_ns, &target->rng);
    if (!hold_back(t, u, now_ns))
        depart(t, u);
}

void thread_connect(struct client_thread *t, struct user *u)
{
    thread_target(t, u)->connecting++;
    t->worked = true;
    t->kind->connect(t->engine, u);
}

void thread_begin(struct client_thread *t, struct user *u, uint64_t intended_ns,
                  uint64_t now_ns)
{
    if (u->state == USER_READY) {
        ask(t, u, intended_ns, now_ns);
    } else if (u->state == USER_AWAY) {
        u->wants = true;
        u->intended_ns = intended_ns;
        thread_connect(t, u);
    }
}

void thread_arrive(struct client_thread *t, struct user *u, uint64_t due_ns,
                   uint64_t now_ns)
{
    bool idle = u->state == USER_READY || (u->state == USER_AWAY && !u->wants);
    uint64_t own_ns = due_ns - thread_target(t, u)->shift_ns;
    if (idle && !u->waiting && !u->wake_ns)
        thread_begin(t, u, due_ns, now_ns);
    else if (!backlog_put(&t->backlog, &u->waiting, &u->waiting_last, own_ns))
        err(1, "realloc");
}

/* Open loop: the arrival that has waited longest for this user, in its target's
 * own time: that of a user who paused may have come turns ago. */
static void begin_waiting(struct client_thread *t, struct user *u,
                          uint64_t now_ns)
{
    uint64_t own_ns = backlog_take(&t->backlog, &u->waiting, &u->waiting_last);
    thread_begin(t, u, own_ns + thread_target(t, u)->shift_ns, now_ns);
}

void thread_wake(struct client_thread *t, struct user *u)
{
    const struct thread_target *target = thread_target(t, u);
    uint64_t now = clock_now_ns(), due = u->wake_ns + target->shift_ns;
    u->wake_ns = 0;
    if (t->timed)
        record_lag(target->record, due, now);
    if (u->held) {
        u->held = false;
        u->since_ns = now;
        depart(t, u);
    } else if (u->waiting) {
        begin_waiting(t, u, now);
    } else if (t->plan->rate == 0) {
        thread_begin(t, u, due, now);
    }
}

/* --- ending one --------------------------------------------------------- */

/* Closes the connection, whatever its state. For good: the user leaves the list
 * of live users, where the last entry moves to its index. */
static void hang_up(struct client_thread *t, struct user *u, bool for_good)
{
    struct thread_target *target = thread_target(t, u);
    if (u->state == USER_CONNECTING)
        target->connecting--;
    if (u->state == USER_ASKING && !u->held)
        target->in_flight--;
    if (u->fd >= 0)
        t->kind->drop(t->engine, u);
    t->worked = true;
    u->held = false;
    u->wake_ns = 0;
    user_hang_up(u, for_good, clock_now_ns());
    if (for_good && u->active) { /* the last one takes its place */
        uint32_t last = target->live[--target->live_count];
        target->live[u->live_index] = last;
        t->users[last].live_index = u->live_index;
        t->answered -= u->row->requests > 0;
        atomic_fetch_sub(&t->shared->sums[u->target].live, 1);
    }
}

/* After an answer: rest, think, go on, reconnect or leave. The first one may
 * be but the one of --settle. */
static void user_next(struct client_thread *t, struct user *u, uint64_t now_ns)
{
    const struct plan *plan = t->plan;
    struct thread_target *target = thread_target(t, u);
    if (is_reached(plan->requests, u->asked)) {
        target->finished++;
        hang_up(t, u, true);
        return;
    }
    if (u->ask.closes ||
        is_reached(plan->requests_per_connection, u->asked_here))
        hang_up(t, u, false);
    if (t->asking_once)
        return;
    if (u->waiting)
        begin_waiting(t, u, now_ns);
    else if (t->phase != PHASE_LOADING || plan->rate > 0)
        return;
    else if (plan->think.mean_ns > 0)
        wake_after(t, u, now_ns, delay_draw(&plan->think, &target->rng));
    else if (thread_may_ask(target, now_ns))
        thread_begin(t, u, now_ns, now_ns);
}

/* One answer is complete. A thread that handles events in batches makes answers
 * wait for it: that is its lag, counted from when the engine's wait ended. */
static void answered(struct client_thread *t, struct user *u, uint64_t now_ns)
{
    struct thread_target *target = thread_target(t, u);
    target->in_flight--;
    record_answer(target->record, u->row, u->intended_ns, u->since_ns, now_ns);
    t->answered += u->row->requests == 1;
    if (!t->timed)
        record_lag(target->record, t->awake_ns, now_ns);
    user_next(t, u, now_ns);
}

/* Where users reconnect anyway, a failure costs a request, not the user: it
 * retries with exponential backoff, 1 ms to 0.5 s, ten times in a row. */
static bool comes_back(struct client_thread *t, const struct user *u)
{
    struct thread_target *target = thread_target(t, u);
    if (!t->plan->requests_per_connection || !u->active || target->given_up)
        return false;
    if (is_reached(t->plan->requests, u->asked)) {
        target->finished++;
        return false;
    }
    return t->phase == PHASE_LOADING && u->failures < RETRIES;
}

uint64_t thread_waits_since(const struct client_thread *t, const struct user *u)
{
    if (u->state == USER_ASKING || u->wants)
        return u->intended_ns;
    if (!u->waiting)
        return UINT64_MAX;
    return backlog_first_ns(&t->backlog, u->waiting) +
           t->targets[u->target].shift_ns;
}

void thread_fail(struct client_thread *t, struct user *u, enum failure kind)
{
    uint64_t now = clock_now_ns();
    bool again = comes_back(t, u);
    struct record *record = thread_target(t, u)->record;
    record_wait(record, u->row, thread_waits_since(t, u), now);
    record_failure(record, u->row, kind, now);
    u->row->lost = true;
    hang_up(t, u, !again);
    u->wants = false;
    if (again)
        wake_after(t, u, now, FIRST_PAUSE_NS << u->failures++);
}

/* A target that left requests unanswered: they fail as timeouts, and every
 * connection to it is closed, so that no late answer costs another target. */
void thread_give_up(struct client_thread *t, struct thread_target *target)
{
    target->given_up = true;
    for (uint32_t i = 0; i < target->count; i++) {
        struct user *u = &t->users[target->first + i];
        if (u->state == USER_ASKING || u->state == USER_CONNECTING)
            thread_fail(t, u, FAIL_TIMEOUT);
        else if (u->state != USER_GONE)
            hang_up(t, u, true);
        u->row->lost = true;
    }
}

/* --- what engines report ------------------------------------------------ */

/* ECONNREFUSED: nobody listens. EMFILE, EADDRNOTAVAIL: limits of this machine,
 * descriptors and ephemeral ports, and none of the server's doing. */
static enum failure connect_failure(int error)
{
    switch (error) {
    case ECONNREFUSED: return FAIL_CONNECT_REFUSED;
    case ECONNRESET: return FAIL_RESET; /* accepted, and reset by then */
    case ETIMEDOUT: return FAIL_CONNECT_TIMEOUT;
    case EMFILE:
    case ENFILE: return FAIL_DESCRIPTORS;
    case EADDRNOTAVAIL: return FAIL_PORTS;
    default: return FAIL_CONNECT_OTHER;
    }
}

static void mark_tried(struct client_thread *t, struct user *u)
{
    t->tried += !u->tried;
    u->tried = true;
}

void thread_on_connected(struct client_thread *t, struct user *u, int error)
{
    struct thread_target *target = thread_target(t, u);
    mark_tried(t, u);
    if (u->state == USER_AWAY) /* not even a socket */
        target->connecting--;
    if (error) {
        thread_fail(t, u, connect_failure(error));
        return;
    }
    uint64_t now = clock_now_ns();
    struct record *record = target->record;
    target->connecting--;
    t->connected_ns = now;
    hist_add(&record->connect, now - u->since_ns);
    user_connected(u, now);
    u->row->lost = false;
    record->reconnects += u->row->established > 1;
    if (u->wants)
        ask(t, u, u->intended_ns, now);
}

void thread_on_received(struct client_thread *t, struct user *u,
                        const char *data, size_t bytes, uint64_t now_ns)
{
    struct thread_target *target = thread_target(t, u);
    const struct asks *asks = target->asks;
    record_received(target->record, u->row, bytes, now_ns);
    switch (bytes ? user_receive(u, asks, data, bytes)
                  : user_end_of_stream(u, asks)) {
    case USER_WAITS: break;
    case USER_BAD_STATUS:
        record_failure(target->record, u->row, FAIL_STATUS, now_ns);
        answered(t, u, now_ns);
        break;
    case USER_ANSWERED: answered(t, u, now_ns); break;
    case USER_GARBLED: thread_fail(t, u, FAIL_MISMATCH); break;
    case USER_CUT_OFF: thread_fail(t, u, FAIL_CLOSED); break;
    }
}

void thread_on_sent(struct client_thread *t, struct user *u, size_t bytes)
{
    thread_target(t, u)->record->bytes_sent += bytes;
    user_sent(u, bytes);
}

void thread_on_error(struct client_thread *t, struct user *u, bool sending,
                     int error)
{
    if (error == ECONNRESET || error == EPIPE)
        thread_fail(t, u, FAIL_RESET);
    else if (error == ETIMEDOUT)
        thread_fail(t, u, FAIL_TIMEOUT);
    else
        thread_fail(t, u, sending ? FAIL_SEND : FAIL_RECEIVE);
}

void thread_on_awake(struct client_thread *t, uint64_t now_ns)
{
    t->awake_ns = now_ns;
}

const struct endpoints *thread_endpoints(const struct client_thread *t,
                                         const struct user *u)
{
    return &t->plan->targets[u->target].endpoints;
}

struct user *thread_user(struct client_thread *t, uint32_t i)
{
    return &t->users[i];
}

bool thread_keeps_connections(const struct client_thread *t)
{
    return t->plan->requests_per_connection == 0;
}

uint32_t thread_count(const struct client_thread *t)
{
    return t->count;
}

uint32_t thread_index(const struct client_thread *t, const struct user *u)
{
    return (uint32_t)(u - t->users);
}
