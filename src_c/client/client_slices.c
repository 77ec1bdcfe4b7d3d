/* client_slices.c -- see client_slices.h. */
#include "client_slices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "client_thread.h"
#include "client_watch.h"
#include "common/clock.h"

/* How far ahead a slice is announced, so that all threads see it in time. */
static const uint64_t HEAD_START_NS = 60000;
/* A server goes to sleep after its last answer, and only then is its CPU clock
 * exact: so long after it, and until two looks see the same. */
static const uint64_t ASLEEP_NS = 30000;
enum { ASLEEP_LOOKS = 4 };
static const uint64_t LOST_NS = 2 * NS_PER_S;    /* a thread that never rests */

struct turn_keeper {                       /* the first thread's */
    FILE *file;
    struct cores *cores;
    struct rng rng;
    unsigned order[MAX_TARGETS];
    unsigned position;                     /* of the slice that runs */
    uint64_t round, start_ns;
    uint64_t counted_ns, round_ns;         /* counting, this round, began */
    bool counted;
    struct watch watches[MAX_TARGETS];
    int64_t cpu_ns[MAX_TARGETS];           /* when its last slice ended */
    int64_t begin_cpu_ns, rest_cpu_ns;
    struct cores_time begin_cores;
};

static struct turn_keeper keeper;

const char *ended_name(enum ended ended)
{
    static const char *const names[] = {"", "refused", "gone", "hung"};
    return names[ended];
}

static _Noreturn void out_of_memory(void)
{
    fprintf(stderr, "client: calloc: %s\n", strerror(errno));
    exit(1);
}

/* --- whose turn it is --------------------------------------------------- */

static const char header[] =
    "round,counted,position,target,begin_ns,lead_in_requests,seconds,requests,"
    "bytes,slice_seconds,server_cpu_ns,rest_cpu_ns,client_cpu_ns,probed,"
    "waiting,busy_ns,steal_ns,errors,ended\n";

void slices_open(const struct client_thread *t, FILE *file)
{
    const struct plan *plan = t->plan;
    keeper = (struct turn_keeper){
        .file = file, .rng = rng_make(plan->seed, 0x726f756e6473),
        .start_ns = t->shared->start_ns, .cores = cores_make(),
        .position = plan->target_count};
    if (!keeper.cores)
        out_of_memory();
    for (unsigned i = 0; i < plan->target_count; i++) {
        const struct plan_target *target = &plan->targets[i];
        if (!watch_make(&keeper.watches[i], target->watched,
                        target->watched_count))
            out_of_memory();
        for (unsigned j = 0; j < target->watched_count; j++)
            cores_add(keeper.cores, target->watched[j]);
        keeper.cpu_ns[i] = watch_cpu_ns(&keeper.watches[i]);
        keeper.order[i] = i;
    }
    if (file)
        fputs(header, file);
}

/* Every order is equally likely (Fisher and Yates). */
static void shuffle(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        keeper.order[i] = i;
    for (unsigned i = count; i > 1; i--) {
        unsigned j = (unsigned)rng_below(&keeper.rng, i), last;
        last = keeper.order[i - 1];
        keeper.order[i - 1] = keeper.order[j];
        keeper.order[j] = last;
    }
}

static void flush_rows(void)
{
    if (keeper.file)
        fflush(keeper.file);
}

static bool is_over(const struct client_thread *t, uint64_t now_ns)
{
    return keeper.counted
           && now_ns >= keeper.counted_ns
                            + clock_seconds_ns(t->plan->duration_s);
}

static void count_round(struct shared *shared, uint64_t now_ns)
{
    if (keeper.counted)
        shared->rounds_ns += now_ns - keeper.round_ns;
    *(keeper.counted ? &shared->rounds : &shared->warmup_rounds) += 1;
    keeper.round++;
}

static void begin_round(const struct client_thread *t, uint64_t now_ns)
{
    const struct plan *plan = t->plan;
    uint64_t warmup_ns = clock_seconds_ns(plan->warmup_s);
    if (!keeper.counted && now_ns >= keeper.start_ns + warmup_ns) {
        keeper.counted = true;
        keeper.counted_ns = now_ns;
    }
    keeper.round_ns = now_ns;
    keeper.position = 0;
    shuffle(plan->target_count);
}

static bool was_established(const struct client_thread *t, unsigned target)
{
    for (uint64_t i = 0; i < t->plan->connections; i++)
        if (shared_row(t->shared, t->plan, target, i)->established)
            return true;
    return false;
}

/* A target without users has no more turns. */
static void see_who_is_left(const struct client_thread *t)
{
    for (unsigned i = 0; i < t->plan->target_count; i++) {
        struct turns *turns = &t->shared->turns[i];
        if (turns->ended != ENDED_NOT || atomic_load(&turns->live) > 0)
            continue;
        turns->ended = was_established(t, i) ? ENDED_GONE : ENDED_REFUSED;
        turns->ended_round = keeper.round;
    }
}

static bool is_any_left(const struct client_thread *t)
{
    for (unsigned i = 0; i < t->plan->target_count; i++)
        if (t->shared->turns[i].ended == ENDED_NOT)
            return true;
    return false;
}

/* The next target in the order that is left; false: the round is complete. */
static bool find_next(const struct client_thread *t)
{
    unsigned count = t->plan->target_count;
    while (keeper.position < count
           && t->shared->turns[keeper.order[keeper.position]].ended)
        keeper.position++;
    return keeper.position < count;
}

static void announce(struct client_thread *t)
{
    struct slice *slice = &t->shared->slice;
    slice->target = keeper.order[keeper.position];
    slice->counted = keeper.counted;
    keeper.begin_cores = cores_read(keeper.cores);
    keeper.begin_cpu_ns = watch_cpu_ns(&keeper.watches[slice->target]);
    keeper.rest_cpu_ns = keeper.begin_cpu_ns - keeper.cpu_ns[slice->target];
    atomic_store(&slice->drained, 0);
    slice->begin_ns = clock_now_ns()
                      + (plan_threads(t->plan) > 1 ? HEAD_START_NS : 0);
    atomic_fetch_add(&slice->number, 1);
}

static void announce_end(struct client_thread *t, enum stop_reason why)
{
    t->shared->slice.stop = why;
    atomic_fetch_add(&t->shared->slice.number, 1);
    flush_rows();
}

static void go_on(struct client_thread *t, uint64_t now_ns)
{
    see_who_is_left(t);
    if (atomic_load(&t->shared->interrupted)) {
        announce_end(t, STOP_INTERRUPTED);
        return;
    }
    if (!is_any_left(t)) {
        announce_end(t, STOP_SERVER_GONE);
        return;
    }
    if (!find_next(t)) {
        if (keeper.round_ns)
            count_round(t->shared, now_ns);
        flush_rows();
        if (is_over(t, now_ns)) {
            announce_end(t, STOP_DURATION);
            return;
        }
        begin_round(t, now_ns);
        find_next(t);
    }
    announce(t);
}

/* --- what a slice was --------------------------------------------------- */

struct slice_sum {
    struct slice_part parts;               /* of all threads */
    uint64_t begin_ns, from_ns, end_ns;
    int64_t server_cpu_ns;
    struct cores_time cores;
};

static void add_parts(const struct client_thread *t, struct slice_part *sum)
{
    for (unsigned i = 0; i < t->shared->threads; i++) {
        const struct slice_part *part = &t->shared->parts[i];
        sum->lead_in_requests += part->lead_in_requests;
        sum->requests += part->requests;
        sum->bytes += part->bytes;
        sum->errors += part->errors;
        sum->probed += part->probed;
        sum->waiting += part->waiting;
        sum->cpu_ns += part->cpu_ns;
        sum->given_up |= part->given_up;
        if (part->last_answer_ns > sum->last_answer_ns)
            sum->last_answer_ns = part->last_answer_ns;
    }
}

/* A clock that is being brought up to date goes on between two looks. */
static int64_t read_asleep_cpu_ns(struct watch *watch)
{
    struct timespec nap = clock_timespec(ASLEEP_NS);
    int64_t cpu_ns = 0, before_ns = -1;
    for (int i = 0; watch->count && i < ASLEEP_LOOKS; i++) {
        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        cpu_ns = watch_cpu_ns(watch);
        if (cpu_ns == before_ns)
            break;
        before_ns = cpu_ns;
    }
    return cpu_ns;
}

static uint64_t latest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Until the edge, or the last answer; one that has no users left ended then. */
static uint64_t slice_end_ns(const struct client_thread *t,
                             const struct slice_sum *sum, uint64_t now_ns)
{
    uint64_t edge = sum->begin_ns + t->plan->slice_ns;
    return latest(edge < now_ns ? edge : now_ns, sum->parts.last_answer_ns);
}

static struct slice_sum sum_up(struct client_thread *t, uint64_t now_ns)
{
    const struct slice *slice = &t->shared->slice;
    struct slice_sum sum = {.begin_ns = slice->begin_ns};
    struct watch *watch = &keeper.watches[slice->target];
    add_parts(t, &sum.parts);
    sum.from_ns = sum.begin_ns + t->plan->lead_in_ns;
    sum.end_ns = slice_end_ns(t, &sum, now_ns);
    if (sum.from_ns > sum.end_ns)
        sum.from_ns = sum.end_ns;
    keeper.cpu_ns[slice->target] = read_asleep_cpu_ns(watch);
    sum.server_cpu_ns = keeper.cpu_ns[slice->target] - keeper.begin_cpu_ns;
    sum.cores = cores_read(keeper.cores);
    sum.cores.busy_ns -= keeper.begin_cores.busy_ns;
    sum.cores.steal_ns -= keeper.begin_cores.steal_ns;
    return sum;
}

static void add_to_turns(struct turns *turns, const struct slice_sum *sum)
{
    uint64_t whole_ns = sum->end_ns - sum->begin_ns;
    turns->all_slices_ns += whole_ns;
    if (!keeper.counted) {
        turns->warmup_slices++;
        turns->warmup_ns += whole_ns;
        return;
    }
    turns->slices++;
    turns->seconds_ns += sum->end_ns - sum->from_ns;
    turns->slices_ns += whole_ns;
    turns->lead_in_requests += sum->parts.lead_in_requests;
    turns->requests += sum->parts.requests;
    turns->client_cpu_ns += sum->parts.cpu_ns;
    turns->server_cpu_ns += sum->server_cpu_ns;
    turns->server_rest_cpu_ns += keeper.rest_cpu_ns;
}

static void print_cpu(bool watched, int64_t ns)
{
    if (watched)
        fprintf(keeper.file, ",%" PRId64, ns);
    else
        fputc(',', keeper.file);
}

static void print_row(const struct client_thread *t,
                      const struct slice_sum *sum)
{
    const struct slice_part *parts = &sum->parts;
    unsigned target = t->shared->slice.target;
    bool watched = t->plan->targets[target].watched_count > 0;
    fprintf(keeper.file, "%" PRIu64 ",%d,%u,%u,%" PRIu64 ",%" PRIu64 ",%.9f"
            ",%" PRIu64 ",%" PRIu64 ",%.9f", keeper.round, keeper.counted,
            keeper.position, target, sum->begin_ns - keeper.start_ns,
            parts->lead_in_requests,
            (double)(sum->end_ns - sum->from_ns) / NS_PER_S, parts->requests,
            parts->bytes, (double)(sum->end_ns - sum->begin_ns) / NS_PER_S);
    print_cpu(watched, sum->server_cpu_ns);
    print_cpu(watched, keeper.rest_cpu_ns);
    fprintf(keeper.file, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64
            ",%" PRId64 ",%" PRIu64 ",%s\n", parts->cpu_ns, parts->probed,
            parts->waiting, sum->cores.busy_ns, sum->cores.steal_ns,
            parts->errors, ended_name(t->shared->turns[target].ended));
}

static void finish_slice(struct client_thread *t, uint64_t now_ns)
{
    struct turns *turns = &t->shared->turns[t->shared->slice.target];
    struct slice_sum sum = sum_up(t, now_ns);
    add_to_turns(turns, &sum);
    if (sum.parts.given_up) {
        turns->ended = ENDED_HUNG;
        turns->ended_round = keeper.round;
    }
    see_who_is_left(t);
    if (keeper.file)
        print_row(t, &sum);
    keeper.position++;
}

void slices_close(void)
{
    flush_rows();
    free(keeper.cores);
    for (unsigned i = 0; i < MAX_TARGETS; i++)
        free(keeper.watches[i].processes);
}

/* --- every thread ------------------------------------------------------- */

static uint64_t count_failures(const struct record *r)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < FAIL_KINDS; i++)
        sum += r->failures[i];
    return sum;
}

/* What the thread's counters say now. */
static struct slice_part take_part(const struct client_thread *t)
{
    const struct record *r = t->current->record;
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (struct slice_part){
        .lead_in_requests = r->completed - r->window_requests,
        .requests = r->window_requests, .bytes = r->window_bytes,
        .errors = count_failures(r), .probed = r->probed,
        .waiting = r->probed_waiting, .cpu_ns = clock_thread_cpu_ns(),
        .user_ns = clock_timeval_ns(usage.ru_utime),
        .system_ns = clock_timeval_ns(usage.ru_stime)};
}

static void join(struct client_thread *t)
{
    const struct plan *plan = t->plan;
    const struct slice *slice = &t->shared->slice;
    struct thread_target *target = &t->targets[slice->target];
    struct record *r = target->record;
    t->current = target;
    t->slice_state = SLICE_ASKING;
    if (slice->counted && !target->counted)
        record_begin_window(r, t->users[target->first].row, target->count);
    target->counted = slice->counted;
    target->shift_ns = slice->begin_ns - target->slices * plan->slice_ns;
    target->arrivals.start_ns = target->shift_ns;
    target->slices++;
    target->edge_ns = slice->begin_ns + plan->slice_ns;
    if (plan->think.mean_ns == 0)
        target->next_start = 0;
    r->from_ns = slice->begin_ns + plan->lead_in_ns;
    r->to_ns = UINT64_MAX;
    t->scanned_ns = slice->begin_ns;
    t->before = take_part(t);
}

static bool is_at_rest(const struct client_thread *t)
{
    return t->current->in_flight == 0 && t->connecting == 0;
}

/* The part of this thread is over, and the slice when all have said so. */
static void leave(struct client_thread *t)
{
    struct record *r = t->current->record;
    struct slice_part *part = &t->shared->parts[t->number], now;
    thread_measure(t, false);
    r->from_ns = UINT64_MAX;
    now = take_part(t);
    r->cpu_user_ns += now.user_ns - t->before.user_ns;
    r->cpu_system_ns += now.system_ns - t->before.system_ns;
    *part = (struct slice_part){
        .lead_in_requests = now.lead_in_requests - t->before.lead_in_requests,
        .requests = now.requests - t->before.requests,
        .bytes = now.bytes - t->before.bytes,
        .errors = now.errors - t->current->failures,
        .probed = now.probed - t->before.probed,
        .waiting = now.waiting - t->before.waiting,
        .cpu_ns = now.cpu_ns - t->before.cpu_ns,
        .last_answer_ns = r->last_answer_ns,
        .given_up = t->current->given_up};
    t->current->failures = now.errors;
    t->current->edge_ns = 0;
    t->slice_state = SLICE_REST;
    atomic_fetch_add(&t->shared->slice.drained, 1);
}

static void ask_or_drain(struct client_thread *t, uint64_t now_ns)
{
    struct thread_target *target = t->current;
    uint64_t edge = t->shared->slice.begin_ns
                    + t->plan->slice_ns;
    uint64_t patience = clock_seconds_ns(t->plan->drain_s);
    if (now_ns >= target->record->from_ns)
        thread_measure(t, true);
    if (now_ns < edge && target->live_count > 0)
        return;
    if (!thread_has_arrivals(t))
        t->slice_state = SLICE_DRAINING;
    if (now_ns >= edge + patience && !is_at_rest(t))
        thread_give_up(t, target);
    if (t->slice_state == SLICE_DRAINING && is_at_rest(t))
        leave(t);
    else if (target->live_count == 0 && is_at_rest(t))
        leave(t);
}

/* A thread that died rests for ever. */
static void check_lost(struct client_thread *t, uint64_t now_ns)
{
    uint64_t most = t->plan->slice_ns + LOST_NS
                    + clock_seconds_ns(t->plan->drain_s);
    if (now_ns > t->shared->slice.begin_ns + most)
        atomic_store(&t->shared->interrupted, INTERRUPT_NOW);
}

static void keep_turns(struct client_thread *t, uint64_t now_ns)
{
    struct shared *shared = t->shared;
    if (t->slice > 0 && atomic_load(&shared->slice.drained) < shared->threads) {
        check_lost(t, now_ns);
        return;
    }
    if (t->slice > 0)
        finish_slice(t, now_ns);
    else
        slices_open(t, shared->slices_file);
    go_on(t, clock_now_ns());
}

void thread_take_turns(struct client_thread *t, uint64_t now_ns)
{
    struct slice *slice = &t->shared->slice;
    if (t->slice_state != SLICE_REST)
        ask_or_drain(t, now_ns);
    if (t->slice_state != SLICE_REST)
        return;
    if (t->number == 0 && atomic_load(&slice->number) == t->slice)
        keep_turns(t, now_ns);
    if (atomic_load(&slice->number) == t->slice)
        return;
    if (slice->stop != STOP_NONE) {
        thread_end(t, slice->stop);
        if (t->number == 0)
            slices_close();
    } else if (clock_now_ns() >= slice->begin_ns) {
        t->slice = atomic_load(&slice->number);
        join(t);
    }
}
