/* guestbook.h -- a page with what guests left, kept in Redis.
 *
 *     GET    INCR guestbook:visitors, LRANGE guestbook:remarks   -> the page
 *     HEAD   GET guestbook:visitors, LRANGE guestbook:remarks    -> its length
 *     POST   LPUSH guestbook:remarks TEXT, LTRIM to the newest   -> "see page"
 *
 * Each is one trip to Redis of two commands. HEAD is a safe method (RFC 9110,
 * 9.2.1), so it counts nobody: its page is that of the next GET. No sockets
 * here: commands come out, replies go in. The page is guestbook.html of --root,
 * where {{visitors}} and {{remarks}} stand for what Redis said, or built in.
 */
#ifndef GUESTBOOK_H
#define GUESTBOOK_H

#include "common/buffer.h"

enum {
    GUESTBOOK_REMARKS = 100,     /* how many are kept, newest first */
    GUESTBOOK_REMARK_MAX = 1000, /* bytes of one */
};

/* Reads the template; once, before any fork. Returns NULL, or what is wrong. */
const char *guestbook_setup(const char *root);

/* The commands behind a GET, and behind a HEAD. */
extern const struct span guestbook_read, guestbook_peek;

/* The commands behind a POST of a form with a field "remark", in memory for
 * the caller to free. On failure .bytes is NULL and *status says what to
 * answer: 400 without a remark, 413 when it is too long, 503 out of memory. */
struct span guestbook_write(struct span form, int *status);

enum guestbook_result {
    GUESTBOOK_INCOMPLETE, /* more of the reply is to come */
    GUESTBOOK_DONE,
    GUESTBOOK_ERROR,    /* -ERR, or a value of another type */
    GUESTBOOK_NOT_RESP, /* where it ends is unknown: hang up */
};

/* Judges the reply to guestbook_write(). */
enum guestbook_result guestbook_written(struct span reply);

/* Appends the page from the reply to either of these: as many remarks, from the
 * newest on, as there is room for. Nothing is appended while more is to come,
 * and nothing of use on failure. */
enum guestbook_result guestbook_page(struct span reply, struct buffer *page);

#endif
