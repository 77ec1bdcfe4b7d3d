/* family.h -- the descendants of a process: count them, kill them all.
 *
 * Found in /proc/PID/task/TID/children (Linux 4.2, CONFIG_PROC_CHILDREN).
 */
#ifndef FAMILY_H
#define FAMILY_H

#include <sys/types.h>

/* Calls `visit` for each descendant of `root` that is found, a parent before
 * its children; returns how many. */
unsigned family_walk(pid_t root, void (*visit)(pid_t pid));

/* Kills all descendants of this process, which is their subreaper, and waits
 * for them. They are stopped first, so that those who fork as fast as they can
 * come to an end. */
void family_kill(void);

#endif
