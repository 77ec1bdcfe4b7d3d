/* family.c -- see family.h. */
#include "family.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/proc_children.h"

/* Processes in the order in which they were found. */
struct found {
    pid_t *pids;
    unsigned count, capacity;
};

/* Without memory the rest is left to the next walk. */
static void found_add(void *context, pid_t pid)
{
    struct found *found = context;
    if (found->count == found->capacity) {
        unsigned capacity = found->capacity ? 2 * found->capacity : 64;
        pid_t *more = realloc(found->pids, capacity * sizeof *more);
        if (!more)
            return;
        found->pids = more;
        found->capacity = capacity;
    }
    found->pids[found->count++] = pid;
}

unsigned family_walk(pid_t root, void (*visit)(pid_t pid), unsigned most)
{
    struct found found = {0};
    proc_children(root, found_add, &found);
    for (unsigned i = 0; i < found.count && found.count <= most; i++) {
        if (visit)
            visit(found.pids[i]);
        proc_children(found.pids[i], found_add, &found);
    }
    free(found.pids);
    return found.count;
}

static void stop_one(pid_t pid)
{
    kill(pid, SIGSTOP);
}

static void kill_one(pid_t pid)
{
    kill(pid, SIGKILL);
}

static void reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

void family_kill(pid_t group, pid_t spared)
{
    const struct timespec ms = {.tv_nsec = 1000000};
    unsigned before = 0, now;
    kill(-group, SIGSTOP);
    kill(spared, SIGCONT);
    while ((now = family_walk(getpid(), stop_one, UINT_MAX)) > before)
        before = now;
    while (family_walk(getpid(), kill_one, UINT_MAX) > 0) {
        nanosleep(&ms, NULL);
        reap();
    }
}
