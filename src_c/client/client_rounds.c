/* client_rounds.c -- see client_rounds.h.
 *
 *     all at rest -> read clocks, write a row -> whose turn? -> announce -> ...
 */
#include "client_rounds.h"

#include <err.h>
#include <inttypes.h>
#include <stdlib.h>

#include "client_grid.h"
#include "client_watch.h"
#include "common/clock.h"

/* How far ahead a slice is announced, so that all threads see it in time. */
static const uint64_t HEAD_START_NS = 60000;
/* A server goes to sleep after its last answer, and only then is its CPU clock
 * exact: looks at it come so long after each other, at most so many. */
static const uint64_t ASLEEP_NS = 30000;
enum { ASLEEP_LOOKS = 170, RESTLESS_LOOKS = 20, BUSY_LOOKS = 2 };
/* A client that is late by less than this part of a response time does not
 * matter: 1 / 10. */
enum { LATE_PART = 10 };

struct slice_sum {
    struct slice_part parts; /* of all threads */
    unsigned target, position;
    uint64_t number, begin_ns, from_ns, end_ns;
    int64_t server_cpu_ns, rest_cpu_ns;
    struct cores_time cores;
};

struct rounds {
    const struct plan *plan;
    struct shared *shared;
    FILE *file;                           /* of rows; or NULL */
    struct rng rng;                       /* of orders */
    unsigned order[MAX_TARGETS];          /* a ring: who was late once more */
    unsigned position, order_end;         /* in it: whose slice runs; the end */
    uint64_t number;                      /* of the round, from 0 on */
    uint64_t start_ns, round_ns;          /* the load, this round began */
    uint64_t since_ns;                    /* the warm-up began, or counting */
    bool counted;                         /* the warm-up is over */
    uint64_t made_up_ns;                  /* for late slices, so far */
    struct slice_sum slices[MAX_TARGETS]; /* of this round, */
    unsigned slice_count;                 /* so many */
    cpu_set_t cores;                      /* of client and watched */
    struct watch watches[MAX_TARGETS];
    int64_t cpu_ns[MAX_TARGETS]; /* when its last slice ended */
    int64_t begin_cpu_ns;        /* when this slice began */
    int64_t rest_cpu_ns;         /* between these two */
    struct cores_time begin_cores;
};

const char *ended_name(enum ended ended)
{
    static const char *const names[] = {"", "refused", "unconnected", "gone",
                                        "hung"};
    return names[ended];
}

/* --- opening ------------------------------------------------------------ */

static const char header[] =
    "round,counted,late,position,target,begin_ns,lead_in_requests,seconds,"
    "requests,bytes,response_ns,slice_seconds,server_cpu_ns,rest_cpu_ns,"
    "client_cpu_ns,probed,waiting,busy_ns,steal_ns,lag_p99_ns,"
    "response_p99_ns,errors,ended\n";

void rounds_write_header(FILE *file)
{
    fputs(header, file);
}

static void open_watch(struct rounds *r, unsigned i)
{
    const struct plan_target *target = &r->plan->targets[i];
    if (!watch_make(&r->watches[i], target->watched, target->watched_count))
        err(1, "realloc");
    for (unsigned j = 0; j < target->watched_count; j++)
        cores_add(&r->cores, target->watched[j]);
    r->cpu_ns[i] = watch_cpu_ns(&r->watches[i]);
}

struct rounds *rounds_open(const struct plan *plan, struct shared *shared)
{
    struct rounds *r = calloc(1, sizeof *r);
    if (!r)
        err(1, "calloc");
    r->plan = plan;
    r->shared = shared;
    r->file = shared->slices_file;
    r->rng = rng_make(plan->order_seed, 0x726f756e6473);
    r->start_ns = plan_is_fixed(plan) ? shared->begin_at_ns : shared->start_ns;
    r->since_ns = clock_now_ns();     /* --settle is over, and is no warm-up */
    r->position = plan->target_count; /* no round is under way */
    cores_add(&r->cores, 0);
    for (unsigned i = 0; i < plan->target_count; i++)
        open_watch(r, i);
    if (r->file)
        rounds_write_header(r->file);
    return r;
}

/* --- who is left -------------------------------------------------------- */

/* Why nobody is left: a server that died, one that was never there, or one that
 * could not be connected to for another reason, descriptors for one. */
static enum ended why_nobody(const struct rounds *r, unsigned target)
{
    enum ended why = ENDED_UNCONNECTED;
    for (uint64_t i = 0; i < r->plan->targets[target].connections; i++) {
        const struct row *row = shared_row(r->shared, r->plan, target, i);
        if (row->established)
            return ENDED_GONE;
        if (row->error == FAIL_CONNECT_REFUSED)
            why = ENDED_REFUSED;
    }
    return why;
}

static void end_target(struct rounds *r, unsigned target, enum ended why)
{
    struct target_sums *sums = &r->shared->sums[target];
    sums->ended = why;
    sums->ended_round = r->number;
}

/* A target without users has no more turns. */
static void see_who_is_left(struct rounds *r)
{
    for (unsigned i = 0; i < r->plan->target_count; i++)
        if (r->shared->sums[i].ended == ENDED_NOT &&
            atomic_load(&r->shared->sums[i].live) == 0)
            end_target(r, i, why_nobody(r, i));
}

static bool is_any_left(const struct rounds *r)
{
    for (unsigned i = 0; i < r->plan->target_count; i++)
        if (r->shared->sums[i].ended == ENDED_NOT)
            return true;
    return false;
}

/* --- what a round was ---------------------------------------------------- */

/* The client itself, or whoever had its core, made requests leave late. */
static bool is_late_slice(const struct plan *plan, const struct slice_part *p)
{
    return plan->late_ns && p->lag_p99_ns > plan->late_ns &&
           p->lag_p99_ns > p->response_p99_ns / LATE_PART;
}

static bool is_late_round(const struct rounds *r)
{
    bool late = false;
    for (unsigned i = 0; i < r->slice_count; i++) {
        const struct slice_sum *sum = &r->slices[i];
        if (r->shared->sums[sum->target].ended != ENDED_NOT)
            return false;
        late |= is_late_slice(r->plan, &sum->parts);
    }
    return late;
}

/* Totals are sums of the rows that count; those of the warm-up and of late
 * rounds are kept apart, and threads forget what they counted in these. */
static void add_to_sums(struct rounds *r, const struct slice_sum *sum,
                        bool late)
{
    struct target_sums *sums = &r->shared->sums[sum->target];
    uint64_t whole_ns = sum->end_ns - sum->begin_ns;
    sums->all_slices_ns += whole_ns;
    if (!r->counted) {
        sums->warmup_slices++;
        sums->warmup_ns += whole_ns;
        return;
    }
    if (late) {
        sums->late_slices++;
        sums->late_slice = sum->number;
        return;
    }
    sums->slices++;
    sums->seconds_ns += sum->end_ns - sum->from_ns;
    sums->slices_ns += whole_ns;
    sums->lead_in_requests += sum->parts.lead_in_requests;
    sums->requests += sum->parts.requests;
    sums->response_ns += sum->parts.response_ns;
    sums->client_cpu_ns += sum->parts.cpu_ns;
    sums->server_cpu_ns += sum->server_cpu_ns;
    sums->rest_cpu_ns += sum->rest_cpu_ns;
}

/* A column that is empty where nothing was looked at. */
static void print_ns(FILE *file, bool seen, int64_t ns)
{
    if (seen)
        fprintf(file, ",%" PRId64, ns);
    else
        fputc(',', file);
}

static void print_row(struct rounds *r, const struct slice_sum *sum, bool late)
{
    const struct slice_part *parts = &sum->parts;
    bool watched = r->plan->targets[sum->target].watched_count > 0;
    fprintf(r->file,
            "%" PRIu64 ",%d,%d,%u,%u,%" PRIu64 ",%" PRIu64 ",%.9f"
            ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.9f",
            r->number, r->counted && !late, late, sum->position, sum->target,
            sum->begin_ns - r->start_ns, parts->lead_in_requests,
            (double)(sum->end_ns - sum->from_ns) / NS_PER_S, parts->requests,
            parts->bytes, parts->response_ns,
            (double)(sum->end_ns - sum->begin_ns) / NS_PER_S);
    print_ns(r->file, watched, sum->server_cpu_ns);
    print_ns(r->file, watched, sum->rest_cpu_ns);
    fprintf(r->file,
            ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64 ",%" PRId64,
            parts->cpu_ns, parts->probed, parts->waiting, sum->cores.busy_ns,
            sum->cores.steal_ns);
    bool timed = r->plan->late_ns && r->counted;
    print_ns(r->file, timed, (int64_t)parts->lag_p99_ns);
    print_ns(r->file, timed && parts->response_p99_ns > 0,
             (int64_t)parts->response_p99_ns);
    fprintf(r->file, ",%" PRIu64 ",%s\n", parts->errors,
            ended_name(r->shared->sums[sum->target].ended));
}

/* All slices of the round are over: whether they count is known. */
static void settle_slices(struct rounds *r, bool late)
{
    for (unsigned i = 0; i < r->slice_count; i++) {
        add_to_sums(r, &r->slices[i], late);
        if (r->file)
            print_row(r, &r->slices[i], late);
    }
    r->slice_count = 0;
    if (r->file) /* a round's rows appear together */
        fflush(r->file);
}

void rounds_close(struct rounds *r)
{
    settle_slices(r, false); /* of a round that a loss cut short */
    for (unsigned i = 0; i < r->plan->target_count; i++)
        watch_free(&r->watches[i]);
    free(r);
}

/* --- whose turn it is --------------------------------------------------- */

/* Every order is equally likely (Fisher and Yates), whoever is left. */
static void shuffle(struct rounds *r)
{
    unsigned count = r->plan->target_count;
    r->position = 0;
    r->order_end = count;
    for (unsigned i = 0; i < count; i++)
        r->order[i] = i;
    for (unsigned i = count; i > 1; i--) {
        unsigned j = (unsigned)rng_below(&r->rng, i), last = r->order[i - 1];
        r->order[i - 1] = r->order[j];
        r->order[j] = last;
    }
}

/* Time to repeat its late slices is over, or slices have fixed moments. A
 * client that repeats and is never on time has a late round that says so; one
 * of several on their hosts has none, as others' rounds may be whole. */
static bool is_set_aside(const struct rounds *r)
{
    return r->counted && (plan_is_fixed(r->plan) || r->shared->rounds > 0) &&
           is_late_round(r);
}

static void end_round(struct rounds *r, uint64_t now_ns)
{
    if (r->round_ns == 0) /* none has begun */
        return;
    uint64_t took_ns = now_ns - r->round_ns;
    bool late = is_set_aside(r), missed = r->slice_count == 0;
    settle_slices(r, late);
    if (late)
        r->shared->late_rounds++;
    else if (r->counted)
        r->shared->rounds_ns += took_ns;
    if (!late && !missed)
        *(r->counted ? &r->shared->rounds : &r->shared->warmup_rounds) += 1;
    r->number++;
}

static bool is_warm(const struct rounds *r, uint64_t now_ns)
{
    if (plan_is_fixed(r->plan))
        return r->number >= grid_warmup_rounds(r->plan);
    return now_ns >= r->since_ns + clock_seconds_ns(r->plan->warmup_s);
}

/* Counting begins with a whole round, after as many as the warm-up needs. */
static void begin_round(struct rounds *r, uint64_t now_ns)
{
    if (!r->counted && is_warm(r, now_ns)) {
        r->counted = true;
        r->since_ns = now_ns;
    }
    r->round_ns = now_ns;
    shuffle(r);
}

/* --response-times were counted of each target that is left. */
static bool is_enough(const struct rounds *r)
{
    double wanted = r->plan->response_times;
    for (unsigned i = 0; wanted > 0 && i < r->plan->target_count; i++) {
        const struct target_sums *sums = &r->shared->sums[i];
        double seconds_ns = (double)sums->seconds_ns;
        double mean_ns = (double)sums->response_ns / (double)sums->requests;
        if (sums->ended == ENDED_NOT &&
            (!sums->requests || seconds_ns < wanted * mean_ns))
            return false;
    }
    return true;
}

/* Rounds are whole, so the last one may end a little later. */
static bool is_over(const struct rounds *r, uint64_t now_ns)
{
    const struct plan *plan = r->plan;
    if (plan_is_fixed(plan))
        return r->number >= grid_rounds(plan);
    uint64_t least = r->since_ns + clock_seconds_ns(plan->duration_s);
    uint64_t most = r->since_ns + clock_seconds_ns(plan->duration_max_s);
    if (!r->counted || now_ns < least)
        return false;
    return now_ns >= most || is_enough(r);
}

/* The moments of this slice are over before it was begun: it is left out. */
static bool is_missed(const struct rounds *r, uint64_t now_ns)
{
    return plan_is_fixed(r->plan) &&
           now_ns >
               grid_latest_ns(r->plan, r->start_ns, r->number, r->position);
}

static unsigned whose_turn(const struct rounds *r)
{
    return r->order[r->position % MAX_TARGETS];
}

/* The next target in the order that is left; false: the round is complete. */
static bool find_next(struct rounds *r, uint64_t now_ns)
{
    while (r->position < r->order_end &&
           (r->shared->sums[whose_turn(r)].ended != ENDED_NOT ||
            is_missed(r, now_ns)))
        r->position++;
    return r->position < r->order_end;
}

/* Clocks are read last, and drained is reset before the number makes the slice
 * known: the threads look at nothing but the number until then. */
static void announce(struct rounds *r)
{
    struct slice *slice = &r->shared->slice;
    slice->target = whose_turn(r);
    slice->counted = r->counted;
    r->begin_cores = cores_read(&r->cores);
    r->begin_cpu_ns = watch_cpu_ns(&r->watches[slice->target]);
    r->rest_cpu_ns = r->begin_cpu_ns - r->cpu_ns[slice->target];
    atomic_store(&slice->drained, 0);
    slice->begin_ns =
        plan_is_fixed(r->plan)
            ? grid_begin_ns(r->plan, r->start_ns, r->number, r->position)
            : clock_now_ns() + (r->shared->threads > 1 ? HEAD_START_NS : 0);
    atomic_fetch_add(&slice->number, 1);
}

static void announce_end(struct rounds *r, enum stop_reason why)
{
    r->shared->slice.stop = why;
    atomic_fetch_add(&r->shared->slice.number, 1);
}

/* --- what a slice was --------------------------------------------------- */

static void add_parts(const struct shared *shared, struct slice_part *sum)
{
    for (unsigned i = 0; i < shared->threads; i++) {
        const struct slice_part *part = &shared->parts[i];
        sum->lead_in_requests += part->lead_in_requests;
        sum->requests += part->requests;
        sum->bytes += part->bytes;
        sum->response_ns += part->response_ns;
        sum->errors += part->errors;
        sum->probed += part->probed;
        sum->waiting += part->waiting;
        sum->cpu_ns += part->cpu_ns;
        sum->given_up |= part->given_up;
        raise_to(&sum->last_answer_ns, part->last_answer_ns);
        raise_to(&sum->lag_p99_ns, part->lag_p99_ns);
        raise_to(&sum->response_p99_ns, part->response_p99_ns);
    }
}

/* The first waits are busy: a thread that sleeps for 30 us may get its core
 * back much later. Longer ones give way to a server that shares the core. */
static void wait_for_sleep(int look)
{
    struct timespec nap = clock_timespec(ASLEEP_NS);
    uint64_t until = clock_now_ns() + ASLEEP_NS;
    if (look >= BUSY_LOOKS)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    while (look < BUSY_LOOKS && clock_now_ns() < until)
        ;
}

/* Until the server sleeps and two looks see the same: a clock that stands still
 * may only be late. A look through 10 000 sockets takes longer than
 * RESTLESS_LOOKS; one that waits busily is never seen asleep, and gets no more
 * than these from its second slice on. */
static int64_t read_asleep_cpu_ns(struct watch *watch)
{
    int64_t cpu_ns = 0, before_ns = -1;
    int looks = watch->restless ? RESTLESS_LOOKS : ASLEEP_LOOKS;
    watch->restless = watch->count > 0;
    for (int i = 0; watch->restless && i < looks; i++) {
        wait_for_sleep(i);
        cpu_ns = watch_cpu_ns(watch);
        watch->restless = cpu_ns != before_ns || watch->running;
        before_ns = cpu_ns;
    }
    return cpu_ns;
}

/* Counting begins behind the lead-in. The answer under way then counts whole,
 * and the rate of a lone user was 1.7 % too high for it (slices of 2 ms): one
 * who asks with each answer is counted for as long as its answers took. One who
 * failed meanwhile has paused. */
static uint64_t counting_from_ns(const struct rounds *r,
                                 const struct slice_sum *sum)
{
    const struct plan *plan = r->plan;
    const struct slice_part *parts = &sum->parts;
    bool lone = plan->targets[sum->target].active == 1 && plan->rate == 0 &&
                plan->think.mean_ns == 0 && plan->byte_rate == 0 &&
                parts->errors == 0;
    if (lone && parts->requests > 0 && sum->end_ns == parts->last_answer_ns)
        return clock_later(sum->end_ns - parts->response_ns, sum->begin_ns);
    return clock_earlier(sum->begin_ns + plan->lead_in_ns, sum->end_ns);
}

/* A slice ends with its last answer, but not before its edge, unless all users
 * were gone by then. */
static struct slice_sum sum_up(struct rounds *r, uint64_t now_ns)
{
    const struct slice *slice = &r->shared->slice;
    struct slice_sum sum = {.target = slice->target,
                            .position = r->position,
                            .number = atomic_load(&slice->number),
                            .begin_ns = slice->begin_ns,
                            .rest_cpu_ns = r->rest_cpu_ns};
    uint64_t edge_ns = slice->begin_ns + r->plan->slice_ns;
    add_parts(r->shared, &sum.parts);
    sum.end_ns =
        clock_later(clock_earlier(edge_ns, now_ns), sum.parts.last_answer_ns);
    sum.from_ns = counting_from_ns(r, &sum);
    r->cpu_ns[slice->target] = read_asleep_cpu_ns(&r->watches[slice->target]);
    sum.server_cpu_ns = r->cpu_ns[slice->target] - r->begin_cpu_ns;
    sum.cores = cores_read(&r->cores);
    sum.cores.busy_ns -= r->begin_cores.busy_ns;
    sum.cores.steal_ns -= r->begin_cores.steal_ns;
    return sum;
}

/* This time is neither warm-up nor measured. */
static void leave_out(struct rounds *r, uint64_t ns)
{
    r->since_ns += ns;
    r->round_ns += ns;
}

static bool may_make_up(const struct rounds *r, uint64_t took_ns)
{
    return !plan_is_fixed(r->plan) &&
           r->made_up_ns + took_ns <= clock_seconds_ns(r->plan->duration_s);
}

static bool is_to_be_repeated(const struct rounds *r,
                              const struct slice_sum *sum, uint64_t took_ns)
{
    return r->counted && r->shared->sums[sum->target].ended == ENDED_NOT &&
           is_late_slice(r->plan, &sum->parts) && may_make_up(r, took_ns);
}

/* Its threads forget it, and its target has another turn after all others. */
static void repeat_later(struct rounds *r, const struct slice_sum *sum,
                         uint64_t took_ns)
{
    r->shared->repeated++;
    r->order[r->order_end++ % MAX_TARGETS] = sum->target;
    r->made_up_ns += took_ns;
    leave_out(r, took_ns);
    add_to_sums(r, sum, true);
    if (r->file)
        print_row(r, sum, true);
}

/* All are at rest. The time for which a target was waited for that had hung is
 * left out. */
static void end_slice(struct rounds *r)
{
    uint64_t now = clock_now_ns();
    struct slice_sum sum = sum_up(r, now);
    uint64_t took_ns = now - sum.begin_ns;
    if (sum.parts.given_up) {
        end_target(r, sum.target, ENDED_HUNG);
        leave_out(r, now - sum.end_ns);
    }
    see_who_is_left(r);
    if (is_to_be_repeated(r, &sum, took_ns))
        repeat_later(r, &sum, took_ns);
    else
        r->slices[r->slice_count++] = sum;
    r->position++;
}

/* --- from one to the next ----------------------------------------------- */

/* Goes on to the next slice that is to be; else says why there is none. */
static enum stop_reason find_slice(struct rounds *r, uint64_t now_ns)
{
    while (!find_next(r, now_ns)) {
        end_round(r, now_ns);
        if (!is_any_left(r))
            return STOP_SERVER_GONE;
        if (is_over(r, now_ns))
            return STOP_DURATION;
        begin_round(r, now_ns);
    }
    return STOP_NONE;
}

/* A signal ends the round behind a slice; where nobody asks, also a slice and
 * the pauses around it: what was not seen to its end is left out. Whether the
 * round was late is known before threads are told, who forget it then. */
void rounds_go_on(struct rounds *r)
{
    const struct slice *slice = &r->shared->slice;
    uint64_t least_ns = r->plan->only_watch
                            ? grid_look_ns(r->plan, slice->begin_ns)
                            : slice->begin_ns;
    if (atomic_load(&slice->number) > 0 && clock_now_ns() >= least_ns)
        end_slice(r);
    uint64_t now = clock_now_ns();
    see_who_is_left(r);
    enum stop_reason why = find_slice(r, now);
    if (atomic_load(&r->shared->interrupted)) {
        why = STOP_INTERRUPTED;
        settle_slices(r, is_set_aside(r));
    }
    if (why == STOP_NONE)
        announce(r);
    else
        announce_end(r, why);
}

/* --- without asking ----------------------------------------------------- */

static void sleep_until(const struct shared *shared, uint64_t at_ns)
{
    struct timespec at = clock_timespec(at_ns);
    while (!atomic_load(&shared->interrupted) && clock_now_ns() < at_ns)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void sleep_until_told(struct shared *shared)
{
    shared_ready(shared, shared->threads);
    while (!atomic_load(&shared->interrupted) &&
           !atomic_load(&shared->begin_at_ns))
        sleep_until(shared, clock_now_ns() + NS_PER_MS);
}

/* One look in a pause ends a slice and begins the next: all targets rest. */
void rounds_only_watch(const struct plan *plan, struct shared *shared)
{
    const struct slice *slice = &shared->slice;
    uint64_t spent_ns = clock_thread_cpu_ns();
    for (unsigned i = 0; i < plan->target_count; i++)
        atomic_store(&shared->sums[i].live, 1);
    shared->records[0].engine = "none";
    shared->records[0].end = STOP_DURATION;
    sleep_until_told(shared);
    sleep_until(shared, grid_first_look_ns(plan, shared->begin_at_ns));
    struct rounds *r = rounds_open(plan, shared);
    rounds_go_on(r);
    while (slice->stop == STOP_NONE) {
        sleep_until(shared, grid_look_ns(plan, slice->begin_ns));
        uint64_t now_ns = clock_thread_cpu_ns();
        shared->parts[0].cpu_ns = now_ns - spent_ns;
        spent_ns = now_ns;
        rounds_go_on(r);
    }
    shared->records[0].end = (int)slice->stop;
    rounds_close(r);
}
