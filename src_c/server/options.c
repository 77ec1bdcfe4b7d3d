/* options.c -- see options.h: the server's table of flags (common/flags.h), and
 * what of it goes together. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/address.h"
#include "common/clock.h"
#include "common/flags.h"

/* --- reading values --------------------------------------------------- */

static bool read_workload(void *into, const struct flag *flag, const char *name)
{
    struct server *server = into;
    server->workload = workload_find(name);
    if (!server->workload)
        flags_refuse(flag->name, name, "want one of %s", workload_names());
    if (server->workload->missing)
        flags_refuse(flag->name, name, "not available here: %s",
                     server->workload->missing);
    return true;
}

static bool read_listen(void *into, const struct flag *flag, const char *text)
{
    static char host[HOST_BYTES];
    struct options *options = &((struct server *)into)->options;
    int port;
    if (!address_split(text, host, &port))
        return false;
    if (port < 0)
        flags_refuse(flag->name, text, "want a port from 0 to 65535");
    options->host = host;
    options->port = (uint16_t)port;
    return true;
}

static bool read_timeout(void *into, const struct flag *flag, const char *text)
{
    double seconds;
    if (!flag_number(flag, text, &seconds))
        return false;
    *(uint64_t *)flag_member(into, flag) = clock_seconds_ns(seconds);
    return true;
}

static bool read_kind(void *into, const struct flag *flag, const char *text)
{
    bool spin = strcmp(text, "spin") == 0;
    *(bool *)flag_member(into, flag) = spin;
    return spin || strcmp(text, "sleep") == 0;
}

static bool read_steer(void *into, const struct flag *flag, const char *text)
{
    return flag_true(into, flag, text) && strcmp(text, "cpu") == 0;
}

_Noreturn static bool list(void *into, const struct flag *flag,
                           const char *text)
{
    (void)into, (void)flag, (void)text;
    printf("{\"models\":");
    model_list_json();
    printf(",\"workloads\":");
    workload_list_json();
    printf("}\n");
    exit(0);
}

static void read_model(void *into, const char *name)
{
    struct server *server = into;
    if (server->model)
        flags_refuse(name, NULL, "one MODEL is enough");
    server->model = model_find(name);
    if (!server->model)
        flags_refuse("MODEL", name, "want one of %s", model_names());
    const char *missing = model_missing(server->model);
    if (missing)
        flags_refuse("MODEL", name, "not available here: %s", missing);
}

/* --- the table -------------------------------------------------------- */

#define AT(member) offsetof(struct server, options.member)
#define SECONDS "seconds from 0, which is never, to 86400"
enum { DAY_S = 24 * 60 * 60, MANY = 1 << 20 };

/* clang-format off */
static const struct flag rows[] = {
    {.help = "What it serves, and where"},
    {"--workload", "NAME", "a workload of --list",
     "one of --list (echo)", read_workload, 0, 0, 0},
    {"--listen", "HOST:PORT", "HOST:PORT, such as 127.0.0.1:0",
     "a numeric address; port 0: the kernel chooses\n"
     "(127.0.0.1:0)", read_listen, 0, 0, 0},
    {"--backlog", "N", NULL,
     "of listen(2); the kernel cuts it to somaxconn\n"
     "(4096)",
     flag_unsigned, AT(backlog), 1, MANY},
    {"--log", "FILE", "a file to write",
     "a CSV row for each finished connection",
     flag_text, AT(log_path), 0, 0},

    {.help = "How the model runs"},
    {"--workers", "N", NULL,
     "threads, processes or loops, where the model has\n"
     "them (8)", flag_unsigned, AT(workers), 1, 32768},
    {"--processes", "N", NULL,
     "copies of the model behind one port,\n"
     "SO_REUSEPORT (1)",
     flag_unsigned, AT(processes), 1, 1024},
    {"--queue", "N", NULL, "places in the queue of a pool (1024)",
     flag_unsigned, AT(queue), 1, MANY},
    {"--busy-wait", NULL, NULL,
     "ask what is ready without end instead of sleeping\n"
     "until something is: a core for less latency",
     flag_true, AT(busy_wait), 0, 0},
    {"--steer", "cpu", "cpu",
     "one port, several listeners: by the packet's CPU",
     read_steer, AT(steer_cpu), 0, 0},
    {"--extra-ns", "N", NULL,
     "CPU time that each request costs besides, as a\n"
     "control: a study must find it again (0)",
     flag_uint64, AT(extra_ns), 0, 1000000},

    {.help = "How long a client may take"},
    {"--timeout-idle", "S", SECONDS,
     "to begin a request, or to read its answer; 0: as\n"
     "long as it likes (0)",
     read_timeout, AT(timeout_ns[TIMEOUT_IDLE]), 0, DAY_S},
    {"--timeout-header", "S", SECONDS,
     "from a request's first byte to its head's end (0)",
     read_timeout, AT(timeout_ns[TIMEOUT_HEADER]), 0, DAY_S},
    {"--timeout-body", "S", SECONDS, "from there to the end of its body (0)",
     read_timeout, AT(timeout_ns[TIMEOUT_BODY]), 0, DAY_S},

    {.help = "Of one workload"},
    {"--buckets", "N", NULL, "work: locked buckets (128)",
     flag_unsigned, AT(workload.buckets), 1, MANY},
    {"--delay-kind", "KIND", "sleep or spin", "work: sleep or spin (sleep)",
     read_kind, AT(workload.spin), 0, 0},
    {"--redis", "HOST:PORT", "HOST:PORT", "http: where the guestbook is kept",
     flag_text, AT(workload.redis), 0, 0},
    {"--root", "DIR", "a directory", "http: directory of static files",
     flag_text, AT(workload.root), 0, 0},

    {.help = "Instead"},
    {"--list", NULL, NULL, "models and workloads, as JSON", list, 0, 0, 0},
};
/* clang-format on */

enum { ROWS = sizeof rows / sizeof *rows };

static const char *given[ROWS];
static const struct flags flags = {
    .rows = rows,
    .given = given,
    .count = ROWS,
    .operand = read_model,
    .head = "usage: server MODEL [flags]      one way to wait for many clients",
    .tail = "MODEL is one of --list. Standard output: a line "
            "{\"event\":\"ready\",...};\nafter SIGTERM or SIGINT a line "
            "{\"event\":\"stats\",...}.",
};

/* --- what goes together ----------------------------------------------- */

/* A flag that would have no effect is an error: a study once measured a "pool
 * of 512" whose library stopped at 16. */
static void check_workload(const struct workload *workload)
{
    static const char *const owned[] = {"--buckets", "--delay-kind", "--redis",
                                        "--root"};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        const char *value = flags_given(&flags, owned[i]);
        if (value && !workload_takes(workload, owned[i] + strlen("--")))
            flags_refuse(owned[i], value, "workload %s does not take it",
                         workload->name);
    }
}

static void check_model(const struct server *server)
{
    static const struct {
        const char *flag;
        enum trait trait;
        const char *why;
    } needed[] = {
        {"--workers", FIXED_WORKERS, "has no fixed workers"},
        {"--queue", HAS_QUEUE, "has no queue"},
        {"--busy-wait", BUSY_WAITS, "waits in calls that block"},
        {"--timeout-idle", TIMES_OUT, "does not time clients out"},
        {"--timeout-header", TIMES_OUT, "does not time clients out"},
        {"--timeout-body", TIMES_OUT, "does not time clients out"},
    };
    const struct model *model = server->model;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const char *value = flags_given(&flags, needed[i].flag);
        if (value && !(model->traits & needed[i].trait))
            flags_refuse(needed[i].flag, *value ? value : NULL, "model %s %s",
                         model->name, needed[i].why);
    }
    if (server->options.steer_cpu && server->options.processes == 1 &&
        !(model->traits & OWN_LISTENERS))
        flags_refuse("--steer", "cpu",
                     "model %s has one listening socket,"
                     " unless --processes is 2 or more",
                     model->name);
}

void options_read(int argc, char **argv, struct server *server)
{
    struct options *options = &server->options;
    *options = (struct options){
        .host = "127.0.0.1",
        .workers = 8,
        .processes = 1,
        .backlog = 4096,
        .queue = 1024,
        .workload = {.buckets = 128},
    };
    server->workload = workload_find("echo");
    flags_read(&flags, server, argc, argv);
    if (!server->model)
        flags_refuse("MODEL is missing", NULL, "want one of %s", model_names());
    for (int kind = 0; kind < TIMEOUTS; kind++)
        options->timed |= options->timeout_ns[kind] > 0;
    check_workload(server->workload);
    check_model(server);
}
