/* ring.h -- opening an io_uring where its memory is scarce.
 *
 * Without CAP_IPC_LOCK a ring's memory counts as locked (RLIMIT_MEMLOCK, of all
 * processes of a user together), on Linux before 5.12 and on 6.18, where it was
 * seen again. It does so until some milliseconds after the ring was closed
 * (io_ring_exit_work), and until then the next one may find none.
 */
#ifndef RING_H
#define RING_H

#ifdef HAVE_URING
#include <errno.h>
#include <liburing.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "common/clock.h"

enum { RING_TRIES = 20, RING_PAUSE_MS = 10 };

/* As io_uring_queue_init_params(3), but waits up to 0.2 s for memory. Returns
 * 0, or a negative errno; `params` are filled in then. */
static inline int ring_open(struct io_uring *ring, unsigned entries,
                            struct io_uring_params *params)
{
    struct timespec pause = {.tv_nsec = RING_PAUSE_MS * NS_PER_MS};
    struct io_uring_params wanted = *params;
    int error = io_uring_queue_init_params(entries, ring, params);
    for (int i = 1; i < RING_TRIES && error == -ENOMEM; i++) {
        nanosleep(&pause, NULL);
        *params = wanted;
        error = io_uring_queue_init_params(entries, ring, params);
    }
    return error;
}

/* What an error of a ring says: for ENOMEM, the limit. The text is static. */
static inline const char *ring_error(int error)
{
    static char text[128];
    struct rlimit limit;
    if (error != ENOMEM)
        return strerror(error);
    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 ||
        limit.rlim_cur == RLIM_INFINITY)
        return "no memory for a ring";
    snprintf(
        text, sizeof text,
        "no memory for a ring; all rings of a user may take %ju KiB (ulimit"
        " -l; memlock in limits.conf)",
        (uintmax_t)limit.rlim_cur / 1024);
    return text;
}

#endif
#endif
