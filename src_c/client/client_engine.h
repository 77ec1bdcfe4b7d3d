/* client_engine.h -- how a crew waits for many sockets: epoll or io_uring.
 *
 * An engine only moves bytes and reports events; what they mean is decided in
 * client_events.c and user.c, the same for every engine. It calls back
 *
 *     crew_on_connected   once per engine_dial
 *     crew_on_received    for bytes, and with 0 for the end of the stream
 *     crew_on_sent        as bytes leave (epoll), or when the kernel is to
 *                         send them (uring, see there)
 *     crew_on_error       when sending or receiving failed
 *
 * A crew may dial, send and drop from within these calls.
 */
#ifndef CLIENT_ENGINE_H
#define CLIENT_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "connect.h"
#include "user.h"

struct crew;
struct engine;

struct engine_kind {
    const char *name;

    /* One engine for this thread. NULL with errno when the kernel refuses. */
    struct engine *(*open)(struct crew *crew, const struct dial *dial);
    void (*close)(struct engine *engine);

    /* Connects a user that is AWAY. May call back before it returns. */
    void (*dial)(struct engine *engine, struct user *user);

    /* Sends what user_outgoing() gives, now or as soon as it can be. */
    void (*send)(struct engine *engine, struct user *user);

    /* Closes the user's socket; no event of it is reported any more. */
    void (*drop)(struct engine *engine, struct user *user);

    /* Waits up to timeout_ns (0: only looks) and reports what happened;
     * returns the number of events. */
    unsigned (*wait)(struct engine *engine, uint64_t timeout_ns);

    /* Hands to the kernel what an earlier `send` still holds back. */
    void (*flush)(struct engine *engine);
};

extern const struct engine_kind engine_epoll;
#ifdef HAVE_URING
extern const struct engine_kind engine_uring;
#endif

/* error: 0, or an errno. EMFILE and ENFILE: there was no socket to be had. */
void crew_on_connected(struct crew *crew, struct user *user, int error);
/* now_ns: when the engine looked at the bytes. */
void crew_on_received(struct crew *crew, struct user *user, const char *data,
                      size_t bytes, uint64_t now_ns);
void crew_on_sent(struct crew *crew, struct user *user, size_t bytes);
void crew_on_error(struct crew *crew, struct user *user, bool sending,
                   int error);

/* The engine's wait is over; what it reports next waited since then. */
void crew_on_awake(struct crew *crew, uint64_t now_ns);

/* Whether users ask on one connection all the time. */
bool crew_keeps_connections(const struct crew *crew);

/* User number i of the crew, of so many. */
uint32_t crew_count(const struct crew *crew);
struct user *crew_user(struct crew *crew, uint32_t i);
uint32_t crew_index(const struct crew *crew, const struct user *user);

#endif
