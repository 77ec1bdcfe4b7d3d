/* options.c -- see options.h. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

enum flag {
    WORKLOAD = 256, LISTEN, WORKERS, N_PROCESSES, BACKLOG, QUEUE,
    BUSY_WAIT, STEER, EXTRA,
    IDLE, HEADER, BODY,                    /* as enum timeout, in its order */
    BUCKETS, DELAY_KIND, REDIS, ROOT,      /* in a row: some workload's own */
    LOG, LIST, HELP,
};

static const struct option flags[] = {
    {"workload", required_argument, NULL, WORKLOAD},
    {"listen", required_argument, NULL, LISTEN},
    {"workers", required_argument, NULL, WORKERS},
    {"processes", required_argument, NULL, N_PROCESSES},
    {"backlog", required_argument, NULL, BACKLOG},
    {"queue", required_argument, NULL, QUEUE},
    {"busy-wait", no_argument, NULL, BUSY_WAIT},
    {"steer", required_argument, NULL, STEER},
    {"extra-ns", required_argument, NULL, EXTRA},
    {"timeout-idle", required_argument, NULL, IDLE},
    {"timeout-header", required_argument, NULL, HEADER},
    {"timeout-body", required_argument, NULL, BODY},
    {"buckets", required_argument, NULL, BUCKETS},
    {"delay-kind", required_argument, NULL, DELAY_KIND},
    {"redis", required_argument, NULL, REDIS},
    {"root", required_argument, NULL, ROOT},
    {"log", required_argument, NULL, LOG},
    {"list", no_argument, NULL, LIST},
    {"help", no_argument, NULL, HELP},
    {0},
};

static const char help[] =
    "usage: server MODEL [options]      one way to wait for many clients\n"
    "       server --list               models and workloads, as JSON\n"
    "\n"
    "  --workload NAME      what is served: %s (echo)\n"
    "  --listen HOST:PORT   numeric address; port 0: the kernel chooses"
    " (127.0.0.1:0)\n"
    "  --workers N          threads, processes or loops, where the model has"
    " them (8)\n"
    "  --processes N        copies of the model behind one port,"
    " SO_REUSEPORT (1)\n"
    "  --backlog N          of listen(2); the kernel caps it at somaxconn"
    " (4096)\n"
    "  --queue N            places in the queue of a pool (1024)\n"
    "  --busy-wait          ask what is ready without end instead of sleeping"
    " until\n"
    "                       something is: a core for less latency\n"
    "  --steer cpu          one port, several listeners: by the CPU of the"
    " packet\n"
    "  --extra-ns N         CPU time that each request costs besides, as a"
    " control:\n"
    "                       a study must find it again (0)\n"
    "  --timeout-idle S     seconds until a client is closed that neither asks"
    " nor\n"
    "                       reads its answer; 0: never (0)\n"
    "  --timeout-header S   from a request's first byte to the end of its head"
    " (0)\n"
    "  --timeout-body S     from there to the end of its body (0)\n"
    "  --buckets N          work: locked buckets (128)\n"
    "  --delay-kind KIND    work: sleep or spin (sleep)\n"
    "  --redis HOST:PORT    http: where the guestbook is kept\n"
    "  --root DIR           http: directory of static files\n"
    "  --log FILE           a CSV row for each finished connection\n"
    "\n"
    "models: %s\n"
    "Standard output: a line {\"event\":\"ready\",...}; after SIGTERM or\n"
    "SIGINT a line {\"event\":\"stats\",...}.\n";

__attribute__((format(printf, 1, 2))) _Noreturn
static void usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "server: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "; see server --help\n");
    va_end(arguments);
    exit(2);
}

static unsigned number(const char *flag, const char *text, unsigned least,
                       unsigned most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < (long)least ||
        value > (long)most)
        usage("--%s %s: want a whole number from %u to %u", flag, text, least,
              most);
    return (unsigned)value;
}

enum { TIMEOUT_MAX_S = 24 * 60 * 60 };

static void read_timeout(struct options *options, enum timeout kind,
                         const char *flag, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= TIMEOUT_MAX_S))
        usage("--%s %s: want seconds from 0, which is never, to %d", flag, text,
              TIMEOUT_MAX_S);
    options->timeout_ns[kind] = clock_seconds_ns(value);
    options->timed = options->timeout_ns[TIMEOUT_IDLE] ||
                     options->timeout_ns[TIMEOUT_HEADER] ||
                     options->timeout_ns[TIMEOUT_BODY];
}

/* "HOST:PORT" or "[V6]:PORT", cut in place. */
static void read_address(char *text, struct options *options)
{
    char *colon = strrchr(text, ':');
    if (!colon)
        usage("--listen %s: want HOST:PORT, such as 127.0.0.1:0", text);
    options->port = (uint16_t)number("listen", colon + 1, 0, 65535);
    *colon = '\0';
    size_t length = strlen(text);
    if (text[0] == '[' && length > 1 && text[length - 1] == ']') {
        text[length - 1] = '\0';
        text++;
    }
    options->host = text;
}

static bool read_kind(const char *text)
{
    if (strcmp(text, "spin") != 0 && strcmp(text, "sleep") != 0)
        usage("--delay-kind %s: want sleep or spin", text);
    return strcmp(text, "spin") == 0;
}

static bool read_steer(const char *text)
{
    if (strcmp(text, "cpu") != 0)
        usage("--steer %s: want cpu", text);
    return true;
}

static const struct workload *read_workload(const char *name)
{
    const struct workload *workload = workload_find(name);
    if (!workload)
        usage("--workload %s: want one of %s", name, workload_names());
    if (workload->missing)
        usage("--workload %s: not available here: %s", name, workload->missing);
    return workload;
}

_Noreturn static void list(void)
{
    printf("{\"models\":");
    model_list_json();
    printf(",\"workloads\":");
    workload_list_json();
    printf("}\n");
    exit(0);
}

static void read_flag(int flag, const char *name, struct options *o,
                      const struct workload **workload)
{
    switch (flag) {
    case WORKLOAD: *workload = read_workload(optarg); break;
    case LISTEN: read_address(optarg, o); break;
    case WORKERS: o->workers = number(name, optarg, 1, 32768); break;
    case N_PROCESSES: o->processes = number(name, optarg, 1, 1024); break;
    case BACKLOG: o->backlog = number(name, optarg, 1, 1 << 20); break;
    case BUSY_WAIT: o->busy_wait = true; break;
    case STEER: o->steer_cpu = read_steer(optarg); break;
    case EXTRA: o->extra_ns = number(name, optarg, 0, 1000000); break;
    case QUEUE: o->queue = number(name, optarg, 1, 1 << 20); break;
    case IDLE: case HEADER: case BODY:
        read_timeout(o, (enum timeout)(flag - IDLE), name, optarg);
        break;
    case BUCKETS: o->workload.buckets = number(name, optarg, 1, 1 << 20); break;
    case DELAY_KIND: o->workload.spin = read_kind(optarg); break;
    case REDIS: o->workload.redis = optarg; break;
    case ROOT: o->workload.root = optarg; break;
    case LOG: o->log_path = optarg; break;
    case LIST: list();
    case HELP: printf(help, workload_names(), model_names()); exit(0);
    default: exit(2); /* getopt has named the flag */
    }
}

static const struct model *read_model(int argc, char **argv)
{
    if (optind >= argc)
        usage("MODEL is missing: want one of %s", model_names());
    if (optind + 1 < argc)
        usage("%s: one MODEL is enough", argv[optind + 1]);
    const struct model *model = model_find(argv[optind]);
    if (!model)
        usage("MODEL %s: want one of %s", argv[optind], model_names());
    if (model_missing(model))
        usage("MODEL %s: not available here: %s", model->name,
              model_missing(model));
    return model;
}

/* A parameter that would have no effect is an error: a study once measured a
 * "pool of 512" whose library stopped at 16. */
static void check_fit(const struct model *model,
                      const struct workload *workload, const struct options *o,
                      char *const given[])
{
    for (const struct option *f = flags; f->name; f++)
        if (f->val >= BUCKETS && f->val <= ROOT && given[f->val - WORKLOAD] &&
            !workload_takes(workload, f->name))
            usage("--%s %s: workload %s does not take it", f->name,
                  given[f->val - WORKLOAD], workload->name);
    if (o->workers && !(model->traits & FIXED_WORKERS))
        usage("--workers %u: model %s has no fixed workers", o->workers,
              model->name);
    if (o->queue && !(model->traits & HAS_QUEUE))
        usage("--queue %u: model %s has no queue", o->queue, model->name);
    if (o->busy_wait && !(model->traits & BUSY_WAITS))
        usage("--busy-wait: model %s waits in calls that block", model->name);
    if (o->steer_cpu && o->processes == 1 && !(model->traits & OWN_LISTENERS))
        usage("--steer cpu: model %s has one listening socket, unless"
              " --processes is 2 or more", model->name);
    if (o->timed && !(model->traits & TIMES_OUT))
        usage("--timeout-...: model %s does not time clients out", model->name);
}

void options_read(int argc, char **argv, const struct model **model,
                  const struct workload **workload, struct options *options)
{
    *options = (struct options){
        .host = "127.0.0.1", .processes = 1, .backlog = 4096,
        .workload = {.buckets = 128},
    };
    *workload = workload_find("echo");
    char *given[HELP - WORKLOAD + 1] = {0};
    int flag, index = 0;
    while ((flag = getopt_long(argc, argv, "", flags, &index)) != -1) {
        read_flag(flag, flags[index].name, options, workload);
        given[flag - WORKLOAD] = optarg;
    }
    *model = read_model(argc, argv);
    check_fit(*model, *workload, options, given);
}
