/* agenda.h -- who wants to be woken when: a binary heap of (time, who).
 *
 * Adding and taking cost log n. There is no removal: whoever no longer wants
 * to be woken ignores the call (see user.wake_ns).
 */
#ifndef AGENDA_H
#define AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agenda_entry { uint64_t due_ns; uint32_t who; };

struct agenda {
    struct agenda_entry *heap;
    size_t count, room;
};

/* An empty agenda is all zeros. False when there is no memory. */
bool agenda_add(struct agenda *a, uint64_t due_ns, uint32_t who);

/* When the earliest is due; UINT64_MAX when nobody waits. */
static inline uint64_t agenda_due_ns(const struct agenda *a)
{
    return a->count ? a->heap[0].due_ns : UINT64_MAX;
}

/* Takes the earliest off. Only when count > 0. */
struct agenda_entry agenda_take(struct agenda *a);

void agenda_free(struct agenda *a);

#endif
