/* ready.h -- what a descriptor is ready for, in the bits of poll(2).
 *
 * epoll(7), io_uring's polls and SIGIO's si_band use the same numbers, so one
 * translation serves every readiness model. select(2) has its two bitmaps.
 */
#ifndef READY_H
#define READY_H

#include <poll.h>

#include "urgent.h"

enum {
    READY_IN = POLLIN,
    READY_OUT = POLLOUT,
    READY_HANGUP = POLLHUP, /* the connection is gone in both directions */
    READY_DRAIN = 64,       /* with READY_IN: read until 0 bytes or EAGAIN; a
                             * short read does not show an empty socket */
};

/* What an edge-triggered poller asks to be told about. POLLRDHUP (Linux 2.6.17)
 * is the end of the stream where it came together with the last bytes: without
 * it a short read would hide the end for ever. */
enum { READY_EDGES = POLLIN | POLLOUT | POLLRDHUP | URGENT_EVENT };

/* From poll(2)'s revents, or an epoll event, to READY_…. */
static inline unsigned ready_of(unsigned events)
{
    unsigned ready = events & (READY_IN | READY_OUT);
    if (events & (POLLRDHUP | URGENT_EVENT))
        ready |= READY_IN | READY_DRAIN;
    if (events & (POLLERR | POLLHUP | POLLNVAL))
        ready |= READY_IN | READY_OUT | READY_DRAIN | READY_HANGUP;
    return ready;
}

#endif
