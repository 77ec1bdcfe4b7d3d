/* test_watch.c -- CPU time of processes and their children, seen from outside.
 *
 * A child burns a known amount of CPU time and then waits, or ends: its time
 * must be seen while it lives, after it was waited for, and after it ended
 * unnoticed. Bounds leave room for ticks of 10 ms and for fork itself.
 */
#include <assert.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client_watch.h"
#include "common/clock.h"

static const int64_t BURNT_NS = 60000000, SLACK_NS = 45000000;

static void burn(int64_t ns)
{
    uint64_t until = clock_thread_cpu_ns() + (uint64_t)ns;
    while (clock_thread_cpu_ns() < until)
        ;
}

/* A child that burns, says so, and waits for a byte or the end. */
static pid_t start(int *said, int *go)
{
    int to_us[2], to_child[2];
    char c;
    assert(pipe(to_us) == 0 && pipe(to_child) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(to_child[1]);
        burn(BURNT_NS);
        assert(write(to_us[1], "x", 1) == 1);
        _exit(read(to_child[0], &c, 1) < 0);
    }
    close(to_us[1]);
    close(to_child[0]);
    *said = to_us[0];
    *go = to_child[1];
    return pid;
}

/* Wait until a child has said so and sleeps, however busy the machine is. */
static void await(pid_t pid, int said)
{
    char c, path[32], state = 'R';
    assert(read(said, &c, 1) == 1);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    while (state != 'S') {
        FILE *file = fopen(path, "r");
        assert(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
        fclose(file);
        usleep(1000);
    }
}

static void is_about(int64_t ns, int64_t expected)
{
    if (ns < expected - SLACK_NS || ns > expected + SLACK_NS)
        fprintf(stderr, "%lld, not %lld\n", (long long)ns, (long long)expected);
    assert(ns >= expected - SLACK_NS && ns <= expected + SLACK_NS);
}

static void clocks_of_the_living_are_read(void)
{
    struct watch watch;
    int said, go;
    pid_t pid = start(&said, &go);
    assert(watch_make(&watch, &pid, 1));
    await(pid, said);
    is_about(watch_cpu_ns(&watch), BURNT_NS);
    assert(!watch.running);
    int64_t before = watch_cpu_ns(&watch);
    assert(watch_cpu_ns(&watch) == before);
    close(go);
    waitpid(pid, NULL, 0);
    assert(watch_cpu_ns(&watch) == before); /* its last reading stays */
    watch_free(&watch);
    close(said);
}

/* Our own children: found, and their time kept when they have ended. */
static void time_of_children_stays(bool waited)
{
    struct watch watch;
    int said, go;
    pid_t self = getpid();
    signal(SIGCHLD, waited ? SIG_DFL : SIG_IGN);
    assert(watch_make(&watch, &self, 1));
    int64_t before = watch_cpu_ns(&watch);
    pid_t pid = start(&said, &go);
    await(pid, said);
    is_about(watch_cpu_ns(&watch) - before, BURNT_NS);
    assert(watch.count == 2);
    close(go);
    waitpid(pid, NULL, 0); /* fails where SIGCHLD is ignored */
    is_about(watch_cpu_ns(&watch) - before, BURNT_NS);
    is_about(watch_cpu_ns(&watch) - before, BURNT_NS);
    assert(watch.count == 1); /* or a server that forks would slow us down */
    watch_free(&watch);
    close(said);
    signal(SIGCHLD, SIG_DFL);
}

/* A child that had waited for one of its own ends: our cutime holds both, and
 * neither counts twice. */
static void time_of_grandchildren_counts_once(void)
{
    struct watch watch;
    int said, go, ends[2], found[2], status;
    pid_t self = getpid(), middle;
    char c;
    assert(pipe(ends) == 0 && pipe(found) == 0);
    if ((middle = fork()) == 0) {
        close(found[1]); /* so that it ends where we fail */
        pid_t pid = start(&said, &go);
        await(pid, said);
        assert(write(ends[1], "x", 1) == 1 && read(found[0], &c, 1) == 1);
        close(go);
        assert(waitpid(pid, NULL, 0) == pid && write(ends[1], "x", 1) == 1);
        _exit(read(found[0], &c, 1) != 1);
    }
    close(ends[1]); /* so that we fail where it ends */
    assert(read(ends[0], &c, 1) == 1);
    assert(watch_make(&watch, &self, 1) && watch.count == 3);
    int64_t before = watch_cpu_ns(&watch);
    assert(write(found[1], "x", 1) == 1 && read(ends[0], &c, 1) == 1);
    is_about(watch_cpu_ns(&watch) - before, 0);
    assert(write(found[1], "x", 1) == 1);
    assert(waitpid(middle, &status, 0) == middle && status == 0);
    is_about(watch_cpu_ns(&watch) - before, 0);
    watch_free(&watch);
    close(ends[0]), close(found[0]), close(found[1]);
}

/* All else here takes less than a second. */
static void whole_seconds_count(void)
{
    struct watch watch;
    pid_t self = getpid();
    assert(watch_make(&watch, &self, 1));
    while (clock_thread_cpu_ns() < NS_PER_S + (uint64_t)BURNT_NS)
        ;
    is_about(watch_cpu_ns(&watch), (int64_t)clock_thread_cpu_ns());
    watch_free(&watch);
}

static void a_pid_of_nobody_is_known(void)
{
    assert(watch_exists(getpid()));
    assert(!watch_exists(0x7ffffffe));
}

static void cores_never_go_backwards(void)
{
    cpu_set_t cores = {{0}};
    cores_add(&cores, 0);
    struct cores_time a = cores_read(&cores), b;
    burn(2 * BURNT_NS);
    b = cores_read(&cores);
    assert(a.busy_ns > 0 && b.steal_ns >= a.steal_ns);
    assert(b.busy_ns - a.busy_ns >= BURNT_NS);
}

static void only_our_cores_count(void)
{
    cpu_set_t all, one, narrow = {{0}}, wide = {{0}};
    assert(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &all))
            CPU_SET(core, &one);
    assert(sched_setaffinity(0, sizeof one, &one) == 0);
    cores_add(&narrow, 0);
    assert(sched_setaffinity(0, sizeof all, &all) == 0);
    cores_add(&wide, 0);
    int64_t few_ns = cores_read(&narrow).busy_ns;
    int64_t many_ns = cores_read(&wide).busy_ns;
    assert(few_ns > 0 && (CPU_COUNT(&all) == 1 || few_ns < many_ns));
}

int main(void)
{
    whole_seconds_count(); /* before there are children whose time is ours */
    clocks_of_the_living_are_read();
    time_of_children_stays(true);
    time_of_children_stays(false);
    time_of_grandchildren_counts_once();
    a_pid_of_nobody_is_known();
    cores_never_go_backwards();
    only_our_cores_count();
    puts("test_watch: passed");
}
