/* links.c -- see links.h. */
#include "links.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include "clock.h"

static struct link pool[UPSTREAM_LINKS];
static bool taken[UPSTREAM_LINKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given_back = PTHREAD_COND_INITIALIZER;

/* A link that nobody uses: rather one that rests than one to be opened. */
static struct link *find_free(void)
{
    struct link *found = NULL;
    for (int i = 0; i < UPSTREAM_LINKS; i++)
        if (!taken[i] && (!found || pool[i].state == LINK_RESTING))
            found = &pool[i];
    return found;
}

static struct link *take(uint64_t deadline_ns)
{
    struct timespec until = clock_timespec(deadline_ns);
    struct link *link;
    int error = 0;
    pthread_mutex_lock(&lock);
    while (!(link = find_free()) && !error)
        error = pthread_cond_clockwait(&given_back, &lock, CLOCK_MONOTONIC,
                                       &until);
    if (link)
        taken[link - pool] = true;
    pthread_mutex_unlock(&lock);
    return link;
}

static void give_back(struct link *link)
{
    pthread_mutex_lock(&lock);
    taken[link - pool] = false;
    pthread_cond_signal(&given_back);
    pthread_mutex_unlock(&lock);
}

static bool wait_in_poll(struct conn *conn, int fd, bool out,
                         uint64_t deadline_ns)
{
    (void)conn;
    struct pollfd ready = {.fd = fd, .events = out ? POLLOUT : POLLIN};
    for (uint64_t now; (now = clock_now_ns()) < deadline_ns;) {
        struct timespec left = clock_timespec(deadline_ns - now);
        if (ppoll(&ready, 1, &left, NULL) > 0)
            return true;
    }
    return false;
}

enum want links_ask(struct conn *conn)
{
    uint64_t deadline_ns = clock_now_ns() + UPSTREAM_PATIENCE_NS;
    struct link *link = take(deadline_ns);
    if (!link) {
        stats_error(conn->worker->server->stats, ETIMEDOUT);
        return conn_unanswered(conn);
    }
    enum want want = link_converse(link, conn, wait_in_poll, deadline_ns);
    give_back(link);
    return want;
}
