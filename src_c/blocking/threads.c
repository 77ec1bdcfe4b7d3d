/* threads.c -- see threads.h.
 *
 * A thread that ends leaves by itself: it detaches itself, and the C library
 * has its stack ready for the next one. All that somebody may wait for is that
 * none uses what it shares with others any more, so each counts itself out,
 * under the lock, as the last thing it does. (Threads that join one another
 * would be a chain with a wake-up for each link: where thousands come and go,
 * it grows faster than it is taken apart.)
 *
 * Who ends after a stop was asked for is joined: the process is about to exit,
 * and a thread on its last way would be memory that nobody gave back.
 */
#include "threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "blocking.h"
#include "common/clock.h"
#include "server/stop.h"

struct thread {
    void (*work)(void *);
    void *argument;
    pthread_t id;
    struct thread *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t none_left = PTHREAD_COND_INITIALIZER;
static unsigned long running;
static struct thread *to_join;

static void count_in(void)
{
    pthread_mutex_lock(&lock);
    running++;
    pthread_mutex_unlock(&lock);
}

/* The lock is held. */
static void count_out(void)
{
    if (--running == 0)
        pthread_cond_signal(&none_left);
}

static void leave(struct thread *self)
{
    pthread_mutex_lock(&lock);
    self->id = pthread_self();
    if (stop_requested()) {
        self->next = to_join;
        to_join = self;
    } else {
        pthread_detach(self->id);
        free(self);
    }
    count_out();
    pthread_mutex_unlock(&lock);
}

static void *thread_main(void *argument)
{
    struct thread *self = argument;
    self->work(self->argument);
    leave(self);
    return NULL;
}

static void join_all(struct thread *first)
{
    while (first) {
        struct thread *next = first->next;
        pthread_join(first->id, NULL);
        free(first);
        first = next;
    }
}

bool threads_spawn(pthread_t *id, void *(*work)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, BLOCKING_STACK_BYTES);
    errno = pthread_create(id, &attributes, work, argument);
    pthread_attr_destroy(&attributes);
    return errno == 0;
}

bool threads_start(void (*work)(void *), void *argument)
{
    struct thread *thread = malloc(sizeof *thread);
    if (!thread)
        return false;
    *thread = (struct thread){.work = work, .argument = argument};
    count_in();
    pthread_t id;
    if (threads_spawn(&id, thread_main, thread))
        return true;
    int error = errno;
    pthread_mutex_lock(&lock);
    count_out();
    pthread_mutex_unlock(&lock);
    free(thread);
    errno = error;
    return false;
}

bool threads_wait(void)
{
    uint64_t deadline_ns = 0;
    pthread_mutex_lock(&lock);
    while (running > 0) {
        uint64_t now = clock_now_ns();
        if (stop_overdue() && deadline_ns == 0)
            deadline_ns = now + NS_PER_S / 2;
        if (deadline_ns && now > deadline_ns)
            break;
        struct timespec until = clock_timespec(now + NS_PER_S / 20);
        pthread_cond_clockwait(&none_left, &lock, CLOCK_MONOTONIC, &until);
    }
    bool all_left = running == 0;
    struct thread *left = to_join;
    to_join = NULL;
    pthread_mutex_unlock(&lock);
    join_all(left);
    return all_left;
}

bool threads_gone(void)
{
    pthread_mutex_lock(&lock);
    bool gone = running == 0;
    pthread_mutex_unlock(&lock);
    return gone;
}
