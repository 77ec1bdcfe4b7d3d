/* poll.c -- one thread, one array of descriptors, walked at every turn.
 *
 *     poll -> for each entry with an event: accept / read -> answer -> poll
 *
 * Good: no FD_SETSIZE; in POSIX since 2001, in System V since 1986.
 * Bad:  the whole array goes into the kernel and back at every turn, so a
 *       turn costs in proportion to those who are connected, not to those
 *       who speak.
 * Look: with one active client, its latency grows as idle ones are added.
 */
#include "poll.h"

#include <stdlib.h>

#include "common/clock.h"
#include "server/net.h"

static bool grow(struct poll_set *state)
{
    unsigned capacity = state->capacity ? state->capacity * 2 : 256;
    struct pollfd *entries =
        realloc(state->entries, capacity * sizeof *entries);
    if (entries)
        state->entries = entries;
    struct source **sources =
        realloc(state->sources, capacity * sizeof *sources);
    if (sources)
        state->sources = sources;
    if (!entries || !sources)
        return false;
    state->capacity = capacity;
    return true;
}

static void change(struct loop *loop, struct source *source)
{
    struct poll_set *state = loop->state;
    struct pollfd *entry = &state->entries[source->slot];
    entry->events = (short)((source->interest & READY_IN ? POLLIN : 0) |
                            (source->interest & READY_OUT ? POLLOUT : 0));
}

static bool add(struct loop *loop, struct source *source)
{
    struct poll_set *state = loop->state;
    if (state->count == state->capacity && !grow(state))
        return false;
    source->slot = state->count++;
    state->sources[source->slot] = source;
    state->entries[source->slot] = (struct pollfd){.fd = source->fd};
    change(loop, source);
    return true;
}

/* The last entry takes the place of the one that leaves. */
static void drop(struct loop *loop, struct source *source)
{
    struct poll_set *state = loop->state;
    unsigned last = --state->count;
    state->entries[source->slot] = state->entries[last];
    state->sources[source->slot] = state->sources[last];
    state->sources[source->slot]->slot = source->slot;
}

static unsigned ready_of(short events)
{
    return (events & POLLIN ? READY_IN : 0u) |
           (events & POLLOUT ? READY_OUT : 0u) |
           (events & (POLLERR | POLLHUP | POLLNVAL)
                ? READY_IN | READY_OUT | READY_HANGUP : 0u);
}

/* Backwards, so that an entry which a drop moves here was looked at before. */
static void wait(struct loop *loop, int64_t timeout_ns)
{
    struct poll_set *state = loop->state;
    struct timespec timeout = clock_timespec((uint64_t)timeout_ns);
    int n = ppoll(state->entries, state->count,
                  timeout_ns < 0 ? NULL : &timeout, NULL);
    if (n < 0)
        net_wait_failed(loop->worker.server, "ppoll");
    for (unsigned i = state->count; n > 0 && i-- > 0;) {
        short events = state->entries[i].revents;
        if (!events)
            continue;
        n--;
        state->entries[i].revents = 0;
        loop_ready(loop, state->sources[i], ready_of(events));
    }
}

const struct poller poll_poller = {
    .add = add, .change = change, .drop = drop, .wait = wait,
};

void poll_set_free(struct poll_set *set)
{
    free(set->entries);
    free(set->sources);
}

static int poll_run(struct server *server)
{
    struct poll_set set = {0};
    int result = loop_run_alone(server, &poll_poller, &set);
    poll_set_free(&set);
    return result;
}

const struct model_code poll_model = {.run = poll_run};
