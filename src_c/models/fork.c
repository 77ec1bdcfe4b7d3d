/* fork.c -- a process for every connection.
 *
 *     accept -> fork -> accept          child: read -> answer -> ... -> exit
 *
 * Good: a client's code may leak, block or crash, and only that client
 *       notices; nothing is shared, so nothing needs a lock.
 * Bad:  each connection pays for a copy of the page tables and of every page
 *       written since; what one process learns no other can use.
 * Look: a child that has ended stays as a zombie until it is waited for, and
 *       the parent sits in accept(): a handler of SIGCHLD reaps. (Ignoring
 *       SIGCHLD would reap too, but lose the children's CPU time.) fork()
 *       fails at RLIMIT_NPROC, pid_max or the cgroup's pids.max: the client is
 *       refused, the others are served on. In the wild: PostgreSQL (a backend
 *       for each session), OpenSSH, xinetd, CGI.
 * Needs: nothing but fork(2).
 * Try:  strace -f -e trace=clone,wait4,exit_group: all three for each client;
 *       perf stat -e page-faults: what copying on write costs.
 */
#include <unistd.h>

#include "blocking/blocking.h"
#include "blocking/children.h"
#include "server/log.h"
#include "server/net.h"

_Noreturn static void fork_serve(struct server *server, int fd,
                                 const struct sockaddr_in6 *peer)
{
    close(server->listen_fd);
    blocking_serve_fd(server, server->process, fd, peer);
    log_flush();
    _exit(0);
}

static void fork_start(struct server *server, int fd,
                       const struct sockaddr_in6 *peer)
{
    pid_t pid = children_fork(-1);
    if (pid == 0)
        fork_serve(server, fd, peer);
    if (pid < 0) {
        net_refuse(server, fd, REFUSED_PROCESSES);
        return;
    }
    stats_add(&server->stats->workers_started, 1);
    close(fd);
}

static int fork_run(struct server *server)
{
    children_reap_always(server->stats);
    for (;;) {
        struct sockaddr_in6 peer;
        int fd = net_accept(server, &peer, 0);
        if (fd == ACCEPT_STOPPED)
            break;
        if (fd >= 0)
            fork_start(server, fd, &peer);
    }
    children_wait_all(server->stats);
    return 0;
}

const struct model_code fork_model = {.run = fork_run};
