/* thread.c -- a thread for every connection.
 *
 *     accept -> pthread_create -> accept        thread: read -> answer -> ...
 *
 * Good: the code of one client reads as if there were no other; the kernel
 *       does the waiting and the choosing, on all cores.
 * Bad:  every client costs a stack and a task, and every wake-up a switch;
 *       the system's limit of threads is the limit of clients.
 * Look: pthread_create fails at the first of: threads-max, pid_max, the
 *       cgroup's pids.max, RLIMIT_NPROC, two mappings a stack against
 *       max_map_count (before glibc 2.42). That client is refused. A thread
 *       that sleeps for a request does not look at its socket: only its send
 *       tells that the client has reset the connection. In the wild: MySQL,
 *       Java servers before NIO, and with virtual threads again.
 * Needs: nothing but threads.
 * Try:  perf trace -s: a recvfrom and a sendto a request; perf stat -e cs: a
 *       context switch as well; grep Threads /proc/PID/status.
 */
#include "thread.h"

#include <errno.h>

#include "blocking/blocking.h"
#include "blocking/threads.h"

struct thread_client {
    struct server *server;
    struct arrival arrival;
    thread_serve *serve;
};

static void thread_client_run(void *argument)
{
    const struct thread_client *client = argument;
    client->serve(client->server, &client->arrival);
}

static void thread_start(struct server *server, const struct arrival *arrival,
                         thread_serve *serve)
{
    struct thread_client client = {server, *arrival, serve};
    if (threads_start(thread_client_run, &client, sizeof client))
        stats_add(&server->stats->workers_started, 1);
    else
        net_refuse(server, arrival->fd, net_refusal(errno));
}

void thread_each(struct server *server, thread_serve *serve)
{
    for (;;) {
        struct arrival arrival;
        arrival.fd = net_accept(server, &arrival.peer, 0);
        if (arrival.fd == ACCEPT_STOPPED)
            break;
        if (arrival.fd >= 0)
            thread_start(server, &arrival, serve);
    }
    threads_wait();
}

static void thread_serve_blocking(struct server *server,
                                  const struct arrival *arrival)
{
    blocking_serve_fd(server, server->process, arrival->fd, &arrival->peer);
}

static int thread_run(struct server *server)
{
    thread_each(server, thread_serve_blocking);
    return 0;
}

const struct model_code thread_model = {.run = thread_run};
