/* epoll-et.c -- as epoll, but told of changes only: edge-triggered.
 *
 *     epoll_wait -> for each change: accept / read on until there is nothing
 *                   left -> answer -> epoll_wait
 *
 * Good: each descriptor is watched for everything, once; no epoll_ctl when an
 *       answer does not fit, and no second event for the same bytes.
 * Bad:  an event comes once: a server that stops reading before the socket is
 *       empty waits for ever for bytes that are already there, and a client
 *       that never stops sending must not keep the others waiting.
 * Look: a read that returns less than asked for has emptied the socket, so it
 *       takes no second one to see EAGAIN; EPOLLRDHUP (Linux 2.6.17) reports
 *       an end that came with the last bytes. The listening socket stays
 *       level-triggered: a burst of clients is accepted in several rounds.
 * Needs: Linux 2.6.17; epoll_pwait2 (5.11) for timeouts in nanoseconds.
 * Try:  diff src_c/models/epoll.c src_c/models/epoll-et.c: what edges change.
 */
#include "epoll-et.h"

#include <err.h>
#include <stdlib.h>
#include <unistd.h>

#include "blocking/workers.h"
#include "common/compat.h"
#include "common/epoll_ns.h"
#include "server/net.h"

enum { EVENTS = 512 };

struct epoll_et_set {
    int epoll_fd;
    bool exclusive; /* the listening socket is shared: epoll-shared */
};

static bool epoll_et_control(struct loop *loop, int operation,
                             struct source *source)
{
    const struct epoll_et_set *set = loop->state;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};
    if (source->kind == SOURCE_CLIENT || source->kind == SOURCE_REDIS)
        event.events = READY_EDGES | EPOLLET;
    else if (source->kind == SOURCE_LISTENER && set->exclusive)
        event.events |= EPOLLEXCLUSIVE;
    int fd = source->fd;
    source_release(source); /* epoll-workers: it is another thread's now */
    return epoll_ctl(set->epoll_fd, operation, fd, &event) == 0;
}

/* There is no epoll_et_change(): nothing ever changes. */

static bool epoll_et_add(struct loop *loop, struct source *source)
{
    return epoll_et_control(loop, EPOLL_CTL_ADD, source);
}

static void epoll_et_drop(struct loop *loop, struct source *source)
{
    epoll_et_control(loop, EPOLL_CTL_DEL, source);
}

static const struct poller epoll_et_poller = {
    .edge = true,
    .add = epoll_et_add,
    .drop = epoll_et_drop,
};

int epoll_et_wait(struct loop *loop, struct epoll_event *events, int most)
{
    const struct epoll_et_set *set = loop->state;
    return epoll_wait_ns(set->epoll_fd, events, most, reactor_timeout_ns(loop));
}

void epoll_et_serve(struct loop *loop)
{
    struct epoll_event events[EVENTS];
    stats_add(&loop->worker.server->stats->workers_started, 1);
    workers_take_turns(loop->worker.server);
    while (!reactor_done(loop)) {
        int n = epoll_et_wait(loop, events, EVENTS);
        if (n < 0)
            net_wait_failed(loop->worker.server, "epoll_wait");
        for (int i = 0; i < n; i++) {
            struct source *source = source_acquire(events[i].data.ptr);
            unsigned ready = ready_of(events[i].events);
            if (source->kind == SOURCE_LISTENER)
                accept_clients(loop, source);
            else if (source->kind == SOURCE_CLIENT)
                serve_client(loop, source, ready);
            else /* Redis; the stop */
                serve_other(loop, source);
        }
        run_timers(loop);
        end_round(loop);
    }
    loop_end(loop);
}

struct loop *epoll_et_new(struct server *server, unsigned worker)
{
    struct epoll_et_set *set = calloc(1, sizeof *set);
    struct loop *loop = NULL;
    if (set && (set->epoll_fd = epoll_create1(EPOLL_CLOEXEC)) >= 0) {
        loop =
            loop_new(server, model_slot(server, worker), &epoll_et_poller, set);
        if (!loop)
            close(set->epoll_fd);
    } else {
        warn("epoll_create1");
    }
    if (!loop)
        free(set);
    return loop;
}

void epoll_et_exclusive(struct loop *loop)
{
    struct epoll_et_set *set = loop->state;
    set->exclusive = true;
}

void epoll_et_free(struct loop *loop)
{
    struct epoll_et_set *set = loop->state;
    close(set->epoll_fd);
    free(set);
    loop_free(loop);
}

static int epoll_et_run(struct server *server)
{
    struct loop *loop = epoll_et_new(server, 0);
    bool listens = loop && loop_listen(loop);
    if (listens)
        epoll_et_serve(loop);
    if (loop)
        epoll_et_free(loop);
    return listens ? 0 : -1;
}

const struct model_code epoll_et_model = {.run = epoll_et_run};
