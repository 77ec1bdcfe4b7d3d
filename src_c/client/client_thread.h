/* client_thread.h -- a thread of the client and the users it plays.
 *
 * client_thread.c is the loop, and what falls due by the clock.
 * client_phases.c says where the run stands, client_slices.c whose turn it is,
 * client_events.c what an event of a connection leads to.
 */
#ifndef CLIENT_THREAD_H
#define CLIENT_THREAD_H

#include "wakeups.h"
#include "client_shared.h"
#include "client_plan.h"
#include "client_probe.h"
#include "backlog.h"
#include "user.h"

/* connect all users → wait for the other threads → load → drain → over */
enum phase {
    PHASE_CONNECTING,
    PHASE_WAITING,
    PHASE_LOADING,
    PHASE_DRAINING,
    PHASE_OVER
};

/* A thread's users of one target, and what concerns them alone. Times of
 * arrivals and wakeups pass only while it is the target's turn: what shift_ns
 * adds to them grows with each rest. */
struct thread_target {
    struct record *record;
    const struct asks *asks;
    uint32_t first, count; /* its users among the thread's */
    uint32_t *live;        /* active users that are not gone */
    uint32_t live_count, active_count;
    uint32_t in_flight;                /* requests without an answer yet */
    uint32_t connecting;               /* connects in flight */
    uint32_t finished;                 /* users who made all requests */
    uint32_t next_start, next_arrival; /* users, counted from first */
    struct rng rng;
    struct wakeups wakeups;
    struct pace arrivals;
    uint64_t edge_ns; /* nobody asks from then on; 0 while
                         it rests, UINT64_MAX: no slices */
    uint64_t shift_ns;
    uint64_t had_ns;            /* of its own time, when it rests */
    uint64_t failures;          /* told of in slices before */
    bool counted;               /* its warm-up is over */
    uint64_t slice;             /* its last one; 0: none, or forgotten */
    struct saved_window *saved; /* before that slice; NULL: no --late */
    bool given_up;              /* it did not answer */
};

struct client_thread {
    const struct plan *plan;
    struct shared *shared;
    struct thread_target *targets;
    struct thread_target *current; /* whose turn it is, or was */
    const struct engine_kind *kind;
    struct engine *engine;
    unsigned number;
    enum phase phase;

    struct user *users;
    uint32_t count;
    uint32_t tried;        /* users whose first connect ended */
    uint64_t connected_ns; /* the last one that succeeded */
    uint32_t answered;     /* live users who had an answer */
    bool asking_once;      /* ... and rest until all had one */
    bool said_asked_once, said_resumed, said_warmed; /* client_shared.h */
    uint64_t cold_answers, cold_response_ns;         /* before the warm-up */

    uint32_t next_connect, next_scan;
    struct pace connects;
    bool connects_blocked;  /* one is due and has no room */
    struct backlog backlog; /* arrivals whose user is busy */
    struct meter *meters;
    uint64_t first_block;

    uint64_t awake_ns; /* the engine's wait ended */
    bool timed;        /* plan_is_timed */
    uint64_t looped_ns, scanned_ns;
    struct probe probe;
    bool worked; /* since the last wait began, it
                    sent, opened or closed */
    bool spun;   /* the last round only looked, and
                    saw nothing */
    bool measuring;
    uint64_t cpu_at_from_ns;
    bool in_slice;            /* not at rest */
    uint64_t slice;           /* number of the last one joined */
    struct slice_part before; /* counters when it began */
    struct rounds *rounds;    /* the first thread's; or NULL */
};

/* Plays thread `number` of the plan to its end; a thread's body. Ends the
 * process with status 1 when nothing can be set up. */
void thread_run(const struct plan *plan, struct shared *shared,
                unsigned number);

/* --- between its files -------------------------------------------- */

/* The user's target. */
static inline struct thread_target *thread_target(struct client_thread *t,
                                                  const struct user *u)
{
    return &t->targets[u->target];
}

/* Whether a user who is ready may ask now. */
static inline bool thread_may_ask(const struct thread_target *target,
                                  uint64_t now_ns)
{
    return now_ns < target->edge_ns;
}

/* Goes on to the next phase where it is time for it. */
void thread_change_phase(struct client_thread *t, uint64_t now_ns);

/* Loading, but the warm-up has not begun: see --settle. */
bool thread_is_settling(const struct client_thread *t);

/* The window is open, but nobody knows yet when it will close. */
bool thread_awaits_end(const struct client_thread *t, uint64_t now_ns);

/* The open loop has an arrival left that falls into the load. */
bool thread_has_arrivals(const struct client_thread *t);

/* The window is open, or not: counts CPU time, lets the probe look. */
void thread_measure(struct client_thread *t, bool on);

/* The thread's part is over. */
void thread_end(struct client_thread *t, enum stop_reason why);

/* The target is given up: its users hang up for good. */
void thread_give_up(struct client_thread *t, struct thread_target *target);

/* Connects a user that is AWAY. */
void thread_connect(struct client_thread *t, struct user *u);

/* The user is to make a request that is due at intended_ns: at once, or when
 * it is connected, or when its block's byte rate lets it. */
void thread_begin(struct client_thread *t, struct user *u, uint64_t intended_ns,
                  uint64_t now_ns);

/* An arrival of the open loop for this user: now, or after earlier ones. */
void thread_arrive(struct client_thread *t, struct user *u, uint64_t due_ns,
                   uint64_t now_ns);

/* The heap of wakeups says that it is time. */
void thread_wake(struct client_thread *t, struct user *u);

/* Since when the user waits: for an answer, for a connection to ask on, or, in
 * the open loop, for its turn. UINT64_MAX: it does not. */
uint64_t thread_waits_since(const struct client_thread *t,
                            const struct user *u);

/* The connection failed: counted, closed, and connected anew if the plan has
 * users reconnect. */
void thread_fail(struct client_thread *t, struct user *u, enum failure kind);

#endif
