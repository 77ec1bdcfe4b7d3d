/* ask.h -- what a user says to each workload, and whether the answer is right.
 *
 * No sockets here: bytes to send come out, bytes received go in, in pieces of
 * any length.
 *
 *     echo   LENGTH bytes of a random pattern, which must come back as sent.
 *            Where in the pattern a request begins depends on connection and
 *            number, so an answer to somebody else does not pass. Nothing is
 *            generated or copied per request.
 *     work   "DELAY_US BUCKET\n"; the answer is a line with the bucket's new
 *            value, which is at least the delay just added to it. What others
 *            added before is not known here, so more is not checked.
 *     http   GET PATH; the answer is a status, headers, and a body of
 *            Content-Length bytes or up to the end of the stream: its length is
 *            checked, not what it says. The last request of a connection says
 *            Connection: close.
 */
#ifndef ASK_H
#define ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "delay.h"
#include "rng.h"

enum ask_workload { ASK_ECHO, ASK_WORK, ASK_HTTP };

/* How to ask: made once, then shared by all threads and never written. */
struct asks {
    enum ask_workload workload;
    size_t size_min, size_max; /* echo: bytes per request */
    struct delay delay;        /* work */
    uint64_t buckets;          /* work */
    const char *pattern;       /* echo */
    char *http[2];             /* keep alive; close */
};

/* One request and what is known of its answer. */
struct ask {
    const char *out;    /* the bytes to send … */
    size_t out_bytes;   /* … and how many */
    const char *expect; /* echo: what must come next */
    uint64_t left;      /* echo, http: bytes to come */
    uint64_t least;     /* work: the least right answer */
    int stage;          /* http: where in the answer */
    int status;         /* http: 200, 404, … */
    bool closes;        /* the server will close after it */
    unsigned line_bytes;
    char line[64]; /* the line being received */
    char text[40]; /* work: the line that is sent */
};

enum ask_verdict {
    ASK_MORE, /* the answer is not complete */
    ASK_DONE,
    ASK_STATUS,   /* done, but http says an error */
    ASK_MISMATCH, /* not the answer to this */
};

/* Builds pattern (unless there is one, to share) or request texts. `path` and
 * `host` are http's and copied. False when there is no memory. */
bool asks_make(struct asks *asks, const char *host, const char *path,
               uint64_t seed);
void asks_free(struct asks *asks);

/* Prepares request `number` of connection `who`; `last` of its connection or
 * not. The bytes at ask->out stay valid until the next call. */
void ask_make(const struct asks *asks, struct ask *ask, uint64_t who,
              uint64_t number, bool last, struct rng *rng);

/* Takes what was received, all of it: a byte after the end is a mismatch. */
enum ask_verdict ask_take(const struct asks *asks, struct ask *ask,
                          const char *data, size_t bytes);

/* The stream ended. ASK_MORE: in the middle of an answer. */
enum ask_verdict ask_end(const struct asks *asks, const struct ask *ask);

const char *ask_workload_name(enum ask_workload workload);

#endif
