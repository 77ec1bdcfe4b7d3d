/* client_events.c -- what an event of a connection leads to.
 *
 *     connected ─▶ ready ─▶ begin ─▶ depart ─▶ … answered ─▶ next ─▶ begin …
 *                                                            or hang up, leave
 *
 * An engine reports events through crew_on_…; the loop in client_thread.c adds
 * what falls due by the clock (crew_begin, crew_arrive, crew_wake).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client_thread.h"
#include "client_engine.h"
#include "common/clock.h"

enum { RETRIES = 10 };                     /* then a user is gone */
static const uint64_t FIRST_PAUSE_NS = NS_PER_MS;

static _Noreturn void out_of_memory(void)
{
    fprintf(stderr, "client: realloc: out of memory\n");
    exit(1);
}

static void wake_at(struct crew *crew, struct user *u, uint64_t due_ns)
{
    u->wake_ns = due_ns;
    if (!agenda_add(&crew->agenda, due_ns, crew_index(crew, u)))
        out_of_memory();
}

/* --- beginning a request ------------------------------------------------ */

static void depart(struct crew *crew, struct user *u)
{
    crew->record->sent++;
    crew->asking++;
    crew->worked = true;
    crew->kind->send(crew->engine, u);
}

/* Whether the byte rate of the user's block makes the request wait. */
static bool hold_back(struct crew *crew, struct user *u, uint64_t now_ns)
{
    if (!crew->meters)
        return false;
    uint64_t block = u->who / crew->plan->block - crew->first_block;
    uint64_t when = meter_book(&crew->meters[block], now_ns,
                               u->ask.out_bytes);
    if (when <= now_ns)
        return false;
    u->held = true;
    u->intended_ns = u->since_ns = when;
    wake_at(crew, u, when);
    return true;
}

/* A limit of 0 is none. */
static bool is_reached(uint64_t limit, uint64_t count)
{
    return limit && count >= limit;
}

static void ask(struct crew *crew, struct user *u, uint64_t intended_ns,
                uint64_t now_ns)
{
    const struct plan *plan = crew->plan;
    bool last = is_reached(plan->requests, u->asked + 1)
                || is_reached(plan->requests_per_connection,
                              u->asked_here + 1);
    user_ask(u, &plan->asks, last, intended_ns, now_ns, &crew->dice);
    if (!hold_back(crew, u, now_ns))
        depart(crew, u);
}

void crew_dial(struct crew *crew, struct user *u)
{
    crew->dialing++;
    crew->worked = true;
    crew->kind->dial(crew->engine, u);
}

void crew_begin(struct crew *crew, struct user *u, uint64_t intended_ns,
                uint64_t now_ns)
{
    if (u->state == USER_READY) {
        ask(crew, u, intended_ns, now_ns);
    } else if (u->state == USER_AWAY) {
        u->wants = true;
        u->intended_ns = intended_ns;
        crew_dial(crew, u);
    }
}

void crew_arrive(struct crew *crew, struct user *u, uint64_t due_ns,
                 uint64_t now_ns)
{
    bool idle = u->state == USER_READY || (u->state == USER_AWAY && !u->wants);
    if (idle && !u->waiting && !u->wake_ns)
        crew_begin(crew, u, due_ns, now_ns);
    else if (!fifo_put(&crew->waiting, &u->waiting, &u->waiting_last, due_ns))
        out_of_memory();
}

/* Open loop: the arrival that has waited longest for this user. */
static void begin_waiting(struct crew *crew, struct user *u, uint64_t now_ns)
{
    crew_begin(crew, u,
               fifo_take(&crew->waiting, &u->waiting, &u->waiting_last),
               now_ns);
}

void crew_wake(struct crew *crew, struct user *u)
{
    uint64_t now = clock_now_ns(), due = u->wake_ns;
    u->wake_ns = 0;
    if (crew->timed)
        record_lag(crew->record, due, now);
    if (u->held) {
        u->held = false;
        u->since_ns = now;
        depart(crew, u);
    } else if (u->waiting) {
        begin_waiting(crew, u, now);
    } else if (crew->plan->rate == 0) {
        crew_begin(crew, u, due, now);
    }
}

/* --- ending one --------------------------------------------------------- */

static void hang_up(struct crew *crew, struct user *u, bool for_good)
{
    if (u->state == USER_DIALING)
        crew->dialing--;
    if (u->state == USER_ASKING && !u->held)
        crew->asking--;
    if (u->fd >= 0)
        crew->kind->drop(crew->engine, u);
    crew->worked = true;
    u->held = false;
    u->wake_ns = 0;
    user_hang_up(u, for_good, clock_now_ns());
    if (for_good && u->active) {           /* the last one takes its place */
        struct user *mover =
            &crew->users[crew->live[--crew->live_count]];
        crew->live[u->place] = crew->live[crew->live_count];
        mover->place = u->place;
    }
}

/* After an answer: rest, think, go on, reconnect or leave. The first one may
 * be but a greeting. */
static void next(struct crew *crew, struct user *u, uint64_t now_ns)
{
    const struct plan *plan = crew->plan;
    if (is_reached(plan->requests, u->asked)) {
        crew->finished++;
        hang_up(crew, u, true);
        return;
    }
    if (u->ask.closes
        || is_reached(plan->requests_per_connection, u->asked_here))
        hang_up(crew, u, false);
    if (crew->greeting)
        return;
    if (u->waiting)
        begin_waiting(crew, u, now_ns);
    else if (crew->phase != PHASE_LOADING || plan->rate > 0)
        return;
    else if (plan->think.mean_ns > 0)
        wake_at(crew, u, now_ns + delay_draw(&plan->think, &crew->dice));
    else
        crew_begin(crew, u, now_ns, now_ns);
}

static void answered(struct crew *crew, struct user *u, uint64_t now_ns)
{
    crew->asking--;
    record_answer(crew->record, u->row, u->intended_ns, u->since_ns, now_ns);
    crew->answered += u->row->requests == 1;
    if (!crew->timed)
        record_lag(crew->record, crew->awake_ns, now_ns);
    next(crew, u, now_ns);
}

/* Where users reconnect anyway, a failure costs a request, not the user; but
 * somebody who fails ten times in a row, ever more slowly, gives up. */
static bool comes_back(struct crew *crew, const struct user *u)
{
    if (!crew->plan->requests_per_connection || !u->active)
        return false;
    if (is_reached(crew->plan->requests, u->asked)) {
        crew->finished++;
        return false;
    }
    return crew->phase == PHASE_LOADING && u->failures < RETRIES;
}

uint64_t crew_waits_since(const struct crew *crew, const struct user *u)
{
    if (u->state == USER_ASKING || u->wants)
        return u->intended_ns;
    return u->waiting ? fifo_first_ns(&crew->waiting, u->waiting) : UINT64_MAX;
}

void crew_fail(struct crew *crew, struct user *u, enum failure kind)
{
    uint64_t now = clock_now_ns();
    bool again = comes_back(crew, u);
    record_wait(crew->record, u->row, crew_waits_since(crew, u), now);
    record_failure(crew->record, u->row, kind, now);
    u->row->lost = true;
    hang_up(crew, u, !again);
    u->wants = false;
    if (again)
        wake_at(crew, u, now + (FIRST_PAUSE_NS << u->failures++));
}

/* --- what engines report ------------------------------------------------ */

static enum failure connect_failure(int error)
{
    switch (error) {
    case ECONNREFUSED: return FAIL_CONNECT_REFUSED;
    case ETIMEDOUT: return FAIL_CONNECT_TIMEOUT;
    case EMFILE: case ENFILE: return FAIL_DESCRIPTORS;
    case EADDRNOTAVAIL: return FAIL_PORTS;
    default: return FAIL_CONNECT_OTHER;
    }
}

static void settle(struct crew *crew, struct user *u)
{
    crew->settled += !u->settled;
    u->settled = true;
}

void crew_on_connected(struct crew *crew, struct user *u, int error)
{
    settle(crew, u);
    if (u->state == USER_AWAY)             /* not even a socket */
        crew->dialing--;
    if (error) {
        crew_fail(crew, u, connect_failure(error));
        return;
    }
    uint64_t now = clock_now_ns();
    crew->dialing--;
    crew->connected_ns = now;
    hist_add(&crew->record->connect, now - u->since_ns);
    user_connected(u, now);
    u->row->lost = false;
    crew->record->reconnects += u->row->established > 1;
    if (u->wants)
        ask(crew, u, u->intended_ns, now);
}

void crew_on_received(struct crew *crew, struct user *u, const char *data,
                      size_t bytes, uint64_t now_ns)
{
    const struct asks *asks = &crew->plan->asks;
    record_received(crew->record, u->row, bytes, now_ns);
    switch (bytes ? user_receive(u, asks, data, bytes)
                  : user_end_of_stream(u, asks)) {
    case USER_WAITS:
        break;
    case USER_BAD_STATUS:
        record_failure(crew->record, u->row, FAIL_STATUS, now_ns);
        answered(crew, u, now_ns);
        break;
    case USER_ANSWERED:
        answered(crew, u, now_ns);
        break;
    case USER_GARBLED:
        crew_fail(crew, u, FAIL_MISMATCH);
        break;
    case USER_CUT_OFF:
        crew_fail(crew, u, FAIL_CLOSED);
        break;
    }
}

void crew_on_sent(struct crew *crew, struct user *u, size_t bytes)
{
    crew->record->bytes_sent += bytes;
    user_sent(u, bytes);
}

void crew_on_error(struct crew *crew, struct user *u, bool sending, int error)
{
    if (error == ECONNRESET || error == EPIPE)
        crew_fail(crew, u, FAIL_RESET);
    else if (error == ETIMEDOUT)
        crew_fail(crew, u, FAIL_TIMEOUT);
    else
        crew_fail(crew, u, sending ? FAIL_SEND : FAIL_RECEIVE);
}

void crew_on_awake(struct crew *crew, uint64_t now_ns)
{
    crew->awake_ns = now_ns;
}

struct user *crew_user(struct crew *crew, uint32_t i)
{
    return &crew->users[i];
}

bool crew_keeps_connections(const struct crew *crew)
{
    return crew->plan->requests_per_connection == 0;
}

uint32_t crew_count(const struct crew *crew)
{
    return crew->count;
}

uint32_t crew_index(const struct crew *crew, const struct user *u)
{
    return (uint32_t)(u - crew->users);
}
