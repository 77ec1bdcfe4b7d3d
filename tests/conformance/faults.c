/* faults.c -- what a test cannot make the kernel do, for one process.
 *
 * Preloaded into a server:
 *
 *     SHORTAGE_MS=N   for N ms from its start, calls that wait for many
 *                     descriptors or accept one fail with ENOMEM
 *     TABLE=1         beyond RLIMIT_NOFILE, ENFILE in place of EMFILE, as where the
 *                     machine's table is full
 *     SEND_MS=N       each send() takes N ms, whatever signals come
 *     FULL=PORT       epoll_ctl() of a connection to that port fails with ENOSPC,
 *                     as beyond /proc/sys/fs/epoll/max_user_watches; 0: of all that
 *                     is no connection
 *     DENIED=1        epoll_pwait2() fails with EPERM, as under a seccomp filter
 *                     that is older than the call
 *     NO_THREAD=E     pthread_create() fails with that errno
 */
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t shortage_until_ms, send_ms;

__attribute__((constructor)) static void begin(void)
{
    const char *shortage = getenv("SHORTAGE_MS"), *slow = getenv("SEND_MS");
    shortage_until_ms = now_ms() + (shortage ? atoi(shortage) : 0);
    send_ms = slow ? atoi(slow) : 0;
}

static bool is_short(void)
{
    errno = ENOMEM;
    return now_ms() < shortage_until_ms;
}

/* What could not be had for want of a number, for want of a file in its place. */
static int or_full(int fd)
{
    if (fd < 0 && errno == EMFILE && getenv("TABLE"))
        errno = ENFILE;
    return fd;
}

int accept4(int fd, struct sockaddr *peer, socklen_t *length, int flags)
{
    int (*real)(int, struct sockaddr *, socklen_t *, int) =
        dlsym(RTLD_NEXT, "accept4");
    return is_short() ? -1 : or_full(real(fd, peer, length, flags));
}

int eventfd(unsigned count, int flags)
{
    int (*real)(unsigned, int) = dlsym(RTLD_NEXT, "eventfd");
    return or_full(real(count, flags));
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
          const sigset_t *mask)
{
    int (*real)(struct pollfd *, nfds_t, const struct timespec *,
                const sigset_t *) = dlsym(RTLD_NEXT, "ppoll");
    return is_short() ? -1 : real(fds, count, timeout, mask);
}

int pselect(int count, fd_set *in, fd_set *out, fd_set *except,
            const struct timespec *timeout, const sigset_t *mask)
{
    int (*real)(int, fd_set *, fd_set *, fd_set *, const struct timespec *,
                const sigset_t *) = dlsym(RTLD_NEXT, "pselect");
    return is_short() ? -1 : real(count, in, out, except, timeout, mask);
}

int epoll_pwait2(int epoll_fd, struct epoll_event *events, int most,
                 const struct timespec *timeout, const sigset_t *mask)
{
    int (*real)(int, struct epoll_event *, int, const struct timespec *,
                const sigset_t *) = dlsym(RTLD_NEXT, "epoll_pwait2");
    if (is_short())
        return -1;
    errno = EPERM;
    return getenv("DENIED") ? -1 : real(epoll_fd, events, most, timeout, mask);
}

int epoll_ctl(int epoll_fd, int how, int fd, struct epoll_event *event)
{
    int (*real)(int, int, int, struct epoll_event *) =
        dlsym(RTLD_NEXT, "epoll_ctl");
    struct sockaddr_in peer = {0};
    getpeername(fd, (struct sockaddr *)&peer, &(socklen_t){sizeof peer});
    const char *port = getenv("FULL");
    if (!port || ntohs(peer.sin_port) != atoi(port))
        return real(epoll_fd, how, fd, event);
    errno = ENOSPC;
    return -1;
}

int pthread_create(pthread_t *id, const pthread_attr_t *attributes,
                   void *(*run)(void *), void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                void *) = dlsym(RTLD_NEXT, "pthread_create");
    const char *error = getenv("NO_THREAD");
    return error ? atoi(error) : real(id, attributes, run, argument);
}

ssize_t send(int fd, const void *bytes, size_t count, int flags)
{
    ssize_t (*real)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
    int64_t until_ms = now_ms() + send_ms;
    for (int64_t left; (left = until_ms - now_ms()) > 0;)
        nanosleep(&(struct timespec){left / 1000, left % 1000 * 1000000}, NULL);
    return real(fd, bytes, count, flags);
}
