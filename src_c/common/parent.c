/* parent.c -- see parent.h. */
#include "parent.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* ThreadSanitizer puts a handler off until a call that it knows has returned,
 * as one that waits for a client may never do. Set by glibc's own name it runs
 * at once; nothing in it is to be watched. */
#ifdef __SANITIZE_THREAD__
int __sigaction(int, const struct sigaction *, struct sigaction *);
#define sigaction(...) __sigaction(__VA_ARGS__)
#define UNWATCHED __attribute__((no_sanitize("thread")))
#else
#define UNWATCHED
#endif

static pid_t parent_expected;

UNWATCHED static void parent_on_signal(int signal)
{
    (void)signal;
    if (getppid() != parent_expected)
        kill(getpid(), SIGKILL);
}

void parent_die_with(pid_t parent)
{
    struct sigaction action = {.sa_handler = parent_on_signal,
                               .sa_flags = SA_RESTART};
    if (parent == 0) /* in another PID namespace */
        return;
    sigfillset(&action.sa_mask);
    parent_expected = parent;
    sigaction(SIGUSR1, &action, NULL);
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    if (getppid() != parent) /* it died before we asked */
        _exit(1);
}
