/* floor_setup.c -- see floor_setup.h. */
#include "floor_setup.h"

#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void floor_pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) < 0)
        err(1, "sched_setaffinity");
}

void floor_tcp_pair(int pair[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    pair[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || pair[1] < 0)
        err(1, "socket");
    if (bind(listener, (struct sockaddr *)&at, length) < 0)
        err(1, "bind");
    if (listen(listener, 1) < 0)
        err(1, "listen");
    if (getsockname(listener, (struct sockaddr *)&at, &length) < 0)
        err(1, "getsockname");
    if (connect(pair[1], (struct sockaddr *)&at, length) < 0)
        err(1, "connect");
    pair[0] = accept(listener, NULL, NULL);
    if (pair[0] < 0)
        err(1, "accept");
    for (int i = 0; i < 2; i++)
        if (setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
            err(1, "setsockopt TCP_NODELAY");
    close(listener);
}

/* By the clock that every process has. */
double floor_cpu_s(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 ||
        clock_gettime(clock, &t) < 0)
        return -1;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
