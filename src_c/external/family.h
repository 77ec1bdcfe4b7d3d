/* family.h -- the descendants of a process: count them, kill them all. */
#ifndef FAMILY_H
#define FAMILY_H

#include <sys/types.h>

/* Calls `visit` for each descendant of `root` that is found, a parent before
 * its children; returns how many. Ends once there are more than `most`, as
 * those who fork as fast as they can may outrun it. */
unsigned family_walk(pid_t root, void (*visit)(pid_t pid), unsigned most);

/* Kills all descendants of this process, which is their subreaper, and waits
 * for them. First their process group is stopped: one call, which no fork
 * escapes; then who has left it. `spared` is a member of that group that goes
 * on. */
void family_kill(pid_t group, pid_t spared);

#endif
