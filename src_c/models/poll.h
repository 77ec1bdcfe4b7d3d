/* poll.h -- what another model borrows from poll: its poller. */
#ifndef POLL_H
#define POLL_H

#include <poll.h>

#include "reactor/reactor.h"

/* What poll_poller keeps in loop->state; starts zeroed. */
struct poll_set {
    struct pollfd *entries;   /* dense: [0, count) */
    struct source **sources;  /* the same order */
    unsigned count, capacity;
};

extern const struct poller poll_poller;

void poll_set_free(struct poll_set *set);

#endif
