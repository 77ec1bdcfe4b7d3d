/* client_watch.c -- see client_watch.h.
 *
 *     watch_make:    named PIDs, and their children by /proc/PID/task/TID
 *     watch_cpu_ns:  new children -> each clock read -> ended ones kept
 *
 * Called by the first thread between two slices (client_rounds.c), while no
 * request is under way: a reading costs one clock_gettime(2) for each process,
 * and two reads of /proc for each that may have children. A child that began
 * and ended between two readings is known only by its parent's cutime.
 */
#include "client_watch.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/proc_children.h"

/* --- processes ---------------------------------------------------------- */

static int64_t ticks_ns(unsigned long long ticks)
{
    return (int64_t)(ticks * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK)));
}

/* The start of a file, as text; false when it cannot be read. */
static bool read_file(const char *path, char *text, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, bytes - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n >= 0;
}

/* The state of its main thread and the time of its children that were waited
 * for: fields 3, 16 and 17, behind a name in brackets that may hold anything.
 * -1: it is gone. */
static int64_t read_children_ns(pid_t pid, char *state)
{
    char path[64], text[1024];
    unsigned long long user, system;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!read_file(path, text, sizeof text))
        return -1;
    const char *name_end = strrchr(text, ')');
    if (!name_end || sscanf(name_end + 1,
                            " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u "
                            "%*u %llu %llu",
                            state, &user, &system) != 3)
        return -1;
    return ticks_ns(user) + ticks_ns(system);
}

/* False when the process is gone. */
static bool read_clock(clockid_t clock, int64_t *ns)
{
    struct timespec time;
    if (clock_gettime(clock, &time) < 0)
        return false;
    *ns = (int64_t)time.tv_sec * (int64_t)NS_PER_S + time.tv_nsec;
    return true;
}

bool watch_exists(pid_t pid)
{
    clockid_t clock;
    return clock_getcpuclockid(pid, &clock) == 0;
}

static struct watched *watch_find(struct watch *watch, pid_t pid)
{
    for (unsigned i = 0; i < watch->count; i++)
        if (watch->processes[i].pid == pid && !watch->processes[i].ended)
            return &watch->processes[i];
    return NULL;
}

static bool watch_grow(struct watch *watch)
{
    unsigned capacity = watch->capacity ? 2 * watch->capacity : 16;
    void *more = realloc(watch->processes, capacity * sizeof *watch->processes);
    if (!more)
        return false;
    watch->processes = more;
    watch->capacity = capacity;
    return true;
}

/* A process that is gone before its clock is read is not added. */
static bool watch_add(struct watch *watch, pid_t pid, bool root)
{
    struct watched process = {.pid = pid, .root = root, .parent = root};
    if (watch_find(watch, pid) || clock_getcpuclockid(pid, &process.clock) ||
        !read_clock(process.clock, &process.cpu_ns))
        return true;
    if (watch->count == watch->capacity && !watch_grow(watch))
        return false;
    watch->processes[watch->count++] = process;
    return true;
}

struct adding {
    struct watch *watch;
    bool full; /* there was no memory for one */
};

static void add_child(void *context, pid_t child)
{
    struct adding *adding = context;
    adding->full |= !watch_add(adding->watch, child, false);
}

/* False when there is no memory. */
static bool add_all_children(struct watch *watch, unsigned i)
{
    struct adding adding = {.watch = watch};
    if (proc_children(watch->processes[i].pid, add_child, &adding) > 0)
        watch->processes[i].parent = true;
    return !adding.full;
}

bool watch_make(struct watch *watch, const pid_t *pids, unsigned count)
{
    *watch = (struct watch){0};
    for (unsigned i = 0; i < count; i++)
        if (!watch_add(watch, pids[i], true))
            return false;
    for (unsigned i = 0; i < watch->count; i++)
        if (!add_all_children(watch, i))
            return false;
    return true;
}

static void add_new_children(struct watch *watch)
{
    struct adding adding = {.watch = watch};
    for (unsigned i = 0; i < watch->count; i++) {
        const struct watched *process = &watch->processes[i];
        if (!process->ended && process->parent)
            proc_children_of(process->pid, process->pid, add_child, &adding);
    }
}

/* Reads a process anew; adds to *ended what it had used if it is gone, and to
 * *waited by how much the time of its children that were waited for grew. */
static void watch_update(struct watch *watch, struct watched *process,
                         int64_t *ended, int64_t *waited)
{
    /* The state first: a server that ran while its clock was read, which is out
     * of date then, may be asleep a moment later. */
    char state = 'S';
    int64_t children =
        process->parent ? read_children_ns(process->pid, &state) : -1;
    if (!read_clock(process->clock, &process->cpu_ns)) {
        process->ended = true;
        *(process->root ? &watch->ended_ns : ended) +=
            process->cpu_ns + process->children_ns;
        process->cpu_ns = process->children_ns = 0;
        return;
    }
    watch->running |= state == 'R';
    if (children >= 0) {
        *waited += children - process->children_ns;
        process->children_ns = children;
    }
}

/* Children that ended stand in a parent's time now, or else in nobody's: then
 * their last reading stays. Both are compared with two ticks to spare. They are
 * forgotten, as each new child is looked for among all that are known. */
int64_t watch_cpu_ns(struct watch *watch)
{
    int64_t sum = 0, ended = 0, waited = 0;
    watch->running = false;
    add_new_children(watch);
    unsigned count = watch->count;
    for (unsigned i = 0; i < count; i++)
        if (!watch->processes[i].ended)
            watch_update(watch, &watch->processes[i], &ended, &waited);
    if (ended > waited + ticks_ns(2))
        watch->ended_ns += ended - (waited > 0 ? waited : 0);
    watch->count = 0;
    for (unsigned i = 0; i < count; i++) {
        struct watched process = watch->processes[i];
        sum += process.cpu_ns + process.children_ns;
        if (process.root || !process.ended)
            watch->processes[watch->count++] = process;
    }
    return sum + watch->ended_ns;
}

void watch_free(struct watch *watch)
{
    free(watch->processes);
}

/* --- cores -------------------------------------------------------------- */

void cores_add(cpu_set_t *cores, pid_t pid)
{
    cpu_set_t set;
    if (sched_getaffinity(pid, sizeof set, &set) == 0)
        CPU_OR(cores, cores, &set);
}

/* user nice system idle iowait irq softirq steal; guests are within user. */
static void add_core(const cpu_set_t *cores, const char *line,
                     struct cores_time *sum)
{
    int core;
    unsigned long long t[8];
    if (!isdigit((unsigned char)line[3]) || /* "cpu  ": of all cores */
        sscanf(line, "cpu%d %llu %llu %llu %llu %llu %llu %llu %llu", &core,
               &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) != 9 ||
        core >= CPU_SETSIZE || !CPU_ISSET((size_t)core, cores))
        return;
    sum->busy_ns += ticks_ns(t[0] + t[1] + t[2] + t[5] + t[6]);
    sum->steal_ns += ticks_ns(t[7]);
}

struct cores_time cores_read(const cpu_set_t *cores)
{
    struct cores_time sum = {0};
    char line[512];
    FILE *file = fopen("/proc/stat", "re");
    while (file && fgets(line, sizeof line, file) &&
           strncmp(line, "cpu", 3) == 0)
        add_core(cores, line, &sum);
    if (file)
        fclose(file);
    return sum;
}
