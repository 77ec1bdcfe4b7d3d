/* client_engine.h -- how a thread waits for many sockets: epoll or io_uring.
 *
 * An engine only moves bytes and reports events; what they mean is decided in
 * client_events.c and user.c, the same for every engine. It calls back
 *
 *     thread_on_connected   once per engine.connect
 *     thread_on_received    for bytes, and with 0 for the end of the stream
 *     thread_on_sent        as bytes leave (epoll), or when the kernel is to
 *                         send them (uring, see there)
 *     thread_on_error       when sending or receiving failed
 *
 * A thread may connect, send and drop from within these calls.
 */
#ifndef CLIENT_ENGINE_H
#define CLIENT_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "connect.h"
#include "user.h"

struct client_thread;
struct engine;

struct engine_kind {
    const char *name;

    /* One engine for this thread. NULL with errno when the kernel refuses. */
    struct engine *(*open)(struct client_thread *thread);
    void (*close)(struct engine *engine);

    /* Connects a user that is AWAY. May call back before it returns. */
    void (*connect)(struct engine *engine, struct user *user);

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
void thread_on_connected(struct client_thread *t, struct user *user, int error);
/* now_ns: when the engine looked at the bytes. */
void thread_on_received(struct client_thread *t, struct user *user,
                        const char *data, size_t bytes, uint64_t now_ns);
void thread_on_sent(struct client_thread *t, struct user *user, size_t bytes);
void thread_on_error(struct client_thread *t, struct user *user, bool sending,
                     int error);

/* The engine's wait is over; what it reports next waited since then. */
void thread_on_awake(struct client_thread *t, uint64_t now_ns);

/* Where the user connects to, and from where. */
const struct endpoints *thread_endpoints(const struct client_thread *t,
                                         const struct user *user);

/* Whether users ask on one connection all the time. */
bool thread_keeps_connections(const struct client_thread *t);

/* User number i of the thread, of so many. */
uint32_t thread_count(const struct client_thread *t);
struct user *thread_user(struct client_thread *t, uint32_t i);
uint32_t thread_index(const struct client_thread *t, const struct user *user);

#endif
