/* client_plan.c -- see client_plan.h.
 *
 * Every flag is a row of a table: its name, what its value is called and what
 * is allowed, how it is read, where it goes. Help, parsing and complaints come
 * from the same rows.
 */
#include "client_plan.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_watch.h"
#include "common/clock.h"

struct flag {
    const char *name, *value, *allowed, *help;
    bool (*read)(struct plan *plan, const struct flag *flag, const char *text);
    size_t offset;
    double min, max;
};

static _Noreturn void usage(const char *flag, const char *value,
                            const char *allowed)
{
    fprintf(stderr, "client: %s%s%s: %s\n", flag, value ? " " : "",
            value ? value : "", allowed);
    exit(2);
}

/* --- reading values ----------------------------------------------------- */

static bool read_number(const struct flag *flag, const char *text, double *x)
{
    char *end;
    *x = strtod(text, &end);
    return end != text && *end == '\0' && *x >= flag->min && *x <= flag->max;
}

static bool read_count(struct plan *plan, const struct flag *flag,
                       const char *text)
{
    double x;
    if (!read_number(flag, text, &x) || x != floor(x))
        return false;
    *(uint64_t *)((char *)plan + flag->offset) = (uint64_t)x;
    return true;
}

static bool read_real(struct plan *plan, const struct flag *flag,
                      const char *text)
{
    return read_number(flag, text, (double *)((char *)plan + flag->offset));
}

static bool read_text(struct plan *plan, const struct flag *flag,
                      const char *text)
{
    *(const char **)((char *)plan + flag->offset) = text;
    return text[0] != '\0';
}

static bool read_delay(struct plan *plan, const struct flag *flag,
                       const char *text)
{
    return delay_parse(text, (struct delay *)((char *)plan + flag->offset));
}

static bool read_size(struct plan *plan, const struct flag *flag,
                      const char *text)
{
    char *end;
    double low = strtod(text, &end), high = low;
    if (end == text)
        return false;
    if (*end == '-')
        high = strtod(end + 1, &end);
    if (*end != '\0' || low != floor(low) || high != floor(high)
        || low < flag->min || high > flag->max || high < low)
        return false;
    plan->asks.size_min = (size_t)low;
    plan->asks.size_max = (size_t)high;
    return true;
}

/* A time with a unit, or in ms, of min to max ms. */
static bool read_time(struct plan *plan, const struct flag *flag,
                      const char *text)
{
    const char *end;
    double ns = delay_parse_time(text, &end), ms = ns / 1e6;
    if (ns < 0 || *end != '\0' || ms < flag->min || ms > flag->max)
        return false;
    *(uint64_t *)((char *)plan + flag->offset) = (uint64_t)ns;
    return true;
}

/* The processes of the next target's server, PID,PID,… */
static bool read_watch(struct plan *plan, const struct flag *flag,
                       const char *text)
{
    struct plan_target *target = &plan->targets[plan->watch_count];
    (void)flag;
    if (plan->watch_count == MAX_TARGETS)
        return false;
    plan->watch_count++;
    for (const char *end = text;; text = end + 1) {
        long pid = strtol(text, (char **)&end, 10);
        if (end == text || pid < 1 || pid > INT32_MAX
            || target->watched_count == MAX_WATCHED
            || (*end != ',' && *end != '\0'))
            return false;
        target->watched[target->watched_count++] = (pid_t)pid;
        if (*end == '\0')
            return true;
    }
}

static bool read_sources(struct plan *plan, const struct flag *flag,
                         const char *text)
{
    (void)flag;
    return connect_parse_sources(text, &plan->sources);
}

static bool read_arrivals(struct plan *plan, const struct flag *flag,
                          const char *text)
{
    (void)flag;
    plan->arrivals = strcmp(text, "paced") == 0 ? PACE_PACED : PACE_POISSON;
    return plan->arrivals == PACE_PACED || strcmp(text, "poisson") == 0;
}

static bool read_workload(struct plan *plan, const struct flag *flag,
                          const char *text)
{
    (void)flag;
    for (int i = ASK_ECHO; i <= ASK_HTTP; i++) {
        plan->asks.workload = (enum ask_workload)i;
        if (strcmp(text, ask_workload_name(plan->asks.workload)) == 0)
            return true;
    }
    return false;
}

static bool read_engine(struct plan *plan, const struct flag *flag,
                        const char *text)
{
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

static bool read_spin(struct plan *plan, const struct flag *flag,
                      const char *text)
{
    double us;
    plan->spin_ns = UINT64_MAX;
    if (strcmp(text, "always") == 0)
        return true;
    if (!read_number(flag, text, &us))
        return false;
    plan->spin_ns = (uint64_t)(us * 1000);
    return true;
}

/* --- the table ---------------------------------------------------------- */

#define AT(member) offsetof(struct plan, member)
#define DELAYS "MEAN, fixed:MEAN, uniform:MEAN:SPREAD, bimodal:MEAN:SPREAD " \
               "or exponential:MEAN; SPREAD at most MEAN; ms, or with a unit"

static const struct flag flags[] = {
    {NULL, NULL, NULL, "Who asks", NULL, 0, 0, 0},
    {"--connections", "N", "1 to 10000000",
     "users, each with a connection (1)", read_count, AT(connections), 1, 1e7},
    {"--active", "M", "1 to --connections",
     "how many of them ask; the others are idle (all)",
     read_count, AT(active), 1, 1e7},
    {"--sources", "FIRST-LAST", "IPv4 addresses of this host, 127.0.0.1-"
     "127.0.0.8",
     "addresses to connect from, in turn (the system's\n"
     "choice; on loopback one per 10000 connections,\n"
     "and 256 in turn for users who reconnect)", read_sources, 0, 0, 0},
    {"--threads", "T", "1 to 64", "per process (1)",
     read_count, AT(threads), 1, 64},
    {"--processes", "P", "1 to 64",
     "each may open as many descriptors as the system\n"
     "allows one process (1)", read_count, AT(processes), 1, 64},
    {"--seed", "S", "0 to 2^53", "of sizes, delays and arrivals (1)",
     read_count, AT(seed), 0, 9007199254740992.0},

    {NULL, NULL, NULL, "What they ask", NULL, 0, 0, 0},
    {"--workload", "NAME", "echo, work or http", "(echo)",
     read_workload, 0, 0, 0},
    {"--size", "BYTES|MIN-MAX", "1 to 67108864", "echo: bytes per request (64)",
     read_size, 0, 1, 67108864},
    {"--delay", "KIND:MEAN[:SPREAD]", DELAYS,
     "work: how long the server shall take: fixed:5,\n"
     "uniform:5:2, bimodal:5:4, exponential:5, in ms\n"
     "or with a unit, 250us (0)", read_delay, AT(asks.delay), 0, 0},
    {"--buckets", "N", "1 to 2^32", "work: buckets to choose from (1)",
     read_count, AT(asks.buckets), 1, 4294967296.0},
    {"--path", "PATH", "a path that begins with /", "http: what to GET (/)",
     read_text, AT(path), 0, 0},

    {NULL, NULL, NULL, "When they ask", NULL, 0, 0, 0},
    {"--requests", "R", "1 to 10^15",
     "R requests per user, who then leaves", read_count, AT(requests), 1, 1e15},
    {"--duration", "S", "0.001 to 86400 seconds",
     "measure for S seconds (1, without --requests)",
     read_real, AT(duration_s), 0.001, 86400},
    {"--warmup", "S", "0 to 3600 seconds",
     "before that (0.1; 0 with --requests)",
     read_real, AT(warmup_s), 0, 3600},
    {"--settle", "S", "0 to 3600 seconds",
     "closed loop: before the load, let each user ask\n"
     "once and rest until all were answered, for at most\n"
     "S seconds: a server may still be starting a thread\n"
     "for each (0)",
     read_real, AT(settle_s), 0, 3600},
    {"--drain", "S", "0 to 3600 seconds",
     "after that, wait for answers that are missing\n"
     "(0.2; 1 with --rate; 5 with --slice, at the end of\n"
     "each: then the target is given up)", read_real, AT(drain_s), 0, 3600},
    {"--think", "MS", DELAYS,
     "closed loop: pause between an answer and the next\n"
     "request; a number or as for --delay (0)",
     read_delay, AT(think), 0, 0},
    {"--rate", "R", "0.001 to 10^8 requests/s",
     "open loop: R requests/s in all, at times fixed by\n"
     "the seed, whatever the server does",
     read_real, AT(rate), 0.001, 1e8},
    {"--arrivals", "KIND", "poisson or paced",
     "with --rate: random or equal gaps between requests\n"
     "(poisson)",
     read_arrivals, 0, 0, 0},
    {"--byte-rate", "B", "1 to 10^12 bytes/s",
     "a block of connections sends at most so much",
     read_real, AT(byte_rate), 1, 1e12},
    {"--block", "N", "1 to 10000000 connections",
     "with --byte-rate: connections per block (all)",
     read_count, AT(block), 1, 1e7},
    {"--connect-rate", "N", "0.1 to 10^7 connections/s",
     "at first, connect at most so many per second",
     read_real, AT(connect_rate), 0.1, 1e7},
    {"--requests-per-connection", "N", "0 (no limit) to 10^15",
     "then hang up and connect anew, which counts into\n"
     "the response time (0: never)",
     read_count, AT(requests_per_connection), 0, 1e15},
    {"--timeout", "S", "0.001 to 86400 seconds",
     "an answer takes longer: give the connection up (10)",
     read_real, AT(timeout_s), 0.001, 86400},
    {"--connect-timeout", "S", "0.001 to 86400 seconds",
     "the same for connecting (5)",
     read_real, AT(connect_timeout_s), 0.001, 86400},

    {NULL, NULL, NULL, "Several targets in turns", NULL, 0, 0, 0},
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
    {"--watch", "PID,PID,...", "PIDs with commas between",
     "processes of the server whose CPU time is read at\n"
     "the ends of slices, with their children; a --watch\n"
     "for each target, in order",
     read_watch, 0, 0, 0},
    {"--slices", "FILE", "a file to write",
     "CSV, a row per slice; columns: client_slices.h",
     read_text, AT(slices), 0, 0},

    {NULL, NULL, NULL, "How the client works, and what it writes", NULL, 0, 0,
     0},
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
     read_text, AT(per_connection), 0, 0},
    {"--timeline", "FILE", "a file to write", "CSV, a row per 100 ms",
     read_text, AT(timeline), 0, 0},
    {"--histogram", "FILE", "a file to write", "CSV, a row per slot",
     read_text, AT(histogram), 0, 0},
};

enum { FLAGS = sizeof flags / sizeof *flags };

/* --- help --------------------------------------------------------------- */

static void help_flag(const struct flag *flag)
{
    int width = printf("  %s %s", flag->name, flag->value);
    for (const char *line = flag->help; line;) {
        const char *end = strchr(line, '\n');
        int length = end ? (int)(end - line) : (int)strlen(line);
        if (width > 28) {
            putchar('\n');
            width = 0;
        }
        printf("%*s%.*s\n", 29 - width, "", length, line);
        width = 0;
        line = end ? end + 1 : NULL;
    }
}

static _Noreturn void help(void)
{
    puts("Usage: client HOST:PORT [HOST:PORT ...] --connections N [flags]\n\n"
         "Loads a server and prints one JSON object: what was asked, tried and"
         "\nreached, errors by kind, how long answers took, and how busy the "
         "client\nitself was. Answers are checked: of echo every byte, of work "
         "that the value is\nat least the delay, of http the status and the "
         "length of the body.\n\n"
         "  client 127.0.0.1:7000 --connections 100 --duration 2\n"
         "  client 127.0.0.1:7000 --connections 100 --rate 20000 "
         "--arrivals poisson\n"
         "  client 127.0.0.1:7000 --connections 100000 --processes 6 "
         "--active 100\n"
         "  client 127.0.0.1:7000 127.0.0.1:7001 --connections 50 "
         "--slice 20ms");
    for (int i = 0; i < FLAGS; i++) {
        if (flags[i].name)
            help_flag(&flags[i]);
        else
            printf("\n%s\n", flags[i].help);
    }
    puts("\nExit status: 0 with a result (a server that fails is a result), "
         "1 when\nnothing could be set up, 2 after a mistake in the flags.");
    exit(0);
}

/* --- parsing ------------------------------------------------------------ */

/* Finds the flag that `word` names, as "--flag" or "--flag=value". */
static const struct flag *find_flag(char *word, char **value)
{
    size_t length = strcspn(word, "=");
    for (int i = 0; i < FLAGS; i++)
        if (flags[i].name && strlen(flags[i].name) == length
            && strncmp(word, flags[i].name, length) == 0) {
            *value = word[length] ? word + length + 1 : NULL;
            return &flags[i];
        }
    usage(word, NULL, "no such flag; see client --help");
}

static void read_flag(struct plan *plan, const struct flag *flag,
                      const char *value)
{
    char message[256];
    if (value && flag->read(plan, flag, value))
        return;
    snprintf(message, sizeof message, "allowed is %s", flag->allowed);
    usage(flag->name, value ? value : "(nothing)", message);
}

/* Beyond some ten thousand connections between two addresses, the search for a
 * free port takes longer than all the rest, and at 28 thousand it fails. Those
 * that were closed within the last minute count (TIME_WAIT): who reconnects
 * needs room for as many of them as the system keeps, some hundred thousand. */
static void spread_sources(struct plan *plan, struct endpoints *endpoints)
{
    enum { PER_SOURCE = 10000, RECONNECTING = 256 };
    uint64_t least = plan->requests_per_connection ? RECONNECTING : 1;
    uint64_t count = (plan->connections + PER_SOURCE - 1) / PER_SOURCE;
    if (count < least)
        count = least;
    endpoints->first_source = plan->sources.first_source;
    endpoints->source_count = plan->sources.source_count;
    if (endpoints->source_count || count == 1
        || !connect_is_loopback(endpoints))
        return;
    connect_parse_sources("127.0.0.1", endpoints);
    endpoints->source_count = (uint32_t)count;
}

/* --- what goes together ------------------------------------------------- */

/* The value that a flag was given, as it was written; NULL if it was not. */
static const char *value_of(char *const given[], const char *name)
{
    for (int i = 0; i < FLAGS; i++)
        if (flags[i].name && strcmp(flags[i].name, name) == 0)
            return given[i];
    return NULL;
}

static _Noreturn void conflict(char *const given[], const char *flag,
                               const char *other, const char *allowed)
{
    char message[256];
    snprintf(message, sizeof message, "not together with %s %s; %s", other,
             value_of(given, other), allowed);
    usage(flag, value_of(given, flag), message);
}

/* In the open loop the schedule says when to ask, and never waits: neither for
 * a byte rate, nor for a user to think or to ask once. */
static void check_conflicts(const struct plan *plan, char *const given[])
{
    const char *closed = "allowed without --rate";
    bool open = plan->rate > 0;
    if (plan->requests && plan->duration_s >= 0)
        conflict(given, "--requests", "--duration",
                 "allowed is one of the two");
    if (plan->requests && open)
        conflict(given, "--requests", "--rate", "use --duration");
    if (plan->think.mean_ns > 0 && open)
        conflict(given, "--think", "--rate", closed);
    if (plan->byte_rate > 0 && open)
        conflict(given, "--byte-rate", "--rate", closed);
    if (plan->settle_s > 0 && open)
        conflict(given, "--settle", "--rate", closed);
}

/* A parameter that would have no effect is an error, as it is of the server.
 * --arrivals alone is none: a study may vary whether there is a rate. */
static void check_fit(const struct plan *plan, char *const given[])
{
    static const struct {
        const char *flag;
        enum ask_workload workload;
    } owned[] = {{"--size", ASK_ECHO}, {"--delay", ASK_WORK},
                 {"--buckets", ASK_WORK}, {"--path", ASK_HTTP}};
    char message[128];
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        const char *value = value_of(given, owned[i].flag);
        if (!value || owned[i].workload == plan->asks.workload)
            continue;
        snprintf(message, sizeof message,
                 "workload %s does not take it; allowed with --workload %s",
                 ask_workload_name(plan->asks.workload),
                 ask_workload_name(owned[i].workload));
        usage(owned[i].flag, value, message);
    }
    if (plan->block && plan->byte_rate == 0)
        usage("--block", value_of(given, "--block"),
              "allowed only together with --byte-rate");
}

/* A PID that is none would give CPU time of nobody, or of somebody else. */
static void check_watched(const struct plan *plan)
{
    char text[16], message[96];
    for (unsigned i = 0; i < plan->watch_count; i++)
        for (unsigned j = 0; j < plan->targets[i].watched_count; j++) {
            pid_t pid = plan->targets[i].watched[j];
            snprintf(text, sizeof text, "%d", (int)pid);
            if (!watch_exists(pid))
                usage("--watch", text,
                      "no such process; allowed are PIDs that run");
        }
    snprintf(message, sizeof message,
             "there are %u of them; allowed is one per target, %u",
             plan->watch_count, plan->target_count);
    if (plan->watch_count > plan->target_count)
        usage("--watch", NULL, message);
}

/* Slices have ends of their own for what these say of a whole run. */
static void check_slices(const struct plan *plan, char *const given[])
{
    static const char *const whole[] = {"--requests", "--byte-rate",
                                        "--timeline"};
    static const char *const sliced[] = {"--lead-in", "--watch", "--slices"};
    bool is_sliced = plan_is_sliced(plan);
    if (plan->target_count > 1 && !is_sliced)
        usage(plan->targets[1].text, NULL,
              "a second target is allowed only with --slice");
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (is_sliced && value_of(given, whole[i]))
            conflict(given, whole[i], "--slice", "allowed without --slice");
    for (size_t i = 0; i < sizeof sliced / sizeof *sliced; i++)
        if (!is_sliced && value_of(given, sliced[i]))
            usage(sliced[i], value_of(given, sliced[i]),
                  "allowed only together with --slice");
    if (is_sliced && plan->lead_in_ns >= plan->slice_ns)
        conflict(given, "--lead-in", "--slice", "allowed is less than that");
    check_watched(plan);
}

/* An address of some other host would look like a want of ports, later. */
static void check_sources(const struct plan *plan, const char *value)
{
    char address[ADDRESS_BYTES], message[160];
    if (!value)
        return;
    struct endpoints endpoints = plan->targets[0].endpoints;
    for (unsigned i = 0; i < plan->target_count; i++)
        if (plan->targets[i].endpoints.target.ss_family != AF_INET)
            usage("--sources", value, "allowed only for an IPv4 target");
    endpoints.first_source = plan->sources.first_source;
    endpoints.source_count = plan->sources.source_count;
    int error = connect_try_sources(&endpoints, address);
    if (error && error != EADDRNOTAVAIL) {
        fprintf(stderr, "client: bind: %s\n", strerror(error));
        exit(1);
    }
    snprintf(message, sizeof message,
             "%s is not of this host; allowed are its own addresses", address);
    if (error)
        usage("--sources", value, message);
}

static void check_ranges(const struct plan *plan, char *const given[])
{
    char message[80];
    snprintf(message, sizeof message, "allowed is 1 to --connections, %llu",
             (unsigned long long)plan->connections);
    if (plan->active > plan->connections)
        usage("--active", value_of(given, "--active"), message);
    if (plan->path[0] != '/' || strpbrk(plan->path, " \r\n"))
        usage("--path", plan->path,
              "allowed is a path that begins with / and has no spaces");
    check_sources(plan, value_of(given, "--sources"));
}

/* Defaults that depend on other flags. */
static void fill_in(struct plan *plan)
{
    if (plan->duration_s < 0)
        plan->duration_s = 1;
    if (plan->warmup_s < 0)
        plan->warmup_s = plan->requests ? 0 : 0.1;
    if (plan->drain_s < 0)
        plan->drain_s = plan_is_sliced(plan) ? 5 : plan->rate > 0 ? 1 : 0.2;
    if (plan->active == 0)
        plan->active = plan->connections;
    if (plan->block == 0)
        plan->block = plan->connections;
    if (plan->processes > plan->connections)
        plan->processes = plan->connections;
    if (plan_threads(plan) > plan->connections)
        plan->threads = plan->connections / plan->processes;
    for (unsigned i = 0; i < plan->target_count; i++)
        spread_sources(plan, &plan->targets[i].endpoints);
}

/* --- all of it ---------------------------------------------------------- */

static void read_target(struct plan *plan, const char *word)
{
    char message[64];
    snprintf(message, sizeof message, "one too many; allowed are %d targets",
             MAX_TARGETS);
    if (plan->target_count == MAX_TARGETS)
        usage(word, NULL, message);
    struct plan_target *target = &plan->targets[plan->target_count];
    const char *wrong = connect_parse_target(word, &target->endpoints);
    if (wrong)
        usage(word, NULL, wrong);
    target->text = word;
    plan->target_count++;
}

void plan_parse(struct plan *plan, int argc, char **argv)
{
    char *given[FLAGS] = {0};
    *plan = (struct plan){
        .connections = 1, .path = "/", .seed = 1, .threads = 1, .processes = 1,
        .duration_s = -1, .warmup_s = -1, .drain_s = -1,
        .timeout_s = 10, .connect_timeout_s = 5, .spin_ns = 100000,
        .lead_in_ns = UINT64_MAX,
        .engine = &engine_epoll,
        .asks = {.size_min = 64, .size_max = 64, .buckets = 1}};
    for (int i = 1; i < argc; i++) {
        char *value;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            help();
        if (argv[i][0] != '-') {
            read_target(plan, argv[i]);
            continue;
        }
        const struct flag *flag = find_flag(argv[i], &value);
        if (!value && i + 1 < argc)
            value = argv[++i];
        read_flag(plan, flag, value);
        given[flag - flags] = value;
    }
    if (!plan->target_count)
        usage("HOST:PORT", NULL, "missing; see client --help");
    if (plan->lead_in_ns == UINT64_MAX)
        plan->lead_in_ns = plan->slice_ns < 10 * NS_PER_MS
                               ? plan->slice_ns / 10 : NS_PER_MS;
    check_conflicts(plan, given);
    check_fit(plan, given);
    check_slices(plan, given);
    check_ranges(plan, given);
    fill_in(plan);
}
