/* children.c -- see children.h. */
#include "children.h"

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/parent.h"
#include "server/stop.h"

/* All signals are blocked around fork(2). In the parent, SIGCHLD or a stop must
 * not come before the child's id is noted; in the child, a stop must not find
 * the parent's lists, before stop_install() has cleared them. */
pid_t children_fork(int listen_fd)
{
    sigset_t all, before;
    pid_t parent = getpid();
    if (!stop_has_place()) {
        errno = EAGAIN;
        return -1;
    }
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    int error = errno;
    if (pid > 0)
        stop_watch_child(pid);
    if (pid == 0) {
        parent_die_with(parent);
        stop_install(listen_fd);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

static bool children_ended_well(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Returns whether it ended well. */
static bool children_note_end(struct stats *stats, pid_t pid, int status)
{
    stop_unwatch_child(pid);
    if (children_ended_well(status))
        return true;
    bool signalled = WIFSIGNALED(status);
    warnx("process %d: %s %d", (int)pid, signalled ? "signal" : "exit status",
          signalled ? WTERMSIG(status) : WEXITSTATUS(status));
    stats_add(&stats->workers_lost, 1);
    return false;
}

pid_t children_wait(struct stats *stats, bool *failed)
{
    int status;
    pid_t pid;
    do
        pid = wait(&status);
    while (pid < 0 && errno == EINTR);
    if (pid < 0)
        return -1;
    *failed |= !children_note_end(stats, pid, status);
    return pid;
}

pid_t children_reap(struct stats *stats)
{
    int status;
    pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid > 0)
        children_note_end(stats, pid, status);
    return pid > 0 ? pid : 0;
}

static struct stats *children_stats;

/* Several that ended may share one signal. */
static void children_on_signal(int signal)
{
    (void)signal;
    int saved = errno, status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        stop_unwatch_child(pid);
        if (!children_ended_well(status))
            stats_add(&children_stats->workers_lost, 1);
    }
    errno = saved;
}

void children_reap_always(struct stats *stats)
{
    struct sigaction action = {.sa_handler = children_on_signal,
                               .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    children_stats = stats;
    sigaction(SIGCHLD, &action, NULL);
}

bool children_wait_all(struct stats *stats)
{
    bool failed = false;
    signal(SIGCHLD, SIG_DFL);
    while (children_wait(stats, &failed) > 0)
        continue;
    return !failed;
}
