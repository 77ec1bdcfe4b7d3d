/* shared_lock.h -- a mutex in memory that several processes share.
 *
 * Robust (PTHREAD_MUTEX_ROBUST, Linux 2.6.17): when its owner is killed, the
 * kernel finds the mutex in the list that the C library keeps for each thread
 * (set_robust_list(2)), marks it FUTEX_OWNER_DIED and wakes one that waits,
 * which is told so once by EOWNERDEAD. A mutex without it stays locked for
 * ever, and with it every process that comes to it.
 *
 * What it guards must be valid at every single instruction, because the owner
 * may have died after any of them: one word, or nothing at all.
 */
#ifndef SHARED_LOCK_H
#define SHARED_LOCK_H

#include <errno.h>
#include <pthread.h>

static inline void shared_lock_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static inline void shared_lock(pthread_mutex_t *mutex)
{
    if (pthread_mutex_lock(mutex) == EOWNERDEAD)
        pthread_mutex_consistent(mutex);
}

static inline void shared_unlock(pthread_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
}

#endif
