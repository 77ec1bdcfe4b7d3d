/* client_thread.h -- a thread of the client and the users it plays.
 *
 * client_thread.c is the loop, and what falls due by the clock.
 * client_phases.c says where the run stands, client_events.c what an event of
 * a connection leads to.
 */
#ifndef CLIENT_THREAD_H
#define CLIENT_THREAD_H

#include "agenda.h"
#include "client_shared.h"
#include "client_plan.h"
#include "client_probe.h"
#include "backlog.h"
#include "user.h"

/* dial all users → wait for the other crews → load → drain → over */
enum phase { PHASE_DIALING, PHASE_WAITING, PHASE_LOADING, PHASE_DRAINING,
             PHASE_OVER };

struct crew {
    const struct plan *plan;
    struct board *board;
    struct record *record;
    const struct engine_kind *kind;
    struct engine *engine;
    unsigned number;
    enum phase phase;

    struct user *users;
    uint32_t count;
    uint32_t *live;                        /* active users that are not gone */
    uint32_t live_count, active_count;
    uint32_t settled;                      /* users whose first dialing ended */
    uint32_t dialing;                      /* connects in flight */
    uint64_t connected_ns;                 /* the last one that succeeded */
    uint32_t asking;                       /* requests without an answer yet */
    uint32_t finished;                     /* users who made all requests */
    uint32_t answered;                     /* users who had an answer */
    bool greeting;                         /* ... and rest until all had one */
    bool said_greeted, said_going;         /* told the board, see there */

    uint32_t next_dial, next_start, next_turn, next_scan;
    struct dice dice;
    struct agenda agenda;
    struct pace dials, arrivals;
    bool cramped;                          /* a dial is due and has no room */
    struct fifos waiting;                  /* arrivals whose user is busy */
    struct meter *meters;
    uint64_t first_block;

    uint64_t awake_ns;                     /* the engine's wait ended */
    bool timed;                            /* plan_is_timed */
    uint64_t turn_ns, scanned_ns;
    struct probe probe;
    bool worked;                           /* since the last wait began, it
                                              sent, opened or closed */
    bool spun;                             /* the last turn only looked, and
                                              saw nothing */
    bool measuring;
    uint64_t cpu_at_from_ns;
};

/* Plays crew `number` of the plan to its end; a thread's body. Ends the
 * process with status 1 when nothing can be set up. */
void crew_run(const struct plan *plan, struct board *board, unsigned number);

/* --- between the three files -------------------------------------------- */

/* Goes on to the next phase where it is time for it. */
void crew_change_phase(struct crew *crew, uint64_t now_ns);

/* Loading, but the warm-up has not begun: see --settle. */
bool crew_is_settling(const struct crew *crew);

/* The open loop has an arrival left that falls into the load. */
bool crew_has_arrivals(const struct crew *crew);

/* Connects a user that is AWAY. */
void crew_dial(struct crew *crew, struct user *u);

/* The user is to make a request that is due at intended_ns: at once, or when
 * it is connected, or when its block's byte rate lets it. */
void crew_begin(struct crew *crew, struct user *u, uint64_t intended_ns,
                uint64_t now_ns);

/* An arrival of the open loop for this user: now, or after earlier ones. */
void crew_arrive(struct crew *crew, struct user *u, uint64_t due_ns,
                 uint64_t now_ns);

/* The agenda says that it is time. */
void crew_wake(struct crew *crew, struct user *u);

/* Since when the user waits: for an answer, for a connection to ask on, or, in
 * the open loop, for its turn. UINT64_MAX: it does not. */
uint64_t crew_waits_since(const struct crew *crew, const struct user *u);

/* The connection failed: counted, closed, and dialed anew if the plan has
 * users reconnect. */
void crew_fail(struct crew *crew, struct user *u, enum failure kind);

#endif
