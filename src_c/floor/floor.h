/* floor.h -- what this machine's system calls cost at least.
 *
 * A server cannot be faster than the calls that it must make. Each of these
 * measures one such cost once; floor.c repeats them and prints the numbers.
 * Whatever goes wrong ends the program with "floor: call: reason".
 */
#ifndef FLOOR_H
#define FLOOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* What is measured, as the command line says it. */
struct floor_plan {
    unsigned whats; /* a bit for each measurement: floor.c */
    unsigned connections;
    unsigned size_bytes; /* of a message; at most FLOOR_SIZE_MAX */
    double duration_s;   /* of one window */
    unsigned repeats;
    int cores[2];                   /* [0]: the server half, [1]: the other */
    struct sockaddr_storage server; /* drive this one; family 0: none */
    socklen_t server_bytes;
    pid_t server_pid; /* whose CPU time to read; 0: unknown */
};

enum { FLOOR_SIZE_MAX = 1 << 20 };

/* One window of the echo floor. */
struct floor_echo {
    double seconds;
    uint64_t requests;
    double server_cpu_s; /* negative: unknown */
    double client_cpu_s;
};

/* Two processes that only recv and send, non-blocking, over all connections,
 * asking nobody which are ready. With plan->server, only the client half, and
 * that server. */
struct floor_echo floor_echo(const struct floor_plan *plan);

/* A message there and back between two processes that block in recv, on two
 * cores: mean nanoseconds, and those of CPU time of the one that answers
 * (negative: unknown). */
struct floor_trip {
    double ns, server_cpu_ns;
};
struct floor_trip floor_ping_pong(const struct floor_plan *plan);

/* Mean nanoseconds of: handing over between two threads of one core: a
 * write, a switch and a read of a pipe; … */
double floor_switch_ns(const struct floor_plan *plan);
/* … the same in a ring of plan->connections threads, two at least: each finds
 * what the others left of the caches (negative: no room for so many); … */
double floor_ring_ns(const struct floor_plan *plan);
/* … pthread_create until pthread_join has returned; … */
double floor_thread_ns(const struct floor_plan *plan);
/* … fork until waitpid has returned. */
double floor_process_ns(const struct floor_plan *plan);

/* CPU time of calls of one thread that never sleeps, mean nanoseconds. */
enum floor_call {
    FLOOR_ENTRY,    /* a call that does nothing: getppid */
    FLOOR_EPOLL,    /* epoll_wait that reports one ready socket */
    FLOOR_EVENT,    /* each further socket that it reports */
    FLOOR_POLL,     /* poll that is handed one socket, not ready */
    FLOOR_WALK,     /* each further socket that poll is handed */
    FLOOR_PIPE,     /* write and read of a byte through a pipe */
    FLOOR_COPY_KIB, /* each KiB that is written and read so */
    FLOOR_EXCHANGE, /* send and recv of a message over TCP */
    FLOOR_CALLS
};
void floor_calls(const struct floor_plan *plan, double ns[FLOOR_CALLS]);

/* How much later than asked a sleep of 1 ms ends. */
struct floor_overshoot {
    double median_ns, p99_ns, max_ns;
};
struct floor_overshoot floor_timer(const struct floor_plan *plan);

/* How often as long a computation takes on cores[0] while cores[1] is busy:
 * 1 where they are two, near 2 where they share one; negative for one core. */
double floor_neighbour(const struct floor_plan *plan);

/* A cache line there and back between the two cores, nanoseconds: some 20 for
 * threads of one core, 80 for cores that share a cache, several hundred for
 * others. The least over the window; negative for one core, and where others
 * kept the two halves from running at once. */
double floor_core_to_core_ns(const struct floor_plan *plan);

#endif
