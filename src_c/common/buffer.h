/* buffer.h -- text that grows in room of a fixed size, and says when it did
 * not fit: the one check comes at the end. */
#ifndef BUFFER_H
#define BUFFER_H

#include <stdint.h>

#include "span.h"

struct buffer {
    char *bytes;
    size_t length, capacity;
    bool full; /* something was left out: use none of it */
};

static inline void buffer_add(struct buffer *b, const void *bytes, size_t n)
{
    if (n > b->capacity - b->length) {
        b->full = true;
        return;
    }
    memcpy(b->bytes + b->length, bytes, n);
    b->length += n;
}

static inline void buffer_text(struct buffer *b, const char *text)
{
    buffer_add(b, text, strlen(text));
}

static inline void buffer_span(struct buffer *b, struct span span)
{
    buffer_add(b, span.bytes, span.length);
}

/* In decimal; printf would take ten times as long. */
static inline void buffer_number(struct buffer *b, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    buffer_add(b, digits + at, sizeof digits - at);
}

#endif
