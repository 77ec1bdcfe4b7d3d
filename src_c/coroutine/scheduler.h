/* scheduler.h -- tasks that wait for descriptors and timers, in one thread.
 *
 * The user-space scheduler (the "executor") under coroutines of either kind:
 * it knows which task can go on, and calls its resume(). Whether that is a
 * switch to another stack (models/coroutine.c) or a jump into the middle of a
 * function (models/stackless.c) is the task's own affair.
 *
 *     scheduler_wait()     epoll_wait(2) -> the tasks whose events came
 *     scheduler_expire()   the tasks whose timers are due
 *     scheduler_resume()   calls resume() of each of them, once
 *
 *     in a task:  if (task_wait(task, events, deadline_ns)) {
 *                     unless task_ready(): return to the scheduler
 *                     came = task_waited(task);
 *                 }
 *
 * Cooperative: a task goes on until it waits, so none needs a lock.
 */
#ifndef SCHEDULER_H
#define SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"
#include "reactor/timers.h"

struct server;

/* What a task can wait for. */
enum task_event {
    TASK_IN = 1,
    TASK_OUT = 2,   /* its own socket is ready */
    TASK_END = 4,   /* a short read may not be all of it */
    TASK_REDIS = 8, /* its connection to Redis is ready */
    TASK_TURN = 16, /* it was handed a connection to Redis */
    TASK_GONE = 32, /* its own socket was reset */
};

struct task {
    void (*resume)(struct task *task);
    struct scheduler *scheduler;
    struct node open;  /* in scheduler->open, or ->ended */
    struct node queue; /* the run queue, or none */
    struct timer timer;
    uint8_t events; /* that came; whoever waited takes them back */
    uint8_t awaited;
    bool runnable;
};

struct scheduler {
    int epoll_fd;
    bool busy_wait; /* never block: ask again at once */
    struct timers timers;
    struct node open;     /* tasks; the first one accepts */
    struct node ended;    /* to be freed once the round is over */
    struct node runnable; /* to be resumed in this round or the next */
    void (*unasked)(struct scheduler *scheduler, struct task **user);
};

/* Returns false after warn(3). */
bool scheduler_init(struct scheduler *scheduler);
void scheduler_destroy(struct scheduler *scheduler);

/* A new task, in a zeroed struct; it is resumed in this round or the next. */
void task_start(struct scheduler *scheduler, struct task *task,
                void (*resume)(struct task *task));

/* To be called by a task as the last thing it does: it joins `ended`. */
void task_end(struct task *task);

/* Watches fd for `events`, as of epoll_ctl(2), and tells the task. Returns
 * false with errno. */
bool task_watch(struct task *task, int fd, unsigned events);

/* The descriptor is about to be closed, which ends the watch; to be called if
 * somebody else may hold it at this moment. */
void task_unwatch(struct task *task, int fd);

/* Watches fd for every change until it is closed, and tells *user: for a
 * descriptor that serves one task after the other. NULL there: nobody waits,
 * and scheduler->unasked() is told. Returns false with errno. */
bool scheduler_watch(struct scheduler *scheduler, int fd, struct task **user);

/* Makes a task runnable; or does so if it waits for one of the events. */
void task_wake(struct task *task);
void task_tell(struct task *task, unsigned events);

/* Begins to wait for any of the events, or until deadline_ns (UINT64_MAX:
 * for ever). False when there is no waiting: a stop is overdue, or memory is
 * out. */
bool task_wait(struct task *task, unsigned events, uint64_t deadline_ns);

/* Whether what the task waits for is there already. */
static inline bool task_ready(const struct task *task)
{
    return task->events & task->awaited;
}

/* Ends the wait. Returns whether the events came, false: the time did. */
bool task_waited(struct task *task);

/* The three parts of a round. Where there is no memory to wait just now, the
 * server counts it. */
void scheduler_wait(struct scheduler *scheduler, struct server *server);
void scheduler_expire(struct scheduler *scheduler);
void scheduler_resume(struct scheduler *scheduler);

/* Wakes every task: a stop is overdue, and task_wait() says so. */
void scheduler_wake_all(struct scheduler *scheduler);

#endif
