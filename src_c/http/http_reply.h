/* http_reply.h -- the head of an answer, and answers that say an error. */
#ifndef HTTP_REPLY_H
#define HTTP_REPLY_H

#include "common/buffer.h"
#include "http_parse.h"

enum { HTTP_REPLY_MAX = 512 }; /* no head is longer; nor an error with it */

struct http_reply {
    int status;
    const char *type; /* of the body; NULL: no body */
    uint64_t body_bytes;
    const char *extra;       /* whole header lines, or NULL */
    bool keep_alive, http10; /* as in the request */
};

/* Appends everything up to the empty line that ends the head. */
void http_reply(struct buffer *to, const struct http_reply *reply);

/* Appends a whole answer, "404 Not Found" as head and as body; the body is
 * left out when it answers a HEAD. `extra` as above. */
void http_error(struct buffer *to, int status,
                const struct http_request *request, const char *extra);

/* "text/html; charset=utf-8" and its like, by the end of a file's name. */
const char *http_type(const char *path);

#endif
