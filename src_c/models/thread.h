/* thread.h -- what another model borrows from thread. */
#ifndef THREAD_H
#define THREAD_H

#include "server/net.h"

/* Serves the connection to its end and closes it. */
typedef void thread_serve(struct server *server, const struct arrival *arrival);

/* Runs serve() in a thread of its own for every connection, until a stop and
 * until all have left. */
void thread_each(struct server *server, thread_serve *serve);

#endif
