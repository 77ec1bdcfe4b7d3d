/* guard.c -- see guard.h. */
#include "guard.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json_text.h"
#include "family.h"

/* Below what the kernel gives to clients (ip_local_port_range), so that none
 * takes the port before the server does. */
enum { PORT_FIRST = 10000, PORTS = 20000 };
enum { PORT_TRIES = 200 };
/* Between two looks for a listener, and while it serves. */
enum { LOOK_NS = 1000000, IDLE_NS = 100000000 };
/* What the command printed: of more than that only the end is kept. */
enum { OUTPUT_MOST = 64 << 20, OUTPUT_KEPT = 1 << 20 };

struct guard {
    const struct guard_plan *plan;
    pid_t parent, server;
    in_port_t port;   /* 0: none was free */
    int status;       /* of the server, once it ended */
    bool ended, told; /* told: to end */
    uint64_t started_ns;
    unsigned tasks; /* of the machine, at the start */
};

/* --- starting ------------------------------------------------------------ */

static struct sockaddr_in loopback(in_port_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static bool port_is_free(in_port_t port)
{
    struct sockaddr_in at = loopback(port);
    at.sin_addr.s_addr = htonl(INADDR_ANY);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_free = fd >= 0 && bind(fd, (void *)&at, sizeof at) == 0;
    if (fd >= 0)
        close(fd);
    return is_free;
}

/* 0: none was found. */
static in_port_t free_port(void)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        uint32_t dice;
        if (getrandom(&dice, sizeof dice, 0) != sizeof dice)
            return 0;
        in_port_t port = (in_port_t)(PORT_FIRST + dice % PORTS);
        if (port_is_free(port))
            return port;
    }
    return 0;
}

/* The word with {port} replaced, in memory of its own. */
static char *with_port(const char *word, in_port_t port)
{
    static const char mark[] = "{port}";
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        abort();
    for (const char *at; (at = strstr(word, mark)); word = at + strlen(mark))
        fprintf(to, "%.*s%u", (int)(at - word), word, port);
    fputs(word, to);
    fclose(to);
    return text;
}

static void substitute_port(struct guard *guard)
{
    guard->port = free_port();
    for (char **word = guard->plan->command; *word; word++)
        *word = with_port(*word, guard->port);
}

/* A script whose first line ends as on Windows is "not there" as well. A name
 * without a slash was looked for in PATH, and not here. */
static const char *why_not(const char *program, int error)
{
    if (error == ENOENT && strchr(program, '/') && access(program, F_OK) == 0)
        return "what its first line (#!) or its file format asks for is not "
               "here; lines must end in \\n, not \\r\\n";
    return strerror(error);
}

/* In the child: as from a shell, its output on standard error. */
_Noreturn static void become(const struct guard *guard)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, guard->plan->group);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execvp(guard->plan->command[0], guard->plan->command);
    const int error = errno;
    fprintf(stderr, "external: %s: %s\n", guard->plan->command[0],
            why_not(guard->plan->command[0], error));
    _exit(error == ENOENT ? 127 : 126);
}

/* sysinfo(2) has but 16 bits for them. */
static unsigned tasks_now(void)
{
    unsigned tasks = 0;
    FILE *file = fopen("/proc/loadavg", "re");
    if (file && fscanf(file, "%*s %*s %*s %*u/%u", &tasks) != 1)
        tasks = 0;
    if (file)
        fclose(file);
    return tasks;
}

/* Whatever the server starts, the guard gets a core; where it may. */
static void go_first(void)
{
    struct sched_param soon = {.sched_priority = 1};
    setpriority(PRIO_PROCESS, 0, -20);
    sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &soon);
}

/* Who waits for a process that ends shares its core with it: the kernel (seen
 * in 6.18) walks the entries of a dead process in /proc until nobody holds one,
 * and the process that does has to run to let go. First in line, the guard
 * walked for the 0.95 s after which the kernel lets others run. */
static void go_fairly(void)
{
    struct sched_param fair = {.sched_priority = 0};
    sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &fair);
}

static void start(struct guard *guard)
{
    substitute_port(guard);
    guard->tasks = tasks_now();
    guard->started_ns = clock_now_ns();
    guard->server = fork();
    if (guard->server < 0) /* a signal to -1 is one to everybody */
        err(1, "fork");
    if (guard->server == 0)
        become(guard);
    go_first();
}

/* --- watching ------------------------------------------------------------ */

/* Waits for all that have ended; the server's own end is noted. */
static void reap(struct guard *guard)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == guard->server) {
            guard->status = status;
            guard->ended = true;
        }
}

/* It has ended, and nobody is left who might serve in its place. */
static bool nobody_left(struct guard *guard)
{
    reap(guard);
    return guard->ended && waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

static bool orphaned(const struct guard *guard)
{
    return getppid() != guard->parent;
}

/* Blocked, and waited for. */
static sigset_t own_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    return set;
}

/* Sleeps so long, or until a signal says that something has happened. */
static void wait_for_signal(struct guard *guard, long ns)
{
    sigset_t set = own_signals();
    struct timespec time = {.tv_nsec = ns};
    int signal = sigtimedwait(&set, NULL, &time);
    guard->told |= signal == SIGTERM || signal == SIGINT || orphaned(guard);
}

/* Counting is dear, so it begins when the whole machine has that many more. */
static bool too_many(const struct guard *guard)
{
    unsigned most = guard->plan->processes_most;
    if (tasks_now() < guard->tasks + most ||
        family_walk(getpid(), NULL, most) <= most)
        return false;
    fprintf(stderr, "external: more than %u processes; killed\n", most);
    return true;
}

/* A file in memory holds what the server prints, so that its beginning is
 * given back where it prints without end; a pipe is somebody else's care. */
static void bound_output(void)
{
    struct stat now;
    if (fstat(STDERR_FILENO, &now) == 0 && S_ISREG(now.st_mode) &&
        (off_t)now.st_blocks * 512 > OUTPUT_MOST)
        fallocate(STDERR_FILENO, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                  now.st_size - OUTPUT_KEPT);
}

static bool listens(in_port_t port)
{
    struct sockaddr_in at = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected = fd >= 0 && connect(fd, (void *)&at, sizeof at) == 0;
    if (fd >= 0)
        close(fd);
    return connected;
}

/* False when nothing will listen any more. */
static bool wait_until_listening(struct guard *guard)
{
    uint64_t until = guard->started_ns + guard->plan->patience_s * NS_PER_S;
    while (!listens(guard->port)) {
        bool nobody = nobody_left(guard);
        if (nobody && !guard->told && !guard->status)
            fprintf(stderr,
                    "external: exit 0 before anything listened on "
                    "127.0.0.1:%u\n",
                    guard->port);
        if (nobody || guard->told)
            return false;
        if (clock_now_ns() > until) {
            fprintf(stderr,
                    "external: nothing listens on 127.0.0.1:%u after "
                    "%u s\n",
                    guard->port, guard->plan->patience_s);
            return false;
        }
        wait_for_signal(guard, LOOK_NS);
    }
    return true;
}

/* A daemon's first process is gone by now: the guard stands for it. */
static void print_ready(struct guard *guard)
{
    reap(guard);
    printf("{\"event\":\"ready\",\"model\":");
    json_text(guard->plan->name);
    printf(",\"workload\":");
    json_text(guard->plan->workload);
    printf(",\"host\":\"127.0.0.1\",\"port\":%u,\"pid\":%d,\"start_s\":%.4f}\n",
           guard->port, (int)(guard->ended ? getpid() : guard->server),
           (double)(clock_now_ns() - guard->started_ns) / NS_PER_S);
    fflush(stdout);
}

static void serve(struct guard *guard)
{
    while (!guard->told && !nobody_left(guard)) {
        wait_for_signal(guard, IDLE_NS);
        bound_output();
        if (too_many(guard)) {
            guard->status = SIGKILL;
            guard->ended = true;
            return;
        }
    }
}

/* --- ending -------------------------------------------------------------- */

/* Returns whether the server had to be killed. */
static bool end_all(struct guard *guard)
{
    uint64_t until = clock_now_ns() + guard->plan->grace_s * NS_PER_S;
    go_fairly();
    if (!guard->ended && !orphaned(guard))
        kill(guard->server, SIGTERM);
    while (!nobody_left(guard) && !orphaned(guard) && clock_now_ns() < until)
        wait_for_signal(guard, LOOK_NS);
    bool killed = !guard->ended;
    if (!nobody_left(guard))
        go_first();
    family_kill(guard->plan->group, guard->parent);
    return killed;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void print_usage(const struct guard *guard, bool killed)
{
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    printf("{\"event\":\"usage\",\"cpu_user_s\":%.6f,\"cpu_system_s\":%.6f,"
           "\"context_switches_voluntary\":%ld,"
           "\"context_switches_involuntary\":%ld,\"seconds\":%.6f,"
           "\"killed\":%s}\n",
           seconds(used.ru_utime), seconds(used.ru_stime), used.ru_nvcsw,
           used.ru_nivcsw,
           (double)(clock_now_ns() - guard->started_ns) / NS_PER_S,
           killed ? "true" : "false");
    fflush(stdout);
}

static void prepare(struct guard *guard, const struct guard_plan *plan)
{
    sigset_t set = own_signals();
    *guard = (struct guard){.plan = plan, .parent = plan->group};
    sigprocmask(SIG_BLOCK, &set, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int guard_run(const struct guard_plan *plan)
{
    struct guard guard;
    prepare(&guard, plan);
    start(&guard);
    bool listening = wait_until_listening(&guard);
    if (listening) {
        print_ready(&guard);
        serve(&guard);
    }
    bool by_itself = guard.ended;
    bool killed = end_all(&guard);
    if (listening)
        print_usage(&guard, killed);
    if (guard.told)
        return 0;
    return by_itself && (guard.status || listening) ? guard.status : 1 << 8;
}
