/* proc_children.c -- see proc_children.h. */
#include "proc_children.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

unsigned proc_children_of(pid_t pid, pid_t thread, proc_visit *visit,
                          void *context)
{
    char path[64];
    unsigned count = 0;
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid,
             (int)thread);
    FILE *file = fopen(path, "re");
    for (; file && fscanf(file, "%d", &child) == 1; count++)
        visit(context, child);
    if (file)
        fclose(file);
    return count;
}

unsigned proc_children(pid_t pid, proc_visit *visit, void *context)
{
    char path[64];
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.')
            count += proc_children_of(pid, atoi(entry->d_name), visit, context);
    if (tasks)
        closedir(tasks);
    return count;
}
