/* select.c -- one thread, one bitmap of descriptors, copied in every round.
 *
 *     select -> for each descriptor set: accept / read -> answer -> select
 *
 * Good: everywhere since 4.2BSD (1983); no memory per client for the wait.
 * Bad:  both we and the kernel walk every descriptor up to the highest, in
 *       every round, however few are active; and there is no bit for a
 *       descriptor of FD_SETSIZE (1024) or more.
 * Look: the 1018th client or so is refused and counted. Setting its bit all
 *       the same would write past the bitmap: undefined, and a famous crash.
 * Needs: POSIX 2001 for pselect (a timeout in nanoseconds).
 * Try:  strace -e pselect6 build/server select: the bitmaps before and after.
 */
#include <sys/select.h>

#include "common/clock.h"
#include "reactor/reactor.h"
#include "server/net.h"

struct select_set {
    fd_set in, out;                     /* what is waited for */
    int top;                            /* the highest descriptor */
    struct source *sources[FD_SETSIZE]; /* by descriptor */
};

static bool select_fits(int fd)
{
    return fd < FD_SETSIZE;
}

static void select_change(struct loop *loop, struct source *source)
{
    struct select_set *set = loop->state;
    FD_CLR(source->fd, &set->in);
    FD_CLR(source->fd, &set->out);
    if (source->interest & READY_IN)
        FD_SET(source->fd, &set->in);
    if (source->interest & READY_OUT)
        FD_SET(source->fd, &set->out);
}

static bool select_add(struct loop *loop, struct source *source)
{
    struct select_set *set = loop->state;
    set->sources[source->fd] = source;
    if (source->fd > set->top)
        set->top = source->fd;
    select_change(loop, source);
    return true;
}

static void select_drop(struct loop *loop, struct source *source)
{
    struct select_set *set = loop->state;
    FD_CLR(source->fd, &set->in);
    FD_CLR(source->fd, &set->out);
    set->sources[source->fd] = NULL;
    while (set->top > 0 && !set->sources[set->top])
        set->top--;
}

static const struct poller select_poller = {
    .fits = select_fits,
    .add = select_add,
    .change = select_change,
    .drop = select_drop,
};

/* Waits on copies: pselect leaves in them the bits of what is ready. Returns
 * how many bits those are. */
static int select_wait(const struct select_set *set, fd_set *in, fd_set *out,
                       int64_t timeout_ns)
{
    struct timespec timeout = clock_timespec((uint64_t)timeout_ns);
    *in = set->in;
    *out = set->out;
    return pselect(set->top + 1, in, out, NULL,
                   timeout_ns < 0 ? NULL : &timeout, NULL);
}

/* A source that was dropped in this round is ready no more. */
static unsigned select_take(const struct select_set *set, int fd,
                            const fd_set *in, const fd_set *out, int *bits)
{
    bool reads = FD_ISSET(fd, in), writes = FD_ISSET(fd, out);
    *bits -= reads + writes;
    if (!set->sources[fd])
        return 0;
    return (reads ? READY_IN : 0u) | (writes ? READY_OUT : 0u);
}

static void select_serve(struct loop *loop)
{
    struct select_set *set = loop->state;
    fd_set in, out;
    while (!reactor_done(loop)) {
        int n = select_wait(set, &in, &out, reactor_timeout_ns(loop));
        if (n < 0)
            net_wait_failed(loop->worker.server, "pselect");
        for (int fd = 0; n > 0 && fd <= set->top; fd++) {
            unsigned ready = select_take(set, fd, &in, &out, &n);
            struct source *source = set->sources[fd];
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

static int select_run(struct server *server)
{
    struct select_set set = {.top = 0};
    return loop_run(server, &select_poller, &set, select_serve);
}

const struct model_code select_model = {.run = select_run};
