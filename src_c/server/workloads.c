/* workloads.c -- the registry of workloads: finds and lists them. */
#include "workload.h"

#include <stdio.h>
#include <string.h>

#define WORKLOAD(name) extern const struct workload workload_##name;
#include "workloads.def"
#undef WORKLOAD

#define WORKLOAD(name) &workload_##name,
static const struct workload *const workloads[] = {
#include "workloads.def"
};
#undef WORKLOAD

#define WORKLOADS (sizeof workloads / sizeof workloads[0])

const struct workload *workload_find(const char *name)
{
    for (size_t i = 0; i < WORKLOADS; i++)
        if (strcmp(workloads[i]->name, name) == 0)
            return workloads[i];
    return NULL;
}

bool workload_takes(const struct workload *workload, const char *flag)
{
    size_t length = strlen(flag);
    for (const char *at = workload->takes; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, flag, length) == 0 && strchr(",", at[length]))
            return true;
    }
    return false;
}

void workload_list_json(void)
{
    for (size_t i = 0; i < WORKLOADS; i++) {
        const struct workload *w = workloads[i];
        printf("%s{\"name\":\"%s\",\"label\":\"%s\",\"available\":%s,",
               i ? "," : "[", w->name, w->label, w->missing ? "false" : "true");
        if (w->missing)
            printf("\"reason\":\"%s\"}", w->missing);
        else
            printf("\"reason\":null}");
    }
    printf("]");
}

#define WORKLOAD(name) ", " #name
const char *workload_names(void)
{
    static const char names[] =
#include "workloads.def"
        ;
    return names + 2;
}
#undef WORKLOAD
