/* floor_setup.h -- what each measurement of the floor sets up first. */
#ifndef FLOOR_SETUP_H
#define FLOOR_SETUP_H

/* Keeps the calling thread on this core from now on. */
void floor_pin(int core);

/* A connected pair of TCP sockets over loopback, TCP_NODELAY. */
void floor_tcp_pair(int pair[2]);

#endif
