/* client.c -- the load generator: flags -> plan -> threads -> result.
 *
 *     plan_parse ─▶ shared_make ─▶ threads: thread_run ─▶ report_write
 *
 * Each of --processes × --threads has a share of the users, an engine that
 * waits for their sockets, a record of what was seen. Nothing is shared while
 * the load runs but the memory of client_shared.h.
 *
 * Try:  build/client 127.0.0.1:7000 --connections 100 --duration 2
 */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client_shared.h"
#include "client_thread.h"
#include "client_plan.h"
#include "client_report.h"
#include "client_rounds.h"
#include "common/parent.h"
#include "connect.h"

enum { MAX_THREADS = 64, MAX_PROCESSES = 64, DESCRIPTORS_PER_THREAD = 4 };

static struct shared *shared; /* for the signal handler */

/* The threads look at it at least every 20 ms. Who is to end now, as a thread
 * was lost, does so. */
static void interrupt_soon(void)
{
    int not_yet = 0;
    atomic_compare_exchange_strong(&shared->interrupted, &not_yet,
                                   INTERRUPT_SOON);
}

static void on_signal(int signal)
{
    (void)signal;
    interrupt_soon();
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    signal(SIGCHLD, SIG_DFL); /* ignored, it would leave no child to wait for */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

struct task {
    const struct plan *plan;
    unsigned number;
    pthread_t thread;
};

static void *run_task(void *argument)
{
    const struct task *task = argument;
    thread_run(task->plan, shared, task->number);
    return NULL;
}

/* The threads of one process: the first in this thread, the others in new. */
static void run_threads(const struct plan *plan, unsigned process)
{
    struct task tasks[MAX_THREADS];
    for (unsigned i = 0; i < plan->threads; i++)
        tasks[i] = (struct task){
            .plan = plan, .number = process * (unsigned)plan->threads + i};
    for (unsigned i = 1; i < plan->threads; i++) {
        errno = pthread_create(&tasks[i].thread, NULL, run_task, &tasks[i]);
        if (errno)
            err(1, "pthread_create");
    }
    run_task(&tasks[0]);
    for (unsigned i = 1; i < plan->threads; i++)
        pthread_join(tasks[i].thread, NULL);
}

/* Waits until one of these ends. There may be other children: of the program
 * that became this one by exec(2), and, for the first process of a container,
 * orphans. */
static int wait_for_one(const pid_t *pids, unsigned count)
{
    for (;;) {
        int status;
        pid_t pid = wait(&status);
        if (pid < 0 && errno != EINTR)
            err(1, "wait");
        for (unsigned i = 0; i < count; i++)
            if (pid == pids[i])
                return status;
    }
}

/* A process that died takes its threads out of the count, so that the others
 * begin without it. Returns whether it ended well. */
static bool reap(const struct plan *plan, const pid_t *pids)
{
    int status = wait_for_one(pids, (unsigned)plan->processes);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFSIGNALED(status))
        warnx("one of its processes was killed by signal %d", WTERMSIG(status));
    atomic_store(&shared->interrupted, INTERRUPT_NOW);
    shared_ready(shared, (unsigned)plan->threads);
    return false;
}

/* The rows of --slices are in the buffer of the process that wrote them. */
static bool is_written(const struct plan *plan)
{
    bool written = !shared->slices_file || !ferror(shared->slices_file);
    if (!written)
        warnx("%s: not all of it was written", plan->slices);
    return written;
}

static bool run_processes(const struct plan *plan)
{
    bool well = true;
    pid_t self = getpid(), pids[MAX_PROCESSES];
    for (unsigned i = 0; i < plan->processes; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            err(1, "fork");
        if (pids[i] == 0) {
            parent_die_with(self);
            run_threads(plan, i);
            _exit(is_written(plan) ? 0 : 1);
        }
    }
    for (unsigned i = 0; i < plan->processes; i++)
        well &= reap(plan, pids);
    return well;
}

/* How many processes would have room for them. */
static void say_remedy(uint64_t connections, uint64_t room)
{
    uint64_t need = room ? (connections + room - 1) / room : 0;
    if (need && need <= MAX_PROCESSES)
        fprintf(stderr, "--processes %llu would do\n",
                (unsigned long long)need);
    else
        fprintf(stderr, "even --processes %d would hold only %llu\n",
                MAX_PROCESSES, (unsigned long long)(MAX_PROCESSES * room));
}

/* The connections beyond the limit are tried nevertheless, and counted. */
static void check_descriptors(const struct plan *plan)
{
    uint64_t left = connect_descriptors_left();
    uint64_t all = plan_users(plan);
    uint64_t here = (all + plan->processes - 1) / plan->processes;
    uint64_t own = plan->threads * DESCRIPTORS_PER_THREAD;
    uint64_t room = left > own ? left - own : 0;
    if (here <= room)
        return;
    fprintf(stderr, "client: --connections %llu",
            (unsigned long long)plan->connections[0]);
    if (plan->connections_count > 1)
        fprintf(stderr, ",... to %u targets, %llu in all", plan->target_count,
                (unsigned long long)all);
    else if (plan->target_count > 1)
        fprintf(stderr, " to each of %u targets", plan->target_count);
    fprintf(stderr, ": this system lets a process open %llu more descriptors; ",
            (unsigned long long)left);
    say_remedy(all, room);
}

/* Each target is asked by its own name; the bytes of echo are the same. */
static bool make_asks(struct plan *plan)
{
    for (unsigned i = 0; i < plan->target_count; i++) {
        struct plan_target *target = &plan->targets[i];
        target->asks = plan->asks;
        if (!asks_make(&target->asks, target->text, plan->path, plan->seed))
            return false;
        plan->asks.pattern = target->asks.pattern;
    }
    return true;
}

static void free_asks(struct plan *plan)
{
    for (unsigned i = 0; i < plan->target_count; i++) {
        if (i > 0)
            plan->targets[i].asks.pattern = NULL;
        asks_free(&plan->targets[i].asks);
    }
}

/* --begin-told: what is no moment, or nothing, ends the client. */
static void *await_moment(void *unused)
{
    char text[32] = "";
    size_t have = 0;
    ssize_t got = 1;
    while (got > 0 && !strchr(text, '\n') && have < sizeof text - 1) {
        got = read(STDIN_FILENO, text + have, sizeof text - 1 - have);
        have += got > 0 ? (size_t)got : 0;
    }
    uint64_t begin_at_ns = strtoull(text, NULL, 10);
    bool whole = text[strspn(text, "0123456789")] == '\n';
    if (whole && begin_at_ns)
        shared_told(shared, begin_at_ns);
    else
        interrupt_soon();
    return unused;
}

static void begin_awaiting(void)
{
    pthread_t thread;
    errno = pthread_create(&thread, NULL, await_moment, NULL);
    if (errno)
        err(1, "pthread_create");
    pthread_detach(thread);
}

int main(int argc, char **argv)
{
    struct plan plan;
    struct report report;
    parent_die_with(getppid()); /* who would read the result? */
    plan_parse(&plan, argc, argv);
    const char *unwritable = report_open(&report, &plan);
    if (unwritable)
        err(1, "%s", unwritable);
    if (!make_asks(&plan) || !(shared = shared_make(&plan)))
        err(1, "mmap");
    shared->slices_file = report.slices;
    catch_signals();
    prctl(PR_SET_TIMERSLACK, 1UL); /* ns: wake up when asked to */
    bool well = true;
    if (!plan.only_watch)
        check_descriptors(&plan);
    if (plan.begin_told)
        begin_awaiting();
    if (plan.only_watch)
        rounds_only_watch(&plan, shared);
    else if (plan.processes > 1)
        well = run_processes(&plan);
    else
        run_threads(&plan, 0);
    if (!report_write(&report, &plan, shared))
        err(1, "write");
    free_asks(&plan);
    return well ? 0 : 1;
}
