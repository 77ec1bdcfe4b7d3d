/* blocking_redis.c -- see blocking_redis.h.
 *
 *     take: queue, sleep until assigned -> converse in poll(2) -> give back
 *
 * One pool for a process, and for all its threads: with a connection for each
 * of a thousand threads, Redis would hold a thousand. One that finds none free
 * waits on a condition variable of its own. Called by blocking_converse(). A
 * child of fork() begins with the pool of its parent, which has never opened a
 * connection.
 */
#include "blocking_redis.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include "common/clock.h"
#include "common/owner.h"
#include "redis/redis_pool.h"
#include "server/stop.h"

struct waiter {
    struct redis_request request;
    pthread_cond_t assigned;
};

static struct redis_pool pool = REDIS_POOL_INIT(pool);
static pthread_mutex_t redis_lock = PTHREAD_MUTEX_INITIALIZER;

/* A connection passes straight from hand to hand: were it free in between, the
 * thread that gives it back would take it again before the other is awake. */
static void assign_all(void)
{
    struct redis_request *request;
    while ((request = redis_pool_assign(&pool))) {
        struct waiter *waiter = OWNER_OF(request, struct waiter, request);
        pthread_cond_signal(&waiter->assigned);
    }
}

/* False: no connection became free in time. */
static bool take(struct waiter *self, uint64_t deadline_ns)
{
    struct timespec until = clock_timespec(deadline_ns);
    int error = 0;
    pthread_mutex_lock(&redis_lock);
    redis_pool_queue(&pool, &self->request);
    assign_all();
    while (!self->request.redis && !error)
        error = pthread_cond_clockwait(&self->assigned, &redis_lock,
                                       CLOCK_MONOTONIC, &until);
    bool assigned = self->request.redis;
    if (!assigned) /* nor shall it be from now on */
        redis_pool_release(&pool, &self->request);
    pthread_mutex_unlock(&redis_lock);
    return assigned;
}

static void give_back(struct waiter *self)
{
    pthread_mutex_lock(&redis_lock);
    redis_pool_release(&pool, &self->request);
    assign_all();
    pthread_mutex_unlock(&redis_lock);
}

static bool wait_in_poll(struct redis_request *request, int fd, bool out,
                         uint64_t deadline_ns)
{
    (void)request;
    bool ready = stop_poll_until(fd, out ? POLLOUT : POLLIN, deadline_ns);
    errno = ETIMEDOUT; /* if it is not */
    return ready;
}

/* Only the pool needs the lock: an assigned connection is this thread's. Once
 * a stop is overdue, connections pass on at once until nobody waits. */
enum want blocking_redis_ask(struct conn *conn)
{
    uint64_t deadline_ns = clock_now_ns() + REDIS_TIMEOUT_NS;
    struct waiter self = {.assigned = PTHREAD_COND_INITIALIZER};
    redis_request_init(&self.request, conn);
    if (take(&self, deadline_ns)) {
        if (stop_overdue())
            conn_unanswered(conn);
        else
            redis_request_converse(&pool, &self.request, wait_in_poll,
                                   deadline_ns);
        give_back(&self);
    } else {
        redis_request_fail(&pool, &self.request, ETIMEDOUT);
    }
    pthread_cond_destroy(&self.assigned);
    return (enum want)conn->want;
}
