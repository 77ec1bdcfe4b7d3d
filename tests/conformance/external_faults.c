/* external_faults.c -- build/external on a machine that is at its limits.
 *
 * Preloaded into it:
 *
 *     FORKS=N      so many fork() in a row succeed, of a process and those that
 *                  it descends from; then there is no room for another
 *     TASKS=1      there are as many tasks as sysinfo() can say, 65535
 *
 * A signal to everybody, kill(-1), ends who sends it, and reaches nobody.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <sys/types.h>
#include <unistd.h>

pid_t fork(void)
{
    static int forks;
    pid_t (*real)(void) = dlsym(RTLD_NEXT, "fork");
    const char *most = getenv("FORKS");
    if (most && forks++ >= atoi(most)) {
        errno = EAGAIN;
        return -1;
    }
    return real();
}

int kill(pid_t pid, int signal)
{
    int (*real)(pid_t, int) = dlsym(RTLD_NEXT, "kill");
    if (pid == -1)
        _exit(99);
    return real(pid, signal);
}

int sysinfo(struct sysinfo *info)
{
    int (*real)(struct sysinfo *) = dlsym(RTLD_NEXT, "sysinfo");
    int done = real(info);
    if (getenv("TASKS"))
        info->procs = UINT16_MAX;
    return done;
}
