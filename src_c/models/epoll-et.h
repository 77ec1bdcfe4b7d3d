/* epoll-et.h -- the edge-triggered loop, for models that run several of it. */
#ifndef EPOLL_ET_H
#define EPOLL_ET_H

#include "reactor/reactor.h"

/* A loop over an epoll set of its own for a worker of the server. Returns NULL
 * after net_warn(). */
struct loop *epoll_et_new(struct server *server, unsigned worker);
void epoll_et_free(struct loop *loop);

/* Runs the loop, once its sources have been added, to its end. */
void epoll_et_serve(struct loop *loop);

#endif
