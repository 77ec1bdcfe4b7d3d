/* test_children.c -- a stop reaches children; those that cannot stop die. */
#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "blocking/children.h"
#include "common/clock.h"
#include "server/stop.h"

static pid_t start(void (*live)(void))
{
    pid_t pid = children_fork(-1);
    assert(pid >= 0);
    if (pid == 0) {
        live();
        _exit(0);
    }
    return pid;
}

static int deaf_pipe[2];

static void until_stopped(void)
{
    struct pollfd stop = {.fd = stop_fd(), .events = POLLIN};
    while (!stop_requested())
        poll(&stop, 1, -1);
}

/* Deaf to a stop, as one that is stuck. */
static void for_ever(void)
{
    signal(SIGTERM, SIG_IGN);
    assert(write(deaf_pipe[1], "d", 1) == 1);
    for (;;)
        pause();
}

static void a_child_that_dies_is_told_and_counted(struct stats *stats)
{
    bool failed = false;
    pid_t good = start(until_stopped), bad = start(until_stopped);
    kill(bad, SIGKILL);
    assert(children_wait(stats, &failed) == bad);
    assert(failed && stats->workers_lost == 1);
    failed = false;
    kill(good, SIGTERM);
    assert(children_wait(stats, &failed) == good);
    assert(!failed && stats->workers_lost == 1);
    assert(children_wait(stats, &failed) == -1);
}

static void children_that_end_are_reaped(struct stats *stats)
{
    children_reap_always(stats);
    pid_t pid = start(until_stopped);
    kill(pid, SIGTERM);
    for (int i = 0; i < 2000 && kill(pid, 0) == 0; i++)
        usleep(1000);
    assert(kill(pid, 0) < 0);
    children_wait_all(stats);
}

/* The deaf one is killed, but no sooner than another might need. */
static void a_stop_reaches_all_and_ends_for_all(struct stats *stats)
{
    for (int i = 0; i < 20; i++)
        start(until_stopped);
    char deaf;
    assert(pipe(deaf_pipe) == 0);
    start(for_ever);
    assert(read(deaf_pipe[0], &deaf, 1) == 1);
    uint64_t from = clock_now_ns(), lost = stats->workers_lost;
    raise(SIGTERM);
    assert(stop_requested());
    children_wait_all(stats);
    assert(stats->workers_lost == lost + 1);
    uint64_t took = clock_now_ns() - from;
    assert(took > 2 * NS_PER_S && took < 4 * NS_PER_S);
}

int main(void)
{
    struct stats *stats = stats_new(1);
    stop_install(-1);
    a_child_that_dies_is_told_and_counted(stats);
    children_that_end_are_reaped(stats);
    a_stop_reaches_all_and_ends_for_all(stats);
    stats_free(stats);
    puts("children: ok");
    return 0;
}
