/* proc_children.h -- the children of a process, in /proc/PID/task/TID/children
 * (Linux 4.2, CONFIG_PROC_CHILDREN). */
#ifndef PROC_CHILDREN_H
#define PROC_CHILDREN_H

#include <sys/types.h>

typedef void proc_visit(void *context, pid_t child);

/* Calls visit() for each child that a thread of the process has; that all of
 * its threads have. Returns how many those are; 0 where the process is gone. */
unsigned proc_children_of(pid_t pid, pid_t thread, proc_visit *visit,
                          void *context);
unsigned proc_children(pid_t pid, proc_visit *visit, void *context);

#endif
