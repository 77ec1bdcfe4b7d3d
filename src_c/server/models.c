/* models.c -- the registry of models: finds and lists them. */
#include "model.h"

#include <stdio.h>
#include <string.h>

#define MODEL(symbol, ...) extern const struct model_code symbol##_model;
#include "models.def"
#undef MODEL

#define MODEL(symbol, name, family, label, traits)                             \
    {name, family, label, traits, &symbol##_model},
static const struct model models[] = {
#include "models.def"
};
#undef MODEL

#define MODELS (sizeof models / sizeof models[0])

const struct model *model_find(const char *name)
{
    for (size_t i = 0; i < MODELS; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

const char *model_missing(const struct model *model)
{
    return model->code->missing ? model->code->missing() : NULL;
}

/* The resource that ends the number of connections it holds. */
static const char *model_holds(const struct model *model)
{
    if (model->traits & SERIAL)
        return "one";
    if (model->traits & HOLDS_FDSETSIZE)
        return "fd_setsize";
    if (model->traits & WORKER_EACH)
        return model->family == PROCESSES ? "processes" : "threads";
    if (model->traits & FIXED_WORKERS &&
        (model->family == PROCESSES || model->family == THREADS))
        return "workers";
    return "descriptors";
}

static const char *model_worker_kind(const struct model *model)
{
    if (model->traits & WORKER_EACH)
        return "per-connection";
    if (model->traits & WORKER_GROUPS)
        return "per-group";
    return model->traits & FIXED_WORKERS ? "fixed" : "none";
}

/* What a client holds up that is silent, or sends and reads slowly. */
static const char *model_slow_client(const struct model *model)
{
    if (model->traits & SERIAL)
        return "holds up all others";
    if (model->traits & SLOW_HURTS)
        return "holds one of the workers";
    if (!(model->traits & WORKER_EACH))
        return "holds its own state";
    if (model->traits & TWO_EACH)
        return "holds two threads of its own";
    return model->family == PROCESSES ? "holds a process of its own"
                                      : "holds a thread of its own";
}

static const char *json_bool(bool value)
{
    return value ? "true" : "false";
}

static void model_print_json(const struct model *m)
{
    static const char *const families[] = {
        "blocking",  "processes",  "threads",
        "readiness", "completion", "coroutine",
    };
    const char *missing = model_missing(m);
    printf("{\"name\":\"%s\",\"family\":\"%s\",\"label\":\"%s\",", m->name,
           families[m->family], m->label);
    printf("\"available\":%s,\"reason\":", json_bool(!missing));
    printf(missing ? "\"%s\"," : "null,", missing);
    printf("\"concurrent\":%s,\"holds\":\"%s\",\"isolates_slow\":%s,"
           "\"workers\":\"%s\",\"workers_each\":%d,\"queue\":%s,",
           json_bool(!(m->traits & SERIAL)), model_holds(m),
           json_bool(!(m->traits & SLOW_HURTS)), model_worker_kind(m),
           m->traits & WORKER_EACH ? 1 + !!(m->traits & TWO_EACH) : 0,
           json_bool(m->traits & HAS_QUEUE));
    printf("\"slow_client\":\"%s\",\"timeouts\":%s,\"notices_reset\":%s,",
           model_slow_client(m), json_bool(m->traits & TIMES_OUT),
           json_bool(m->traits & NOTICES_RESET));
    printf("\"busy_wait\":%s,\"steer\":\"%s\"}",
           json_bool(m->traits & BUSY_WAITS),
           m->traits & OWN_LISTENERS ? "workers" : "processes");
}

void model_list_json(void)
{
    for (size_t i = 0; i < MODELS; i++) {
        printf(i ? "," : "[");
        model_print_json(&models[i]);
    }
    printf("]");
}

#define MODEL(symbol, name, ...) ", " name
const char *model_names(void)
{
    static const char names[] =
#include "models.def"
        ;
    return names + 2;
}
#undef MODEL

unsigned model_workers(const struct server *server)
{
    return server->model->traits & FIXED_WORKERS ? server->options.workers : 1;
}

unsigned model_slot(const struct server *server, unsigned worker)
{
    return server->process * model_workers(server) + worker;
}
