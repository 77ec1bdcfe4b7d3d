/* backlog.c -- see backlog.h.
 *
 *     entries: | - | 3.1 s, next 4 | free, next 0 | ... |    linked by number
 *
 * Used by client_events.c in the open loop: requests that fell due while their
 * user still waited for an answer, with the time at which they were due, from
 * which their response time counts (no coordinated omission). Most queues are
 * empty and few are long, so all share one array: numbers instead of pointers
 * stay right when realloc(3) moves it, and take half the room.
 */
#include "backlog.h"

#include <assert.h>
#include <stdlib.h>

/* The number of an unused entry; 0 when there is no memory. */
static uint32_t unused_entry(struct backlog *f)
{
    uint32_t i = f->free;
    if (i) {
        f->free = f->entries[i].next;
        return i;
    }
    if (f->count + 1 >= f->room) {
        uint32_t room = f->room ? 2 * f->room : 256;
        void *entries = realloc(f->entries, room * sizeof *f->entries);
        if (!entries)
            return 0;
        f->entries = entries;
        f->room = room;
    }
    return ++f->count;
}

bool backlog_put(struct backlog *f, uint32_t *first, uint32_t *last,
                 uint64_t time_ns)
{
    uint32_t i = unused_entry(f);
    if (!i)
        return false;
    f->entries[i] = (struct backlog_entry){time_ns, 0};
    if (*first)
        f->entries[*last].next = i;
    else
        *first = i;
    *last = i;
    return true;
}

uint64_t backlog_take(struct backlog *f, uint32_t *first, uint32_t *last)
{
    uint32_t i = *first;
    assert(i);
    *first = f->entries[i].next;
    if (!*first)
        *last = 0;
    f->entries[i].next = f->free;
    f->free = i;
    return f->entries[i].time_ns;
}

void backlog_free(struct backlog *f)
{
    free(f->entries);
    *f = (struct backlog){0};
}
