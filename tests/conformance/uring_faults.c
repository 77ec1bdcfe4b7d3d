/* uring_faults.c -- what a test cannot make io_uring do, for one process.
 *
 * Preloaded into a server, or into the client:
 *
 *     EBADR_AT=N        the Nth wait drops its completions and fails with EBADR,
 *                       as it does when the kernel has no memory to keep them in
 *     EAGAIN_SUBMITS=N  N submissions that wait for nothing fail, as they do when
 *                       it has none for new requests
 */
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdlib.h>

static int waits_left, failures_left;

static int setting(const char *name)
{
    const char *value = getenv(name);
    return value ? atoi(value) : 0;
}

__attribute__((constructor)) static void begin(void)
{
    waits_left = setting("EBADR_AT");
    failures_left = setting("EAGAIN_SUBMITS");
}

static int drop(struct io_uring *ring, int result)
{
    if (waits_left == 0 || --waits_left > 0)
        return result;
    io_uring_cq_advance(ring, io_uring_cq_ready(ring));
    return -EBADR;
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned count)
{
    int (*real)(struct io_uring *, unsigned) =
        dlsym(RTLD_NEXT, "io_uring_submit_and_wait");
    return drop(ring, real(ring, count));
}

int io_uring_submit_and_wait_timeout(struct io_uring *ring,
                                     struct io_uring_cqe **cqe, unsigned count,
                                     struct __kernel_timespec *timeout,
                                     sigset_t *mask)
{
    int (*real)(struct io_uring *, struct io_uring_cqe **, unsigned,
                struct __kernel_timespec *, sigset_t *) =
        dlsym(RTLD_NEXT, "io_uring_submit_and_wait_timeout");
    return drop(ring, real(ring, cqe, count, timeout, mask));
}

int io_uring_submit(struct io_uring *ring)
{
    int (*real)(struct io_uring *) = dlsym(RTLD_NEXT, "io_uring_submit");
    return failures_left > 0 && failures_left-- ? -EAGAIN : real(ring);
}
