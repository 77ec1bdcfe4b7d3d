/* floor.c -- measures the machine, not a server: the bounds of every figure.
 *
 *     flags -> { each measurement, once } x --repeats -> JSON
 *
 * Prints one JSON object. Each measured value is an array with one number per
 * repeat, and the repeats of all that is asked for are interleaved, so that
 * an interval over repeats holds the drift of the machine as well.
 *
 * With --server, echo's client half drives that server instead of the server
 * half: the same load, so that the ratio of the two is the server alone.
 */
#include "floor.h"

#include <assert.h>
#include <err.h>
#include <math.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/address.h"
#include "common/flags.h"
#include "common/parent.h"

enum what {
    ECHO,
    PING_PONG,
    SWITCH,
    RING,
    THREAD,
    PROCESS,
    TIMER,
    NEIGHBOUR,
    CORE_TO_CORE,
    CALLS,
    WHATS
};

static const char *const what_names[WHATS] = {
    "echo",    "ping-pong", "switch",    "ring",         "thread",
    "process", "timer",     "neighbour", "core-to-core", "calls",
};

enum { REPEATS_MAX = 1000 };

/* A number per repeat of each value; a cost in ns, the neighbour's a ratio. */
static double requests[REPEATS_MAX], requests_per_s[REPEATS_MAX];
static double server_cpu_per_request_s[REPEATS_MAX];
static double client_cpu_per_request_s[REPEATS_MAX];
static double trip_ns[REPEATS_MAX], trip_server_cpu_ns[REPEATS_MAX];
static double late_p50_ns[REPEATS_MAX], late_p99_ns[REPEATS_MAX];
static double late_max_ns[REPEATS_MAX];
static double costs[WHATS][REPEATS_MAX], calls[FLOOR_CALLS][REPEATS_MAX];

/* --- the command line ---------------------------------------------------- */

/* Repeats what is wanted for the one word of the list that is wrong. */
static bool read_whats(void *into, const struct flag *flag, const char *text)
{
    unsigned *whats = flag_member(into, flag);
    *whats = 0;
    for (const char *word = text, *end; *word; word = end + (*end == ',')) {
        end = strchrnul(word, ',');
        size_t length = (size_t)(end - word);
        int what = 0;
        while (what < WHATS && (strlen(what_names[what]) != length ||
                                memcmp(word, what_names[what], length) != 0))
            what++;
        if (what == WHATS)
            flags_refuse(flag->name, word, "want some of %s", flag->allowed);
        *whats |= 1u << what;
    }
    return *whats != 0;
}

static bool read_cores(void *into, const struct flag *flag, const char *text)
{
    int *cores = flag_member(into, flag);
    char end;
    cpu_set_t ours;
    if (sscanf(text, "%d,%d%c", &cores[0], &cores[1], &end) != 2 ||
        cores[0] < 0 || cores[1] < 0)
        return false;
    if (sched_getaffinity(0, sizeof ours, &ours) < 0)
        err(1, "sched_getaffinity");
    for (int i = 0; i < 2; i++)
        if (!CPU_ISSET((size_t)cores[i], &ours))
            flags_refuse(flag->name, text, "core %d is none that we may use",
                         cores[i]);
    return true;
}

static bool read_server(void *into, const struct flag *flag, const char *text)
{
    struct floor_plan *plan = into;
    const char *wrong =
        address_find(text, AI_NUMERICHOST, &plan->server, &plan->server_bytes);
    if (wrong)
        flags_refuse(flag->name, text, "%s (a numeric address)", wrong);
    return true;
}

_Noreturn static void read_operand(void *into, const char *word)
{
    (void)into;
    flags_refuse(word, NULL, "unexpected");
}

#define AT(member) offsetof(struct floor_plan, member)
/* clang-format off */
static const struct flag rows[] = {
    {.help = "What is measured"},
    {"--what", "WHAT,...",
     "echo,ping-pong,switch,ring,thread,process,timer,neighbour,core-to-core,"
     "calls",
     "echo, ping-pong, switch, ring, thread, process,\n"
     "timer, neighbour, core-to-core, calls (all)",
     read_whats, AT(whats), 0, 0},
    {"--repeats", "N", NULL, "of each, in turn (5)",
     flag_unsigned, AT(repeats), 1, REPEATS_MAX},
    {"--cores", "A,B", "two numbers, such as 0,1",
     "the server half's, the other's (the first two)",
     read_cores, AT(cores), 0, 0},

    {.help = "Echo"},
    {"--connections", "N", NULL, "between the halves; threads in a ring (50)",
     flag_unsigned, AT(connections), 1, 100000},
    {"--size", "BYTES", NULL, "of a message (64)",
     flag_unsigned, AT(size_bytes), 1, FLOOR_SIZE_MAX},
    {"--duration", "S", "seconds from 0.01 to 3600", "of a window (0.5)",
     flag_double, AT(duration_s), 0.01, 3600},
    {"--server", "HOST:PORT", "HOST:PORT, a numeric address and a port",
     "loads that server instead of the server half",
     read_server, 0, 0, 0},
    {"--server-pid", "PID", NULL, "whose CPU time to read",
     flag_unsigned, AT(server_pid), 1, 1 << 22},
};
/* clang-format on */

enum { ROWS = sizeof rows / sizeof *rows };

static const char *given[ROWS];
static const struct flags flags = {
    .rows = rows,
    .given = given,
    .count = ROWS,
    .operand = read_operand,
    .head = "usage: floor [flags]      what this machine's own calls cost",
    .tail = "Prints one JSON object; each value is an array, a number per "
            "repeat.",
};
static_assert(sizeof(pid_t) == sizeof(unsigned), "read by flag_unsigned()");

/* The first two cores that we may use; one core twice if there is no other. */
static void default_cores(int cores[2])
{
    cpu_set_t set;
    int found = 0;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        err(1, "sched_getaffinity");
    for (int core = 0; core < CPU_SETSIZE && found < 2; core++)
        if (CPU_ISSET(core, &set))
            cores[found++] = core;
    if (found == 1)
        cores[1] = cores[0];
}

/* --- measuring and printing ---------------------------------------------- */

static void measure_echo(const struct floor_plan *plan, unsigned i)
{
    struct floor_echo echo = floor_echo(plan);
    double cpu_s = echo.server_cpu_s;
    requests[i] = (double)echo.requests;
    requests_per_s[i] = requests[i] / echo.seconds;
    server_cpu_per_request_s[i] = cpu_s < 0 ? -1 : cpu_s / requests[i];
    client_cpu_per_request_s[i] = echo.client_cpu_s / requests[i];
}

static void measure_ping_pong(const struct floor_plan *plan, unsigned i)
{
    struct floor_trip trip = floor_ping_pong(plan);
    trip_ns[i] = trip.ns;
    trip_server_cpu_ns[i] = trip.server_cpu_ns;
}

static void measure_timer(const struct floor_plan *plan, unsigned i)
{
    struct floor_overshoot late = floor_timer(plan);
    late_p50_ns[i] = late.median_ns;
    late_p99_ns[i] = late.p99_ns;
    late_max_ns[i] = late.max_ns;
}

static void measure_calls(const struct floor_plan *plan, unsigned i)
{
    double ns[FLOOR_CALLS];
    floor_calls(plan, ns);
    for (int call = 0; call < FLOOR_CALLS; call++)
        calls[call][i] = ns[call];
}

static void measure(const struct floor_plan *plan, enum what what, unsigned i)
{
    switch (what) {
    case ECHO: measure_echo(plan, i); break;
    case PING_PONG: measure_ping_pong(plan, i); break;
    case SWITCH: costs[what][i] = floor_switch_ns(plan); break;
    case RING: costs[what][i] = floor_ring_ns(plan); break;
    case THREAD: costs[what][i] = floor_thread_ns(plan); break;
    case PROCESS: costs[what][i] = floor_process_ns(plan); break;
    case TIMER: measure_timer(plan, i); break;
    case NEIGHBOUR: costs[what][i] = floor_neighbour(plan); break;
    case CORE_TO_CORE: costs[what][i] = floor_core_to_core_ns(plan); break;
    case CALLS: measure_calls(plan, i); break;
    case WHATS: break;
    }
}

/* "name":[one number per repeat]; what is unknown (negative), or has no value
 * because nothing happened in the window, is null. */
static void print_array(const struct floor_plan *plan, const char *name,
                        const double *values)
{
    printf("\"%s\":[", name);
    for (unsigned i = 0; i < plan->repeats; i++) {
        if (i > 0)
            printf(",");
        if (values[i] < 0 || !isfinite(values[i]))
            printf("null");
        else
            printf("%.9g", values[i]);
    }
    printf("]");
}

static void print_echo(const struct floor_plan *plan)
{
    printf(",\"echo\":{");
    print_array(plan, "throughput_rps", requests_per_s);
    printf(",");
    print_array(plan, "requests", requests);
    printf(",");
    print_array(plan, "server_cpu_per_request_s", server_cpu_per_request_s);
    printf(",");
    print_array(plan, "client_cpu_per_request_s", client_cpu_per_request_s);
    printf("}");
}

static void print_ping_pong(const struct floor_plan *plan)
{
    printf(",\"ping_pong\":{");
    print_array(plan, "round_trip_ns", trip_ns);
    printf(",");
    print_array(plan, "server_cpu_ns", trip_server_cpu_ns);
    printf("}");
}

static void print_calls(const struct floor_plan *plan)
{
    static const char *const keys[FLOOR_CALLS] = {
        "entry_ns", "epoll_ns", "event_ns",    "poll_ns",
        "walk_ns",  "pipe_ns",  "copy_kib_ns", "exchange_ns",
    };
    for (int call = 0; call < FLOOR_CALLS; call++) {
        printf("%s", call ? "," : ",\"calls\":{");
        print_array(plan, keys[call], calls[call]);
    }
    printf("}");
}

static void print_timer(const struct floor_plan *plan)
{
    struct timespec resolution;
    clock_getres(CLOCK_MONOTONIC, &resolution);
    printf(",\"timer\":{\"resolution_ns\":%ld,\"asked_ns\":1000000,",
           resolution.tv_nsec);
    print_array(plan, "overshoot_p50_ns", late_p50_ns);
    printf(",");
    print_array(plan, "overshoot_p99_ns", late_p99_ns);
    printf(",");
    print_array(plan, "overshoot_max_ns", late_max_ns);
    printf("}");
}

static void print_cost(const struct floor_plan *plan, enum what what)
{
    static const char *const keys[WHATS] = {
        [SWITCH] = "switch_ns",      [RING] = "switch_ns",
        [THREAD] = "create_join_ns", [PROCESS] = "fork_wait_ns",
        [NEIGHBOUR] = "slowdown",    [CORE_TO_CORE] = "round_trip_ns",
    };
    printf(",\"");
    for (const char *c = what_names[what]; *c; c++)
        putchar(*c == '-' ? '_' : *c);
    printf("\":{");
    print_array(plan, keys[what], costs[what]);
    printf("}");
}

static void print_what(const struct floor_plan *plan, enum what what)
{
    switch (what) {
    case ECHO: print_echo(plan); break;
    case PING_PONG: print_ping_pong(plan); break;
    case TIMER: print_timer(plan); break;
    case CALLS: print_calls(plan); break;
    default: print_cost(plan, what);
    }
}

static void print_all(const struct floor_plan *plan)
{
    printf("{\"event\":\"floor\",\"cores\":[%d,%d],\"connections\":%u,"
           "\"size_bytes\":%u,\"duration_s\":%g,\"repeats\":%u,"
           "\"against_server\":%s",
           plan->cores[0], plan->cores[1], plan->connections, plan->size_bytes,
           plan->duration_s, plan->repeats,
           plan->server_bytes ? "true" : "false");
    for (enum what what = ECHO; what < WHATS; what++)
        if (plan->whats & 1u << what)
            print_what(plan, what);
    printf("}\n");
}

static void raise_limits(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    struct floor_plan plan = {.whats = (1u << WHATS) - 1,
                              .connections = 50,
                              .size_bytes = 64,
                              .duration_s = 0.5,
                              .repeats = 5};
    parent_die_with(getppid());
    signal(SIGCHLD, SIG_DFL); /* ignored, it would leave no child to wait for */
    default_cores(plan.cores);
    flags_read(&flags, &plan, argc, argv);
    raise_limits();
    for (unsigned i = 0; i < plan.repeats; i++)
        for (enum what what = ECHO; what < WHATS; what++)
            if (plan.whats & 1u << what)
                measure(&plan, what, i);
    print_all(&plan);
    return 0;
}
