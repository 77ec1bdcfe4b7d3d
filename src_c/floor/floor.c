/* floor.c -- measures the machine, not a server: the bounds of every figure.
 *
 *     floor [--what echo,ping-pong,switch,thread,process,timer,neighbour]
 *           [--connections N] [--size BYTES] [--duration S] [--repeats N]
 *           [--cores A,B] [--server HOST:PORT [--server-pid PID]]
 *
 * Prints one JSON object. Each measured value is an array with one number per
 * repeat, and the repeats of all that is asked for are interleaved, so that
 * an interval over repeats holds the drift of the machine as well.
 *
 * With --server, echo's client half drives that server instead of the server
 * half: the same load, so that the ratio of the two is the server alone.
 */
#include "floor.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "floor_setup.h"

enum what { ECHO, PING_PONG, SWITCH, THREAD, PROCESS, TIMER, NEIGHBOUR, WHATS };

static const char *const what_names[WHATS] = {
    "echo", "ping-pong", "switch", "thread", "process", "timer", "neighbour",
};

enum { REPEATS_MAX = 1000 };

static struct floor_echo echoes[REPEATS_MAX];
static double costs[WHATS][REPEATS_MAX];  /* ns; the neighbour's a ratio */
static struct floor_overshoot sleeps[REPEATS_MAX];

__attribute__((format(printf, 1, 2))) _Noreturn
static void usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "floor: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(2);
}

/* --- the command line ---------------------------------------------------- */

enum flag { WHAT = 256, CONNECTIONS, SIZE, DURATION, REPEATS, CORES, SERVER,
            SERVER_PID };

static const struct option flags[] = {
    {"what", required_argument, NULL, WHAT},
    {"connections", required_argument, NULL, CONNECTIONS},
    {"size", required_argument, NULL, SIZE},
    {"duration", required_argument, NULL, DURATION},
    {"repeats", required_argument, NULL, REPEATS},
    {"cores", required_argument, NULL, CORES},
    {"server", required_argument, NULL, SERVER},
    {"server-pid", required_argument, NULL, SERVER_PID},
    {0},
};

static unsigned whole(const char *flag, const char *text, unsigned least,
                      unsigned most)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < (long)least || value > (long)most)
        usage("--%s %s: want a whole number from %u to %u", flag, text, least,
              most);
    return (unsigned)value;
}

static double seconds(const char *flag, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0.01 && value <= 3600))
        usage("--%s %s: want seconds from 0.01 to 3600", flag, text);
    return value;
}

/* "echo,timer" -> one bit each. */
static unsigned read_whats(char *text)
{
    unsigned whats = 0;
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
        int what = 0;
        while (what < WHATS && strcmp(word, what_names[what]) != 0)
            what++;
        if (what == WHATS)
            usage("--what %s: want some of echo,ping-pong,switch,thread,"
                  "process,timer,neighbour", word);
        whats |= 1u << what;
    }
    return whats;
}

static void read_cores(const char *text, int cores[2])
{
    char end;
    if (sscanf(text, "%d,%d%c", &cores[0], &cores[1], &end) != 2 ||
        cores[0] < 0 || cores[1] < 0)
        usage("--cores %s: want two numbers, such as 0,1", text);
}

static void read_server(char *text, struct floor_plan *plan)
{
    char *colon = strrchr(text, ':');
    struct addrinfo *at, hints = {.ai_socktype = SOCK_STREAM,
                                  .ai_flags = AI_NUMERICHOST};
    if (!colon)
        usage("--server %s: want HOST:PORT", text);
    *colon = '\0';
    if (getaddrinfo(text, colon + 1, &hints, &at) != 0)
        usage("--server %s:%s: want a numeric address and a port", text,
              colon + 1);
    memcpy(&plan->server, at->ai_addr, at->ai_addrlen);
    plan->server_bytes = at->ai_addrlen;
    freeaddrinfo(at);
}

/* The first two cores that we may use; one core twice if there is no other. */
static void default_cores(int cores[2])
{
    cpu_set_t set;
    int found = 0;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        floor_die("sched_getaffinity");
    for (int core = 0; core < CPU_SETSIZE && found < 2; core++)
        if (CPU_ISSET(core, &set))
            cores[found++] = core;
    if (found == 1)
        cores[1] = cores[0];
}

static unsigned read_flags(int argc, char **argv, struct floor_plan *plan)
{
    unsigned whats = (1u << WHATS) - 1;
    for (int flag, i; (flag = getopt_long(argc, argv, "", flags, &i)) != -1;)
        switch (flag) {
        case WHAT: whats = read_whats(optarg); break;
        case CONNECTIONS:
            plan->connections = whole("connections", optarg, 1, 100000);
            break;
        case SIZE:
            plan->size_bytes = whole("size", optarg, 1, FLOOR_SIZE_MAX);
            break;
        case DURATION: plan->duration_s = seconds("duration", optarg); break;
        case REPEATS:
            plan->repeats = whole("repeats", optarg, 1, REPEATS_MAX);
            break;
        case CORES: read_cores(optarg, plan->cores); break;
        case SERVER: read_server(optarg, plan); break;
        case SERVER_PID:
            plan->server_pid = (pid_t)whole("server-pid", optarg, 1, 1 << 22);
            break;
        default: exit(2); /* getopt has named the flag */
        }
    if (optind < argc)
        usage("%s: unexpected", argv[optind]);
    return whats;
}

/* --- measuring and printing ---------------------------------------------- */

static void measure(const struct floor_plan *plan, enum what what, unsigned i)
{
    switch (what) {
    case ECHO: echoes[i] = floor_echo(plan); break;
    case PING_PONG: costs[what][i] = floor_ping_pong_ns(plan); break;
    case SWITCH: costs[what][i] = floor_switch_ns(plan); break;
    case THREAD: costs[what][i] = floor_thread_ns(plan); break;
    case PROCESS: costs[what][i] = floor_process_ns(plan); break;
    case TIMER: sleeps[i] = floor_timer(plan); break;
    case NEIGHBOUR: costs[what][i] = floor_neighbour(plan); break;
    case WHATS: break;
    }
}

static double throughput(unsigned i)
{
    return (double)echoes[i].requests / echoes[i].seconds;
}

static double server_cpu_per_request(unsigned i)
{
    double cpu = echoes[i].server_cpu_s;
    return cpu < 0 ? -1 : cpu / (double)echoes[i].requests;
}

static double client_cpu_per_request(unsigned i)
{
    return echoes[i].client_cpu_s / (double)echoes[i].requests;
}

static double requests(unsigned i)
{
    return (double)echoes[i].requests;
}

static double late_median(unsigned i) { return sleeps[i].median_ns; }
static double late_p99(unsigned i) { return sleeps[i].p99_ns; }
static double late_max(unsigned i) { return sleeps[i].max_ns; }

/* "name":[one number per repeat]; what is unknown (negative), or has no value
 * because nothing happened in the window, is null. */
static void print_array(const struct floor_plan *plan, const char *name,
                        double (*value)(unsigned), const double *values)
{
    printf("\"%s\":[", name);
    for (unsigned i = 0; i < plan->repeats; i++) {
        double v = value ? value(i) : values[i];
        if (i > 0)
            printf(",");
        if (v < 0 || !isfinite(v))
            printf("null");
        else
            printf("%.9g", v);
    }
    printf("]");
}

static void print_echo(const struct floor_plan *plan)
{
    printf(",\"echo\":{");
    print_array(plan, "throughput_rps", throughput, NULL);
    printf(",");
    print_array(plan, "requests", requests, NULL);
    printf(",");
    print_array(plan, "server_cpu_per_request_s", server_cpu_per_request, NULL);
    printf(",");
    print_array(plan, "client_cpu_per_request_s", client_cpu_per_request, NULL);
    printf("}");
}

static void print_timer(const struct floor_plan *plan)
{
    struct timespec resolution;
    clock_getres(CLOCK_MONOTONIC, &resolution);
    printf(",\"timer\":{\"resolution_ns\":%ld,\"asked_ns\":1000000,",
           resolution.tv_nsec);
    print_array(plan, "overshoot_p50_ns", late_median, NULL);
    printf(",");
    print_array(plan, "overshoot_p99_ns", late_p99, NULL);
    printf(",");
    print_array(plan, "overshoot_max_ns", late_max, NULL);
    printf("}");
}

static void print_cost(const struct floor_plan *plan, enum what what)
{
    static const char *const keys[WHATS] = {
        [PING_PONG] = "round_trip_ns", [SWITCH] = "switch_ns",
        [THREAD] = "create_join_ns", [PROCESS] = "fork_wait_ns",
        [NEIGHBOUR] = "slowdown",
    };
    printf(",\"%s\":{", what == PING_PONG ? "ping_pong" : what_names[what]);
    print_array(plan, keys[what], NULL, costs[what]);
    printf("}");
}

static void print_all(const struct floor_plan *plan, unsigned whats)
{
    printf("{\"event\":\"floor\",\"cores\":[%d,%d],\"connections\":%u,"
           "\"size_bytes\":%u,\"duration_s\":%g,\"repeats\":%u,"
           "\"against_server\":%s",
           plan->cores[0], plan->cores[1], plan->connections,
           plan->size_bytes, plan->duration_s, plan->repeats,
           plan->server_bytes ? "true" : "false");
    for (enum what what = ECHO; what < WHATS; what++)
        if (!(whats & 1u << what))
            continue;
        else if (what == ECHO)
            print_echo(plan);
        else if (what == TIMER)
            print_timer(plan);
        else
            print_cost(plan, what);
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
    struct floor_plan plan = {.connections = 50, .size_bytes = 64,
                              .duration_s = 0.5, .repeats = 5};
    default_cores(plan.cores);
    unsigned whats = read_flags(argc, argv, &plan);
    raise_limits();
    for (unsigned i = 0; i < plan.repeats; i++)
        for (enum what what = ECHO; what < WHATS; what++)
            if (whats & 1u << what)
                measure(&plan, what, i);
    print_all(&plan, whats);
    return 0;
}
