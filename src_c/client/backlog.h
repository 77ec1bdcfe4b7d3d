/* backlog.h -- many small first-in-first-out queues of times in one array.
 *
 * A queue is named by the numbers of its first and last entry, which its owner
 * keeps (0, 0: empty). Entries that were taken are used again.
 */
#ifndef BACKLOG_H
#define BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backlog_entry {
    uint64_t time_ns;
    uint32_t next;
};

struct backlog {
    struct backlog_entry *entries; /* number 0 is never used */
    uint32_t count, room;          /* entries ever used; allocated */
    uint32_t free;                 /* first of those given back */
};

/* False when there is no memory. */
bool backlog_put(struct backlog *f, uint32_t *first, uint32_t *last,
                 uint64_t time_ns);

/* When the first was due, which stays; only when `first` is not 0. */
static inline uint64_t backlog_first_ns(const struct backlog *f, uint32_t first)
{
    return f->entries[first].time_ns;
}

/* The first's time; only when *first is not 0. */
uint64_t backlog_take(struct backlog *f, uint32_t *first, uint32_t *last);

void backlog_free(struct backlog *f);

#endif
