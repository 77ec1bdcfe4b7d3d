/* sigio.c -- one thread, to which the kernel sends a signal for each change.
 *
 *     queue of signals -> for each: accept / read on until there is nothing
 *                         left -> answer -> queue
 *
 * Good: no set of descriptors to hand over or keep: a socket is armed once
 *       (F_SETSIG, F_SETOWN_EX: Linux 2.6.32) and tells of itself, by number.
 * Bad:  a signal for every segment that comes in, read or not; three fcntl()
 *       for every connection; and the queue is bounded, for all processes of
 *       a user together (RLIMIT_SIGPENDING).
 * Look: kin of WSAAsyncSelect on Windows, which posts a message for each
 *       change. When the queue is full the kernel sends a plain SIGIO, which
 *       says only that something was lost: then poll() looks at all, once. A
 *       signal is a hint: the descriptor may have been closed and be another
 *       client's by now, so that only reading tells. signalfd (Linux 2.6.22)
 *       takes many signals with one read; sigwaitinfo() takes one.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "server/net.h"
#include "reactor/reactor.h"
#include "server/stop.h"

enum { SIGNALS = 64 };

struct state {
    int signal_fd;
    struct source **sources;    /* by descriptor; NULL: not watched */
    struct pollfd *entries;     /* room to look at all of them */
    int *fresh;                 /* to be looked at without a signal */
    size_t fresh_count, capacity;
    bool lost;                  /* a signal was lost, or could not come */
};

static bool resize(void **array, size_t members, size_t bytes)
{
    void *moved = realloc(*array, members * bytes);
    if (moved)
        *array = moved;
    return moved != NULL;
}

static bool grow(struct state *state, int fd)
{
    size_t before = state->capacity, capacity = before ? before : 256;
    while (capacity <= (size_t)fd)
        capacity *= 2;
    if (!resize((void **)&state->sources, capacity, sizeof(struct source *)) ||
        !resize((void **)&state->entries, capacity, sizeof(struct pollfd)) ||
        !resize((void **)&state->fresh, capacity, sizeof(int)))
        return false;
    for (size_t i = before; i < capacity; i++)
        state->sources[i] = NULL;
    state->capacity = capacity;
    return true;
}

/* An event descriptor sends no signals: wait() looks at the stop itself. */
static bool arm(const struct source *source)
{
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = gettid()};
    return source->kind == SOURCE_STOP ||
           (fcntl(source->fd, F_SETSIG, SIGRTMIN) == 0 &&
            fcntl(source->fd, F_SETOWN_EX, &owner) == 0 &&
            fcntl(source->fd, F_SETFL, O_NONBLOCK | O_ASYNC) == 0);
}

/* What came before it was armed sent no signal; so what is not looked at here
 * might never be. */
static void look_soon(struct state *state, int fd)
{
    if (state->fresh_count < state->capacity)
        state->fresh[state->fresh_count++] = fd;
    else
        state->lost = true;
}

static bool add(struct loop *loop, struct source *source)
{
    struct state *state = loop->state;
    if ((size_t)source->fd >= state->capacity && !grow(state, source->fd))
        return false;
    if (!arm(source))
        return false;
    state->sources[source->fd] = source;
    look_soon(state, source->fd);
    return true;
}

static void drop(struct loop *loop, struct source *source)
{
    struct state *state = loop->state;
    state->sources[source->fd] = NULL;
}

/* Whether a hang-up is this connection's own only poll() knows. */
static unsigned ready_of(unsigned events, bool sure)
{
    unsigned gone = READY_IN | READY_OUT | READY_END;
    return (events & POLLIN ? READY_IN : 0u) |
           (events & POLLOUT ? READY_OUT : 0u) |
           (events & (POLLRDHUP | POLLPRI) ? READY_IN | READY_END : 0u) |
           (events & (POLLERR | POLLHUP)
                ? gone | (sure ? READY_HANGUP : 0u) : 0u);
}

static void handle(struct loop *loop, int fd, unsigned ready)
{
    struct state *state = loop->state;
    struct source *source =
        (size_t)fd < state->capacity ? state->sources[fd] : NULL;
    if (!source || (source->kind == SOURCE_STOP && !stop_requested()))
        return;
    bool listener = source->kind == SOURCE_LISTENER;
    if (source->ready & ready & READY_IN)
        ready |= READY_END; /* two signals, one read: either may be the end */
    loop_ready(loop, source, ready);
    struct pollfd more = {.fd = fd, .events = POLLIN};
    if (listener && state->sources[fd] && poll(&more, 1, 0) > 0)
        look_soon(state, fd); /* it has had its share of this turn */
}

/* Looks at everything that is watched. */
static void sweep(struct loop *loop)
{
    struct state *state = loop->state;
    nfds_t count = 0;
    state->lost = false;
    for (size_t fd = 0; fd < state->capacity; fd++)
        if (state->sources[fd])
            state->entries[count++] = (struct pollfd){
                .fd = (int)fd,
                .events = POLLIN | POLLOUT | POLLRDHUP | POLLPRI};
    if (poll(state->entries, count, 0) < 0) {
        net_wait_failed(loop->worker.server, "poll");
        state->lost = true; /* in the next turn, then */
    }
    for (nfds_t i = 0; i < count; i++)
        if (state->entries[i].revents)
            handle(loop, state->entries[i].fd,
                   ready_of((unsigned)state->entries[i].revents, true));
}

static void look_at_fresh(struct loop *loop)
{
    struct state *state = loop->state;
    size_t count = state->fresh_count;
    for (size_t i = 0; i < count; i++)
        handle(loop, state->fresh[i], READY_IN | READY_OUT | READY_END);
    state->fresh_count -= count;
    memmove(state->fresh, state->fresh + count,
            state->fresh_count * sizeof(int));
}

/* Returns false when the queue is empty. */
static bool take_signals(struct loop *loop)
{
    struct state *state = loop->state;
    struct signalfd_siginfo taken[SIGNALS];
    ssize_t bytes = read(state->signal_fd, taken, sizeof taken);
    size_t n = bytes < 0 ? 0 : (size_t)bytes / sizeof taken[0];
    for (size_t i = 0; i < n; i++) {
        state->lost |= taken[i].ssi_signo == SIGIO;
        if (!state->lost)
            handle(loop, taken[i].ssi_fd, ready_of(taken[i].ssi_band, false));
    }
    return n > 0;
}

static void wait(struct loop *loop, int64_t timeout_ns)
{
    struct state *state = loop->state;
    bool now = state->fresh_count > 0 || state->lost;
    struct timespec timeout = clock_timespec(now ? 0 : (uint64_t)timeout_ns);
    struct pollfd ready[] = {{.fd = state->signal_fd, .events = POLLIN},
                             {.fd = loop->stop.fd, .events = POLLIN}};
    int n = ppoll(ready, 2, timeout_ns < 0 && !now ? NULL : &timeout, NULL);
    if (n < 0)
        net_wait_failed(loop->worker.server, "ppoll");
    if (n > 0 && ready[1].revents) {
        loop_ready(loop, &loop->stop, READY_IN);
        state->lost = true; /* shutting a connection down sends no signal */
    }
    bool more = take_signals(loop);
    while (more && state->lost) /* what they tell the sweep will see */
        more = take_signals(loop);
    if (state->lost)
        sweep(loop);
    look_at_fresh(loop);
}

static const struct poller sigio_poller = {
    .edge = true, .add = add, .drop = drop, .wait = wait,
};

/* Blocked, they wait in the queue instead of ending the process. */
static int open_queue(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGIO);
    sigaddset(&signals, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

static int sigio_run(struct server *server)
{
    struct state state = {.signal_fd = open_queue()};
    if (state.signal_fd < 0) {
        net_warn("signalfd");
        return -1;
    }
    int result = loop_run_alone(server, &sigio_poller, &state);
    close(state.signal_fd);
    free(state.sources);
    free(state.entries);
    free(state.fresh);
    return result;
}

const struct model_code sigio_model = {.run = sigio_run};
