/* coroutine.h -- functions that can stop in the middle and go on later.
 *
 * A coroutine has a stack of its own, and that is all: switching to it is a
 * call that saves the registers a callee must keep, exchanges the stack
 * pointer, and returns on the other side. The kernel knows nothing of it.
 *
 *     the scheduler:  coroutine_resume(c, value)   runs c until it yields
 *     in c:           value = coroutine_yield()    back to the scheduler
 *
 * A stack is one small mapping above a guard page, so that an overflow ends
 * the program instead of writing elsewhere; it costs memory only for the pages
 * that were touched. Stacks that are left are kept for the next, up to a limit.
 *
 * Any number of threads may each run coroutines of their own; a coroutine is
 * resumed by the thread that made it, and by no other.
 */
#ifndef COROUTINE_H
#define COROUTINE_H

struct coroutine;

/* A coroutine that will run work(value), with the value of its first resume;
 * it is gone once that has returned. NULL, with errno: no stack to be had. */
struct coroutine *coroutine_new(void (*work)(void *value));

/* Gives back one that was never resumed. */
void coroutine_drop(struct coroutine *coroutine);

/* Only from outside any coroutine. */
void coroutine_resume(struct coroutine *coroutine, void *value);

/* Only from inside one. Returns the value of the next resume. */
void *coroutine_yield(void);

/* Gives back the stacks that this thread keeps; those of coroutines stay. */
void coroutine_trim(void);

#endif
