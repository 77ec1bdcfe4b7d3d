/* client_watch.h -- CPU time of a server's processes, read from outside.
 *
 * clock_getcpuclockid(3) names the CPU clock of another process: nanoseconds,
 * of all its threads, ended ones as well. A family is the processes that were
 * named and their descendants, found in /proc/PID/task/TID/children (Linux 4.2,
 * CONFIG_PROC_CHILDREN): of all threads at first, later of the main thread of
 * each process that is known to have children. What children used that have
 * ended and were waited for is in their parent's cutime and cstime
 * (/proc/PID/stat), in ticks of 10 ms. Where a parent ignores SIGCHLD they are
 * in nobody's (since Linux 2.6.9, getrusage(2)) and the last reading of the
 * child's own clock is kept: one that began and ended between two readings, a
 * slice apart, is lost. So are those that ended between two readings and had
 * used no more than two ticks together: cutime may be late by as much.
 *
 * The clock of a thread that is running on another core is brought up to date
 * at the tick (1 to 10 ms) and when it stops running. So a reading is exact for
 * a server that rests, and late by up to a tick for one that does not.
 *
 * Whether it rests is seen by the main thread of each process alone: 7 us a
 * look. All threads would take 70 us of a pool of 8, 370 us of 50 clients with
 * a thread each, between slices of 20 ms, two times at least. Where the main
 * thread sleeps in accept(2), as of thread, pool and epoll-workers, a worker
 * that was preempted may still run, unseen, if two looks see the same. What its
 * clock is late by falls into the rest before the target's next slice: the sum
 * of both is right, the slice's own time a little low.
 */
#ifndef CLIENT_WATCH_H
#define CLIENT_WATCH_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct watched {
    pid_t pid;
    clockid_t clock;
    bool root;   /* was named */
    bool parent; /* may have children */
    bool ended;
    int64_t cpu_ns;      /* the last reading; 0 once it ended */
    int64_t children_ns; /* of those waited for */
};

struct watch {
    struct watched *processes;
    unsigned count, capacity;
    int64_t ended_ns; /* of roots, and of lost children */
    bool running;     /* at the last reading, the main
                         thread of one that may have
                         children did not sleep */
    bool restless;    /* was not seen asleep after its last slice */
};

/* Whether there is such a process. */
bool watch_exists(pid_t pid);

/* The families of these processes. False when there is no memory. */
bool watch_make(struct watch *watch, const pid_t *pids, unsigned count);

void watch_free(struct watch *watch);

/* Nanoseconds of CPU time that the families used up to now. */
int64_t watch_cpu_ns(struct watch *watch);

/* Adds the cores that a process may use, 0: this one, to a set of them. */
void cores_add(cpu_set_t *cores, pid_t pid);

/* Time of a set of cores since boot, in ticks of 10 ms, from /proc/stat. */
struct cores_time {
    int64_t busy_ns, steal_ns;
};

/* Zeros where /proc/stat cannot be read. */
struct cores_time cores_read(const cpu_set_t *cores);

#endif
