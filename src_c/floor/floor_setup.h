/* floor_setup.h -- what several measurements of the floor need. */
#ifndef FLOOR_SETUP_H
#define FLOOR_SETUP_H

#include <sys/types.h>

/* Keeps the calling thread on this core from now on. */
void floor_pin(int core);

/* A connected pair of TCP sockets over loopback, TCP_NODELAY. */
void floor_tcp_pair(int pair[2]);

/* CPU time of a process; negative: unknown. */
double floor_cpu_s(pid_t pid);

#endif
