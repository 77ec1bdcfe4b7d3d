/* select.c -- one thread, one bitmap of descriptors, copied at every turn.
 *
 *     select -> for each descriptor set: accept / read -> answer -> select
 *
 * Good: everywhere since 4.2BSD (1983); no memory of ours per client.
 * Bad:  both we and the kernel walk every descriptor up to the highest, at
 *       every turn, however few have something to say; and there is no bit
 *       for a descriptor of FD_SETSIZE (1024) or more.
 * Look: the 1021st client or so is refused and counted. Setting its bit all
 *       the same would write past the bitmap: undefined, and a famous crash.
 */
#include <sys/select.h>

#include "common/clock.h"
#include "server/net.h"
#include "reactor/reactor.h"

struct state {
    fd_set in, out;                     /* what is waited for */
    int top;                            /* the highest descriptor */
    struct source *sources[FD_SETSIZE]; /* by descriptor */
};

static bool fits(int fd)
{
    return fd < FD_SETSIZE;
}

static void set_bit(fd_set *set, int fd, bool on)
{
    if (on)
        FD_SET(fd, set);
    else
        FD_CLR(fd, set);
}

static void change(struct loop *loop, struct source *source)
{
    struct state *state = loop->state;
    set_bit(&state->in, source->fd, source->interest & READY_IN);
    set_bit(&state->out, source->fd, source->interest & READY_OUT);
}

static bool add(struct loop *loop, struct source *source)
{
    struct state *state = loop->state;
    state->sources[source->fd] = source;
    if (source->fd > state->top)
        state->top = source->fd;
    change(loop, source);
    return true;
}

static void drop(struct loop *loop, struct source *source)
{
    struct state *state = loop->state;
    FD_CLR(source->fd, &state->in);
    FD_CLR(source->fd, &state->out);
    state->sources[source->fd] = NULL;
    while (state->top > 0 && !state->sources[state->top])
        state->top--;
}

static unsigned ready_of(const fd_set *in, const fd_set *out, int fd)
{
    return (FD_ISSET(fd, in) ? READY_IN : 0u) |
           (FD_ISSET(fd, out) ? READY_OUT : 0u);
}

static void wait(struct loop *loop, int64_t timeout_ns)
{
    struct state *state = loop->state;
    struct timespec timeout = clock_timespec((uint64_t)timeout_ns);
    fd_set in = state->in, out = state->out;
    int n = pselect(state->top + 1, &in, &out, NULL,
                    timeout_ns < 0 ? NULL : &timeout, NULL);
    if (n < 0)
        net_wait_failed(loop->worker.server, "pselect");
    for (int fd = 0; n > 0 && fd <= state->top; fd++) {
        unsigned ready = ready_of(&in, &out, fd);
        if (!ready)
            continue;
        n -= (ready & READY_IN ? 1 : 0) + (ready & READY_OUT ? 1 : 0);
        if (state->sources[fd])
            loop_ready(loop, state->sources[fd], ready);
    }
}

static const struct poller select_poller = {
    .fits = fits, .add = add, .change = change, .drop = drop, .wait = wait,
};

static int select_run(struct server *server)
{
    struct state state = {.top = 0};
    return loop_run_alone(server, &select_poller, &state);
}

const struct model_code select_model = {.run = select_run};
