/* floor_calls.c -- what one system call costs a thread that never sleeps.
 *
 * Each is made many times in a row on cores[0], by the clock of the thread's
 * CPU time: what else the core does is not in it. Sockets are TCP over
 * loopback, as many as plan->connections, since what poll() looks at is the
 * connection.
 */
#include <err.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "floor.h"
#include "floor_setup.h"

enum {
    BATCH = 64, /* calls between two looks at the clock */
    COPIED_KIB = 32,
};

/* Does `once`, a batch of calls, until the window is over; mean CPU time of
 * a call, ns. */
static double mean_cpu_ns(const struct floor_plan *plan, void (*once)(void *),
                          void *argument)
{
    uint64_t until_ns = clock_now_ns() + clock_seconds_ns(plan->duration_s);
    unsigned batches = 0;
    once(argument);
    uint64_t begin_ns = clock_thread_cpu_ns();
    do {
        once(argument);
        batches++;
    } while (clock_now_ns() < until_ns);
    uint64_t spent_ns = clock_thread_cpu_ns() - begin_ns;
    return (double)spent_ns / batches / BATCH;
}

struct sockets {
    unsigned count;
    int (*pairs)[2];
    struct pollfd *polled;      /* one end of each */
    int epoll;                  /* has the other of each, all writable */
    struct epoll_event *events; /* what that reports */
    size_t size;                /* bytes of a message */
    char *message;
    unsigned next; /* of the pairs, whose turn it is */
};

static struct sockets sockets_open(unsigned count, size_t size)
{
    struct sockets open = {.count = count, .size = size};
    open.message = calloc(1, size);
    open.pairs = calloc(count, sizeof *open.pairs);
    open.polled = calloc(count, sizeof *open.polled);
    open.events = calloc(count, sizeof *open.events);
    open.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!open.pairs || !open.polled || !open.events || !open.message ||
        open.epoll < 0)
        err(1, "sockets");
    for (unsigned i = 0; i < count; i++) {
        floor_tcp_pair(open.pairs[i]);
        open.polled[i] = (struct pollfd){open.pairs[i][0], POLLIN, 0};
        struct epoll_event writable = {.events = EPOLLOUT};
        if (epoll_ctl(open.epoll, EPOLL_CTL_ADD, open.pairs[i][1], &writable))
            err(1, "epoll_ctl");
    }
    return open;
}

static void sockets_close(struct sockets *open)
{
    close(open->epoll);
    for (unsigned i = 0; i < open->count; i++)
        close(open->pairs[i][0]), close(open->pairs[i][1]);
    free(open->pairs);
    free(open->polled);
    free(open->events);
    free(open->message);
}

static void entries(void *argument)
{
    (void)argument;
    for (int i = 0; i < BATCH; i++)
        syscall(SYS_getppid);
}

static void epolls(void *argument)
{
    struct sockets *open = argument;
    int most = (int)open->count;
    for (int i = 0; i < BATCH; i++)
        if (epoll_wait(open->epoll, open->events, most, 0) != most)
            err(1, "epoll_wait");
}

static void polls(void *argument)
{
    struct sockets *open = argument;
    for (int i = 0; i < BATCH; i++)
        if (poll(open->polled, open->count, 0) != 0)
            err(1, "poll");
}

/* A message there and back over each connection; the same thread is both ends,
 * so what it sends has arrived when send returns. */
static void exchanges(void *argument)
{
    struct sockets *open = argument;
    for (int i = 0; i < BATCH; i++, open->next++) {
        int *pair = open->pairs[open->next % open->count];
        for (int end = 0; end < 2; end++)
            if (send(pair[!end], open->message, open->size, 0) < 0 ||
                recv(pair[end], open->message, open->size, MSG_WAITALL) < 0)
                err(1, "exchange");
    }
}

/* A call that is about one socket, and what each more of them adds. */
static double one_and_more(const struct floor_plan *plan, void (*once)(void *),
                           struct sockets *open, double *more_ns)
{
    unsigned count = open->count;
    double all_ns = mean_cpu_ns(plan, once, open);
    open->count = 1;
    double one_ns = mean_cpu_ns(plan, once, open);
    open->count = count;
    *more_ns = count > 1 ? (all_ns - one_ns) / (count - 1) : -1;
    return one_ns;
}

/* --- a pipe, which one thread fills and empties --------------------------- */

struct tube {
    int ends[2];
    size_t size;
    char bytes[COPIED_KIB * 1024];
};

static void pipes(void *argument)
{
    struct tube *tube = argument;
    for (int i = 0; i < BATCH; i++) {
        ssize_t in = write(tube->ends[1], tube->bytes, tube->size);
        ssize_t out = read(tube->ends[0], tube->bytes, tube->size);
        if (in != out || out != (ssize_t)tube->size)
            err(1, "pipe");
    }
}

static void through_pipe(const struct floor_plan *plan, double *ns)
{
    static struct tube tube;
    if (pipe(tube.ends) < 0)
        err(1, "pipe");
    tube.size = 1;
    ns[FLOOR_PIPE] = mean_cpu_ns(plan, pipes, &tube);
    tube.size = sizeof tube.bytes;
    double whole_ns = mean_cpu_ns(plan, pipes, &tube);
    ns[FLOOR_COPY_KIB] = (whole_ns - ns[FLOOR_PIPE]) / COPIED_KIB;
    close(tube.ends[0]), close(tube.ends[1]);
}

void floor_calls(const struct floor_plan *plan, double ns[FLOOR_CALLS])
{
    struct floor_plan part = *plan;
    part.duration_s /= FLOOR_CALLS; /* one window for all of them */
    floor_pin(plan->cores[0]);
    struct sockets open = sockets_open(plan->connections, plan->size_bytes);
    ns[FLOOR_ENTRY] = mean_cpu_ns(&part, entries, NULL);
    ns[FLOOR_EPOLL] = one_and_more(&part, epolls, &open, &ns[FLOOR_EVENT]);
    ns[FLOOR_POLL] = one_and_more(&part, polls, &open, &ns[FLOOR_WALK]);
    ns[FLOOR_EXCHANGE] = mean_cpu_ns(&part, exchanges, &open) / 2;
    sockets_close(&open);
    through_pipe(&part, ns);
}
