/* client_probe.c -- who is the bottleneck: where do the requests wait?
 *
 * Client and server are two stations that pass N requests to and fro. When both
 * have filled their cores, CPU time no longer tells which of them holds the
 * other up: the faster one finds few events at a time and spends more on each.
 * The queues tell. So once per millisecond, before it waits, a thread asks the
 * kernel of a few users, drawn at random, whether their answer is there: the
 * share of them is the part of the requests in flight that stands before the
 * client. Asking sockets, not the engine, since an engine may be handed less
 * than there is (512 events by us, 20 completions by Linux since 6.13).
 */
#include <poll.h>

#include "client_thread.h"
#include "client_engine.h"
#include "common/clock.h"

enum { PROBED = 16 }; /* 1 to 2 us, one thousandth */
static const uint64_t PROBE_NS = NS_PER_MS;

struct probe probe_make(uint64_t seed, unsigned thread)
{
    return (struct probe){.rng = rng_make(seed, ~(uint64_t)thread)};
}

/* Draws users, as many of them as wait for an answer. */
static nfds_t draw(struct client_thread *t, struct pollfd *fds)
{
    const struct thread_target *target = t->current;
    nfds_t n = 0;
    for (unsigned i = 0; i < PROBED; i++) {
        uint64_t which = rng_below(&t->probe.rng, target->live_count);
        const struct user *u = &t->users[target->live[which]];
        if (u->state == USER_ASKING && !u->held)
            fds[n++] = (struct pollfd){.fd = u->fd, .events = POLLIN};
    }
    return n;
}

void probe_look(struct client_thread *t, uint64_t now_ns)
{
    struct record *record = t->current->record;
    if (!t->measuring || now_ns < t->probe.due_ns || !t->current->live_count)
        return;
    t->kind->flush(t->engine); /* what is held back cannot wait */
    t->worked = true;
    struct pollfd fds[PROBED];
    nfds_t n = draw(t, fds);
    int ready = poll(fds, n, 0);
    t->probe.due_ns = now_ns + PROBE_NS;
    if (ready < 0) /* interrupted */
        return;
    record->window.probed += n;
    record->window.probed_waiting += (uint64_t)ready;
}
