/* client_report.c -- see client_report.h.
 *
 *     rows    -> count_rows: census of connections, fairness
 *     records -> merge: sums over threads, histograms added slot by slot
 *             -> JSON on standard output, CSV files where a flag names one
 *
 * Called by client.c when all threads have ended: nothing changes any more and
 * nothing is locked. CSV files are opened before the load (report_open), so a
 * path that cannot be written is told at once and not after an hour.
 *
 * What has no value is null: a quantile beyond the share of requests that were
 * answered, a rate that was not asked for. Of no values (n 0) all times are 0.
 */
#include "client_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "client_rounds.h"
#include "common/clock.h"
#include "common/json_text.h"

enum { SLICES_BYTES = 1 << 16 }; /* of a round's rows, and more */

/* --- what is derived from rows and records ------------------------------ */

struct census { /* connections, counted from rows */
    uint64_t attempted, established, surviving;
    uint64_t refused;        /* of those never established */
    double sum, sum_squares; /* of requests per active user */
    uint64_t users, least, most, longest_wait_ns;
};

static struct census count_rows(const struct plan *plan,
                                const struct shared *shared, unsigned target)
{
    struct census c = {.least = UINT64_MAX};
    for (uint64_t i = 0; i < plan->targets[target].connections; i++) {
        const struct row *row = shared_row(shared, plan, target, i);
        c.attempted += row->attempted;
        c.established += row->established > 0;
        c.refused += row->attempted && !row->established &&
                     row->error == FAIL_CONNECT_REFUSED;
        c.surviving += row->established > 0 && !row->lost;
        raise_to(&c.longest_wait_ns, row->window.longest_wait_ns);
        if (!row->active || !row->established)
            continue;
        double x = (double)row->window.requests;
        c.users++;
        c.sum += x;
        c.sum_squares += x * x;
        if (row->window.requests < c.least)
            c.least = row->window.requests;
        raise_to(&c.most, row->window.requests);
    }
    if (!c.users)
        c.least = 0;
    return c;
}

/* Of the load and of the one window that there is without slices, as the
 * threads know them: alike, but for one that ended before it was told. */
struct edges {
    uint64_t start_ns;       /* 0: the load never began */
    uint64_t from_ns, to_ns; /* UINT64_MAX: nobody was told */
};

static struct edges find_edges(const struct shared *shared)
{
    struct edges edges = {0, UINT64_MAX, UINT64_MAX};
    for (unsigned i = 0; i < shared->threads; i++) {
        const struct record *r = shared_record(shared, i, 0);
        if (r->start_ns == 0)
            continue;
        edges.start_ns = r->start_ns;
        edges.from_ns = clock_earlier(edges.from_ns, r->from_ns);
        edges.to_ns = clock_earlier(edges.to_ns, r->to_ns);
    }
    return edges;
}

struct total {
    unsigned target;
    struct record sum;   /* of all threads */
    uint64_t from_ns;    /* without slices: the window opens */
    double warmup_s;     /* with the time to settle */
    double window_s;     /* really measured */
    uint64_t unanswered; /* open loop: due in the window */
    enum stop_reason stop;
};

/* The window ends as planned, or when the last thread ended before that, or
 * with the last answer where the number of requests was given. */
static double window_seconds(const struct plan *plan, struct edges edges,
                             uint64_t end_ns, uint64_t last_answer_ns)
{
    uint64_t to = plan->requests && last_answer_ns ? last_answer_ns : end_ns;
    to = clock_earlier(to, edges.to_ns);
    return edges.start_ns && to > edges.from_ns
               ? (double)(to - edges.from_ns) / NS_PER_S
               : 0;
}

static enum stop_reason merge_stop(enum stop_reason a, enum stop_reason b)
{
    if (a == STOP_NONE || b == STOP_NONE)
        return a == STOP_NONE ? b : a;
    if (a == STOP_INTERRUPTED || b == STOP_INTERRUPTED)
        return STOP_INTERRUPTED;
    return a == STOP_SERVER_GONE ? b : a; /* gone only if gone for all */
}

/* With slices, both are sums of the target's own. */
static void set_sliced(struct total *total, const struct plan *plan,
                       const struct shared *shared)
{
    const struct target_sums *sums = &shared->sums[total->target];
    uint64_t users = plan->targets[total->target].connections;
    total->warmup_s = (double)sums->warmup_ns / NS_PER_S;
    total->window_s = (double)sums->seconds_ns / NS_PER_S;
    if (sums->slices == 0) /* cut short in the warm-up */
        record_begin_window(&total->sum,
                            shared_row(shared, plan, total->target, 0),
                            (uint32_t)users);
    if (sums->ended != ENDED_NOT)
        total->stop = STOP_SERVER_GONE;
}

/* Without slices there is one window. */
static void set_whole(struct total *total, const struct plan *plan,
                      struct edges edges)
{
    total->from_ns = edges.from_ns;
    total->warmup_s = plan->warmup_s;
    if (edges.start_ns && edges.from_ns != UINT64_MAX)
        total->warmup_s = (double)(edges.from_ns - edges.start_ns) / NS_PER_S;
    total->window_s = window_seconds(plan, edges, total->sum.end_ns,
                                     total->sum.last_answer_ns);
}

static struct total *merge(const struct plan *plan, const struct shared *shared,
                           unsigned target)
{
    struct total *total = calloc(1, sizeof *total);
    if (!total)
        return NULL;
    total->target = target;
    for (unsigned i = 0; i < shared->threads; i++) {
        const struct record *r = shared_record(shared, i, target);
        record_merge(&total->sum, r);
        total->stop = merge_stop(total->stop, (enum stop_reason)r->end);
    }
    if (plan_is_sliced(plan))
        set_sliced(total, plan, shared);
    else
        set_whole(total, plan, find_edges(shared));
    if (plan->rate > 0) /* both count by the due time */
        total->unanswered =
            total->sum.window.arrivals - total->sum.window.response.n;
    return total;
}

/* --- JSON --------------------------------------------------------------- */

static double per(double x, double y)
{
    return y > 0 ? x / y : 0;
}

static void json_real_or_null(const char *name, double x)
{
    if (x > 0)
        printf(",\"%s\":%.15g", name, x);
    else
        printf(",\"%s\":null", name);
}

/* A request that was never answered took longer than all that were: null where
 * the rank lies beyond the answered share. Moments are of what was answered. */
static void json_quantile(const char *name, const struct hist *h, double q,
                          uint64_t unanswered)
{
    uint64_t ns = hist_quantile_missing_ns(h, q, unanswered);
    if (ns == UINT64_MAX)
        printf(",\"%s\":null", name);
    else
        printf(",\"%s\":%" PRIu64, name, ns);
}

static void json_hist(const char *name, const struct hist *h,
                      uint64_t unanswered)
{
    printf(",\"%s\":{\"n\":%" PRIu64, name, h->n);
    printf(",\"mean_ns\":%.0f,\"sd_ns\":%.0f", hist_mean_ns(h), hist_sd_ns(h));
    printf(",\"min_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64, h->n ? h->min_ns : 0,
           h->max_ns);
    json_quantile("p50_ns", h, 0.5, unanswered);
    json_quantile("p90_ns", h, 0.9, unanswered);
    json_quantile("p99_ns", h, 0.99, unanswered);
    json_quantile("p999_ns", h, 0.999, unanswered);
    printf("}");
}

static void json_delay(const char *name, const struct delay *d)
{
    printf(",\"%s\":{\"kind\":\"%s\",\"mean_s\":%.9g,\"spread_s\":%.9g}", name,
           delay_name(d->kind), d->mean_ns / NS_PER_S, d->spread_ns / NS_PER_S);
}

static void json_plan(const struct plan *plan, unsigned target)
{
    const struct plan_target *asked = &plan->targets[target];
    bool open = plan->rate > 0;
    printf("{\"event\":\"result\",\"target\":");
    json_text(asked->text);
    printf(",\"workload\":\"%s\",\"loop\":\"%s\"",
           ask_workload_name(plan->asks.workload), open ? "open" : "closed");
    printf(",\"arrivals\":%s", !open                          ? "null"
                               : plan->arrivals == PACE_PACED ? "\"paced\""
                                                              : "\"poisson\"");
    printf(",\"seed\":%" PRIu64, plan->seed);
    json_real_or_null("offered_rps", plan->rate);
    printf(",\"size_bytes\":[%zu,%zu]", plan->asks.size_min,
           plan->asks.size_max);
    printf(",\"threads\":%" PRIu64 ",\"processes\":%" PRIu64
           ",\"active\":%" PRIu64,
           plan->threads, plan->processes, asked->active);
    printf(",\"requests_per_connection\":%" PRIu64,
           plan->requests_per_connection);
    printf(",\"think_s\":%.9g", plan->think.mean_ns / NS_PER_S);
    json_delay("think", &plan->think);
    if (plan->asks.workload == ASK_WORK) {
        json_delay("delay", &plan->asks.delay);
        printf(",\"buckets\":%" PRIu64, plan->asks.buckets);
    }
    json_real_or_null("byte_rate", plan->byte_rate);
    json_real_or_null("connect_rate", plan->connect_rate);
    printf(",\"sources\":%" PRIu32, asked->endpoints.source_count);
}

/* Users, each counted once by its last error; "errors" counts events. */
static void json_connections(uint64_t asked, const struct record *sum,
                             const struct census *c)
{
    printf(",\"connections\":{\"asked\":%" PRIu64 ",\"attempted\":%" PRIu64
           ",\"established\":%" PRIu64,
           asked, c->attempted, c->established);
    printf(",\"refused\":%" PRIu64 ",\"failed\":%" PRIu64
           ",\"surviving\":%" PRIu64 ",\"reconnects\":%" PRIu64 "}",
           c->refused, c->attempted - c->established - c->refused, c->surviving,
           sum->reconnects);
    printf(",\"limits\":{\"descriptors\":%" PRIu64 ",\"ports\":%" PRIu64 "}",
           sum->failures[FAIL_DESCRIPTORS], sum->failures[FAIL_PORTS]);
}

/* In the open loop what was due counts, sent or not. */
static void json_counts(const struct plan *plan, const struct record *sum)
{
    uint64_t meant = plan->rate > 0 ? sum->arrivals : sum->sent;
    printf(",\"requests\":{\"sent\":%" PRIu64 ",\"completed\":%" PRIu64
           ",\"unanswered\":%" PRIu64 ",\"arrivals\":%" PRIu64 "}",
           sum->sent, sum->completed, meant - sum->completed, sum->arrivals);
    printf(",\"bytes\":{\"sent\":%" PRIu64 ",\"received\":%" PRIu64 "}",
           sum->bytes_sent, sum->bytes_received);
    printf(",\"errors\":{");
    for (int i = FAIL_CONNECT_REFUSED; i <= FAIL_STATUS; i++)
        printf("%s\"%s\":%" PRIu64, i == FAIL_CONNECT_REFUSED ? "" : ",",
               failure_name((enum failure)i), sum->failures[i]);
    printf("}");
}

/* CLOCK_MONOTONIC of this host; a target that takes turns has many windows. */
static void json_edges(const struct plan *plan, const struct total *total)
{
    if (plan_is_sliced(plan) || total->window_s <= 0) {
        printf(",\"begin_ns\":null,\"end_ns\":null");
        return;
    }
    printf(",\"begin_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64, total->from_ns,
           total->from_ns + (uint64_t)(total->window_s * NS_PER_S + 0.5));
}

static void json_window(const struct plan *plan, const struct total *total)
{
    const struct record *sum = &total->sum;
    printf(",\"window\":{\"warmup_s\":%.9g,\"seconds\":%.9f", total->warmup_s,
           total->window_s);
    json_edges(plan, total);
    printf(",\"requests\":%" PRIu64 ",\"bytes\":%" PRIu64
           ",\"arrivals\":%" PRIu64 ",\"throughput_rps\":%.3f",
           sum->window.requests, sum->window.bytes, sum->window.arrivals,
           per((double)sum->window.requests, total->window_s));
    if (plan->rate > 0)
        printf(",\"unanswered\":%" PRIu64 "}", total->unanswered);
    else
        printf(",\"unanswered\":null}");
}

static void json_fairness(const struct census *c)
{
    double users = (double)c->users;
    printf(",\"fairness\":{\"users\":%" PRIu64 ",\"jain\":%.6f", c->users,
           per(c->sum * c->sum, users * c->sum_squares));
    printf(",\"requests_min\":%" PRIu64 ",\"requests_max\":%" PRIu64
           ",\"longest_wait_ns\":%" PRIu64 "}",
           c->least, c->most, c->longest_wait_ns);
}

static void json_spin(const struct plan *plan)
{
    if (plan->spin_ns == UINT64_MAX)
        printf(",\"spin\":\"always\"");
    else
        printf(",\"spin\":\"%.9g us\"", (double)plan->spin_ns / 1e3);
}

/* CPU spent on looking for events that had not come is told apart, or a
 * client that spins for accuracy would seem to be at its end. */
static void json_self(const struct plan *plan, const struct shared *shared,
                      const struct total *total)
{
    const struct record *sum = &total->sum;
    const struct target_sums *sums = &shared->sums[total->target];
    uint64_t end_ns = clock_later(sum->end_ns, shared->began_ns); /* 0: lost */
    double seconds =
        (double)(plan_is_sliced(plan) ? sums->all_slices_ns
                                      : end_ns - shared->began_ns) /
        NS_PER_S;
    double all = total->window_s * (double)plan_threads(plan);
    printf(",\"self\":{\"cpu_user_s\":%.6f,\"cpu_system_s\":%.6f",
           (double)sum->cpu_user_ns / NS_PER_S,
           (double)sum->cpu_system_ns / NS_PER_S);
    printf(",\"seconds\":%.6f,\"cpu_window_s\":%.6f,\"cpu_share\":%.4f"
           ",\"spin_share\":%.4f",
           seconds, (double)sum->window.cpu_ns / NS_PER_S,
           per((double)sum->window.cpu_ns / NS_PER_S, all),
           per((double)sum->window.spin_ns / NS_PER_S, all));
    printf(",\"lag_n\":%" PRIu64 ",\"lag_p50_ns\":%" PRIu64
           ",\"lag_p99_ns\":%" PRIu64 ",\"lag_max_ns\":%" PRIu64,
           sum->window.lag.n, hist_quantile_ns(&sum->window.lag, 0.5),
           hist_quantile_ns(&sum->window.lag, 0.99), sum->window.lag.max_ns);
    printf(",\"engine\":\"%s\"", shared->records[0].engine);
    json_spin(plan);
    if (sum->window.probed)
        printf(",\"waiting_share\":%.4f",
               (double)sum->window.probed_waiting / (double)sum->window.probed);
    else
        printf(",\"waiting_share\":null");
    printf(",\"dialing_s\":%.6f}",
           shared->records[0].start_ns
               ? (double)(shared->records[0].start_ns - shared->began_ns) /
                     NS_PER_S
               : seconds);
}

static const char *stop_name(enum stop_reason stop)
{
    static const char *const stops[] = {[STOP_NONE] = "server_gone",
                                        [STOP_DURATION] = "duration",
                                        [STOP_REQUESTS] = "requests",
                                        [STOP_SERVER_GONE] = "server_gone",
                                        [STOP_INTERRUPTED] = "interrupted"};
    return stops[stop];
}

/* An object that only slices add. */
static void json_slices(const struct plan *plan, const struct shared *shared,
                        unsigned target)
{
    const struct target_sums *sums = &shared->sums[target];
    bool watched = plan->targets[target].watched_count > 0;
    printf(",\"slices\":{\"counted\":%" PRIu64 ",\"late\":%" PRIu64
           ",\"warmup\":%" PRIu64
           ",\"seconds\":%.9f,\"lead_in_requests\":%" PRIu64
           ",\"requests\":%" PRIu64 ",\"client_cpu_s\":%.9f",
           sums->slices, sums->late_slices, sums->warmup_slices,
           (double)sums->slices_ns / NS_PER_S, sums->lead_in_requests,
           sums->requests, (double)sums->client_cpu_ns / NS_PER_S);
    if (watched)
        printf(",\"server_cpu_s\":%.9f,\"rest_cpu_s\":%.9f",
               (double)sums->server_cpu_ns / NS_PER_S,
               (double)sums->rest_cpu_ns / NS_PER_S);
    else
        printf(",\"server_cpu_s\":null,\"rest_cpu_s\":null");
    if (sums->ended != ENDED_NOT)
        printf(",\"ended_early\":{\"round\":%" PRIu64 ",\"reason\":\"%s\"}}",
               sums->ended_round, ended_name(sums->ended));
    else
        printf(",\"ended_early\":null}");
}

static void json_target(const struct plan *plan, const struct shared *shared,
                        const struct total *total)
{
    const struct record *sum = &total->sum;
    struct census census = count_rows(plan, shared, total->target);
    json_plan(plan, total->target);
    json_connections(plan->targets[total->target].connections, sum, &census);
    json_counts(plan, sum);
    json_window(plan, total);
    json_hist("response", &sum->window.response, total->unanswered);
    json_hist("service", &sum->window.service, 0);
    json_hist("connect", &sum->connect, 0);
    json_fairness(&census);
    json_self(plan, shared, total);
    if (plan_is_sliced(plan))
        json_slices(plan, shared, total->target);
    printf(",\"stop\":\"%s\"}", stop_name(total->stop));
}

static void json_write(const struct plan *plan, const struct shared *shared,
                       struct total *const totals[])
{
    if (!plan_is_sliced(plan)) {
        json_target(plan, shared, totals[0]);
        putchar('\n');
        return;
    }
    printf("{\"event\":\"result\",\"slice_s\":%.9g,\"lead_in_s\":%.9g",
           (double)plan->slice_ns / NS_PER_S,
           (double)plan->lead_in_ns / NS_PER_S);
    printf(",\"rounds\":%" PRIu64 ",\"late_rounds\":%" PRIu64
           ",\"repeated\":%" PRIu64 ",\"warmup_rounds\":%" PRIu64
           ",\"rounds_s\":%.9f,\"seed\":%" PRIu64 ",\"stop\":\"%s\"",
           shared->rounds, shared->late_rounds, shared->repeated,
           shared->warmup_rounds, (double)shared->rounds_ns / NS_PER_S,
           plan->seed, stop_name((enum stop_reason)shared->records[0].end));
    for (unsigned i = 0; i < plan->target_count; i++) {
        printf(i ? "," : ",\"targets\":[");
        json_target(plan, shared, totals[i]);
    }
    printf("]}\n");
}

/* --- CSV ---------------------------------------------------------------- */

/* With slices, rows end with the number of their target. */
static void csv_header(FILE *file, const struct plan *plan, const char *columns)
{
    fprintf(file, "%s%s\n", columns, plan_is_sliced(plan) ? ",target" : "");
}

static void csv_end_row(FILE *file, const struct plan *plan, unsigned target)
{
    if (plan_is_sliced(plan))
        fprintf(file, ",%u", target);
    fputc('\n', file);
}

static void csv_connections(FILE *file, const struct plan *plan,
                            const struct shared *shared, unsigned target)
{
    for (uint64_t i = 0; i < plan->targets[target].connections; i++) {
        const struct row *r = shared_row(shared, plan, target, i);
        fprintf(file,
                "%" PRIu64 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                ",%.0f,%" PRIu64 ",%s,%" PRIu64,
                i, r->established, r->requests, r->bytes_in, r->bytes_out,
                per((double)r->response_sum_ns, (double)r->requests),
                r->session_ns, failure_name((enum failure)r->error),
                r->window.longest_wait_ns);
        csv_end_row(file, plan, target);
    }
}

static struct timeline_row merge_timeline(const struct shared *shared,
                                          unsigned i)
{
    struct timeline_row sum = {0};
    for (unsigned t = 0; t < shared->threads; t++) {
        const struct timeline_row *s = &shared->records[t].timeline[i];
        sum.requests += s->requests;
        sum.bytes += s->bytes;
        sum.errors += s->errors;
        sum.active += s->active;
        raise_to(&sum.max_response_ns, s->max_response_ns);
    }
    return sum;
}

static void csv_timeline(FILE *file, const struct shared *shared,
                         uint64_t end_ns)
{
    uint64_t start = shared->records[0].start_ns;
    uint64_t rows = start && end_ns > start
                        ? (end_ns - start) / (TIMELINE_MS * NS_PER_MS) + 1
                        : 0;
    fputs("start_ms,requests,bytes,errors,max_response_ns,active\n", file);
    for (unsigned i = 0; i < rows && i < TIMELINE_ROWS; i++) {
        struct timeline_row s = merge_timeline(shared, i);
        fprintf(file,
                "%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                "\n",
                i * TIMELINE_MS, s.requests, s.bytes, s.errors,
                s.max_response_ns, s.active);
    }
}

static void csv_histogram(FILE *file, const struct plan *plan, unsigned target,
                          const struct hist *h, const char *clock)
{
    for (size_t i = 0; i < HIST_SLOTS; i++) {
        if (!h->slots[i])
            continue;
        fprintf(file, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%s",
                hist_lower_ns(i), hist_upper_ns(i), h->slots[i], clock);
        csv_end_row(file, plan, target);
    }
}

static void csv_histograms(FILE *file, const struct plan *plan,
                           const struct total *total)
{
    const struct record *sum = &total->sum;
    unsigned target = total->target;
    csv_histogram(file, plan, target, &sum->window.response, "response");
    csv_histogram(file, plan, target, &sum->window.service, "service");
    csv_histogram(file, plan, target, &sum->connect, "connect");
}

/* --- all of it ---------------------------------------------------------- */

static bool open_file(FILE **file, const char *path, const char **failed)
{
    if (path && !(*file = fopen(path, "we")))
        *failed = path;
    return !*failed;
}

const char *report_open(struct report *report, const struct plan *plan)
{
    const char *failed = NULL;
    *report = (struct report){0};
    (void)(open_file(&report->per_connection, plan->per_connection, &failed) &&
           open_file(&report->timeline, plan->timeline, &failed) &&
           open_file(&report->histogram, plan->histogram, &failed) &&
           open_file(&report->slices, plan->slices, &failed));
    if (report->slices) /* no rows but at a round's end */
        setvbuf(report->slices, NULL, _IOFBF, SLICES_BYTES);
    return failed;
}

static bool close_file(FILE *file)
{
    if (!file)
        return true;
    bool written = !ferror(file);
    return fclose(file) == 0 && written;
}

static void csv_write(struct report *report, const struct plan *plan,
                      const struct shared *shared, struct total *const totals[])
{
    if (report->per_connection)
        csv_header(report->per_connection, plan,
                   "connection,established,requests,bytes_in,bytes_out,"
                   "mean_response_ns,session_ns,error,longest_wait_ns");
    if (report->histogram)
        csv_header(report->histogram, plan, "lower_ns,upper_ns,count,clock");
    if (report->timeline)
        csv_timeline(report->timeline, shared, totals[0]->sum.end_ns);
    for (unsigned i = 0; i < plan->target_count; i++) {
        if (report->per_connection)
            csv_connections(report->per_connection, plan, shared, i);
        if (report->histogram)
            csv_histograms(report->histogram, plan, totals[i]);
    }
}

/* The process of the first thread wrote all of --slices, if the load began. */
static void csv_slices(FILE *file)
{
    if (lseek(fileno(file), 0, SEEK_END) == 0)
        rounds_write_header(file);
}

bool report_write(struct report *report, const struct plan *plan,
                  const struct shared *shared)
{
    struct total *totals[MAX_TARGETS];
    for (unsigned i = 0; i < plan->target_count; i++)
        if (!(totals[i] = merge(plan, shared, i)))
            return false;
    csv_write(report, plan, shared, totals);
    if (report->slices)
        csv_slices(report->slices);
    json_write(plan, shared, totals);
    for (unsigned i = 0; i < plan->target_count; i++)
        free(totals[i]);
    bool ok = close_file(report->per_connection);
    ok &= close_file(report->timeline);
    ok &= close_file(report->histogram);
    ok &= close_file(report->slices);
    return fflush(stdout) == 0 && ok;
}
