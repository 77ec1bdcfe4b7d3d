/* compat.h -- what a tool, not a server, asks for.
 *
 * ThreadSanitizer takes epoll_ctl(2) for a use of the descriptor that lasts: it
 * reports a race when another thread, which got the event, closes it. Called
 * as a bare system call it is not looked at; the order between the threads is
 * told by source_release() and source_acquire() (reactor.h).
 */
#ifndef COMPAT_H
#define COMPAT_H

#ifdef __SANITIZE_THREAD__
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>
#define epoll_ctl(...) ((int)syscall(SYS_epoll_ctl, __VA_ARGS__))
#endif

#endif
