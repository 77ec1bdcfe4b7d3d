/* poll-groups.c -- threads that each wait on at most 63 connections.
 *
 *     acceptor: accept -> a group that is not full, or a new one -> hand over
 *     group:    poll on 1 + 63 -> take over / read -> answer -> poll
 *
 * Good: the array that is copied into the kernel never exceeds 64 entries,
 *       however many are connected; groups run on all cores.
 * Bad:  a thread for every 63 clients: 50 000 of them need 794. Clients of one
 *       group share its thread, even if other groups idle.
 * Look: kin of WSAEventSelect on Windows, where one call waits on 64 events
 *       (MAXIMUM_WAIT_OBJECTS): one to be woken by, 63 for connections. Here
 *       the limit is of our own making, so its cost can be measured: compare
 *       with poll. (Connections to Redis, which a group may have, come on
 *       top.) A group that falls empty ends, unless it is the only empty one:
 *       the next burst finds one ready.
 * Needs: Linux 2.6.27 (pipe2); a thread and two descriptors a group.
 * Try:  watch -n 1 ls /proc/$(pidof server)/task, with 50, 100, 200 clients.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reactor/handover.h"
#include "blocking/threads.h"
#include "blocking/workers.h"
#include "poll.h"
#include "server/net.h"

enum { GROUP_CLIENTS = 63 };

struct group {
    struct poll_set set; /* first: loop->state points here */
    struct loop *loop;
    struct handover handover;
    unsigned given;   /* connections, by the acceptor */
    struct node node; /* in groups, or in none: it is about to end */
};

/* Under this lock: the list, the newest last, and `given` of its groups. */
static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;
static struct node groups = {&groups, &groups};

static struct group *group_of(struct node *node)
{
    return OWNER_OF(node, struct group, node);
}

static unsigned group_clients(const struct group *group)
{
    return group->given - group->loop->closed_count;
}

/* --- a group ---------------------------------------------------------- */

/* The end of its handover lets the group's loop end. */
static void group_unlist(struct group *group)
{
    list_leave(&group->node);
    close(group->handover.give_fd);
}

static bool another_is_empty(const struct group *group)
{
    for (struct node *at = groups.after; at != &groups; at = at->after)
        if (at != &group->node && group_clients(group_of(at)) == 0)
            return true;
    return false;
}

/* Ends an empty group if the next client would find another one. */
static void group_end_if_spare(struct group *group)
{
    pthread_mutex_lock(&groups_lock);
    if (list_joined(&group->node) && group_clients(group) == 0 &&
        another_is_empty(group))
        group_unlist(group);
    pthread_mutex_unlock(&groups_lock);
}

/* The loop of poll.c, but for a group's end, and for what it listens to. */
static void group_serve(struct group *group)
{
    struct loop *loop = group->loop;
    struct poll_set *set = &group->set;
    while (!reactor_done(loop)) {
        if (list_empty(&loop->own.clients)) /* perhaps one is on its way */
            group_end_if_spare(group);
        int n = poll_wait(set, reactor_timeout_ns(loop));
        if (n < 0)
            net_wait_failed(loop->worker.server, "ppoll");
        for (unsigned i = set->count; n > 0 && i-- > 0;) {
            struct source *source = set->sources[i];
            unsigned ready = poll_take(set, i);
            n -= ready != 0;
            if (ready && source->kind == SOURCE_CLIENT)
                serve_client(loop, source, ready);
            else if (ready) /* new clients, or their end; Redis */
                serve_other(loop, source);
        }
        run_timers(loop);
        end_round(loop);
    }
    loop_end(loop);
}

static void group_free(struct group *group)
{
    loop_free(group->loop);
    poll_set_free(&group->set);
    free(group);
}

static void group_work(void *argument)
{
    struct group *group = *(struct group **)argument;
    struct loop *loop = group->loop;
    stats_add(&loop->worker.server->stats->workers_started, 1);
    group_serve(group);
    close(group->handover.take_fd);
    /* The end of its handover came from group_unlist(), under the lock: once
     * that can be taken, no other thread uses the group. */
    pthread_mutex_lock(&groups_lock);
    pthread_mutex_unlock(&groups_lock);
    group_free(group);
}

/* --- the acceptor ----------------------------------------------------- */

static struct group *group_make(struct server *server)
{
    struct group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->loop = loop_new(server, server->process, &poll_poller, group);
    if (group->loop && handover_open(&group->handover)) {
        group->loop->fed = true;
        if (loop_add(group->loop, &group->loop->handover,
                     group->handover.take_fd, SOURCE_HANDOVER))
            return group;
        close(group->handover.take_fd);
        close(group->handover.give_fd);
    }
    int error = errno;
    group_free(group);
    errno = error;
    return NULL;
}

/* Under the lock. */
static struct group *group_start(struct server *server)
{
    struct group *group = group_make(server);
    if (!group)
        return NULL;
    list_append(&groups, &group->node);
    if (threads_start(group_work, &group, sizeof group))
        return group;
    int error = errno;
    group_unlist(group);
    close(group->handover.take_fd);
    group_free(group);
    errno = error;
    return NULL;
}

static struct group *group_find(void)
{
    for (struct node *at = groups.before; at != &groups; at = at->before)
        if (group_clients(group_of(at)) < GROUP_CLIENTS)
            return group_of(at);
    return NULL;
}

static void groups_deal(struct server *server, const struct arrival *arrival)
{
    pthread_mutex_lock(&groups_lock);
    struct group *group = group_find();
    if (!group)
        group = group_start(server);
    int error = group ? ENOMEM : errno;
    bool given = group && handover_give(&group->handover, arrival);
    if (given)
        group->given++;
    pthread_mutex_unlock(&groups_lock);
    if (!given)
        net_refuse(server, arrival->fd, net_refusal(error));
}

static void groups_end(void)
{
    pthread_mutex_lock(&groups_lock);
    while (!list_empty(&groups))
        group_unlist(group_of(groups.before));
    pthread_mutex_unlock(&groups_lock);
    threads_wait();
}

/* As in epoll-workers: the groups, which inherit it (pthread_create(3)), share
 * cores with each other and with the acceptor. */
static int poll_groups_run(struct server *server)
{
    workers_wait_their_turn();
    for (;;) {
        struct arrival arrival = {0};
        arrival.fd = net_accept(server, &arrival.peer, SOCK_NONBLOCK);
        if (arrival.fd == ACCEPT_STOPPED)
            break;
        if (arrival.fd >= 0)
            groups_deal(server, &arrival);
    }
    groups_end();
    return 0;
}

const struct model_code poll_groups_model = {.run = poll_groups_run};
