/* stop.c -- see stop.h. All state is written so that a handler may read it. */
#include "stop.h"

#include <assert.h>
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/clock.h"

enum {
    GRACE_MS = 800,        /* after a signal: then what is open is cut */
    LAST_MS = 1700,        /* after that: then children are killed ... */
    CHILDS_LAST_MS = 1200, /* ... and those of a child before it is itself */
};

static _Atomic bool requested, overdue;
static int request_fd = -1, overdue_fd = -1;
static int last_ms = LAST_MS;

/* A set of descriptors that a handler may read while threads change it: one bit
 * each, up to the limit of descriptors. `words` are in use so far: where the
 * limit is a million, what lies behind would be 32 pages to look at, in every
 * child of fork() anew. */
struct fd_bits {
    _Atomic uint64_t *bits;
    _Atomic size_t words;
};

static struct fd_bits listeners, connections;
static size_t fd_bits_words; /* that each of them has */

/* Process ids of children, without gaps. */
enum { CHILD_PLACES = 1 << 16 }; /* pid_max is half, with up to 32 cores */
static _Atomic pid_t children[CHILD_PLACES];
static _Atomic size_t children_count;

static void fd_bits_allocate(struct fd_bits *set)
{
    set->bits = calloc(fd_bits_words, sizeof *set->bits);
    if (!set->bits)
        err(1, "calloc");
}

/* `words` grows first: a handler reads up to it. */
static void fd_bits_add(struct fd_bits *set, int fd)
{
    size_t needed = (size_t)fd / 64 + 1, words = set->words;
    if (!set->bits)
        return; /* no stop_install(): a unit test */
    assert(needed <= fd_bits_words);
    while (words < needed)
        if (atomic_compare_exchange_weak(&set->words, &words, needed))
            break;
    atomic_fetch_or(&set->bits[needed - 1], 1ull << (fd % 64));
}

static void fd_bits_remove(struct fd_bits *set, int fd)
{
    if (set->bits)
        atomic_fetch_and(&set->bits[fd / 64], ~(1ull << (fd % 64)));
}

static void fd_bits_clear(struct fd_bits *set)
{
    for (size_t word = 0; word < set->words; word++)
        if (set->bits[word]) /* a page not written is not copied by fork() */
            set->bits[word] = 0;
    set->words = 0;
}

/* Each bit is read again before its call: another thread may have closed that
 * descriptor since, and have been given its number for a stranger. */
static void fd_bits_shut(const struct fd_bits *set, int how)
{
    for (size_t word = 0; word < set->words; word++)
        for (uint64_t bits = set->bits[word]; bits; bits &= bits - 1)
            if (set->bits[word] & (bits & -bits))
                shutdown((int)(word * 64) + __builtin_ctzll(bits), how);
}

static void signal_children(int signal)
{
    for (size_t i = 0; i < children_count; i++)
        kill(children[i], signal);
}

static void stop_wake(int fd)
{
    uint64_t one = 1;
    ssize_t ignored = write(fd, &one, sizeof one);
    (void)ignored;
}

/* SIGALRM of setitimer(2): the first after GRACE_MS, which cuts what is open;
 * the next last_ms later, and then children that have not left cannot leave. */
static void on_overdue(int signal)
{
    (void)signal;
    int saved = errno;
    if (overdue)
        signal_children(SIGKILL);
    overdue = true;
    stop_wake(overdue_fd);
    fd_bits_shut(&connections, SHUT_RDWR);
    errno = saved;
}

static struct timeval timeval_ms(int ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

/* SIGTERM and SIGINT. Calls async-signal-safe functions (shutdown, kill, write:
 * signal-safety(7)) and setitimer, a bare system call; reads atomics only.
 *
 * Children first. They may block in accept() on a socket of ours: if that were
 * shut before they have their own SIGTERM, all of them would wake, find EINVAL,
 * try again, and keep this process from its core. */
static void on_stop(int signal)
{
    (void)signal;
    int saved = errno;
    signal_children(SIGTERM);
    if (!requested) {
        requested = true;
        fd_bits_shut(&listeners, SHUT_RDWR);
        fd_bits_shut(&connections, SHUT_RD);
        stop_wake(request_fd);
        struct itimerval grace = {.it_value = timeval_ms(GRACE_MS),
                                  .it_interval = timeval_ms(last_ms)};
        setitimer(ITIMER_REAL, &grace, NULL);
    }
    errno = saved;
}

/* Without SA_RESTART: a call that blocks returns EINTR, and its caller looks at
 * stop_requested() before it tries again. (ThreadSanitizer puts a handler off
 * until the next call, which must therefore return.) */
static void stop_catch(int signal, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigfillset(&action.sa_mask);
    if (sigaction(signal, &action, NULL) < 0)
        err(1, "sigaction");
}

static void allocate_tables(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        err(1, "getrlimit");
    rlim_t most = limit.rlim_max < STOP_FDS ? limit.rlim_max : STOP_FDS;
    fd_bits_words = (size_t)most / 64 + 1;
    fd_bits_allocate(&listeners);
    fd_bits_allocate(&connections);
}

void stop_install(int listen_fd)
{
    if (!connections.bits)
        allocate_tables();
    fd_bits_clear(&listeners);
    fd_bits_clear(&connections);
    children_count = 0;
    requested = overdue = false;
    if (request_fd >= 0) {
        close(request_fd), close(overdue_fd);
        last_ms = CHILDS_LAST_MS;
    }
    request_fd = eventfd(0, EFD_CLOEXEC);
    overdue_fd = eventfd(0, EFD_CLOEXEC);
    if (request_fd < 0 || overdue_fd < 0)
        err(1, "eventfd");
    if (listen_fd >= 0)
        stop_watch_listener(listen_fd);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would leave no child to wait for */
    stop_catch(SIGALRM, on_overdue);
    stop_catch(SIGTERM, on_stop);
    stop_catch(SIGINT, on_stop);
}

bool stop_requested(void)
{
    return atomic_load_explicit(&requested, memory_order_relaxed);
}

bool stop_overdue(void)
{
    return atomic_load_explicit(&overdue, memory_order_relaxed);
}

int stop_fd(void)
{
    return request_fd;
}

void stop_watch_listener(int fd)
{
    fd_bits_add(&listeners, fd);
    if (requested) /* the handler may have passed just before */
        shutdown(fd, SHUT_RDWR);
}

void stop_unwatch_listener(int fd)
{
    fd_bits_remove(&listeners, fd);
}

void stop_watch(int fd)
{
    fd_bits_add(&connections, fd);
    if (requested)
        shutdown(fd, overdue ? SHUT_RDWR : SHUT_RD);
}

/* The handler sets `requested` and then reads the bits, we do the opposite, all
 * in one order (sequentially consistent): one of us sees the other. */
bool stop_unwatch(int fd)
{
    fd_bits_remove(&connections, fd);
    return !requested;
}

bool stop_has_place(void)
{
    return children_count < CHILD_PLACES;
}

void stop_watch_child(pid_t pid)
{
    children[children_count] = pid;
    children_count++;
    if (requested)
        kill(pid, SIGTERM);
}

/* The last one takes the place of the one that leaves. */
void stop_unwatch_child(pid_t pid)
{
    for (size_t i = 0; i < children_count; i++)
        if (children[i] == pid) {
            children[i] = children[children_count - 1];
            children_count--;
            return;
        }
}

/* All who sleep share one wait queue, the eventfd's. With 10 000 threads that
 * costs less than clock_nanosleep(2): 0.84 times the CPU a sleep, so they need
 * no other way to be woken when a stop is overdue. */
void stop_sleep_until(unsigned long long ns)
{
    stop_poll_until(-1, 0, ns);
}

bool stop_poll_until(int fd, short events, unsigned long long ns)
{
    struct pollfd ends[] = {{.fd = overdue_fd, .events = POLLIN},
                            {.fd = fd, .events = events}};
    for (uint64_t now; !overdue && (now = clock_now_ns()) < ns;) {
        struct timespec left = clock_timespec(ns - now);
        if (ppoll(ends, fd < 0 ? 1 : 2, &left, NULL) > 0 && ends[1].revents)
            return true;
    }
    return false;
}
