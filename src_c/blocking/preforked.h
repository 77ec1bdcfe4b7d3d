/* preforked.h -- a fixed number of child processes, each replaced if it dies.
 *
 * A child that lived less than a second is replaced after a pause: a fault at
 * start-up must not become a fork bomb.
 */
#ifndef PREFORKED_H
#define PREFORKED_H

#include <signal.h>

#include "model.h"

/* What a child does until a stop, as `worker` of requests_per_worker. */
typedef void preforked_serve(struct server *server, unsigned worker,
                             void *shared);

struct preforked_child;

/* The first three by the model; the rest is ours. */
struct preforked {
    struct server *server;
    preforked_serve *serve;
    void *shared; /* for serve() */

    struct preforked_child *children;
    unsigned count, missing;
    sigset_t awake; /* the signals' mask without SIGCHLD */
};

/* Starts model_workers() children, or as many as the system gives, and says
 * so. Returns false, after warn(3), when there is none. From here on the
 * parent hears of its children in preforked_await() only. */
bool preforked_start(struct preforked *preforked);

/* Waits until `fd` is ready for `events`, as of poll(2), or anything happened
 * to a child, whom it replaces. Returns whether fd is ready. */
bool preforked_await(struct preforked *preforked, int fd, short events);

/* Waits until the last child has ended, after a stop. */
void preforked_end(struct preforked *preforked);

/* All of these, for a parent that waits for a stop and nothing else. Returns
 * what a model's run() does. */
int preforked_run(struct preforked *preforked);

#endif
