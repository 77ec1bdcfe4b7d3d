/* user.c -- see user.h.
 *
 * Called by client_events.c, on events that an engine reports. Functions change
 * one user and say what that means (user_outcome); counting it, connecting anew
 * or giving up is the caller's. A call in a state where it makes no sense is an
 * assert where our code would be wrong, and USER_GARBLED where the server is:
 * it may send at any time, also to a user who asked nothing.
 */
#include "user.h"

#include <assert.h>

void user_connect(struct user *u, int fd, uint64_t now_ns)
{
    assert(u->state == USER_AWAY);
    u->state = USER_CONNECTING;
    u->fd = fd;
    u->since_ns = now_ns;
    u->asked_here = 0;
    u->row->attempted = true;
}

void user_connected(struct user *u, uint64_t now_ns)
{
    assert(u->state == USER_CONNECTING);
    u->state = USER_READY;
    u->opened_ns = now_ns;
    u->row->established++;
}

void user_ask(struct user *u, const struct asks *asks, bool last,
              uint64_t intended_ns, uint64_t now_ns, struct rng *rng)
{
    assert(u->state == USER_READY);
    ask_make(asks, &u->ask, u->who, u->asked, last, rng);
    u->state = USER_ASKING;
    u->asked++;
    u->asked_here++;
    u->intended_ns = intended_ns;
    u->since_ns = now_ns;
    u->sent = 0;
    u->wants = false;
}

const char *user_outgoing(const struct user *u, size_t *bytes)
{
    *bytes = u->state == USER_ASKING ? u->ask.out_bytes - u->sent : 0;
    return u->ask.out + u->sent;
}

void user_sent(struct user *u, size_t bytes)
{
    u->sent += bytes;
    u->row->bytes_out += bytes;
}

static enum user_outcome user_answered(struct user *u, enum ask_verdict verdict)
{
    if (u->sent < u->ask.out_bytes) /* nobody answers half a request */
        return USER_GARBLED;
    u->state = USER_READY;
    u->failures = 0;
    return verdict == ASK_STATUS ? USER_BAD_STATUS : USER_ANSWERED;
}

enum user_outcome user_receive(struct user *u, const struct asks *asks,
                               const char *data, size_t bytes)
{
    if (u->state != USER_ASKING)
        return USER_GARBLED;
    enum ask_verdict verdict = ask_take(asks, &u->ask, data, bytes);
    if (verdict == ASK_MORE)
        return USER_WAITS;
    return verdict == ASK_MISMATCH ? USER_GARBLED : user_answered(u, verdict);
}

enum user_outcome user_end_of_stream(struct user *u, const struct asks *asks)
{
    if (u->state != USER_ASKING)
        return USER_CUT_OFF;
    enum ask_verdict verdict = ask_end(asks, &u->ask);
    u->ask.closes = true;
    return verdict == ASK_MORE ? USER_CUT_OFF : user_answered(u, verdict);
}

void user_hang_up(struct user *u, bool for_good, uint64_t now_ns)
{
    if (u->opened_ns)
        u->row->session_ns += now_ns - u->opened_ns;
    u->opened_ns = 0;
    u->fd = -1;
    u->generation++;
    u->blocked = false;
    u->state = for_good ? USER_GONE : USER_AWAY;
}
