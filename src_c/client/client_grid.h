/* client_grid.h -- slices at fixed moments, for clients on several hosts.
 *
 *     |-- slice --|---------- pause ----------|-- slice --|-- pause --|
 *     begin       edge      answers    look   next begin
 *                           by here     ^ of --only-watch
 *
 * Without --pause a slice ends with its last answer, and the next one follows.
 * Clients on several hosts cannot see each other's last answers, so that they
 * agree on moments: slice k of all, rounds * targets of them, begins k times
 * (--slice + --pause) after --begin-at, or what --begin-told was told, whoever
 * is late. The order of a round follows from --order, the same for all.
 *
 *     lead-in        covers that a slice begins a little sooner on one host
 *                    than on another, as their clocks are known to microseconds
 *     first half     of the pause: answers still come in; a round in which they
 *     of the pause   take longer is to be set aside by whoever merges the rows
 *     last quarter   --only-watch has read CPU clocks at its beginning, so that
 *                    one look ends a slice and begins the next
 *
 * A client that still waits for answers when a slice begins leaves it out, and
 * goes on with the next that it can begin in time. So does one that connected
 * too late, and --only-watch when it is late by anything.
 */
#ifndef CLIENT_GRID_H
#define CLIENT_GRID_H

#include "client_plan.h"
#include "common/clock.h"

static inline uint64_t grid_rounds_in(const struct plan *plan, double seconds)
{
    uint64_t round_ns = plan->target_count * plan->slice_ns;
    return (clock_seconds_ns(seconds) + round_ns - 1) / round_ns;
}

/* Pauses count for nothing: each target has as much time as without them. */
static inline uint64_t grid_warmup_rounds(const struct plan *plan)
{
    return grid_rounds_in(plan, plan->warmup_s);
}

/* With those of the warm-up. */
static inline uint64_t grid_rounds(const struct plan *plan)
{
    return grid_warmup_rounds(plan) + grid_rounds_in(plan, plan->duration_s);
}

static inline uint64_t grid_begin_ns(const struct plan *plan,
                                     uint64_t begin_at_ns, uint64_t round,
                                     unsigned position)
{
    uint64_t number = round * plan->target_count + position;
    return begin_at_ns + number * (plan->slice_ns + plan->pause_ns);
}

/* When a slice may still be begun. */
static inline uint64_t grid_latest_ns(const struct plan *plan,
                                      uint64_t begin_at_ns, uint64_t round,
                                      unsigned position)
{
    uint64_t late_ns = plan->only_watch ? 0 : plan->lead_in_ns / 2;
    return grid_begin_ns(plan, begin_at_ns, round, position) + late_ns;
}

/* When CPU clocks are read after the slice that began at begin_ns. */
static inline uint64_t grid_look_ns(const struct plan *plan, uint64_t begin_ns)
{
    return begin_ns + plan->slice_ns + plan->pause_ns / 4 * 3;
}

/* ... and before the first slice. */
static inline uint64_t grid_first_look_ns(const struct plan *plan,
                                          uint64_t begin_at_ns)
{
    uint64_t sooner_ns = plan->pause_ns / 4;
    return begin_at_ns > sooner_ns ? begin_at_ns - sooner_ns : 0;
}

#endif
