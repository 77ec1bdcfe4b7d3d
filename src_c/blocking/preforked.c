/* preforked.c -- see preforked.h.
 *
 * SIGCHLD is let in only while ppoll(2) waits: one that came between a look at
 * the children and the wait would not be noticed before the next (the race
 * that pselect and ppoll, Linux 2.6.16, were made for).
 */
#include "preforked.h"

#include <err.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "blocking/children.h"
#include "blocking/workers.h"
#include "common/clock.h"
#include "server/log.h"
#include "server/net.h"
#include "server/stop.h"

#define YOUNG_NS NS_PER_S
#define PAUSE_NS (NS_PER_S / 10)

struct preforked_child {
    pid_t pid; /* 0: there is none, until replace_ns */
    uint64_t started_ns, replace_ns;
};

static volatile sig_atomic_t preforked_died;

static void preforked_on_child(int signal)
{
    (void)signal;
    preforked_died = true;
}

_Noreturn static void preforked_live(struct preforked *p, unsigned worker)
{
    sigprocmask(SIG_SETMASK, &p->awake, NULL);
    p->serve(p->server, model_slot(p->server, worker), p->shared);
    log_flush();
    _exit(0);
}

/* The listening socket is everybody's: the parent shuts it, for all. */
static bool preforked_fork(struct preforked *p, unsigned worker)
{
    struct preforked_child *child = &p->children[worker];
    pid_t pid = children_fork(-1);
    if (pid == 0)
        preforked_live(p, worker);
    uint64_t now = clock_now_ns();
    *child = (struct preforked_child){pid > 0 ? pid : 0, now, now + PAUSE_NS};
    if (pid > 0)
        stats_add(&p->server->stats->workers_started, 1);
    return pid > 0;
}

static void preforked_catch(struct preforked *p)
{
    struct sigaction action = {.sa_handler = preforked_on_child};
    sigset_t child;
    sigaction(SIGCHLD, &action, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &p->awake);
}

bool preforked_start(struct preforked *p)
{
    unsigned workers = model_workers(p->server);
    p->children = calloc(workers, sizeof *p->children);
    if (!p->children) {
        warn("calloc");
        return false;
    }
    preforked_catch(p);
    while (p->count < workers && !stop_requested() &&
           preforked_fork(p, p->count))
        p->count++;
    if (p->count < workers && !stop_requested())
        workers_warn(p->server, p->count, "fork");
    return p->count > 0 || stop_requested();
}

static void preforked_reap(struct preforked *p)
{
    preforked_died = false;
    for (pid_t pid; (pid = children_reap(p->server->stats)) > 0;)
        for (unsigned i = 0; i < p->count; i++) {
            struct preforked_child *child = &p->children[i];
            if (child->pid != pid)
                continue;
            uint64_t now = clock_now_ns();
            bool young = now - child->started_ns < YOUNG_NS;
            child->pid = 0;
            child->replace_ns = now + (young ? PAUSE_NS : 0);
            p->missing++;
        }
}

/* Returns the time of the next one; UINT64_MAX: none is missing. */
static uint64_t preforked_replace(struct preforked *p)
{
    uint64_t now = clock_now_ns(), next = UINT64_MAX;
    for (unsigned i = 0; i < p->count && p->missing > 0; i++) {
        struct preforked_child *child = &p->children[i];
        if (child->pid == 0 && child->replace_ns <= now && !stop_requested() &&
            preforked_fork(p, i))
            p->missing--;
        if (child->pid == 0 && child->replace_ns < next)
            next = child->replace_ns;
    }
    return next;
}

bool preforked_await(struct preforked *p, int fd, short events)
{
    struct pollfd ready = {.fd = fd, .events = events};
    struct timespec left;
    if (preforked_died)
        preforked_reap(p);
    uint64_t next = p->missing > 0 ? preforked_replace(p) : UINT64_MAX;
    uint64_t now = next < UINT64_MAX ? clock_now_ns() : 0;
    left = clock_timespec(next > now ? next - now : 0);
    int n = ppoll(&ready, 1, next < UINT64_MAX ? &left : NULL, &p->awake);
    if (n < 0)
        net_wait_failed(p->server, "ppoll");
    return n > 0;
}

void preforked_end(struct preforked *p)
{
    children_wait_all(p->server->stats);
    sigprocmask(SIG_SETMASK, &p->awake, NULL);
    free(p->children);
}

int preforked_run(struct preforked *p)
{
    bool started = preforked_start(p);
    while (started && !stop_requested())
        preforked_await(p, stop_fd(), POLLIN);
    preforked_end(p);
    return started ? 0 : -1;
}
