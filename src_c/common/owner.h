/* owner.h -- from a part to what it lies in: a client is known to its list, its
 * timer and its connection by the part that they hold. */
#ifndef OWNER_H
#define OWNER_H

#include <stddef.h>

/* OWNER_OF(timer, struct client, timer) */
#define OWNER_OF(part, type, member)                                           \
    ((type *)((char *)(part) - offsetof(type, member)))

#endif
