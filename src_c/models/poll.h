/* poll.h -- the array of poll(2) as the set of descriptors of a loop; shared by
 * poll and poll-groups. */
#ifndef MODEL_POLL_H
#define MODEL_POLL_H

#include "reactor/reactor.h"

struct poll_set {
    struct pollfd *entries;
    struct source **sources; /* whose entry it is */
    unsigned count, capacity;
};

/* Its loop->state is a struct poll_set. */
extern const struct poller poll_poller;

void poll_set_free(struct poll_set *set);

/* ppoll(2) on the whole set. Returns how many entries have an event; -1: see
 * errno. */
int poll_wait(struct poll_set *set, int64_t timeout_ns);

/* Takes the event out of entry i. Returns READY_…, 0 when there is none. */
static inline unsigned poll_take(struct poll_set *set, unsigned i)
{
    unsigned events = (unsigned short)set->entries[i].revents;
    set->entries[i].revents = 0;
    return ready_of(events);
}

#endif
