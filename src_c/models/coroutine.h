/* coroutine.h -- one thread's coroutines, for the models that run one or more
 * such threads. */
#ifndef MODELS_COROUTINE_H
#define MODELS_COROUTINE_H

#include "model.h"

/* Accepts from the server's listening socket and serves, with a coroutine for
 * each connection, as worker `index`, until a stop. Returns 0, or -1 after
 * warn(3). Nothing is shared between two calls in two threads. */
int coroutine_serve(struct server *server, unsigned index);

#endif
