/* scheduler.c -- see scheduler.h.
 *
 *     scheduler_wait: epoll -> task_tell -> runnable
 *     scheduler_expire: timers -> runnable
 *     scheduler_resume: each runnable task, until it waits again
 *
 * Called by the models coroutine, coroutine-workers and stackless: it knows
 * that a task can be resumed, and nothing of stacks. Cooperative and of one
 * thread: a task that does not wait holds up all others. Descriptors are
 * watched edge-triggered, once; task->events keeps what was told until the task
 * has found the socket empty.
 */
#include "scheduler.h"

#include <err.h>
#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/epoll_ns.h"
#include "common/owner.h"
#include "reactor/ready.h"
#include "server/net.h"
#include "server/stop.h"

enum {
    EVENTS = 512,
};

bool scheduler_init(struct scheduler *scheduler)
{
    *scheduler = (struct scheduler){0};
    list_init(&scheduler->open);
    list_init(&scheduler->ended);
    list_init(&scheduler->runnable);
    scheduler->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (scheduler->epoll_fd < 0)
        warn("epoll_create1");
    return scheduler->epoll_fd >= 0;
}

void scheduler_destroy(struct scheduler *scheduler)
{
    close(scheduler->epoll_fd);
    timers_free(&scheduler->timers);
}

/* --- tasks ---------------------------------------------------------------- */

void task_start(struct scheduler *scheduler, struct task *task,
                void (*resume)(struct task *task))
{
    task->scheduler = scheduler;
    task->resume = resume;
    list_init(&task->queue);
    list_init(&task->open);
    list_append(&scheduler->open, &task->open);
    task_wake(task);
}

void task_end(struct task *task)
{
    list_leave(&task->open);
    list_append(&task->scheduler->ended, &task->open);
}

void task_wake(struct task *task)
{
    if (task->runnable)
        return;
    task->runnable = true;
    list_append(&task->scheduler->runnable, &task->queue);
}

void task_tell(struct task *task, unsigned events)
{
    task->events |= (uint8_t)events;
    if (task_ready(task))
        task_wake(task);
}

bool task_wait(struct task *task, unsigned events, uint64_t deadline_ns)
{
    struct timers *timers = &task->scheduler->timers;
    if (stop_overdue())
        return false;
    task->awaited = (uint8_t)events;
    if (deadline_ns == UINT64_MAX || task_ready(task) ||
        timers_set(timers, &task->timer, deadline_ns))
        return true;
    task->awaited = 0;
    return false;
}

bool task_waited(struct task *task)
{
    bool came = task_ready(task);
    task->awaited = 0;
    timers_cancel(&task->scheduler->timers, &task->timer);
    return came;
}

/* --- descriptors ---------------------------------------------------------- */

bool task_watch(struct task *task, int fd, unsigned events)
{
    struct epoll_event event = {.events = events, .data.ptr = task};
    return epoll_ctl(task->scheduler->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

void task_unwatch(struct task *task, int fd)
{
    epoll_ctl(task->scheduler->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* The event carries the place where the task stands, marked by the lowest bit,
 * and not the task, which may be gone by the time that a late one comes. */
bool scheduler_watch(struct scheduler *scheduler, int fd, struct task **user)
{
    struct epoll_event event = {.events = READY_EDGES | EPOLLET,
                                .data.u64 = (uintptr_t)user | 1};
    return epoll_ctl(scheduler->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void scheduler_tell_user(struct scheduler *scheduler, struct task **user)
{
    if (*user)
        task_tell(*user, TASK_REDIS);
    else
        scheduler->unasked(scheduler, user);
}

static void scheduler_handle_event(struct scheduler *scheduler,
                                   const struct epoll_event *event)
{
    if (event->data.u64 & 1) {
        scheduler_tell_user(scheduler,
                            (struct task **)(uintptr_t)(event->data.u64 - 1));
        return;
    }
    unsigned ready = ready_of(event->events);
    task_tell(event->data.ptr, (ready & READY_IN ? TASK_IN : 0u) |
                                   (ready & READY_OUT ? TASK_OUT : 0u) |
                                   (ready & READY_DRAIN ? TASK_END : 0u) |
                                   (ready & READY_HANGUP ? TASK_GONE : 0u));
}

/* --- a round -------------------------------------------------------------- */

static int64_t scheduler_timeout_ns(const struct scheduler *scheduler)
{
    if (scheduler->busy_wait || !list_empty(&scheduler->runnable))
        return 0;
    return timers_timeout_ns(&scheduler->timers, stop_requested());
}

void scheduler_wait(struct scheduler *scheduler, struct server *server)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait_ns(scheduler->epoll_fd, events, EVENTS,
                          scheduler_timeout_ns(scheduler));
    if (n < 0)
        net_wait_failed(server, "epoll_wait");
    for (int i = 0; i < n; i++)
        scheduler_handle_event(scheduler, &events[i]);
}

void scheduler_expire(struct scheduler *scheduler)
{
    if (scheduler->timers.count == 0)
        return;
    uint64_t now = clock_now_ns();
    for (struct timer *t; (t = timers_due(&scheduler->timers, now));)
        task_wake(OWNER_OF(t, struct task, timer));
}

/* A task that becomes runnable meanwhile is resumed in the next round. */
void scheduler_resume(struct scheduler *scheduler)
{
    struct node batch;
    list_init(&batch);
    list_move(&scheduler->runnable, &batch);
    while (!list_empty(&batch)) {
        struct task *task = OWNER_OF(batch.after, struct task, queue);
        list_leave(&task->queue);
        task->runnable = false;
        task->resume(task);
    }
}

/* For the end: each one then sees that the stop is overdue, and leaves. */
void scheduler_wake_all(struct scheduler *scheduler)
{
    struct node *open = &scheduler->open;
    for (struct node *n = open->after; n != open; n = n->after)
        task_wake(OWNER_OF(n, struct task, open));
}
