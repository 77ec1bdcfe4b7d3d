/* parent.h -- dying with the process that started us, so that a driver that is
 * killed leaves no server behind.
 *
 * PR_SET_PDEATHSIG (Linux 2.1.57) is named for the parent, but its signal comes
 * when the parent *thread* ends, the one that called fork(): prctl(2), BUGS. A
 * server that a worker thread of Python started would die with that thread. So
 * the signal is one that can be caught, and its handler looks whether the
 * process is still there: getppid() changes when it is gone, and else another
 * thread of it has become the parent, whose end is told in turn.
 *
 * To a parent in another PID namespace (Linux 2.6.24), as of docker exec or
 * nsenter, getppid() is 0 before and after, so that its end cannot be told from
 * that of a thread, nor of a helper that starts us and leaves. Then nothing is
 * asked for: the end of the namespace ends us, or what PR_SET_PDEATHSIG our
 * starter asked for, as unshare --kill-child does.
 */
#ifndef PARENT_H
#define PARENT_H

#include <sys/types.h>

/* From now on the process is killed when `parent`, unless 0, is no longer its
 * parent. Takes SIGUSR1. Not inherited: a child of ours asks for itself. */
void parent_die_with(pid_t parent);

#endif
