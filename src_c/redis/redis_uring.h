/* redis_uring.h -- how clients of a ring get their answers from Redis.
 *
 *     askers_begin -> in line behind those who asked before
 *     askers_round -> a link is free -> link_go_on() says what to wait for
 *                  -> a poll in the ring -> askers_ready -> the reply
 *                  -> answered(asker, what its connection wants next)
 *
 * The links are those of redis_conn.h. The time limit is the model's, which has
 * timers: it calls askers_expired().
 */
#ifndef REDIS_URING_H
#define REDIS_URING_H

#include "common/list.h"
#include "redis_conn.h"
#include "uring/uring.h"

/* Who asks; embedded in the model's client. */
struct asker {
    struct conn *conn;
    struct node place;               /* in line, or in none */
    struct line *line;               /* while it is its turn */
};

/* A link, and who talks over it. Its address leaves four bits for a tag. */
struct line {
    _Alignas(16) struct link link;
    struct asker *asker;
    bool polling;                    /* the kernel holds a poll of this line */
};

struct askers {
    struct io_uring *ring;
    struct stats *stats;
    void *loop;                      /* the model's, handed to answered() */
    void (*answered)(void *loop, struct asker *asker, enum want want);
    struct node queue;
    unsigned waiting;                /* how many are in it */
    struct line lines[UPSTREAM_LINKS];
};

/* user_data: a line's address with ASKERS_TAG; or it is the model's. */
enum { ASKERS_TAG = 0 };

/* Sets all up but `ring`, `stats`, `loop` and `answered`, which the model has
 * set; sets up one who does not ask yet. */
void askers_init(struct askers *askers);
void asker_init(struct asker *asker, struct conn *conn);

/* The connection wants WANT_ASK: it is answered in one of the next rounds. */
void askers_begin(struct askers *askers, struct asker *asker);

/* It leaves without an answer; does nothing when it did not ask. */
void askers_cancel(struct askers *askers, struct asker *asker);

/* It has waited long enough: there will be no answer. */
void askers_expired(struct askers *askers, struct asker *asker);

/* A completion with ASKERS_TAG came. */
void askers_ready(struct askers *askers, struct line *line);

/* Gives free links to those who wait; once a turn, after the completions. */
void askers_round(struct askers *askers);

/* Closes all links. Nobody may be asking. */
void askers_free(struct askers *askers);

#endif
