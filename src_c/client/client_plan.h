/* client_plan.h -- what the command line asks the load generator to do. */
#ifndef CLIENT_PLAN_H
#define CLIENT_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ask.h"
#include "client_engine.h"
#include "delay.h"
#include "connect.h"
#include "pace.h"

enum { MAX_TARGETS = 64, MAX_WATCHED = 64 };

struct plan_target {
    const char *text; /* HOST:PORT as it was written */
    struct endpoints endpoints;
    struct asks asks;           /* plan.asks, and its own host */
    uint64_t connections;       /* its users, */
    uint64_t active;            /* of whom so many ask */
    uint64_t first_row;         /* of its users in shared rows */
    pid_t watched[MAX_WATCHED]; /* processes of the server */
    unsigned watched_count;
};

struct plan {
    struct plan_target targets[MAX_TARGETS];
    unsigned target_count;
    struct asks asks;         /* workload, sizes, delay, buckets */
    const char *path;         /* http */
    struct endpoints sources; /* its source addresses only */
    unsigned watch_count;     /* targets with a --watch */

    uint64_t slice_ns, lead_in_ns; /* slice_ns 0: no slices */
    uint64_t late_ns;              /* 0: no slice is repeated */
    uint64_t pause_ns;             /* 0: a slice follows the one before */
    uint64_t order_seed;           /* of the order in rounds */
    bool only_watch;               /* asks nobody */

    uint64_t connections[MAX_TARGETS]; /* of all targets, or of each */
    unsigned connections_count;
    uint64_t active;                  /* of each target; 0: all */
    uint64_t requests;                /* per user; 0: until duration_s */
    uint64_t requests_per_connection; /* 0: no limit */
    double duration_s, warmup_s, drain_s;
    double response_times; /* to count at least; 0: no matter */
    double duration_max_s; /* to reach them */
    double settle_s;       /* 0: warm up at once */
    uint64_t begin_at_ns;  /* of the load, at the soonest */
    bool begin_told;       /* begin_at_ns comes when all have connected */
    double timeout_s, connect_timeout_s;
    uint64_t seed;

    double rate; /* per second; 0: closed loop */
    enum pace_kind arrivals;
    struct delay think;
    double byte_rate;    /* per block; 0: no limit */
    uint64_t block;      /* connections that share it */
    double connect_rate; /* per second; 0: no limit */

    uint64_t threads, processes;
    const struct engine_kind *engine;
    bool any_engine;  /* epoll, if the kernel refuses it */
    uint64_t spin_ns; /* UINT64_MAX: always */

    const char *per_connection, *timeline, *histogram, *slices; /* or NULL */
};

/* Reads the command line. Ends the process with status 0 after --help, 2 after
 * naming on standard error the flag, its value, and what is allowed. */
void plan_parse(struct plan *plan, int argc, char **argv);

/* Targets take turns; see client_slices.h. */
static inline bool plan_is_sliced(const struct plan *plan)
{
    return plan->slice_ns > 0;
}

/* Slices begin at moments that are known before; see client_grid.h. */
static inline bool plan_is_fixed(const struct plan *plan)
{
    return plan->pause_ns > 0;
}

static inline uint64_t plan_threads(const struct plan *plan)
{
    return plan->threads * plan->processes;
}

/* Whether requests are due at a moment that is known before; else one follows
 * from another's answer. */
static inline bool plan_is_timed(const struct plan *plan)
{
    return plan->rate > 0 || plan->think.mean_ns > 0 || plan->byte_rate > 0;
}

/* The users of all targets. */
static inline uint64_t plan_users(const struct plan *plan)
{
    const struct plan_target *last = &plan->targets[plan->target_count - 1];
    return last->first_row + last->connections;
}

/* The first of a target's users that a thread plays: threads own neighbouring
 * users, in equal shares.
 * Thread number plan_threads() begins where the last one ends. */
static inline uint32_t plan_first_user(const struct plan *plan, unsigned target,
                                       uint64_t thread)
{
    return (uint32_t)(plan->targets[target].connections * thread /
                      plan_threads(plan));
}

/* How many of a target's users before `who` make requests: --active users,
 * spread evenly. */
static inline uint64_t plan_active_before(const struct plan_target *target,
                                          uint64_t who)
{
    return who * target->active / target->connections;
}

static inline bool plan_is_active(const struct plan_target *target,
                                  uint64_t who)
{
    return plan_active_before(target, who + 1) !=
           plan_active_before(target, who);
}

#endif
