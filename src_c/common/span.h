/* span.h -- bytes that lie somewhere else: where, and how many. */
#ifndef SPAN_H
#define SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct span {
    const char *bytes;
    size_t length;
};

static inline bool span_is(struct span span, const char *text)
{
    size_t length = strlen(text);
    return span.length == length && memcmp(span.bytes, text, length) == 0;
}

#endif
