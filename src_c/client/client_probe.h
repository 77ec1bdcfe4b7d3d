/* client_probe.h -- which part of the requests in flight waits for us. */
#ifndef CLIENT_PROBE_H
#define CLIENT_PROBE_H

#include <stdint.h>

#include "rng.h"

struct client_thread;

struct probe {
    struct rng rng;  /* its own: plans stay as is */
    uint64_t due_ns; /* of the next look */
};

struct probe probe_make(uint64_t seed, unsigned thread);

/* Looks, if it is time to and the window is open, and adds to the record. To be
 * called between answering and waiting, where nothing is half done. */
void probe_look(struct client_thread *t, uint64_t now_ns);

#endif
