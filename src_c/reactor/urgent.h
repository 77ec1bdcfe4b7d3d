/* urgent.h -- TCP urgent data (RFC 6093), and the one place that knows of it.
 *
 * Accepted sockets have SO_OOBINLINE (server/net.c): urgent bytes are bytes of
 * the stream like others. One trace is left: recv(2) stops at the urgent mark,
 * so a read may be short although more bytes have come. A level-triggered
 * poller is told again. An edge-triggered one takes a short read for an empty
 * socket; it has to be told of urgent data (POLLPRI), and then reads on until
 * EAGAIN. Nobody needs to know more of this to read a model.
 */
#ifndef URGENT_H
#define URGENT_H

#include <poll.h>
#include <stdbool.h>

enum { URGENT_EVENT = POLLPRI };

/* io_uring's multishot poll passes on the bits of the wake-up: new bytes, of
 * whatever kind, wake with POLLPRI and POLLRDBAND both. Urgent bytes wake
 * twice; then the ring asks the socket itself, which never says POLLRDBAND. */
enum { URGENT_WAKEUP = POLLRDBAND }; /* to be polled for as well */

static inline bool urgent_in_wakeup(unsigned events)
{
    return (events & (POLLPRI | POLLRDBAND)) == POLLPRI;
}

#endif
