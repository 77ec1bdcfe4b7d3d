/* handover.c -- see handover.h.
 *
 * Used by poll-groups. write(2) of at most PIPE_BUF bytes is atomic (pipe(7)),
 * so an arrival is never read in part, and read(2) may take several at once.
 * The acceptor's end blocks: a loop that falls behind holds up accepting, not
 * memory.
 */
#include "handover.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

static_assert(sizeof(struct arrival) <= PIPE_BUF, "written in one piece");

bool handover_open(struct handover *handover)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    *handover = (struct handover){.take_fd = ends[0], .give_fd = ends[1]};
    fcntl(handover->take_fd, F_SETFL, O_NONBLOCK);
    return true;
}

bool handover_give(const struct handover *handover,
                   const struct arrival *arrival)
{
    ssize_t n;
    do
        n = write(handover->give_fd, arrival, sizeof *arrival);
    while (n < 0 && errno == EINTR);
    return n == sizeof *arrival;
}

int handover_take(int take_fd, struct arrival *arrivals, unsigned most)
{
    ssize_t n = read(take_fd, arrivals, most * sizeof *arrivals);
    return n < 0 ? -1 : (int)((size_t)n / sizeof *arrivals);
}
