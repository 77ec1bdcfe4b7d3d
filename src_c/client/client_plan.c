/* client_plan.c -- see client_plan.h: the client's table of flags
 * (common/flags.h), what of it goes together, and the defaults of one flag that
 * depend on others.
 */
#include "client_plan.h"

#include <err.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_watch.h"
#include "common/address.h"
#include "common/clock.h"
#include "common/flags.h"

/* --- reading values ----------------------------------------------------- */

static bool read_delay(void *into, const struct flag *flag, const char *text)
{
    return delay_parse(text, flag_member(into, flag));
}

static bool read_size(void *into, const struct flag *flag, const char *text)
{
    struct plan *plan = into;
    char *end;
    double low = strtod(text, &end), high = low;
    if (end == text)
        return false;
    if (*end == '-')
        high = strtod(end + 1, &end);
    if (*end != '\0' || low != floor(low) || high != floor(high) ||
        low < flag->min || high > flag->max || high < low)
        return false;
    plan->asks.size_min = (size_t)low;
    plan->asks.size_max = (size_t)high;
    return true;
}

/* A time with a unit, or in ms, of min to max ms. */
static bool read_time(void *into, const struct flag *flag, const char *text)
{
    const char *end;
    double ns = delay_parse_time(text, &end), ms = ns / 1e6;
    if (ns < 0 || *end != '\0' || ms < flag->min || ms > flag->max)
        return false;
    *(uint64_t *)flag_member(into, flag) = (uint64_t)ns;
    return true;
}

/* The processes of the next target's server, PID,PID,… */
static bool read_watch(void *into, const struct flag *flag, const char *text)
{
    struct plan *plan = into;
    struct plan_target *target = &plan->targets[plan->watch_count];
    if (plan->watch_count == MAX_TARGETS)
        flags_refuse(flag->name, text, "one too many; allowed are %d",
                     MAX_TARGETS);
    plan->watch_count++;
    for (const char *end = text;; text = end + 1) {
        long pid = strtol(text, (char **)&end, 10);
        if (end == text || pid < 1 || pid > INT32_MAX ||
            target->watched_count == MAX_WATCHED ||
            (*end != ',' && *end != '\0'))
            return false;
        target->watched[target->watched_count++] = (pid_t)pid;
        if (*end == '\0')
            return true;
    }
}

/* N for all targets, or N,N,… for each, in order. */
static bool read_connections(void *into, const struct flag *flag,
                             const char *text)
{
    struct plan *plan = into;
    char *end;
    for (unsigned i = 0; i < MAX_TARGETS; i++, text = end + 1) {
        double number = strtod(text, &end);
        if (end == text || number != floor(number) || number < flag->min ||
            number > flag->max || (*end != ',' && *end != '\0'))
            return false;
        plan->connections[i] = (uint64_t)number;
        plan->connections_count = i + 1;
        if (*end == '\0')
            return true;
    }
    return false;
}

static bool read_sources(void *into, const struct flag *flag, const char *text)
{
    struct plan *plan = into;
    (void)flag;
    return connect_parse_sources(text, &plan->sources);
}

static bool read_arrivals(void *into, const struct flag *flag, const char *text)
{
    struct plan *plan = into;
    (void)flag;
    plan->arrivals = strcmp(text, "paced") == 0 ? PACE_PACED : PACE_POISSON;
    return plan->arrivals == PACE_PACED || strcmp(text, "poisson") == 0;
}

static bool read_workload(void *into, const struct flag *flag, const char *text)
{
    struct plan *plan = into;
    (void)flag;
    for (int i = ASK_ECHO; i <= ASK_HTTP; i++) {
        plan->asks.workload = (enum ask_workload)i;
        if (strcmp(text, ask_workload_name(plan->asks.workload)) == 0)
            return true;
    }
    return false;
}

static bool read_engine(void *into, const struct flag *flag, const char *text)
{
    struct plan *plan = into;
    static const struct engine_kind *const kinds[] = {
        &engine_epoll,
#ifdef HAVE_URING
        &engine_uring,
#endif
    };
    size_t count = sizeof kinds / sizeof *kinds;
    (void)flag;
    plan->any_engine = strcmp(text, "auto") == 0;
    plan->engine = plan->any_engine ? kinds[count - 1] : NULL;
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, kinds[i]->name) == 0)
            plan->engine = kinds[i];
    return plan->engine;
}

static bool read_spin(void *into, const struct flag *flag, const char *text)
{
    struct plan *plan = into;
    double us;
    plan->spin_ns = UINT64_MAX;
    if (strcmp(text, "always") == 0)
        return true;
    if (!flag_number(flag, text, &us))
        return false;
    plan->spin_ns = (uint64_t)(us * 1000);
    return true;
}

static void read_target(void *into, const char *word)
{
    struct plan *plan = into;
    if (plan->target_count == MAX_TARGETS)
        flags_refuse(word, NULL, "one too many; allowed are %d targets",
                     MAX_TARGETS);
    struct plan_target *target = &plan->targets[plan->target_count];
    const char *wrong = address_find(word, 0, &target->endpoints.target,
                                     &target->endpoints.target_bytes);
    if (wrong)
        flags_refuse(word, NULL, "%s", wrong);
    target->text = word;
    plan->target_count++;
}

/* --- the table ---------------------------------------------------------- */

#define AT(member) offsetof(struct plan, member)
#define DELAYS                                                                 \
    "MEAN, fixed:MEAN, uniform:MEAN:SPREAD, bimodal:MEAN:SPREAD "              \
    "or exponential:MEAN; SPREAD at most MEAN; ms, or with a unit"

/* clang-format off */
static const struct flag rows[] = {
    {.help = "Who asks"},
    {"--connections", "N[,N...]",
     "1 to 10000000, or one such number for each target",
     "users, each with a connection (1); of several\n"
     "targets the same, or of each its own", read_connections, 0, 1, 1e7},
    {"--active", "M", "1 to --connections",
     "how many of them ask; the others are idle (all)",
     flag_uint64, AT(active), 1, 1e7},
    {"--sources", "FIRST-LAST", "IPv4 addresses of this host, 127.0.0.1-"
     "127.0.0.8",
     "addresses to connect from, in turn (the system's\n"
     "choice; on loopback one per 10000 connections,\n"
     "and 256 in turn for users who reconnect)", read_sources, 0, 0, 0},
    {"--threads", "T", NULL, "per process (1)",
     flag_uint64, AT(threads), 1, 64},
    {"--processes", "P", NULL,
     "each may open as many descriptors as the system\n"
     "allows one process (1)", flag_uint64, AT(processes), 1, 64},
    {"--seed", "S", "0 to 2^53", "of sizes, delays and arrivals (1)",
     flag_uint64, AT(seed), 0, 9007199254740992.0},

    {.help = "What they ask"},
    {"--workload", "NAME", "echo, work or http", "(echo)",
     read_workload, 0, 0, 0},
    {"--size", "BYTES|MIN-MAX", "1 to 67108864, or MIN-MAX of these",
     "echo: bytes per request (64)", read_size, 0, 1, 67108864},
    {"--delay", "KIND:MEAN[:SPREAD]", DELAYS,
     "work: how long the server shall take: fixed:5,\n"
     "uniform:5:2, bimodal:5:4, exponential:5, in ms\n"
     "or with a unit, 250us (0)", read_delay, AT(asks.delay), 0, 0},
    {"--buckets", "N", "1 to 2^32", "work: buckets to choose from (1)",
     flag_uint64, AT(asks.buckets), 1, 4294967296.0},
    {"--path", "PATH", "a path that begins with /", "http: what to GET (/)",
     flag_text, AT(path), 0, 0},

    {.help = "When they ask"},
    {"--requests", "R", "1 to 10^15",
     "R requests per user, who then leaves",
     flag_uint64, AT(requests), 1, 1e15},
    {"--duration", "S", "0.001 to 86400 seconds",
     "measure for S seconds (1, without --requests)",
     flag_double, AT(duration_s), 0.001, 86400},
    {"--response-times", "N", "0 to 10^6",
     "measure beyond --duration until N mean response\n"
     "times were measured, of each target (0); how long\n"
     "that is follows from the warm-up (until\n"
     "--duration-max where nothing was answered in it),\n"
     "with --slice from the rounds counted so far",
     flag_double, AT(response_times), 0, 1e6},
    {"--duration-max", "S", "--duration to 86400 seconds",
     "but no longer than that (5 times --duration)",
     flag_double, AT(duration_max_s), 0.001, 86400},
    {"--warmup", "S", "0 to 3600 seconds",
     "before that (0.1; 0 with --requests)",
     flag_double, AT(warmup_s), 0, 3600},
    {"--settle", "S", "0 to 3600 seconds",
     "closed loop: before the load, let each user ask\n"
     "once and rest until all were answered, for at most\n"
     "S seconds: a server may still be starting a thread\n"
     "for each (0)",
     flag_double, AT(settle_s), 0, 3600},
    {"--begin-at", "NS", "0 to 2^63 nanoseconds of CLOCK_MONOTONIC",
     "when all have connected, wait for this moment: so\n"
     "clients on several hosts begin together (0); a past\n"
     "one changes nothing, and the window tells its edges",
     flag_uint64, AT(begin_at_ns), 0, 9223372036854775808.0},
    {"--begin-told", NULL, NULL,
     "when all have connected, print the event connected\n"
     "and read that moment, a line of standard input; the\n"
     "end of it ends the client",
     flag_true, AT(begin_told), 0, 0},
    {"--drain", "S", "0 to 3600 seconds",
     "after that, wait for answers that are missing\n"
     "(0.2; 1 with --rate; 5 with --slice, at the end of\n"
     "each: then the target is given up)", flag_double, AT(drain_s), 0, 3600},
    {"--think", "MS", DELAYS,
     "closed loop: pause between an answer and the next\n"
     "request; a number or as for --delay (0)",
     read_delay, AT(think), 0, 0},
    {"--rate", "R", "0.001 to 10^8 requests/s",
     "open loop: R requests/s in all, at times fixed by\n"
     "the seed, whatever the server does",
     flag_double, AT(rate), 0.001, 1e8},
    {"--arrivals", "KIND", "poisson or paced",
     "with --rate: random or equal gaps between requests\n"
     "(poisson)",
     read_arrivals, 0, 0, 0},
    {"--byte-rate", "B", "1 to 10^12 bytes/s",
     "a block of connections sends at most so much",
     flag_double, AT(byte_rate), 1, 1e12},
    {"--block", "N", "1 to 10000000 connections",
     "with --byte-rate: connections per block (all)",
     flag_uint64, AT(block), 1, 1e7},
    {"--connect-rate", "N", "0.1 to 10^7 connections/s",
     "at first, connect at most so many per second",
     flag_double, AT(connect_rate), 0.1, 1e7},
    {"--requests-per-connection", "N", "0 (no limit) to 10^15",
     "then hang up and connect anew, which counts into\n"
     "the response time (0: never)",
     flag_uint64, AT(requests_per_connection), 0, 1e15},
    {"--timeout", "S", "0.001 to 86400 seconds",
     "an answer takes longer: give the connection up (10)",
     flag_double, AT(timeout_s), 0.001, 86400},
    {"--connect-timeout", "S", "0.001 to 86400 seconds",
     "the same for connecting (5)",
     flag_double, AT(connect_timeout_s), 0.001, 86400},

    {.help = "Several targets in turns"},
    {"--slice", "TIME", "0.1ms to 60s",
     "one target is asked for so long, then another, in\n"
     "rounds of all; each has --connections of its own;\n"
     "--rate is that of the slice's target; --warmup and\n"
     "--duration are whole rounds of all together; the\n"
     "result has an object per target, in a list, targets",
     read_time, AT(slice_ns), 0.1, 60000},
    {"--lead-in", "TIME", "0 to less than --slice",
     "not counted at the beginning of a slice (1ms, at\n"
     "most a tenth of it)",
     read_time, AT(lead_in_ns), 0, 60000},
    {"--late", "TIME", "0.001 to 60000 ms",
     "open loop: repeat slices in which the client was\n"
     "late, that is 1 % of the requests left later than\n"
     "this and later than a tenth of the slice's p99\n"
     "response, for as long as --duration at most; with\n"
     "--pause, leave their rounds out (off)",
     read_time, AT(late_ns), 0.001, 60000},
    {"--pause", "TIME", "0.1ms to 60s",
     "with --begin-at or --begin-told: slices begin at\n"
     "fixed moments, the length of a slice and this long\n"
     "apart; clients on several hosts then take the same\n"
     "turns, and await answers in its first half\n"
     "(client_grid.h)",
     read_time, AT(pause_ns), 0.1, 60000},
    {"--order", "S", "0 to 2^53",
     "seed of the order of targets in rounds (--seed)",
     flag_uint64, AT(order_seed), 0, 9007199254740992.0},
    {"--only-watch", NULL, NULL,
     "with --pause: connect to nobody, only read CPU time\n"
     "where the servers are, while clients elsewhere ask",
     flag_true, AT(only_watch), 0, 0},
    {"--watch", "PID,PID,...", "1 to 64 PIDs with commas between",
     "processes of the server whose CPU time is read at\n"
     "the ends of slices, with their children; where it\n"
     "ignores SIGCHLD, those that live less than a slice\n"
     "are missed, or use less than 20 ms; a --watch for\n"
     "each target, in order",
     read_watch, 0, 0, 0},
    {"--slices", "FILE", "a file to write",
     "CSV, a row per slice; columns: client_slices.h",
     flag_text, AT(slices), 0, 0},

    {.help = "How the client works, and what it writes"},
    {"--engine", "NAME",
#ifdef HAVE_URING
     "epoll, uring or auto",
#else
     "epoll or auto (built without io_uring)",
#endif
     "how it waits for sockets: epoll, cheaper where many\n"
     "reconnect or messages are large; uring, cheaper for\n"
     "short ones on up to 1000 connections that stay; or\n"
     "auto, uring where the kernel has it (epoll)", read_engine, 0, 0, 0},
    {"--spin", "US|always", "0 to 1000000 microseconds, or always",
     "look without sleeping when something is due within\n"
     "so many microseconds; said in the result (100)",
     read_spin, 0, 0, 1e6},
    {"--per-connection", "FILE", "a file to write", "CSV, a row per user",
     flag_text, AT(per_connection), 0, 0},
    {"--timeline", "FILE", "a file to write", "CSV, a row per 100 ms",
     flag_text, AT(timeline), 0, 0},
    {"--histogram", "FILE", "a file to write", "CSV, a row per slot",
     flag_text, AT(histogram), 0, 0},
};
/* clang-format on */

enum { ROWS = sizeof rows / sizeof *rows };

static const char *given[ROWS];
static const struct flags flags = {
    .rows = rows,
    .given = given,
    .count = ROWS,
    .operand = read_target,
    .head =
        "Usage: client HOST:PORT [HOST:PORT ...] --connections N [flags]\n\n"
        "Loads a server and prints one JSON object: what was asked, tried and\n"
        "reached, errors by kind, how long answers took, and how busy the "
        "client\nitself was. Answers are checked: of echo every byte, of work "
        "that the value is\nat least the delay, of http the status and the "
        "length of the body.\n\n"
        "  client 127.0.0.1:7000 --connections 100 --duration 2\n"
        "  client 127.0.0.1:7000 --connections 100 --rate 20000 "
        "--arrivals poisson\n"
        "  client 127.0.0.1:7000 --connections 100000 --processes 6 "
        "--active 100\n"
        "  client 127.0.0.1:7000 127.0.0.1:7001 --connections 50 "
        "--slice 20ms",
    .tail = "Exit status: 0 with a result (a server that fails is a result), "
            "1 when\nnothing could be set up, 2 after a mistake in the flags.",
};

static const char *value_of(const char *name)
{
    return flags_given(&flags, name);
}

/* --- what goes together ------------------------------------------------- */

static _Noreturn void conflict(const char *flag, const char *other,
                               const char *allowed)
{
    flags_refuse(flag, value_of(flag), "not together with %s %s; %s", other,
                 value_of(other), allowed);
}

/* In the open loop the schedule says when to ask, and never waits: neither for
 * a byte rate, nor for a user to think or to ask once. */
static void check_conflicts(const struct plan *plan)
{
    const char *closed = "allowed without --rate";
    bool open = plan->rate > 0;
    if (plan->requests && plan->duration_s >= 0)
        conflict("--requests", "--duration", "allowed is one of the two");
    if (plan->requests && open)
        conflict("--requests", "--rate", "use --duration");
    if (plan->requests && plan->response_times > 0)
        conflict("--requests", "--response-times", "use --duration");
    if (plan->think.mean_ns > 0 && open)
        conflict("--think", "--rate", closed);
    if (plan->byte_rate > 0 && open)
        conflict("--byte-rate", "--rate", closed);
    if (plan->settle_s > 0 && open)
        conflict("--settle", "--rate", closed);
}

/* A parameter that would have no effect is an error, as it is of the server.
 * --arrivals alone is none: a study may vary whether there is a rate. */
static void check_fit(const struct plan *plan)
{
    static const struct {
        const char *flag;
        enum ask_workload workload;
    } owned[] = {{"--size", ASK_ECHO},
                 {"--delay", ASK_WORK},
                 {"--buckets", ASK_WORK},
                 {"--path", ASK_HTTP}};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        const char *value = value_of(owned[i].flag);
        if (!value || owned[i].workload == plan->asks.workload)
            continue;
        flags_refuse(owned[i].flag, value,
                     "workload %s does not take it; "
                     "allowed with --workload %s",
                     ask_workload_name(plan->asks.workload),
                     ask_workload_name(owned[i].workload));
    }
    if (plan->block && plan->byte_rate == 0)
        flags_refuse("--block", value_of("--block"),
                     "allowed only together with --byte-rate");
}

/* A PID that is none would give CPU time of nobody, or of somebody else. */
static void check_watched(const struct plan *plan)
{
    char text[16];
    for (unsigned i = 0; i < plan->watch_count; i++)
        for (unsigned j = 0; j < plan->targets[i].watched_count; j++) {
            pid_t pid = plan->targets[i].watched[j];
            snprintf(text, sizeof text, "%d", (int)pid);
            if (!watch_exists(pid))
                flags_refuse("--watch", text,
                             "no such process; allowed are PIDs that run");
        }
    if (plan->watch_count > plan->target_count)
        flags_refuse("--watch", NULL,
                     "there are %u of them; allowed is one per target, %u",
                     plan->watch_count, plan->target_count);
}

/* Several hosts can agree on moments, but not on how long answers take. */
static void check_fixed(const struct plan *plan)
{
    static const char *const by_answers[] = {"--settle", "--response-times"};
    for (size_t i = 0; i < sizeof by_answers / sizeof *by_answers; i++)
        if (plan_is_fixed(plan) && value_of(by_answers[i]))
            conflict(by_answers[i], "--pause", "allowed without --pause");
    if (plan->begin_told && value_of("--begin-at"))
        conflict("--begin-at", "--begin-told", "allowed is one of the two");
    if (plan_is_fixed(plan) && !plan->begin_at_ns && !plan->begin_told)
        flags_refuse("--pause", value_of("--pause"),
                     "allowed only together with --begin-at or --begin-told");
    if (plan->only_watch && !plan_is_fixed(plan))
        flags_refuse("--only-watch", NULL,
                     "allowed only together with --pause");
}

/* Slices have ends of their own for what these say of a whole run. */
static void check_slices(const struct plan *plan)
{
    static const char *const whole[] = {"--requests", "--byte-rate",
                                        "--timeline"};
    static const char *const sliced[] = {"--lead-in",   "--watch", "--slices",
                                         "--late",      "--pause", "--order",
                                         "--only-watch"};
    bool is_sliced = plan_is_sliced(plan);
    if (plan->target_count > 1 && !is_sliced)
        flags_refuse(plan->targets[1].text, NULL,
                     "a second target is allowed only with --slice");
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (is_sliced && value_of(whole[i]))
            conflict(whole[i], "--slice", "allowed without --slice");
    for (size_t i = 0; i < sizeof sliced / sizeof *sliced; i++)
        if (!is_sliced && value_of(sliced[i]))
            flags_refuse(sliced[i], value_of(sliced[i]),
                         "allowed only together with --slice");
    if (is_sliced && plan->lead_in_ns >= plan->slice_ns)
        conflict("--lead-in", "--slice", "allowed is less than that");
    if (plan->late_ns && plan->rate == 0)
        flags_refuse("--late", value_of("--late"),
                     "allowed only together with --rate");
    check_fixed(plan);
    check_watched(plan);
}

/* Two tables would stand in one another; /dev/null takes any number. */
static void check_files(void)
{
    static const char *const names[] = {"--per-connection", "--timeline",
                                        "--histogram", "--slices"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t j = 0; j < i; j++) {
            const char *file = value_of(names[i]), *other = value_of(names[j]);
            if (file && other && strcmp(file, other) == 0 &&
                strncmp(file, "/dev/", 5) != 0)
                flags_refuse(names[i], file,
                             "%s is written there; allowed is another file",
                             names[j]);
        }
}

/* An address of some other host would look like a want of ports, later. */
static void check_sources(const struct plan *plan)
{
    const char *value = value_of("--sources");
    char address[ADDRESS_BYTES];
    if (!value)
        return;
    struct endpoints endpoints = plan->targets[0].endpoints;
    for (unsigned i = 0; i < plan->target_count; i++)
        if (plan->targets[i].endpoints.target.ss_family != AF_INET)
            flags_refuse("--sources", value, "allowed only for an IPv4 target");
    endpoints.first_source = plan->sources.first_source;
    endpoints.source_count = plan->sources.source_count;
    errno = connect_try_sources(&endpoints, address);
    if (errno == EADDRNOTAVAIL)
        flags_refuse("--sources", value,
                     "%s is not of this host; allowed are its own addresses",
                     address);
    if (errno)
        err(1, "bind");
}

/* Exponential draws may be longer. */
static void check_longest(const char *flag, const struct delay *delay,
                          double most_s)
{
    if (delay->mean_ns + delay->spread_ns > most_s * 1e9)
        flags_refuse(flag, value_of(flag), "allowed are up to %g s", most_s);
}

/* A number of users for all targets, or for each. */
static void check_connections(const struct plan *plan)
{
    uint64_t fewest = plan->connections[0];
    for (unsigned i = 1; i < plan->connections_count; i++)
        if (plan->connections[i] < fewest)
            fewest = plan->connections[i];
    if (plan->connections_count > 1 &&
        plan->connections_count != plan->target_count)
        flags_refuse("--connections", value_of("--connections"),
                     "allowed is one number, or one for each target, %u",
                     plan->target_count);
    if (plan->active > fewest)
        flags_refuse("--active", value_of("--active"),
                     "allowed is 1 to --connections, %llu",
                     (unsigned long long)fewest);
}

static void check_ranges(const struct plan *plan)
{
    check_longest("--delay", &plan->asks.delay, 60); /* workloads/work.c */
    check_longest("--think", &plan->think, 86400);   /* as --duration */
    check_connections(plan);
    if (plan->path[0] != '/' || strpbrk(plan->path, " \r\n"))
        flags_refuse("--path", plan->path,
                     "allowed is a path that begins with / and has no spaces");
    if (plan->duration_max_s >= 0 && plan->duration_max_s < plan->duration_s)
        flags_refuse("--duration-max", value_of("--duration-max"),
                     "allowed is --duration, %g, or more", plan->duration_s);
    check_sources(plan);
}

/* --- defaults that depend on other flags -------------------------------- */

enum { PER_SOURCE = 10000, RECONNECTING = 256 };

/* Beyond some ten thousand connections between two addresses, the search for a
 * free port takes longer than all the rest, and at 28 thousand it fails. Those
 * that were closed within the last minute count (TIME_WAIT): who reconnects
 * needs room for as many of them as the system keeps, some hundred thousand. */
static void spread_sources(const struct plan *plan, struct plan_target *target)
{
    struct endpoints *endpoints = &target->endpoints;
    uint64_t least = plan->requests_per_connection ? RECONNECTING : 1;
    uint64_t count = (target->connections + PER_SOURCE - 1) / PER_SOURCE;
    if (count < least)
        count = least;
    endpoints->first_source = plan->sources.first_source;
    endpoints->source_count = plan->sources.source_count;
    if (endpoints->source_count || count == 1 ||
        !connect_is_loopback(endpoints))
        return;
    connect_parse_sources("127.0.0.1", endpoints);
    endpoints->source_count = (uint32_t)count;
}

/* Where addresses do not suffice to spread them, as on a host of a network. */
static void name_ports(struct plan_target *target)
{
    uint64_t sources = target->endpoints.source_count;
    if (target->connections / (sources ? sources : 1) > PER_SOURCE)
        connect_name_ports(&target->endpoints);
}

/* Returns the most users that a target has. */
static uint64_t share_out_users(struct plan *plan)
{
    uint64_t most = 0, row = 0;
    for (unsigned i = 0; i < plan->target_count; i++) {
        struct plan_target *target = &plan->targets[i];
        target->connections =
            plan->connections[plan->connections_count > 1 ? i : 0];
        target->active = plan->active ? plan->active : target->connections;
        target->first_row = row;
        row += target->connections;
        if (target->connections > most)
            most = target->connections;
    }
    return most;
}

static void fill_in(struct plan *plan)
{
    uint64_t users = share_out_users(plan);
    if (plan->duration_max_s < 0)
        plan->duration_max_s = 5 * plan->duration_s;
    if (plan->warmup_s < 0)
        plan->warmup_s = plan->requests ? 0 : 0.1;
    if (plan->drain_s < 0)
        plan->drain_s = plan_is_sliced(plan) ? 5 : plan->rate > 0 ? 1 : 0.2;
    if (!value_of("--order"))
        plan->order_seed = plan->seed;
    if (plan->block == 0)
        plan->block = users;
    if (plan->processes > users)
        plan->processes = users;
    if (plan_threads(plan) > users)
        plan->threads = users / plan->processes;
    for (unsigned i = 0; i < plan->target_count; i++) {
        spread_sources(plan, &plan->targets[i]);
        name_ports(&plan->targets[i]);
    }
}

/* --- all of it ---------------------------------------------------------- */

void plan_parse(struct plan *plan, int argc, char **argv)
{
    *plan =
        (struct plan){.connections = {1},
                      .connections_count = 1,
                      .path = "/",
                      .seed = 1,
                      .threads = 1,
                      .processes = 1,
                      .duration_s = -1,
                      .warmup_s = -1,
                      .drain_s = -1,
                      .duration_max_s = -1,
                      .timeout_s = 10,
                      .connect_timeout_s = 5,
                      .spin_ns = 100000,
                      .lead_in_ns = UINT64_MAX,
                      .engine = &engine_epoll,
                      .asks = {.size_min = 64, .size_max = 64, .buckets = 1}};
    flags_read(&flags, plan, argc, argv);
    if (!plan->target_count)
        flags_refuse("HOST:PORT", NULL, "missing; see client --help");
    if (plan->lead_in_ns == UINT64_MAX)
        plan->lead_in_ns =
            plan->slice_ns < 10 * NS_PER_MS ? plan->slice_ns / 10 : NS_PER_MS;
    check_conflicts(plan);
    if (plan->duration_s < 0)
        plan->duration_s = 1;
    check_fit(plan);
    check_slices(plan);
    check_files();
    check_ranges(plan);
    fill_in(plan);
}
