/* threads.c -- see threads.h.
 *
 * A thread detaches itself when it ends (pthread_detach), and the C library
 * keeps its stack for the next one. The count of running threads tells when
 * what they share may be freed: each takes itself out, under the lock, as the
 * last thing it does. (Threads that join their predecessors would be a chain
 * with a wake-up for each link: where thousands come and go, it grows faster
 * than it is taken apart.)
 *
 * During a stop a thread is joined instead: the process is about to exit, and
 * a detached thread that is not yet gone shows as a leak in a sanitizer.
 */
#include "threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "blocking.h"
#include "common/clock.h"
#include "server/stop.h"

struct thread {
    void (*work)(void *);
    pthread_t id;
    struct thread *next;
    _Alignas(max_align_t) char argument[];
};

static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t threads_none_left = PTHREAD_COND_INITIALIZER;
static unsigned long threads_running;
static struct thread *threads_to_join;

static void threads_count_in(void)
{
    pthread_mutex_lock(&threads_lock);
    threads_running++;
    pthread_mutex_unlock(&threads_lock);
}

/* The lock is held. */
static void threads_count_out(void)
{
    if (--threads_running == 0)
        pthread_cond_signal(&threads_none_left);
}

static void thread_leave(struct thread *self)
{
    pthread_mutex_lock(&threads_lock);
    self->id = pthread_self();
    if (stop_requested()) {
        self->next = threads_to_join;
        threads_to_join = self;
    } else {
        pthread_detach(self->id);
        free(self);
    }
    threads_count_out();
    pthread_mutex_unlock(&threads_lock);
}

static void *thread_main(void *argument)
{
    struct thread *self = argument;
    self->work(self->argument);
    thread_leave(self);
    return NULL;
}

static void threads_join_all(struct thread *first)
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

bool threads_start(void (*work)(void *), const void *argument, size_t bytes)
{
    struct thread *thread = malloc(sizeof *thread + bytes);
    if (!thread)
        return false;
    thread->work = work;
    memcpy(thread->argument, argument, bytes);
    threads_count_in();
    pthread_t id;
    if (threads_spawn(&id, thread_main, thread))
        return true;
    int error = errno;
    pthread_mutex_lock(&threads_lock);
    threads_count_out();
    pthread_mutex_unlock(&threads_lock);
    free(thread);
    errno = error;
    return false;
}

bool threads_wait(void)
{
    uint64_t deadline_ns = 0;
    pthread_mutex_lock(&threads_lock);
    while (threads_running > 0) {
        uint64_t now = clock_now_ns();
        if (stop_overdue() && deadline_ns == 0)
            deadline_ns = now + NS_PER_S / 2;
        if (deadline_ns && now > deadline_ns)
            break;
        struct timespec until = clock_timespec(now + NS_PER_S / 20);
        pthread_cond_clockwait(&threads_none_left, &threads_lock,
                               CLOCK_MONOTONIC, &until);
    }
    bool all_left = threads_running == 0;
    struct thread *left = threads_to_join;
    threads_to_join = NULL;
    pthread_mutex_unlock(&threads_lock);
    threads_join_all(left);
    return all_left;
}

bool threads_gone(void)
{
    pthread_mutex_lock(&threads_lock);
    bool gone = threads_running == 0;
    pthread_mutex_unlock(&threads_lock);
    return gone;
}
