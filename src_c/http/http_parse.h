/* http_parse.h -- one HTTP/1.1 request out of a stream of bytes (RFC 9112).
 *
 *     POST /guestbook?page=2 HTTP/1.1\r\n      method, target, version
 *     Host: example.org\r\n                    headers
 *     Content-Length: 11\r\n
 *     \r\n                                     the end of the head
 *     remark=well                              the body
 *
 * Bytes in, facts out; nothing is copied or allocated, and a head that is not
 * complete is simply read again when more of it is there.
 *
 * Where a message ends must never be a matter of opinion: a proxy in front
 * and we would else cut the stream differently, and one client could put
 * words into another's mouth ("request smuggling"). So Content-Length may come
 * once and holds digits only; with Transfer-Encoding it is an error; a header
 * has no blank before its colon and no continuation line; a CR stands before a
 * LF and nowhere else, and no LF stands alone. RFC 9112, 2.2 lets a recipient
 * take a bare LF for the end of a line; where one does and another does not,
 * they see different requests, so here it is 400.
 */
#ifndef HTTP_PARSE_H
#define HTTP_PARSE_H

#include <stdint.h>

#include "common/span.h"

enum {
    HTTP_HEAD_MAX = 8 * 1024, /* request line and headers */
    HTTP_BODY_MAX = 16 * 1024,
};

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_KNOWN, /* PUT, DELETE, ...: real, but nothing here has them */
    HTTP_UNKNOWN,
};

struct http_request {
    enum http_method method;
    struct span path, query; /* as sent, still percent-encoded */
    struct span content_type;
    uint64_t body_bytes;
    size_t head_bytes; /* where the body begins */
    bool keep_alive;
    bool http10;
    bool expects_continue; /* waits for "100 Continue" */
    int error;             /* the status to refuse it with, or 0 */

    /* while parsing */
    bool has_host, has_length, has_encoding, chunked, has_close;
};

enum http_found {
    HTTP_INCOMPLETE, /* the head ends later */
    HTTP_COMPLETE,   /* request->head_bytes are its head */
    HTTP_BAD,        /* answer request->error and close */
};

/* Reads the head of a request. */
enum http_found http_parse(struct span bytes, struct http_request *request);

/* Decodes %XX, and + when asked for, into `to`. Returns the number of bytes;
 * -1 for a % without two digits or a zero byte, -2 for more than `size`. */
long http_decode(struct span text, bool plus, char *to, size_t size);

/* Whether a Content-Type names this media type: without case, and whatever
 * parameters follow ("; charset=...", RFC 9110, 8.3.1). */
bool http_is_media_type(struct span value, const char *type);

/* The value, still encoded, of a field in "a=1&b=2". False: it is not there. */
bool http_form_field(struct span form, const char *name, struct span *value);

#endif
