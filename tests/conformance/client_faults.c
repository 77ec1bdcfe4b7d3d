/* client_faults.c -- a client of a speed, or of a clock, that a test chooses.
 *
 * Preloaded into the client:
 *
 *     SLOW_US=N    each send(), or submission of some to io_uring, takes N us
 *     MADE_CLOCK=1 time passes with what is done and not else: 500 ns by a look at
 *                  the clock, 5 us by a send() or a submission; all of it is CPU
 *                  time of the one thread
 */
#include <dlfcn.h>
#if __has_include(<liburing.h>)
#include <liburing.h>
#endif
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 500, SEND_NS = 5000 };

static atomic_llong made_ns = 1000000000000;
static long slow_us;
static int is_made;

__attribute__((constructor)) static void begin(void)
{
    const char *slow = getenv("SLOW_US");
    slow_us = slow ? atol(slow) : 0;
    is_made = getenv("MADE_CLOCK") != NULL;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int (*real)(clockid_t, struct timespec *) =
        dlsym(RTLD_NEXT, "clock_gettime");
    if (!is_made ||
        (clock != CLOCK_MONOTONIC && clock != CLOCK_THREAD_CPUTIME_ID))
        return real(clock, time);
    long long ns = clock == CLOCK_MONOTONIC
                       ? atomic_fetch_add(&made_ns, LOOK_NS) + LOOK_NS
                       : atomic_load(&made_ns);
    *time = (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                              .tv_nsec = (long)(ns % 1000000000)};
    return 0;
}

static void take_time(void)
{
    if (slow_us)
        usleep((useconds_t)slow_us);
    atomic_fetch_add(&made_ns, SEND_NS);
}

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    ssize_t (*real)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
    ssize_t n = real(fd, data, bytes, flags);
    take_time();
    return n;
}

#ifdef LIB_URING_H
static int submitted(struct io_uring *ring, const char *name)
{
    int (*real)(struct io_uring *) = dlsym(RTLD_NEXT, name);
    unsigned count = io_uring_sq_ready(ring);
    int n = real(ring);
    if (count)
        take_time();
    return n;
}

int io_uring_submit(struct io_uring *ring)
{
    return submitted(ring, "io_uring_submit");
}

int io_uring_submit_and_get_events(struct io_uring *ring)
{
    return submitted(ring, "io_uring_submit_and_get_events");
}
#endif
