/* handover.h -- connections on their way from the thread that accepts to the
 * loop that serves them.
 *
 *     accept -> handover_give() -> pipe -> SOURCE_HANDOVER -> client_add()
 *
 * A pipe is a queue that the kernel keeps: it wakes the loop like any other
 * descriptor, holds 2048 arrivals, lets the giver wait while it is full, and
 * its end tells the loop that nothing more will come.
 */
#ifndef HANDOVER_H
#define HANDOVER_H

#include <stdbool.h>

#include "server/net.h"

struct handover {
    int take_fd; /* the loop's, non-blocking: set it as loop->handover.fd */
    int give_fd; /* the acceptor's; closing it ends the handover */
};

/* Returns false with errno. */
bool handover_open(struct handover *handover);

/* Returns false when the loop has closed its end. */
bool handover_give(const struct handover *handover,
                   const struct arrival *arrival);

/* Takes up to `most`. Returns how many, 0 at the end, or -1 when none is there
 * now. */
int handover_take(int take_fd, struct arrival *arrivals, unsigned most);

#endif
