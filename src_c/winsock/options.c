/* options.c -- see options.h. Read by hand: getopt is not in Windows. */
#include "winsock/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "winsock/models/select.h"
#include "winsock/stats.h"

static const char help[] =
    "usage: server.exe MODEL [options]   one way to wait for many clients\n"
    "       server.exe --list            models and workloads, as JSON\n"
    "\n"
    "  --workload echo      what is served\n"
    "  --listen HOST:PORT   numeric address; port 0: Windows chooses"
    " (127.0.0.1:0)\n"
    "  --backlog N          of listen() (SOMAXCONN: Windows chooses)\n"
    "  --workers N          iocp: threads (one a processor)\n"
    "  --fd-setsize N       select: places in a set, the listener's included"
    " (%u)\n"
    "  --until-eof          stop at the end of standard input as well\n"
    "\n"
    "models: %s\n"
    "Standard output: a line {\"event\":\"ready\",...}; after Ctrl-C or\n"
    "Ctrl-Break a line {\"event\":\"stats\",...}.\n";

#define MODEL(symbol, name, family, label, holds, workers, each)               \
    {name, family, label, holds, workers, each, symbol##_run},
static const struct model models[] = {
#include "winsock/models.def"
};
#undef MODEL

enum { MODELS = sizeof models / sizeof models[0] };

#define MODEL(symbol, name, ...) ", " name
static const char model_names[] =
#include "winsock/models.def"
    ;
#undef MODEL

_Noreturn static void usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "server: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "; see server.exe --help\n");
    va_end(arguments);
    exit(2);
}

static bool is(const char *text, const char *other)
{
    return strcmp(text, other) == 0;
}

/* --- --list ----------------------------------------------------------- */

static void model_print_json(const struct model *m)
{
    bool own = m->workers_each > 0;
    printf("{\"name\":\"%s\",\"family\":\"%s\",\"label\":\"%s\","
           "\"available\":true,\"reason\":null,\"concurrent\":true,"
           "\"holds\":\"%s\",\"isolates_slow\":true,\"workers\":\"%s\","
           "\"workers_each\":%u,\"queue\":false,\"slow_client\":\"holds %s\","
           "\"timeouts\":false,\"notices_reset\":false,\"busy_wait\":false}",
           m->name, m->family, m->label, m->holds, m->workers, m->workers_each,
           own ? "two threads of its own" : "its own state");
}

_Noreturn static void list(void)
{
    printf("{\"models\":[");
    for (int i = 0; i < MODELS; i++) {
        printf(i ? "," : "");
        model_print_json(&models[i]);
    }
    printf("],\"workloads\":[{\"name\":\"echo\",\"label\":\"echo\","
           "\"available\":true,\"reason\":null}]}\n");
    exit(0);
}

/* --- the flags -------------------------------------------------------- */

static unsigned number(const char *flag, const char *text, unsigned least,
                       unsigned most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < (long)least ||
        value > (long)most)
        usage("%s %s: want a whole number from %u to %u", flag, text, least,
              most);
    return (unsigned)value;
}

/* "HOST:PORT" or "[V6]:PORT", cut in place. */
static void read_address(char *text, struct options *options)
{
    char *colon = strrchr(text, ':');
    if (!colon)
        usage("--listen %s: want HOST:PORT, such as 127.0.0.1:0", text);
    number("--listen", colon + 1, 0, 65535);
    options->port = colon + 1;
    *colon = '\0';
    if (text[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        text++;
    }
    options->host = text;
}

static void read_flag(const char *flag, char *value, struct options *o)
{
    if (is(flag, "--listen"))
        read_address(value, o);
    else if (is(flag, "--backlog"))
        o->backlog = (int)number(flag, value, 1, SOMAXCONN);
    else if (is(flag, "--workers"))
        o->workers = number(flag, value, 1, STATS_WORKERS);
    else if (is(flag, "--fd-setsize"))
        o->fd_setsize = number(flag, value, 2, SELECT_PLACES);
    else if (!is(flag, "--workload"))
        usage("%s: no such flag", flag);
    else if (!is(value, "echo"))
        usage("--workload %s: want echo", value);
}

static const struct model *find_model(const char *name)
{
    for (int i = 0; i < MODELS; i++)
        if (is(models[i].name, name))
            return &models[i];
    usage("MODEL %s: want one of %s", name, model_names + 2);
}

/* A word that does not begin with "--" and belongs to no flag. */
static void read_model(const char *name, struct server *server)
{
    if (server->model)
        usage("%s: one MODEL is enough", name);
    server->model = find_model(name);
}

static void read_words(int count, char **words, struct server *server)
{
    for (int i = 0; i < count; i++) {
        if (is(words[i], "--list"))
            list();
        if (is(words[i], "--help")) {
            printf(help, SELECT_PLACES, model_names + 2);
            exit(0);
        }
        if (is(words[i], "--until-eof"))
            server->options.until_eof = true;
        else if (strncmp(words[i], "--", 2) != 0)
            read_model(words[i], server);
        else if (i + 1 == count)
            usage("%s: its value is missing, or there is no such flag",
                  words[i]);
        else
            read_flag(words[i], words[i + 1], &server->options), i++;
    }
}

/* A parameter that would have no effect is an error. */
static void check_fit(const struct model *model, const struct options *o)
{
    if (o->workers && !is(model->workers, "fixed"))
        usage("--workers %u: model %s has no fixed workers", o->workers,
              model->name);
    if (o->fd_setsize && !is(model->holds, "fd_setsize"))
        usage("--fd-setsize %u: model %s has no fd_set", o->fd_setsize,
              model->name);
}

static unsigned processors(void)
{
    SYSTEM_INFO machine;
    GetSystemInfo(&machine);
    return machine.dwNumberOfProcessors < STATS_WORKERS
               ? machine.dwNumberOfProcessors
               : STATS_WORKERS;
}

void options_read(int argc, char **argv, struct server *server)
{
    struct options *o = &server->options;
    *o = (struct options){
        .host = "127.0.0.1", .port = "0", .backlog = SOMAXCONN};
    read_words(argc - 1, argv + 1, server);
    if (!server->model)
        usage("MODEL is missing: want one of %s", model_names + 2);
    check_fit(server->model, o);
    server->workers = 1;
    if (is(server->model->workers, "fixed"))
        server->workers = o->workers ? o->workers : processors();
}
