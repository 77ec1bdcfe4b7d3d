/* external.c -- run a server that is not ours the way build/server is run.
 *
 *     external [options] -- CMD ARG...        {port} in a word becomes a port
 *
 *     driver -> external (relays signals) -> guard -> CMD -> all that it starts
 *
 * Standard output carries JSON lines: "ready" once a connection to the port is
 * established, "usage" after SIGTERM. What CMD prints, on either stream, goes
 * to standard error. Exits as CMD did if that ended by itself, with 0 after
 * SIGTERM, with 1 where nothing ever listened.
 *
 * There are two processes because a driver that is in a hurry sends SIGKILL,
 * which nobody can catch: then the guard, in a process group of its own, hears
 * of the death of its parent and ends CMD with all its descendants. CMD stays
 * in the group of `external`, so that SIGSTOP to the group stops it.
 */
#include <err.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/flags.h"
#include "common/parent.h"
#include "guard.h"

#define MEMBER(name) offsetof(struct guard_plan, name)

/* clang-format off */
static const struct flag rows[] = {
    {"--name", "NAME", "a name", "said in the ready line; CMD without it",
     flag_text, MEMBER(name), 0, 0},
    {"--workload", "NAME", "a name", "said in the ready line; echo",
     flag_text, MEMBER(workload), 0, 0},
    {"--patience", "S", NULL, "seconds until something must listen; 9",
     flag_unsigned, MEMBER(patience_s), 1, 3600},
    {"--grace", "S", NULL, "seconds from SIGTERM to SIGKILL; 2",
     flag_unsigned, MEMBER(grace_s), 1, 3600},
    {"--processes", "N", NULL, "descendants; if there are more, all end; 20000",
     flag_unsigned, MEMBER(processes_most), 1, 1000000},
};
/* clang-format on */

static const char head[] =
    "usage: external [options] -- CMD ARG...   {port} becomes a free port\n";

_Noreturn static void refuse_word(void *into, const char *word)
{
    (void)into;
    flags_refuse(word, NULL, "no option; want -- before CMD ARG...");
}

/* What stands behind "--" is CMD's. */
static struct guard_plan read_plan(int argc, char **argv)
{
    const char *given[sizeof rows / sizeof *rows] = {0};
    const struct flags flags = {.rows = rows,
                                .given = given,
                                .count = sizeof rows / sizeof *rows,
                                .operand = refuse_word,
                                .head = head,
                                .tail = ""};
    struct guard_plan plan = {.workload = "echo",
                              .patience_s = 9,
                              .grace_s = 2,
                              .processes_most = 20000};
    int own = 1;
    while (own < argc && strcmp(argv[own], "--") != 0)
        own++;
    argv[own] = NULL; /* "--" is no option's value */
    flags_read(&flags, &plan, own, argv);
    if (own + 1 >= argc)
        flags_refuse("no command", NULL, "want -- and CMD ARG...");
    plan.command = argv + own + 1;
    if (!plan.name)
        plan.name = plan.command[0];
    return plan;
}

static pid_t guard_pid;

static void pass_on(int signal)
{
    kill(guard_pid, signal);
}

/* A server that a signal ended shall look so from outside. */
_Noreturn static void end_as(int status)
{
    if (WIFEXITED(status))
        exit(WEXITSTATUS(status));
    struct rlimit none = {0, 0};
    sigset_t one;
    setrlimit(RLIMIT_CORE, &none);
    sigemptyset(&one);
    sigaddset(&one, WTERMSIG(status));
    signal(WTERMSIG(status), SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &one, NULL); /* the guard blocks those it awaits */
    raise(WTERMSIG(status));
    exit(128 + WTERMSIG(status));
}

int main(int argc, char **argv)
{
    struct guard_plan plan = read_plan(argc, argv);
    parent_die_with(getppid());
    signal(SIGCHLD, SIG_DFL); /* ignored, it would leave no child to wait for */
    setpgid(0, 0); /* what stops and kills the group shall hit nobody else */
    plan.group = getpgrp();
    guard_pid = fork();
    if (guard_pid < 0)
        err(1, "fork");
    if (guard_pid == 0)
        end_as(guard_run(&plan));
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    int status;
    if (waitpid(guard_pid, &status, 0) < 0)
        return 1;
    end_as(status);
}
