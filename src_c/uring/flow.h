/* flow.h -- flow control of one connection: how it is received from.
 *
 *     multishot: stays armed; bytes come whether they are wanted or not
 *        |  a buffer was filled, or much came while an answer was on its way
 *        v
 *     one-shot:  armed only when bytes are wanted, or a reset would not be
 *                noticed while the server waits; into a larger buffer
 *        |  for a while every receive would have fitted the smaller buffer
 *        v
 *     multishot
 *
 * Multishot is the cheaper one, and right where a client waits for its answer.
 * A client that sends without end would be stored without end: then TCP's own
 * flow control has to do it, which begins where nobody receives. Each time
 * that a connection returns to one-shot it stays there for twice as long, so
 * that no traffic makes it change all the time.
 */
#ifndef FLOW_H
#define FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FLOW_FITS_FIRST = 8, FLOW_FITS_MOST = 1024 };

struct flow {
    bool one_shot;
    uint16_t fits;   /* receives in a row that needed no larger buffer */
    uint16_t needed; /* so many lead back to multishot; 0: the first time */
};

/* From now on one-shot. Returns whether it was multishot. */
static inline bool flow_slow(struct flow *flow)
{
    bool changes = !flow->one_shot;
    flow->fits = 0;
    flow->one_shot = true;
    if (changes && flow->needed == 0)
        flow->needed = FLOW_FITS_FIRST;
    else if (changes && flow->needed < FLOW_FITS_MOST)
        flow->needed = (uint16_t)(flow->needed * 2);
    return changes;
}

/* A one-shot receive brought n bytes; the buffers of multishot have `small`. */
static inline void flow_received(struct flow *flow, size_t n, size_t small)
{
    flow->fits = n < small ? (uint16_t)(flow->fits + 1) : 0;
    if (flow->fits >= flow->needed)
        flow->one_shot = false;
}

#endif
