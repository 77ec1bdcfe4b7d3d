/* user.h -- one user of the server: a connection and the request on it.
 *
 *          connect               connected          ask
 *     AWAY ────────▶ CONNECTING ──────────▶ READY ──────────▶ ASKING
 *       ▲  hang up                            ▲    answered     │
 *       └─────────────────────────────────────┴─────────────────┘
 *     and from anywhere to GONE: failed for good, or all requests done.
 *
 * There is no socket here and no clock: events and times come in as arguments,
 * bytes to send and outcomes go out. Every engine drives this one machine, so
 * engines differ only in how they wait.
 */
#ifndef USER_H
#define USER_H

#include "ask.h"
#include "record.h"

enum user_state {
    USER_AWAY,
    USER_CONNECTING,
    USER_READY,
    USER_ASKING,
    USER_GONE
};

struct user {
    enum user_state state;
    int fd;               /* the engine's; -1 without a connection */
    uint32_t who;         /* number among all users of its target */
    uint32_t target;      /* number of the target */
    uint32_t generation;  /* grows with each connection: events of an
                       earlier one are recognised and ignored */
    uint32_t asked_here;  /* requests on this connection */
    uint32_t failures;    /* in a row */
    bool active;          /* makes requests; else it only stays open */
    bool wants;           /* has a request to make once it is connected */
    bool held;            /* the request must not leave yet */
    bool blocked;         /* the engine waits to send the rest */
    bool tried;           /* its first attempt to connect is over */
    uint64_t asked;       /* requests so far */
    uint64_t since_ns;    /* when it connected, or its request left */
    uint64_t intended_ns; /* when the request was due */
    uint64_t opened_ns;   /* when the connection was up */
    uint64_t wake_ns;     /* when its entry among the wakeups is valid */
    uint32_t waiting, waiting_last; /* open loop: arrivals queued; 0 none */
    uint32_t live_index;            /* in the thread's list of live users */
    size_t sent;                    /* bytes of the request that left */
    struct ask ask;
    struct row *row;
};

enum user_outcome {
    USER_WAITS, /* for more */
    USER_ANSWERED,
    USER_BAD_STATUS, /* answered, but http says an error */
    USER_GARBLED,    /* the answer is wrong, or nobody asked */
    USER_CUT_OFF,    /* the stream ended too early */
};

void user_connect(struct user *u, int fd, uint64_t now_ns);
void user_connected(struct user *u, uint64_t now_ns);

/* Begins a request that was due at intended_ns. */
void user_ask(struct user *u, const struct asks *asks, bool last,
              uint64_t intended_ns, uint64_t now_ns, struct rng *rng);

/* What is still to be sent; *bytes is 0 when nothing is. */
const char *user_outgoing(const struct user *u, size_t *bytes);
void user_sent(struct user *u, size_t bytes);

enum user_outcome user_receive(struct user *u, const struct asks *asks,
                               const char *data, size_t bytes);
enum user_outcome user_end_of_stream(struct user *u, const struct asks *asks);

/* The connection is over: AWAY, or GONE for good. */
void user_hang_up(struct user *u, bool for_good, uint64_t now_ns);

#endif
