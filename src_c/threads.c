/* threads.c -- see threads.h.
 *
 * Each thread that ends joins the one that ended before it, so that at any
 * time at most one stack waits to be given back, without a thread whose task
 * is to tidy up. Joining, rather than detaching, is what lets threads_wait()
 * say that every stack is gone.
 */
#include "threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "blocking.h"
#include "clock.h"
#include "stop.h"

struct thread {
    pthread_t id;
    void (*work)(void *);
    void *argument;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t none_left = PTHREAD_COND_INITIALIZER;
static struct thread *last_ended;
static unsigned long running;

static void join(struct thread *thread)
{
    if (!thread)
        return;
    pthread_join(thread->id, NULL);
    free(thread);
}

static void count_started(long change)
{
    pthread_mutex_lock(&lock);
    running += (unsigned long)change;
    pthread_mutex_unlock(&lock);
}

static void *thread_main(void *argument)
{
    struct thread *thread = argument;
    thread->id = pthread_self();
    thread->work(thread->argument);
    pthread_mutex_lock(&lock);
    struct thread *before = last_ended;
    last_ended = thread;
    if (--running == 0)
        pthread_cond_signal(&none_left);
    pthread_mutex_unlock(&lock);
    join(before);
    return NULL;
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
    count_started(+1);
    pthread_t id;
    if (threads_spawn(&id, thread_main, thread))
        return true;
    count_started(-1);
    free(thread);
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
    struct thread *last = all_left ? last_ended : NULL;
    last_ended = all_left ? NULL : last_ended;
    pthread_mutex_unlock(&lock);
    join(last);
    return all_left;
}
