/* family.c -- see family.h. */
#include "family.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Processes in the order in which they were found. */
struct found {
    pid_t *pids;
    unsigned count, capacity;
};

/* Without memory the rest is left to the next walk. */
static void found_add(struct found *found, pid_t pid)
{
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

static void add_children(struct found *found, pid_t pid, const char *thread)
{
    char path[320];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, thread);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &child) == 1)
        found_add(found, child);
    if (file)
        fclose(file);
}

static void add_all_children(struct found *found, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.')
            add_children(found, pid, entry->d_name);
    if (tasks)
        closedir(tasks);
}

unsigned family_walk(pid_t root, void (*visit)(pid_t pid), unsigned most)
{
    struct found found = {0};
    add_all_children(&found, root);
    for (unsigned i = 0; i < found.count && found.count <= most; i++) {
        if (visit)
            visit(found.pids[i]);
        add_all_children(&found, found.pids[i]);
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
