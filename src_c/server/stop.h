/* stop.h -- a signal to stop becomes the end of every client's stream.
 *
 * SIGTERM and SIGINT are not a case that each model must handle in its loop.
 * The handler shuts the listening socket and the reading side of every open
 * connection: whoever waits, in whatever way, sees an end of input, answers
 * what it already has, and closes. What is not done 0.8 s later is cut.
 * (shutdown(2) is async-signal-safe; a thread blocked in accept(2) on the
 * listening socket returns with EINVAL.)
 */
#ifndef STOP_H
#define STOP_H

#include <stdbool.h>
#include <sys/types.h>

/* Catches the signals for this process, which serves from listen_fd (-1: it
 * has none of its own). A child calls it again: it forgets what its parent
 * watched, and a stop that came to the parent. Dies on failure. */
void stop_install(int listen_fd);

bool stop_requested(void);

/* A loop that has nothing to wait for but the end of a stop looks around this
 * often: connections close, or it is overdue. */
enum { STOP_POLL_NS = 5000000 };

/* Once a stop is overdue: what is left may take so long to end. */
enum { STOP_PARTING_NS = 200000000 };

/* No descriptor of ours may be as large: a handler could not shut it. */
enum { STOP_FDS = 1 << 20 }; /* the kernel's default fs.nr_open */

/* True from 0.8 s after the request: drop everything. */
bool stop_overdue(void);

/* A descriptor that is readable from the moment a stop is asked for. */
int stop_fd(void);

/* A further listening socket, to be shut like the first; any thread may. One
 * that is closed before the process ends is unwatched first: a client may get
 * its number, and would be cut off from its answer. */
void stop_watch_listener(int fd);
void stop_unwatch_listener(int fd);

/* Marks a connection as open, so that a stop ends it, or cuts it at once where
 * it is overdue already; unwatch before close. Returns false once a stop has
 * begun: its handler, in another thread, may hold the descriptor at this
 * moment, so that close(2) leaves the socket open for as long. True: none ever
 * will. */
void stop_watch(int fd);
bool stop_unwatch(int fd);

/* Passes the signal on to a child process until it is reaped; one that is
 * still there 2.5 s later is killed: more than it may take by its own limits,
 * which are those of this file and of threads_wait(). (A child gives its own
 * children 2 s.) See children.h. Only while stop_has_place() is true. */
bool stop_has_place(void);
void stop_watch_child(pid_t pid);
void stop_unwatch_child(pid_t pid);

/* Sleeps until clock_now_ns() reaches `ns` or a stop is overdue. */
void stop_sleep_until(unsigned long long ns);

/* The same, but also ends when the descriptor is ready for `events`, as of
 * poll(2). Returns whether it is. */
bool stop_poll_until(int fd, short events, unsigned long long ns);

#endif
