/* uring.c -- see uring.h. */
#include "uring.h"

#ifndef HAVE_URING

const char *uring_missing(void)
{
    return "built without liburing";
}

#else

#include <err.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/ring.h"
#include "server/net.h"

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

enum {
    ENTRIES = 1024,
    COMPLETIONS = 4096,
};

/* From the best way to run completions to the oldest. DEFER_TASKRUN (6.1):
 * only when we wait, in a batch. COOP_TASKRUN (5.19): at the next system
 * call, without interrupting us. Else: at once, by an interrupt.
 * SINGLE_ISSUER (6.0), which DEFER_TASKRUN needs: one thread submits. */
static const unsigned ways[] = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
        IORING_SETUP_COOP_TASKRUN,
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN,
    IORING_SETUP_COOP_TASKRUN,
    0,
};

/* Returns 0, or a negative errno. */
static int open_ring(struct io_uring *ring, unsigned entries,
                     unsigned completions)
{
    int error = -EINVAL;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct io_uring_params params = {
            .flags = ways[i] | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
            .cq_entries = completions,
        };
        error = ring_open(ring, entries, &params);
        if (error != -EINVAL)
            break;
    }
    return error;
}

/* Multishot receive has no flag of its own to ask for; zero-copy send came
 * with the same kernel and can be asked for. */
static bool new_enough(struct io_uring *ring)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    bool is = probe && io_uring_opcode_supported(probe, IORING_OP_SEND_ZC);
    io_uring_free_probe(probe);
    return is;
}

enum { TOO_OLD = 255 }; /* no errno */

/* 0, an errno, or TOO_OLD. */
static int try_ring(void)
{
    struct io_uring ring;
    int error = open_ring(&ring, 4, 8);
    if (error < 0)
        return -error;
    bool is = new_enough(&ring);
    io_uring_queue_exit(&ring);
    return is ? 0 : TOO_OLD;
}

/* Some milliseconds after a ring was closed, the kernel runs task work in the
 * process that closed it (io_ring_exit_work), as if a signal were pending. A
 * receive that meets one where TCP urgent data begins fails with EAGAIN, and
 * an armed one then sleeps on data that is there. So a child tries instead. */
static int try_ring_elsewhere(void)
{
    int status;
    fflush(stdout); /* ThreadSanitizer's _exit() would write it once more */
    pid_t pid = fork();
    if (pid == 0)
        _exit(try_ring());
    bool ended = pid > 0 && waitpid(pid, &status, 0) == pid;
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : try_ring();
}

const char *uring_missing(void)
{
    switch (try_ring_elsewhere()) {
    case 0: return NULL;
    case TOO_OLD: return "needs Linux 6.0 (multishot receive)";
    case ENOSYS: return "this kernel has no io_uring";
    case EPERM:
        return "io_uring is not allowed here"
               " (sysctl kernel.io_uring_disabled, or a seccomp filter)";
    case ENOMEM: return ring_error(ENOMEM);
    default: return "io_uring_setup failed";
    }
}

/* liburing maps a ring's memory by system calls of its own, of which
 * ThreadSanitizer does not hear: it takes a ring where another thread's was
 * before for the same memory. A lock tells it which came first. */
static pthread_mutex_t map_lock = PTHREAD_MUTEX_INITIALIZER;

void uring_close(struct io_uring *ring)
{
    pthread_mutex_lock(&map_lock);
    io_uring_queue_exit(ring);
    pthread_mutex_unlock(&map_lock);
}

bool uring_open(struct io_uring *ring)
{
    pthread_mutex_lock(&map_lock);
    int error = open_ring(ring, ENTRIES, COMPLETIONS);
    pthread_mutex_unlock(&map_lock);
    if (error < 0) {
        warnx("io_uring_setup: %s", ring_error(-error));
        return false;
    }
    io_uring_register_ring_fd(ring); /* saves a look-up a call; may fail */
    return true;
}

/* Interrupted, out of time, or short of memory for now: the loop goes on. */
static void check(int result)
{
    bool fine = result >= 0 || result == -EINTR || result == -ETIME ||
                result == -EAGAIN || result == -EBUSY || result == -EBADR;
    if (!fine) {
        errno = -result;
        err(1, "io_uring_enter");
    }
}

void uring_submit(struct io_uring *ring)
{
    check(io_uring_submit(ring));
}

struct io_uring_sqe *uring_entry(struct io_uring *ring)
{
    struct io_uring_sqe *entry;
    while (!(entry = io_uring_get_sqe(ring)))
        uring_submit(ring);
    return entry;
}

/* Valgrind lets no signal in while a thread is in io_uring_enter; into poll
 * it does. */
static void let_signals_in(int64_t *timeout_ns)
{
    if (*timeout_ns < 0)
        *timeout_ns = NS_PER_S / 50;
    poll(NULL, 0, 0);
}

static int submit_and_wait(struct io_uring *ring, int64_t timeout_ns)
{
    if (timeout_ns < 0)
        return io_uring_submit_and_wait(ring, 1);
    struct io_uring_cqe *first;
    struct __kernel_timespec timeout = {
        .tv_sec = timeout_ns / (int64_t)NS_PER_S,
        .tv_nsec = timeout_ns % (int64_t)NS_PER_S,
    };
    return io_uring_submit_and_wait_timeout(ring, &first, 1, &timeout, NULL);
}

bool uring_wait(struct io_uring *ring, int64_t timeout_ns)
{
    if (RUNNING_ON_VALGRIND)
        let_signals_in(&timeout_ns);
    int result = submit_and_wait(ring, timeout_ns);
    check(result);
    return result != -EBADR;
}

#endif
