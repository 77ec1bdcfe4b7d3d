/* stackless.h -- functions that stop halfway and go on there: protothreads.
 *
 * The place where such a function stopped is a line number in its own struct;
 * calling it again jumps there, by a switch whose cases stand inside loops and
 * branches (Duff's device; Adam Dunkels' protothreads, 2006). What a compiler
 * makes of async/await in Rust, C# or C++20 is the same machine.
 *
 *     static void f(struct task *task, uint16_t *line)
 *     {
 *         STACKLESS_BEGIN(line);
 *         for (;;) {
 *             bool came;
 *             STACKLESS_AWAIT(line, task, TASK_IN, UINT64_MAX, came);
 *             ...
 *         }
 *         STACKLESS_END();
 *     }
 *
 * Two rules follow, which a compiler that knows of coroutines would not have:
 * a local variable does not outlive a wait, and no wait may stand inside
 * another switch or in a function that this one calls.
 */
#ifndef STACKLESS_H
#define STACKLESS_H

#include "scheduler.h"

#define STACKLESS_BEGIN(line)                                                  \
    switch (*(line)) {                                                         \
    case 0:
#define STACKLESS_END() }

/* Returns, and goes on here when the function is called again. */
#define STACKLESS_YIELD(line)                                                  \
    do {                                                                       \
        *(line) = __LINE__;                                                    \
        return;                                                                \
    case __LINE__:;                                                            \
    } while (0)

/* As task_wait(): until one of the events came, or until deadline_ns. `came`
 * says which; set behind the wait, it may be a local variable. */
#define STACKLESS_AWAIT(line, task, wanted, deadline_ns, came)                 \
    do {                                                                       \
        *(line) = __LINE__;                                                    \
        if (!task_wait((task), (wanted), (deadline_ns))) {                     \
            (came) = false;                                                    \
        } else {                                                               \
            if (!task_ready(task))                                             \
                return;                                                        \
            __attribute__((fallthrough));                                      \
        case __LINE__: (came) = task_waited(task);                             \
        }                                                                      \
    } while (0)

#endif
