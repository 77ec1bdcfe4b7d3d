/* uring.h -- the loop of one ring: alone it is the model uring; uring-workers
 * and uring-handover run one in each thread. */
#ifndef MODELS_URING_H
#define MODELS_URING_H

#include "uring/uring_loop.h"

#ifdef HAVE_URING

/* Serves until a stop is requested and all clients are done. */
void uring_serve(struct uring_loop *loop);

#endif

#endif
