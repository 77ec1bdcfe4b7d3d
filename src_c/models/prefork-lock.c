/* prefork-lock.c -- prefork with a lock around accept.
 *
 *     child: lock -> accept -> unlock -> read -> answer -> ... -> close -> lock
 *
 * Good: one process at a time waits for a connection, and any kernel wakes no
 *       more than that one; with a poll in place of accept (several listening
 *       sockets), only EPOLLEXCLUSIVE does as much.
 * Bad:  two more steps for each connection, which Linux does not need for a
 *       blocking accept(): it wakes one process anyway. And a lock between
 *       processes must outlive the one that holds it: hence a robust mutex.
 * Look: compare with prefork: the difference is the price of the lock. A child
 *       that is killed in accept() dies with the lock; the next one is told so
 *       (EOWNERDEAD) and goes on. In the wild: Apache's prefork MPM
 *       (AcceptMutex, now Mutex), nginx's accept_mutex (off since 1.11.3),
 *       uWSGI's --thunder-lock; chapter 30 of "UNIX Network Programming".
 * Needs: robust, process-shared mutexes (futexes of Linux 2.6.17).
 * Try:  strace -f -e trace=futex,accept4 -p CHILD: all but one wait in futex.
 */
#include <err.h>
#include <sys/mman.h>

#include "blocking/blocking.h"
#include "blocking/preforked.h"
#include "common/shared_lock.h"
#include "server/net.h"
#include "server/stop.h"

static void prefork_lock_serve(struct server *server, unsigned worker,
                               void *shared)
{
    pthread_mutex_t *lock = shared;
    while (!stop_requested()) {
        struct sockaddr_in6 peer;
        shared_lock(lock);
        int fd =
            stop_requested() ? ACCEPT_STOPPED : net_accept(server, &peer, 0);
        shared_unlock(lock);
        if (fd >= 0)
            blocking_serve_fd(server, worker, fd, &peer);
    }
}

static int prefork_lock_run(struct server *server)
{
    pthread_mutex_t *lock = mmap(NULL, sizeof *lock, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lock == MAP_FAILED) {
        warn("mmap");
        return -1;
    }
    shared_lock_init(lock);
    struct preforked children = {
        .server = server, .serve = prefork_lock_serve, .shared = lock};
    int result = preforked_run(&children);
    munmap(lock, sizeof *lock);
    return result;
}

const struct model_code prefork_lock_model = {.run = prefork_lock_run};
