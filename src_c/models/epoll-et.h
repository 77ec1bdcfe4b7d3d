/* epoll-et.h -- the edge-triggered loop, for models that run several of it. */
#ifndef EPOLL_ET_H
#define EPOLL_ET_H

#include <sys/epoll.h>

#include "reactor/reactor.h"

/* A loop over an epoll set of its own for a worker of the server. Returns NULL
 * after warn(3). */
struct loop *epoll_et_new(struct server *server, unsigned worker);
void epoll_et_free(struct loop *loop);

/* To be called before loop_listen(): the listening socket is that of several
 * loops, and a connection wakes one of them (EPOLLEXCLUSIVE, Linux 4.5). */
void epoll_et_exclusive(struct loop *loop);

/* The loop's wait, for a model with a loop of its own around it. Returns how
 * many events there are; -1: see errno. */
int epoll_et_wait(struct loop *loop, struct epoll_event *events, int most);

/* Runs the loop, once its sources have been added, to its end. */
void epoll_et_serve(struct loop *loop);

#endif
