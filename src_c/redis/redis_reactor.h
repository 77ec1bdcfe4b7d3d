/* redis_reactor.h -- how clients of a loop get their answers from Redis.
 *
 *     WANT_ASK -> in line behind those who asked before -> a link is free
 *              -> the loop watches the link like any descriptor -> the reply
 *
 * A loop has at most UPSTREAM_LINKS links and keeps them. While a client
 * waits, its timer stands at UPSTREAM_PATIENCE_NS; then it is told that there
 * is no answer, and a link that still owed one is closed.
 */
#ifndef REDIS_REACTOR_H
#define REDIS_REACTOR_H

#include "reactor/reactor.h"

/* The client wants WANT_ASK: it is answered in one of the next rounds. */
void asking_begin(struct loop *loop, struct client *client);

/* The client leaves, or its patience is at an end. Does nothing when it has
 * asked nothing. */
void asking_cancel(struct loop *loop, struct client *client);
void asking_expired(struct loop *loop, struct client *client);

/* A SOURCE_UPSTREAM is ready. */
void asking_ready(struct loop *loop, struct source *source, unsigned ready);

/* Gives free links to those who wait; called once a round, after the events.
 * Returns whether it could go on at once. */
bool asking_round(struct loop *loop);

/* Closes the links. No client may be left. */
void asking_free(struct loop *loop);

#endif
