/* guard.h -- start a command, tell when it listens, end it and its descendants.
 *
 *     fork, exec -> connect until it listens -> ready line
 *         -> wait for its end, for SIGTERM, or for the death of our parent
 *         -> SIGTERM to it -> grace -> SIGSTOP and SIGKILL to whoever is left
 *
 * The guard is a subreaper (PR_SET_CHILD_SUBREAPER, Linux 3.4): a descendant
 * whose parent has ended becomes a child of the guard and not of init. So a
 * server that forks twice to become a daemon can be waited for, and the CPU
 * time of every descendant is in the guard's rusage at the end.
 */
#ifndef GUARD_H
#define GUARD_H

#include <sys/types.h>

struct guard_plan {
    const char *name, *workload; /* said in the ready line */
    char **command;              /* ends with NULL */
    pid_t group; /* of the command; its leader is the guard's parent */
    unsigned patience_s, grace_s;
    unsigned processes_most;
};

/* Runs the command to its end; in a process of its own, which it makes the
 * leader of a group. Returns the status to end with, as waitpid() has it. */
int guard_run(const struct guard_plan *plan);

#endif
