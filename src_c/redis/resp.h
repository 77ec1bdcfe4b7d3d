/* resp.h -- what Redis says on the wire: RESP 2.
 *
 *     a command   *2\r\n$4\r\nINCR\r\n$6\r\nvisits\r\n     an array of strings
 *     a reply     :42\r\n          number       +OK\r\n        status
 *                 $3\r\nabc\r\n    string       -ERR …\r\n     error
 *                 $-1\r\n          nothing      *2\r\n…        array: its
 *                                               elements follow, one by one
 *
 * Bytes in, values out; nothing is copied or allocated. A reply that is cut
 * off asks for more, one that is malformed says so, whatever the bytes are.
 */
#ifndef RESP_H
#define RESP_H

#include "common/buffer.h"

enum resp_kind {
    RESP_MORE, /* the bytes end before the value does */
    RESP_BAD,  /* this is no RESP, or beyond the limits below */
    RESP_STATUS,
    RESP_ERROR,
    RESP_NUMBER,
    RESP_STRING,
    RESP_NOTHING,
    RESP_ARRAY,
};

enum {
    RESP_LINE_MAX = 1024, /* a status, an error */
    RESP_STRING_MAX = 1 << 20,
    RESP_ARRAY_MAX = 1 << 16,
};

struct resp {
    enum resp_kind kind;
    int64_t number;   /* RESP_NUMBER; RESP_ARRAY: its length */
    struct span text; /* RESP_STATUS, RESP_ERROR, RESP_STRING */
};

/* Reads one value at *at and moves *at behind it (an array: behind its head).
 * With RESP_MORE and RESP_BAD *at stays. */
struct resp resp_next(struct span bytes, size_t *at);

/* Reads text that is a whole number and nothing else; false: it is not. */
bool resp_number(struct span text, int64_t *number);

/* Appends a command of `count` words. */
void resp_command(struct buffer *to, const struct span *words, unsigned count);

#endif
