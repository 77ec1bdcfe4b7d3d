/* poll.c -- one thread, one array of descriptors, walked in every round.
 *
 *     poll -> for each entry with an event: accept / read -> answer -> poll
 *
 * Good: no FD_SETSIZE; in POSIX since 2001, in System V since 1986.
 * Bad:  the whole array is copied into the kernel and back in every round, so
 *       a round costs in proportion to all connections, not to those that are
 *       active.
 * Look: with one active client, its latency grows as idle ones are added.
 * Needs: Linux 2.6.16 for ppoll (a timeout in nanoseconds).
 * Try:  strace -e ppoll build/server poll: the first argument lists every
 *       descriptor that the server has, each time.
 */
#include "poll.h"

#include <stdlib.h>

#include "common/clock.h"
#include "server/net.h"

static bool poll_grow(struct poll_set *set)
{
    unsigned capacity = set->capacity ? set->capacity * 2 : 256;
    struct pollfd *entries = realloc(set->entries, capacity * sizeof *entries);
    if (entries)
        set->entries = entries;
    struct source **sources = realloc(set->sources, capacity * sizeof *sources);
    if (sources)
        set->sources = sources;
    if (!entries || !sources)
        return false;
    set->capacity = capacity;
    return true;
}

static void poll_change(struct loop *loop, struct source *source)
{
    const struct poll_set *set = loop->state;
    set->entries[source->slot].events = source->interest;
}

static bool poll_add(struct loop *loop, struct source *source)
{
    struct poll_set *set = loop->state;
    if (set->count == set->capacity && !poll_grow(set))
        return false;
    source->slot = set->count++;
    set->sources[source->slot] = source;
    set->entries[source->slot] =
        (struct pollfd){.fd = source->fd, .events = source->interest};
    return true;
}

/* The last entry moves to where the dropped one was. */
static void poll_drop(struct loop *loop, struct source *source)
{
    struct poll_set *set = loop->state;
    unsigned last = --set->count;
    set->entries[source->slot] = set->entries[last];
    set->sources[source->slot] = set->sources[last];
    set->sources[source->slot]->slot = source->slot;
}

const struct poller poll_poller = {
    .add = poll_add,
    .change = poll_change,
    .drop = poll_drop,
};

int poll_wait(struct poll_set *set, int64_t timeout_ns)
{
    struct timespec timeout = clock_timespec((uint64_t)timeout_ns);
    return ppoll(set->entries, set->count, timeout_ns < 0 ? NULL : &timeout,
                 NULL);
}

static void poll_serve(struct loop *loop)
{
    struct poll_set *set = loop->state;
    while (!reactor_done(loop)) {
        int n = poll_wait(set, reactor_timeout_ns(loop));
        if (n < 0)
            net_wait_failed(loop->worker.server, "ppoll");
        /* Backwards: what a drop moves to entry i was looked at before. */
        for (unsigned i = set->count; n > 0 && i-- > 0;) {
            struct source *source = set->sources[i];
            unsigned ready = poll_take(set, i);
            n -= ready != 0;
            if (ready && source->kind == SOURCE_LISTENER)
                accept_clients(loop, source);
            else if (ready && source->kind == SOURCE_CLIENT)
                serve_client(loop, source, ready);
            else if (ready) /* Redis; the stop */
                serve_other(loop, source);
        }
        run_timers(loop);
        end_round(loop);
    }
}

void poll_set_free(struct poll_set *set)
{
    free(set->entries);
    free(set->sources);
}

static int poll_run(struct server *server)
{
    struct poll_set set = {0};
    int result = loop_run(server, &poll_poller, &set, poll_serve);
    poll_set_free(&set);
    return result;
}

const struct model_code poll_model = {.run = poll_run};
