/* workers.c -- see workers.h. */
#include "workers.h"

#include <err.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/stop.h"
#include "threads.h"

/* What a thread is told when it starts. */
struct worker_start {
    struct server *server;
    unsigned worker;
    worker_work *work;
    void *shared;
};

static atomic_bool workers_served; /* one of the threads did */

static void workers_thread(void *argument)
{
    const struct worker_start *start = argument;
    if (start->work(start->server, start->worker, start->shared))
        workers_served = true;
}

void workers_wait_their_turn(void)
{
    sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
}

void workers_take_turns(const struct server *server)
{
    unsigned loops = server->options.processes * model_workers(server);
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0 &&
        loops > (unsigned)CPU_COUNT(&cores))
        workers_wait_their_turn();
}

void workers_warn(const struct server *server, unsigned started,
                  const char *call)
{
    warn("%u of %u workers started: %s", started, model_workers(server), call);
}

unsigned workers_start(struct server *server, unsigned first, unsigned end,
                       worker_work *work, void *shared)
{
    struct worker_start next = {server, first, work, shared};
    while (next.worker < end &&
           threads_start(workers_thread, &next, sizeof next))
        next.worker++;
    if (next.worker < end)
        workers_warn(server, next.worker, "pthread_create");
    return next.worker;
}

int workers_end(bool served, void *shared)
{
    bool ended = threads_wait();
    if (ended)
        free(shared);
    return served || workers_served || !ended ? 0 : -1;
}

/* --- a listening socket each ------------------------------------------ */

struct server workers_listen(const struct server *server, unsigned worker)
{
    struct server own = *server;
    own.listen_fd = server->listen_fds[worker];
    stop_watch_listener(own.listen_fd);
    return own;
}

static void workers_close(int listen_fd)
{
    stop_unwatch_listener(listen_fd);
    close(listen_fd);
}

void workers_unlisten(const struct server *own)
{
    workers_close(own->listen_fd);
}

void workers_close_rest(const struct server *server, unsigned started)
{
    for (unsigned i = started; i < model_workers(server); i++)
        workers_close(server->listen_fds[i]);
}
