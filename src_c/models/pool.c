/* pool.c -- one thread accepts, a bounded queue, and N threads that serve.
 *
 *     acceptor: accept -> put into the queue, or refuse when it is full
 *     worker:   take -> read -> answer -> ... -> close -> take
 *
 * Good: the queue says how many may wait and turns the rest away at once,
 *       instead of leaving them in a backlog that nobody sees.
 * Bad:  the unit is a connection: a client holds its worker from connect to
 *       close, even if it is slow or silent (unless a --timeout cuts it), and
 *       those in the queue wait.
 * Look: by Little's law the workers that are really busy are throughput times
 *       time per request; a pool that its library capped shows there. Ours
 *       says so where it started fewer workers than it was asked for. In the
 *       wild: Apache's worker MPM, and Tomcat's blocking connector (before
 *       8.5).
 * Needs: nothing but threads.
 * Try:  --workers 1 --queue 1, then four times nc: one is served, one waits,
 *       two are closed, and the statistics count them as queue_full.
 */
#include <err.h>

#include "blocking/blocking.h"
#include "blocking/workers.h"
#include "server/net.h"
#include "blocking/queue.h"
#include "blocking/threads.h"

static bool pool_work(struct server *server, unsigned worker, void *shared)
{
    struct arrival arrival;
    stats_add(&server->stats->workers_started, 1);
    while (queue_take(shared, &arrival))
        blocking_serve_fd(server, model_slot(server, worker), arrival.fd,
                          &arrival.peer);
    return true;
}

static void pool_accept_all(struct server *server, struct queue *queue)
{
    for (;;) {
        struct arrival arrival;
        arrival.fd = net_accept(server, &arrival.peer, 0);
        if (arrival.fd == ACCEPT_STOPPED)
            return;
        if (arrival.fd >= 0 && !queue_put(queue, &arrival))
            net_refuse(server, arrival.fd, REFUSED_QUEUE_FULL);
    }
}

static int pool_run(struct server *server)
{
    struct queue *queue = queue_new(server->options.queue);
    if (!queue) {
        warn("calloc");
        return -1;
    }
    unsigned workers =
        workers_start(server, 0, model_workers(server), pool_work, queue);
    if (workers > 0)
        pool_accept_all(server, queue);
    queue_end(queue);
    if (threads_wait())
        queue_free(queue);
    return workers > 0 ? 0 : -1;
}

const struct model_code pool_model = {.run = pool_run};
