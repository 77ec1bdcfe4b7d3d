/* workers.c -- see workers.h. */
#include "workers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "threads.h"

struct member {
    struct server *server;
    unsigned worker;
    worker_work *work;
    void *shared;
};

static void member_main(void *argument)
{
    struct member member = *(struct member *)argument;
    free(argument);
    member.work(member.server, member.worker, member.shared);
}

static bool start(const struct member *member)
{
    struct member *copy = malloc(sizeof *copy);
    if (!copy)
        return false;
    *copy = *member;
    if (threads_start(member_main, copy))
        return true;
    free(copy);
    return false;
}

void workers_warn(const struct server *server, unsigned started,
                  const char *call)
{
    fprintf(stderr, "server: %u of %u workers started: %s: %s\n", started,
            model_workers(server), call, strerror(errno));
}

unsigned workers_start(struct server *server, unsigned first, unsigned end,
                       worker_work *work, void *shared)
{
    struct member member = {server, first, work, shared};
    while (member.worker < end && start(&member))
        member.worker++;
    if (member.worker < end)
        workers_warn(server, member.worker, "pthread_create");
    return member.worker;
}
