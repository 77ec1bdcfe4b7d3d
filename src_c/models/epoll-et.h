/* epoll-et.h -- what other models borrow from epoll-et: its loop. */
#ifndef EPOLL_ET_H
#define EPOLL_ET_H

#include "reactor/reactor.h"

/* A loop for the worker of that slot, around an epoll set of its own; NULL
 * after net_warn(). */
struct loop *epoll_et_new(struct server *server, unsigned slot);
void epoll_et_free(struct loop *loop);

#endif
