/* parent.c -- see parent.h. */
#include "parent.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* ThreadSanitizer puts a handler off until the call that was interrupted has
 * returned, which one that is restarted does not. */
#ifdef __SANITIZE_THREAD__
enum { PARENT_FLAGS = 0 };
#else
enum { PARENT_FLAGS = SA_RESTART };
#endif

static pid_t parent_expected;

/* 0: it is in another namespace of ids, where its end cannot be told from that
 * of a thread. */
static void parent_on_signal(int signal)
{
    (void)signal;
    if (parent_expected == 0 || getppid() != parent_expected)
        kill(getpid(), SIGKILL);
}

void parent_die_with(pid_t parent)
{
    struct sigaction action = {.sa_handler = parent_on_signal,
                               .sa_flags = PARENT_FLAGS};
    sigfillset(&action.sa_mask);
    parent_expected = parent;
    sigaction(SIGUSR1, &action, NULL);
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    if (getppid() != parent) /* it died before we asked */
        _exit(1);
}
