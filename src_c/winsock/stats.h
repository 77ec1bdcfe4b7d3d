/* stats.h -- what the server counts, by interlocked additions.
 *
 * What is counted with every message is kept by worker, each on a cache line of
 * its own: in steady state no two threads write the same one.
 */
#ifndef WINSOCK_STATS_H
#define WINSOCK_STATS_H

#include "winsock/model.h"

/* Why a connection was turned away: a limit of ours, never the peer's fault. */
enum refusal {
    REFUSED_FDSETSIZE, /* an fd_set has no place left */
    REFUSED_THREADS,   /* CreateThread failed */
    REFUSED_MEMORY,    /* none left for its state, or for its event */
    REFUSALS
};

enum { STATS_WORKERS = 64 };

/* A connection was let in, or has closed. */
void stats_opened(void);
void stats_closed(void);

void stats_refused(enum refusal reason);

/* A call failed for a reason that ends no more than its connection: the error
 * of WSAGetLastError(). */
void stats_error(int error);

/* A thread was started. */
void stats_worker_started(void);

/* A worker, from 0, received or sent so many bytes of a message. */
void stats_received(unsigned worker, unsigned bytes);
void stats_sent(unsigned worker, unsigned bytes);

/* Bytes that all have received and sent so far: it stands still when nobody is
 * served. */
int64_t stats_traffic(void);

/* Prints the members that stats add to a JSON object, from "accepted" on. */
void stats_print_json(unsigned workers);

#endif
