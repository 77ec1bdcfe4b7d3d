/* talk.h -- drives a workload without sockets, for tests and for fuzzing.
 *
 * What conn.c does for a model, in miniature: bytes go in, in pieces of any
 * length; what is wanted is granted at once, and answers gather in `out`. Each
 * step gets its bytes in memory of exactly that size, so that a sanitizer sees
 * a read beyond them.
 */
#ifndef TALK_H
#define TALK_H

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workload.h"

enum { TALK_ROOM = 64 * 1024 };

struct talk {
    const struct workload *workload;
    void *session;
    char *in, *out; /* not used yet; all answers so far */
    size_t in_bytes, out_bytes, requests, sleeps;
    uint64_t wake_ns;                /* of the last sleep */
    const char *reply;               /* what upstream says, or NULL: nothing */
    size_t reply_bytes, reply_piece; /* in pieces of so many bytes; 0: whole */
    char last_ask[2048];
    bool ended, closed, hung_up;
};

/* `reply` is text, or NULL. */
static inline void talk_begin(struct talk *talk, const struct workload *what,
                              const char *reply)
{
    *talk = (struct talk){.workload = what,
                          .reply = reply,
                          .reply_bytes = reply ? strlen(reply) : 0};
    talk->session = calloc(1, what->session_bytes + 1);
    talk->out = calloc(1, 1);
}

static inline void talk_append(char **to, size_t *length, const char *bytes,
                               size_t n)
{
    *to = realloc(*to, *length + n + 1);
    if (n > 0)
        memcpy(*to + *length, bytes, n);
    *length += n;
    (*to)[*length] = '\0';
}

/* One call of the workload; returns what it wants. */
static inline enum want talk_step(struct talk *talk, struct step *step)
{
    char *in = malloc(talk->in_bytes), *room = malloc(TALK_ROOM);
    if (talk->in_bytes > 0)
        memcpy(in, talk->in, talk->in_bytes);
    step->in = in;
    step->in_bytes = talk->in_bytes;
    step->in_end = talk->ended;
    step->room = room;
    step->room_bytes = TALK_ROOM;
    enum want want = talk->workload->step(talk->session, step);
    assert(step->used <= step->in_bytes);
    assert(want != WANT_WRITE || step->out_bytes > 0);
    talk_append(&talk->out, &talk->out_bytes, step->out, step->out_bytes);
    talk->in_bytes -= step->used;
    if (talk->in_bytes > 0)
        memmove(talk->in, talk->in + step->used, talk->in_bytes);
    talk->requests += step->requests;
    free(in);
    free(room);
    return want;
}

/* Upstream's answer, in growing pieces, until the workload has enough. */
static inline enum want talk_ask(struct talk *talk, const struct step *asked)
{
    size_t n = asked->ask_bytes < sizeof talk->last_ask - 1
                   ? asked->ask_bytes
                   : sizeof talk->last_ask - 1;
    memcpy(talk->last_ask, asked->ask, n);
    talk->last_ask[n] = '\0';
    size_t piece = talk->reply_piece ? talk->reply_piece : talk->reply_bytes;
    for (size_t came = 0; talk->reply && came < talk->reply_bytes;) {
        came =
            talk->reply_bytes - came > piece ? came + piece : talk->reply_bytes;
        char *reply = malloc(came);
        memcpy(reply, talk->reply, came);
        struct step step = {.reply = reply, .reply_bytes = came};
        enum want want = talk_step(talk, &step);
        free(reply);
        talk->hung_up |= step.hang_up;
        if (want != WANT_ASK)
            return want;
    }
    return talk_step(talk, &(struct step){.reply_failed = true});
}

static inline void talk_hear(struct talk *talk, const char *bytes, size_t n)
{
    if (talk->closed)
        return;
    talk_append(&talk->in, &talk->in_bytes, bytes, n);
    talk->ended = n == 0;
    struct step step = {0};
    enum want want = talk_step(talk, &step);
    while (want != WANT_READ && want != WANT_CLOSE) {
        talk->sleeps += want == WANT_SLEEP;
        talk->wake_ns = want == WANT_SLEEP ? step.wake_ns : talk->wake_ns;
        if (want == WANT_ASK) {
            want = talk_ask(talk, &step);
        } else {
            step = (struct step){0};
            want = talk_step(talk, &step);
        }
        assert(want != WANT_ASK || step.ask_bytes > 0);
    }
    talk->closed = want == WANT_CLOSE || talk->ended;
}

static inline void talk_hear_text(struct talk *talk, const char *text)
{
    talk_hear(talk, text, strlen(text));
}

/* All of it in pieces of so many bytes; 0: in one. */
static inline void talk_hear_pieces(struct talk *talk, const char *bytes,
                                    size_t n, size_t piece)
{
    piece = piece ? piece : n;
    for (size_t at = 0; at < n; at += piece)
        talk_hear(talk, bytes + at, n - at < piece ? n - at : piece);
}

static inline void talk_end(struct talk *talk)
{
    if (talk->workload->close)
        talk->workload->close(talk->session);
    free(talk->session);
    free(talk->in);
    free(talk->out);
}

#endif
