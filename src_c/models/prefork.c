/* prefork.c -- a fixed number of processes, each as iterative serves.
 *
 *     parent: fork, fork, ... -> wait -> fork again for one that died -> wait
 *     child:  accept -> read -> answer -> ... -> close -> accept
 *
 * Good: no fork while a client waits; a child that crashes takes one client
 *       with it and is replaced.
 * Bad:  a client holds its process from connect to close, even if it is slow
 *       or silent: with as many of those as there are processes, all others
 *       wait in the backlog (until --timeout-idle, where that is given).
 * Look: all children block in accept() on one socket, and each connection
 *       wakes one of them, not all (exclusive waiters, Linux 2.3; elsewhere
 *       this was the "thundering herd"). In the wild: Apache's prefork MPM,
 *       gunicorn's sync workers, Unicorn.
 * Needs: nothing but fork(2). RLIMIT_NPROC, pid_max and the cgroup's pids.max
 *       bound --workers.
 * Try:  kill -9 a child while a client streams: the others do not notice.
 *       strace -f -e trace=accept4: one child returns for each connection.
 */
#include "blocking/blocking.h"
#include "blocking/preforked.h"

static void prefork_serve(struct server *server, unsigned worker, void *shared)
{
    (void)shared;
    blocking_serve_all(server, worker);
}

static int prefork_run(struct server *server)
{
    struct preforked children = {.server = server, .serve = prefork_serve};
    return preforked_run(&children);
}

const struct model_code prefork_model = {.run = prefork_run};
