/* threads.h -- threads that end by themselves, and waiting for the last. */
#ifndef THREADS_H
#define THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Runs work() with a copy of the argument, of so many bytes, in a thread of its
 * own with a stack that is large enough for blocking_serve_fd(). Returns false,
 * with errno, when there is none. */
bool threads_start(void (*work)(void *), const void *argument, size_t bytes);

/* Such a thread that its maker is to join, with the argument itself. */
bool threads_spawn(pthread_t *id, void *(*work)(void *), void *argument);

/* Waits until every thread that was started has done its work, or until a stop
 * is overdue by half a second. Returns whether all have: only then may what
 * they share be freed. */
bool threads_wait(void);

/* Whether no thread that was started works any more; does not wait. */
bool threads_gone(void);

#endif
