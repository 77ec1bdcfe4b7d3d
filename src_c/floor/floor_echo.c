/* floor_echo.c -- the system-call floor of echo.
 *
 *     server half:  for each connection: recv -> send     (core 0)
 *     client half:  for each connection: recv -> send     (core 1)
 *
 * Both try every connection in turn, without waiting and without asking the
 * kernel which of them are ready. What remains is what TCP itself costs; what
 * a model needs on top of it is the price of its way to wait.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/parent.h"
#include "floor.h"
#include "floor_setup.h"

/* One end of a connection: what it must still send, and receive. */
struct end {
    int fd;
    size_t unsent, unreceived;
};

static char buffer[FLOOR_SIZE_MAX];

static void set_end(struct end *end, int fd)
{
    int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
        err(1, "setsockopt TCP_NODELAY");
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        err(1, "fcntl O_NONBLOCK");
    *end = (struct end){.fd = fd};
}

static struct end *ends_new(unsigned count)
{
    struct end *ends = calloc(count, sizeof *ends);
    if (!ends)
        err(1, "calloc");
    return ends;
}

/* Returns how many bytes came: 0 when there were none. */
static size_t try_receive(struct end *end, size_t most)
{
    ssize_t n = recv(end->fd, buffer, most, 0);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n < 0)
        err(1, "recv");
    if (n == 0)
        errx(1, "recv: the other half left");
    return (size_t)n;
}

static void try_send(struct end *end)
{
    ssize_t n = send(end->fd, buffer, end->unsent, MSG_NOSIGNAL);
    if (n >= 0)
        end->unsent -= (size_t)n;
    else if (errno != EAGAIN)
        err(1, "send");
}

static void serve(struct end *ends, unsigned count, const _Atomic bool *stop)
{
    while (!*stop)
        for (unsigned i = 0; i < count; i++) {
            if (ends[i].unsent == 0)
                ends[i].unsent = try_receive(&ends[i], sizeof buffer);
            if (ends[i].unsent > 0)
                try_send(&ends[i]);
        }
}

/* One look at every connection; returns how many requests were answered. */
static unsigned ask(struct end *ends, unsigned count, size_t size)
{
    unsigned answered = 0;
    for (unsigned i = 0; i < count; i++) {
        struct end *end = &ends[i];
        if (end->unreceived > 0)
            end->unreceived -= try_receive(end, end->unreceived);
        if (end->unreceived == 0) {
            answered++;
            end->unsent = end->unreceived = size;
        }
        if (end->unsent > 0)
            try_send(end);
    }
    return answered;
}

struct reading {
    uint64_t at_ns;
    double server_cpu_s, client_cpu_s;
};

static struct reading read_clocks(pid_t server)
{
    return (struct reading){clock_now_ns(), floor_cpu_s(server),
                            floor_cpu_s(getpid())};
}

/* Asks for a fifth of the window to warm up, then for the window. */
static struct floor_echo drive(const struct floor_plan *plan, struct end *ends,
                               pid_t server)
{
    uint64_t window_ns = clock_seconds_ns(plan->duration_s);
    uint64_t begin_ns = clock_now_ns() + window_ns / 5;
    while (clock_now_ns() < begin_ns)
        ask(ends, plan->connections, plan->size_bytes);

    struct floor_echo echo = {0};
    struct reading begin = read_clocks(server);
    while (clock_now_ns() < begin.at_ns + window_ns)
        echo.requests += ask(ends, plan->connections, plan->size_bytes);
    struct reading end = read_clocks(server);

    echo.seconds = (double)(end.at_ns - begin.at_ns) / 1e9;
    echo.client_cpu_s = end.client_cpu_s - begin.client_cpu_s;
    echo.server_cpu_s =
        begin.server_cpu_s < 0 ? -1 : end.server_cpu_s - begin.server_cpu_s;
    return echo;
}

static void close_all(struct end *ends, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        close(ends[i].fd);
    free(ends);
}

static struct floor_echo drive_server(const struct floor_plan *plan)
{
    struct end *ends = ends_new(plan->connections);
    for (unsigned i = 0; i < plan->connections; i++) {
        int fd = socket(plan->server.ss_family, SOCK_STREAM, 0);
        if (fd < 0)
            err(1, "socket");
        if (connect(fd, (const struct sockaddr *)&plan->server,
                    plan->server_bytes) < 0)
            err(1, "connect");
        set_end(&ends[i], fd);
    }
    floor_pin(plan->cores[1]);
    struct floor_echo echo = drive(plan, ends, plan->server_pid);
    close_all(ends, plan->connections);
    return echo;
}

static _Atomic bool *shared_flag(void)
{
    void *page = mmap(NULL, sizeof(_Atomic bool), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        err(1, "mmap");
    return page;
}

static pid_t start_server_half(const struct floor_plan *plan, struct end *ends,
                               const _Atomic bool *stop)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        err(1, "fork");
    if (pid > 0)
        return pid;
    parent_die_with(parent);
    floor_pin(plan->cores[0]);
    serve(ends, plan->connections, stop);
    _exit(0);
}

static struct floor_echo drive_floor(const struct floor_plan *plan)
{
    _Atomic bool *stop = shared_flag();
    struct end *server = ends_new(plan->connections);
    struct end *client = ends_new(plan->connections);
    for (unsigned i = 0; i < plan->connections; i++) {
        int pair[2];
        floor_tcp_pair(pair);
        set_end(&server[i], pair[0]);
        set_end(&client[i], pair[1]);
    }
    pid_t pid = start_server_half(plan, server, stop);
    floor_pin(plan->cores[1]);
    struct floor_echo echo = drive(plan, client, pid);
    *stop = true;
    if (waitpid(pid, NULL, 0) < 0)
        err(1, "waitpid");
    close_all(server, plan->connections);
    close_all(client, plan->connections);
    munmap(stop, sizeof *stop);
    return echo;
}

struct floor_echo floor_echo(const struct floor_plan *plan)
{
    return plan->server_bytes ? drive_server(plan) : drive_floor(plan);
}
