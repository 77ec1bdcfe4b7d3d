/* epoll_ns.h -- epoll_wait(2) with a timeout in nanoseconds. */
#ifndef EPOLL_NS_H
#define EPOLL_NS_H

#include <stdint.h>
#include <sys/epoll.h>

/* As epoll_wait(2), but waits up to timeout_ns (-1: for ever). Uses
 * epoll_pwait2 (Linux 5.11); on an older kernel, or under a tool that does
 * not know the call, it rounds up to milliseconds. */
int epoll_wait_ns(int epoll_fd, struct epoll_event *events, int most,
                  int64_t timeout_ns);

#endif
