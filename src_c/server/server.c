/* server.c -- flags -> listening socket -> model -> statistics.
 *
 *     one process:   listen -> ready line -> model->run -> stats line
 *     --processes N: N listening sockets on one port, N children that run the
 *                    model; the parent waits and prints for all
 */
#include <err.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "blocking/children.h"
#include "common/clock.h"
#include "common/parent.h"
#include "extra.h"
#include "log.h"
#include "model.h"
#include "net.h"
#include "options.h"
#include "steer.h"
#include "stop.h"
#include "blocking/threads.h"

static void print_ready(const struct server *server)
{
    printf("{\"event\":\"ready\",\"model\":\"%s\",\"workload\":\"%s\","
           "\"host\":\"%s\",\"port\":%u,\"pid\":%d,\"processes\":%u,"
           "\"workers\":%u}\n",
           server->model->name, server->workload->name, server->options.host,
           server->options.port, (int)getpid(), server->options.processes,
           model_workers(server));
    fflush(stdout);
}

static double cpu_s(struct timeval own, struct timeval childrens)
{
    return (double)(clock_timeval_ns(own) + clock_timeval_ns(childrens)) /
           NS_PER_S;
}

/* Of the whole run, from main() on: what setting up took is within, 10 ms with
 * --extra-ns. A study reads CPU time from outside, over its window. */
static void print_usage(void)
{
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    printf("\"cpu_user_s\":%.6f,\"cpu_system_s\":%.6f,"
           "\"context_switches_voluntary\":%ld,"
           "\"context_switches_involuntary\":%ld",
           cpu_s(self.ru_utime, children.ru_utime),
           cpu_s(self.ru_stime, children.ru_stime),
           self.ru_nvcsw + children.ru_nvcsw,
           self.ru_nivcsw + children.ru_nivcsw);
}

static void print_stats(const struct server *server, uint64_t started_ns)
{
    printf("{\"event\":\"stats\",\"model\":\"%s\",\"workload\":\"%s\","
           "\"processes\":%u,",
           server->model->name, server->workload->name,
           server->options.processes);
    stats_print_json(server->stats);
    printf(",");
    print_usage();
    printf(",\"seconds\":%.6f}\n",
           (double)(clock_now_ns() - started_ns) / NS_PER_S);
    fflush(stdout);
}

static int server_run_alone(struct server *server)
{
    int status = server->model->code->run(server);
    log_flush();
    return status ? 1 : 0;
}

/* How many listening sockets each process has. */
static unsigned server_listeners(const struct server *server)
{
    bool own = server->model->traits & OWN_LISTENERS;
    return own ? model_workers(server) : 1;
}

static void server_close_all(const int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
}

_Noreturn static void server_run_child(struct server *server, unsigned process,
                                       const int *later_fds, unsigned later)
{
    server_close_all(later_fds, later);
    server->process = process;
    _exit(server_run_alone(server));
}

static int server_run_processes(struct server *server, const int *listen_fds)
{
    unsigned each = server_listeners(server);
    unsigned processes = server->options.processes;
    stop_install(-1);
    for (unsigned i = 0; i < processes; i++) {
        server->listen_fds = listen_fds + i * each;
        server->listen_fd = server->listen_fds[0];
        pid_t pid = children_fork(server->listen_fd);
        if (pid < 0)
            err(1, "fork");
        if (pid == 0)
            server_run_child(server, i, server->listen_fds + each,
                             (processes - i - 1) * each);
        server_close_all(server->listen_fds, each);
    }
    print_ready(server);
    return !children_wait_all(server->stats);
}

static int server_run_process(struct server *server, const int *listen_fds)
{
    server->listen_fds = listen_fds;
    server->listen_fd = listen_fds[0];
    stop_install(server->listen_fd);
    print_ready(server);
    return server_run_alone(server);
}

/* The sockets of all processes, on one port: the first may choose it. All
 * listen before the ready line, so that the first client finds each of them. */
static int *server_listen_all(struct server *server)
{
    unsigned n = server->options.processes * server_listeners(server);
    int *fds = malloc(n * sizeof *fds);
    if (!fds)
        err(1, "malloc");
    for (unsigned i = 0; i < n; i++) {
        fds[i] = net_listen(&server->options, n > 1);
        if (i == 0)
            server->options.port = net_port(fds[0]);
    }
    if (server->options.steer_cpu && n > 1)
        steer_by_cpu(fds[0], n);
    return fds;
}

static void set_up_workload(const struct server *server)
{
    const struct workload *workload = server->workload;
    const char *wrong =
        workload->setup ? workload->setup(&server->options.workload) : NULL;
    if (wrong)
        errx(2, "%s", wrong);
}

/* A thread that did not leave in time still uses what is about to be freed,
 * main's own variables too: then the process ends as it stands. */
static void leave_if_used(int status)
{
    if (threads_gone())
        return;
    warnx("threads are left that did not end in time");
    _exit(status);
}

int main(int argc, char **argv)
{
    struct server server = {0};
    parent_die_with(getppid());
    options_read(argc, argv, &server);
    net_raise_limits();
    prctl(PR_SET_TIMERSLACK, 1ul); /* sleeps end in time, not 50 us late */
    unsigned slots = server.options.processes * model_workers(&server);
    server.stats = stats_new(slots);
    if (!server.stats)
        err(1, "mmap");
    set_up_workload(&server);
    if (server.options.extra_ns)
        extra_calibrate();
    log_open(server.options.log_path);

    uint64_t started_ns = clock_now_ns();
    int *listen_fds = server_listen_all(&server);
    int status = server.options.processes > 1
                     ? server_run_processes(&server, listen_fds)
                     : server_run_process(&server, listen_fds);
    print_stats(&server, started_ns);
    leave_if_used(status);
    if (server.workload->teardown)
        server.workload->teardown();
    stats_free(server.stats);
    free(listen_fds);
    return status;
}
