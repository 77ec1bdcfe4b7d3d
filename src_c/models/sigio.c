/* sigio.c -- one thread, to which the kernel sends a signal for each change.
 *
 *     queue of signals -> for each: accept / read on until there is nothing
 *                         left -> answer -> queue
 *
 * Good: no set of descriptors to hand over or keep: a socket is armed once
 *       (F_SETSIG, F_SETOWN_EX) and sends its own number with each signal.
 * Bad:  a signal for every segment that comes in, read or not; three fcntl()
 *       for every connection; and the queue is bounded, for all processes of
 *       a user together (RLIMIT_SIGPENDING).
 * Look: kin of WSAAsyncSelect on Windows, which posts a message for each
 *       change. When the queue is full the kernel sends a plain SIGIO, which
 *       says only that something was lost: then poll() looks at all, once. A
 *       signal is a hint: the descriptor may have been closed and be another
 *       client's by now, so that only reading tells. signalfd takes many
 *       signals with one read; sigwaitinfo() takes one.
 * Needs: Linux 2.6.32 (F_SETOWN_EX), 2.6.22 (signalfd); RLIMIT_SIGPENDING.
 * Try:  with ulimit -i 4 in front of the server, strace -e poll shows a sweep
 *       for each overflow.
 */
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "reactor/reactor.h"
#include "server/net.h"
#include "server/stop.h"

enum { SIGNALS = 64 };

struct sigio_set {
    int signal_fd;
    struct source **sources; /* by descriptor; NULL: not watched */
    struct pollfd *entries;  /* room to look at all of them */
    int *fresh;              /* to be looked at without a signal */
    size_t fresh_count, capacity;
    bool lost; /* a signal was lost, or could not come */
};

/* `array` is the address of a pointer to an array. */
static bool sigio_resize(void *array, size_t members, size_t bytes)
{
    void **pointer = array, *moved = realloc(*pointer, members * bytes);
    if (moved)
        *pointer = moved;
    return moved != NULL;
}

static bool sigio_grow(struct sigio_set *set, int fd)
{
    size_t before = set->capacity, capacity = before ? before : 256;
    while (capacity <= (size_t)fd)
        capacity *= 2;
    if (!sigio_resize(&set->sources, capacity, sizeof set->sources[0]) ||
        !sigio_resize(&set->entries, capacity, sizeof set->entries[0]) ||
        !sigio_resize(&set->fresh, capacity, sizeof set->fresh[0]))
        return false;
    for (size_t i = before; i < capacity; i++)
        set->sources[i] = NULL;
    set->capacity = capacity;
    return true;
}

/* An event descriptor sends no signals: sigio_wait() polls the stop. */
static bool sigio_arm(const struct source *source)
{
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = gettid()};
    return source->kind == SOURCE_STOP ||
           (fcntl(source->fd, F_SETSIG, SIGRTMIN) == 0 &&
            fcntl(source->fd, F_SETOWN_EX, &owner) == 0 &&
            fcntl(source->fd, F_SETFL, O_NONBLOCK | O_ASYNC) == 0);
}

/* The descriptor is served in this round without a signal: for what came before
 * it was armed, none was sent. */
static void sigio_look_soon(struct sigio_set *set, int fd)
{
    if (set->fresh_count < set->capacity)
        set->fresh[set->fresh_count++] = fd;
    else
        set->lost = true;
}

static bool sigio_add(struct loop *loop, struct source *source)
{
    struct sigio_set *set = loop->state;
    if ((size_t)source->fd >= set->capacity && !sigio_grow(set, source->fd))
        return false;
    if (!sigio_arm(source))
        return false;
    set->sources[source->fd] = source;
    sigio_look_soon(set, source->fd);
    return true;
}

static void sigio_drop(struct loop *loop, struct source *source)
{
    struct sigio_set *set = loop->state;
    set->sources[source->fd] = NULL;
}

/* POLLIN came again before we read: the bytes of two signals are one read, and
 * the second may have been the end of the stream. */
static unsigned sigio_ready(const struct source *source, unsigned ready)
{
    bool again = source->ready & ready & READY_IN;
    return ready | (again ? READY_DRAIN : 0u);
}

/* A listening socket tells of a client once; accept_clients() may have left
 * some of a burst in the backlog. */
static void sigio_accept(struct loop *loop, struct source *listener)
{
    struct sigio_set *set = loop->state;
    struct pollfd more = {.fd = listener->fd, .events = POLLIN};
    accept_clients(loop, listener);
    if (listener->fd >= 0 && poll(&more, 1, 0) > 0)
        sigio_look_soon(set, listener->fd);
}

/* The descriptor may have been closed since, and be another client's by now:
 * then there is nothing to read yet, and nothing happens. */
static void sigio_serve_fd(struct loop *loop, int fd, unsigned ready)
{
    const struct sigio_set *set = loop->state;
    struct source *source =
        (size_t)fd < set->capacity ? set->sources[fd] : NULL;
    if (!source)
        return;
    if (source->kind == SOURCE_LISTENER)
        sigio_accept(loop, source);
    else if (source->kind == SOURCE_CLIENT)
        serve_client(loop, source, sigio_ready(source, ready));
    else if (source->kind != SOURCE_STOP || stop_requested()) /* or Redis */
        serve_other(loop, source);
}

/* A signal was lost: looks at everything that is watched, once. */
static void sigio_sweep(struct loop *loop)
{
    struct sigio_set *set = loop->state;
    nfds_t count = 0;
    set->lost = false;
    for (size_t fd = 0; fd < set->capacity; fd++)
        if (set->sources[fd])
            set->entries[count++] =
                (struct pollfd){.fd = (int)fd, .events = READY_EDGES};
    if (poll(set->entries, count, 0) < 0) {
        net_wait_failed(loop->worker.server, "poll");
        set->lost = true; /* in the next round, then */
    }
    for (nfds_t i = 0; i < count; i++)
        if (set->entries[i].revents)
            sigio_serve_fd(loop, set->entries[i].fd,
                           ready_of((unsigned short)set->entries[i].revents));
}

static void sigio_serve_fresh(struct loop *loop)
{
    struct sigio_set *set = loop->state;
    size_t count = set->fresh_count;
    for (size_t i = 0; i < count; i++)
        sigio_serve_fd(loop, set->fresh[i], READY_IN | READY_OUT | READY_DRAIN);
    set->fresh_count -= count;
    memmove(set->fresh, set->fresh + count, set->fresh_count * sizeof(int));
}

/* Takes signals from the queue, SIGNALS at most; returns how many. */
static unsigned sigio_take(struct sigio_set *set,
                           struct signalfd_siginfo *taken)
{
    ssize_t bytes = read(set->signal_fd, taken, SIGNALS * sizeof *taken);
    unsigned n = bytes < 0 ? 0 : (unsigned)((size_t)bytes / sizeof *taken);
    for (unsigned i = 0; i < n; i++)
        set->lost |= taken[i].ssi_signo == SIGIO; /* the queue was full */
    return n;
}

/* Waits for a signal or the stop. Returns how many signals were taken from the
 * queue. */
static unsigned sigio_wait(struct loop *loop, struct signalfd_siginfo *taken,
                           int64_t timeout_ns)
{
    struct sigio_set *set = loop->state;
    bool now = set->fresh_count > 0 || set->lost;
    struct timespec timeout = clock_timespec(now ? 0 : (uint64_t)timeout_ns);
    struct pollfd ready[] = {{.fd = set->signal_fd, .events = POLLIN},
                             {.fd = loop->stop.fd, .events = POLLIN}};
    int n = ppoll(ready, 2, timeout_ns < 0 && !now ? NULL : &timeout, NULL);
    if (n < 0)
        net_wait_failed(loop->worker.server, "ppoll");
    if (n > 0 && ready[1].revents) {
        serve_other(loop, &loop->stop);
        set->lost = true; /* shutting a connection down sends no signal */
    }
    return sigio_take(set, taken);
}

static void sigio_serve(struct loop *loop)
{
    struct sigio_set *set = loop->state;
    struct signalfd_siginfo taken[SIGNALS];
    while (!reactor_done(loop)) {
        unsigned n = sigio_wait(loop, taken, reactor_timeout_ns(loop));
        for (unsigned i = 0; i < n && !set->lost; i++)
            /* Only poll() knows whether a hang-up is this connection's own. */
            sigio_serve_fd(loop, taken[i].ssi_fd,
                           ready_of(taken[i].ssi_band) &
                               ~(unsigned)READY_HANGUP);
        while (n > 0 && set->lost) /* the sweep sees what they tell */
            n = sigio_take(set, taken);
        if (set->lost)
            sigio_sweep(loop);
        sigio_serve_fresh(loop);
        run_timers(loop);
        end_round(loop);
    }
}

static const struct poller sigio_poller = {
    .edge = true,
    .add = sigio_add,
    .drop = sigio_drop,
};

/* Blocked, they wait in the queue instead of ending the process. */
static int sigio_open(void)
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
    struct sigio_set set = {.signal_fd = sigio_open()};
    if (set.signal_fd < 0) {
        warn("signalfd");
        return -1;
    }
    int result = loop_run(server, &sigio_poller, &set, sigio_serve);
    close(set.signal_fd);
    free(set.sources);
    free(set.entries);
    free(set.fresh);
    return result;
}

const struct model_code sigio_model = {.run = sigio_run};
