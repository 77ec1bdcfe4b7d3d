/* redis_blocking.c -- see redis_blocking.h. */
#include "redis_blocking.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include "common/clock.h"
#include "common/list.h"
#include "common/owner.h"
#include "server/stop.h"

/* Who found none free. */
struct waiter {
    struct node place;          /* in the line */
    pthread_cond_t handed;
    struct link *link;          /* that it was handed */
};

static struct link pool[UPSTREAM_LINKS];
static bool taken[UPSTREAM_LINKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct node line = {&line, &line};

/* A link that nobody uses: rather one that rests than one to be opened. */
static struct link *find_free(void)
{
    struct link *found = NULL;
    for (int i = 0; i < UPSTREAM_LINKS; i++)
        if (!taken[i] && (!found || pool[i].state == LINK_RESTING))
            found = &pool[i];
    return found;
}

/* Waits in line until one is handed over; under the lock. */
static struct link *wait_in_line(uint64_t deadline_ns)
{
    struct waiter self = {.handed = PTHREAD_COND_INITIALIZER};
    struct timespec until = clock_timespec(deadline_ns);
    int error = 0;
    list_append(&line, &self.place);
    while (!self.link && !error)
        error = pthread_cond_clockwait(&self.handed, &lock, CLOCK_MONOTONIC,
                                       &until);
    list_leave(&self.place);
    pthread_cond_destroy(&self.handed);
    return self.link;
}

static struct link *take(uint64_t deadline_ns)
{
    pthread_mutex_lock(&lock);
    struct link *link = find_free();
    if (link)
        taken[link - pool] = true;
    else
        link = wait_in_line(deadline_ns);
    pthread_mutex_unlock(&lock);
    return link;
}

/* To the one who has waited longest, without being free in between: else who
 * just had it would take it again before the other is awake. */
static void give_back(struct link *link)
{
    pthread_mutex_lock(&lock);
    if (list_empty(&line)) {
        taken[link - pool] = false;
    } else {
        struct waiter *first = OWNER_OF(line.after, struct waiter, place);
        list_leave(&first->place);
        first->link = link;
        pthread_cond_signal(&first->handed);
    }
    pthread_mutex_unlock(&lock);
}

static bool wait_in_poll(struct conn *conn, int fd, bool out,
                         uint64_t deadline_ns)
{
    (void)conn;
    return stop_poll_until(fd, out ? POLLOUT : POLLIN, deadline_ns);
}

enum want links_ask(struct conn *conn)
{
    uint64_t deadline_ns = clock_now_ns() + UPSTREAM_PATIENCE_NS;
    struct link *link = take(deadline_ns);
    if (!link) {
        stats_error(conn->worker->server->stats, ETIMEDOUT);
        return conn_unanswered(conn);
    }
    /* Once a stop is overdue, links go from hand to hand until none waits. */
    enum want want =
        stop_overdue() ? conn_unanswered(conn)
                       : link_converse(link, conn, wait_in_poll, deadline_ns);
    give_back(link);
    return want;
}
