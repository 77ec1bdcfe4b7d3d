/* epoll_ns.c -- see epoll_ns.h.
 *
 * epoll_pwait2(2) is of Linux 5.11. An older kernel says ENOSYS, and a seccomp
 * filter that is older than the call says EPERM (Docker's and systemd's did):
 * then epoll_wait(2), from there on, with milliseconds.
 */
#include "epoll_ns.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "clock.h"

static _Atomic bool missing;

static int wait_ms(int epoll_fd, struct epoll_event *events, int most,
                   int64_t timeout_ns)
{
    int64_t ms = (timeout_ns + (int64_t)NS_PER_MS - 1) / (int64_t)NS_PER_MS;
    if (timeout_ns < 0)
        ms = -1;
    return epoll_wait(epoll_fd, events, most, ms > INT_MAX ? INT_MAX : (int)ms);
}

int epoll_wait_ns(int epoll_fd, struct epoll_event *events, int most,
                  int64_t timeout_ns)
{
    struct timespec timeout = clock_timespec((uint64_t)timeout_ns);
    if (!missing) {
        int n = epoll_pwait2(epoll_fd, events, most,
                             timeout_ns < 0 ? NULL : &timeout, NULL);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM))
            return n;
        missing = true;
    }
    return wait_ms(epoll_fd, events, most, timeout_ns);
}
