/* prefork.c -- a fixed number of processes, each as iterative serves.
 *
 *     parent: fork, fork, ... -> wait -> fork again for one that died -> wait
 *     child:  accept -> read -> answer -> ... -> close -> accept
 *
 * Good: no fork while a client waits; a child that crashes takes one client
 *       with it and is replaced.
 * Bad:  a client holds its process from connect to close, even if it is slow
 *       or silent: with as many of those as there are processes, all others
 *       wait in the backlog.
 * Look: all children sleep in accept() on one socket, and each connection
 *       wakes one of them, not all (Linux since 2.3; elsewhere this was the
 *       "thundering herd"). A child that lived less than a second is replaced
 *       after a pause: a fault at start-up must not become a fork bomb.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "blocking/blocking.h"
#include "blocking/children.h"
#include "common/clock.h"
#include "blocking/workers.h"
#include "server/log.h"
#include "server/net.h"
#include "server/stop.h"

#define YOUNG_NS NS_PER_S
enum { PAUSE_MS = 100 };

struct child {
    pid_t pid;             /* 0: there is none */
    uint64_t started_ns;
};

_Noreturn static void serve(struct server *server, unsigned worker)
{
    blocking_serve_all(server, model_slot(server, worker));
    log_flush();
    _exit(0);
}

/* The listening socket is everybody's: the parent shuts it, for all. */
static bool start(struct server *server, struct child *child, unsigned worker)
{
    pid_t pid = children_fork(-1);
    if (pid == 0)
        serve(server, worker);
    *child = (struct child){pid > 0 ? pid : 0, clock_now_ns()};
    if (pid > 0)
        stats_add(&server->stats->workers_started, 1);
    return pid > 0;
}

static unsigned start_all(struct server *server, struct child *children)
{
    unsigned workers = model_workers(server), n = 0;
    while (n < workers && !stop_requested() && start(server, &children[n], n))
        n++;
    if (n < workers && !stop_requested())
        workers_warn(server, n, "fork");
    return n;
}

static void pause_unless_stopped(void)
{
    struct pollfd stop = {.fd = stop_fd(), .events = POLLIN};
    poll(&stop, 1, PAUSE_MS);
}

static void replace(struct server *server, struct child *child,
                    unsigned worker)
{
    if (clock_now_ns() - child->started_ns < YOUNG_NS)
        pause_unless_stopped();
    while (!stop_requested() && !start(server, child, worker))
        pause_unless_stopped();
}

static void keep_up(struct server *server, struct child *children, unsigned n)
{
    for (pid_t pid; (pid = children_wait(server->stats, NULL)) > 0;)
        for (unsigned i = 0; i < n && !stop_requested(); i++)
            if (children[i].pid == pid)
                replace(server, &children[i], i);
}

static int prefork_run(struct server *server)
{
    struct child *children = calloc(model_workers(server), sizeof *children);
    if (!children) {
        net_warn("calloc");
        return -1;
    }
    unsigned n = start_all(server, children);
    keep_up(server, children, n);
    free(children);
    return n > 0 || stop_requested() ? 0 : -1;
}

const struct model_code prefork_model = {.run = prefork_run};
