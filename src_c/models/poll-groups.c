/* poll-groups.c -- threads that each wait on at most 63 connections.
 *
 *     acceptor: accept -> a group with a free place, or a new one -> hand over
 *     group:    poll on 1 + 63 -> take over / read -> answer -> poll
 *
 * Good: the array that goes into the kernel never exceeds 64 entries, however
 *       many are connected; groups run on all cores.
 * Bad:  a thread for every 63 clients: 50 000 of them need 794. Clients that
 *       were dealt to one group share its thread, even if others idle.
 * Look: kin of WSAEventSelect on Windows, where one call waits on 64 events
 *       (MAXIMUM_WAIT_OBJECTS): one to be woken by, 63 for connections. Here
 *       the limit is of our own making, so its cost can be measured: compare
 *       with poll. (Links to Redis, which a group may have, come on top.) A
 *       group that falls empty leaves, unless it is the only empty one: the
 *       next burst finds one ready.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reactor/handover.h"
#include "blocking/threads.h"
#include "poll.h"

enum { PLACES = 63 };

struct group {
    struct poll_set set;        /* first: loop->state points here */
    struct loop *loop;
    struct handover handover;
    unsigned given;             /* connections, by the acceptor */
    bool listed;
    struct group *next;
};

/* Under this lock: the list, and `given` and `listed` of its groups. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct group *groups;

static unsigned taken(const struct group *group)
{
    return group->given - group->loop->gone;
}

/* --- a group ---------------------------------------------------------- */

/* The end of its handover lets the group's loop end. */
static void unlist(struct group *group)
{
    struct group **at = &groups;
    while (*at != group)
        at = &(*at)->next;
    *at = group->next;
    group->listed = false;
    close(group->handover.give_fd);
}

static bool another_is_empty(const struct group *group)
{
    for (const struct group *other = groups; other; other = other->next)
        if (other != group && taken(other) == 0)
            return true;
    return false;
}

static void leave_if_spare(struct group *group)
{
    pthread_mutex_lock(&lock);
    if (group->listed && taken(group) == 0 && another_is_empty(group))
        unlist(group);
    pthread_mutex_unlock(&lock);
}

static void wait(struct loop *loop, int64_t timeout_ns)
{
    struct group *group = loop->state;
    if (list_empty(&loop->own.clients)) /* no client; perhaps one on its way */
        leave_if_spare(group);
    poll_poller.wait(loop, timeout_ns);
}

static void free_group(struct group *group)
{
    loop_free(group->loop);
    poll_set_free(&group->set);
    free(group);
}

static void serve(void *argument)
{
    struct group *group = argument;
    loop_run_fed(group->loop, group->handover.take_fd);
    pthread_mutex_lock(&lock);
    if (group->listed) /* it could not even start */
        unlist(group);
    pthread_mutex_unlock(&lock);
    free_group(group);
}

/* --- the acceptor ----------------------------------------------------- */

static struct poller group_poller;

static struct group *make(struct server *server)
{
    struct group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->loop = loop_new(server, server->process, &group_poller, group);
    if (group->loop && handover_open(&group->handover))
        return group;
    int error = errno;
    if (group->loop)
        loop_free(group->loop);
    free(group);
    errno = error;
    return NULL;
}

/* Under the lock. */
static struct group *start(struct server *server)
{
    struct group *group = make(server);
    if (!group)
        return NULL;
    group->listed = true;
    group->next = groups;
    groups = group;
    if (threads_start(serve, group))
        return group;
    int error = errno;
    unlist(group);
    close(group->handover.take_fd);
    free_group(group);
    errno = error;
    return NULL;
}

static struct group *find_place(void)
{
    struct group *group = groups;
    while (group && taken(group) >= PLACES)
        group = group->next;
    return group;
}

static enum refusal why(int error)
{
    if (error == EMFILE || error == ENFILE)
        return REFUSED_DESCRIPTORS;
    return error == EAGAIN ? REFUSED_THREADS : REFUSED_MEMORY;
}

static void deal(struct server *server, const struct arrival *arrival)
{
    pthread_mutex_lock(&lock);
    struct group *group = find_place();
    if (!group)
        group = start(server);
    int error = group ? ENOMEM : errno;
    bool given = group && handover_give(&group->handover, arrival);
    if (given)
        group->given++;
    pthread_mutex_unlock(&lock);
    if (!given)
        net_refuse(server, arrival->fd, why(error));
}

static void end_all(void)
{
    pthread_mutex_lock(&lock);
    while (groups)
        unlist(groups);
    pthread_mutex_unlock(&lock);
    threads_wait();
}

static int poll_groups_run(struct server *server)
{
    group_poller = poll_poller;
    group_poller.wait = wait;
    for (;;) {
        struct arrival arrival = {0};
        arrival.fd = net_accept(server, &arrival.peer, SOCK_NONBLOCK);
        if (arrival.fd == ACCEPT_STOPPED)
            break;
        if (arrival.fd >= 0)
            deal(server, &arrival);
    }
    end_all();
    return 0;
}

const struct model_code poll_groups_model = {.run = poll_groups_run};
