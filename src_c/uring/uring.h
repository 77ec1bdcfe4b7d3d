/* uring.h -- io_uring: one ring of operations in, one of completions out.
 *
 * A system call that would be made for each operation becomes an entry in
 * memory that is shared with the kernel; one io_uring_enter(2) hands over all
 * new entries and waits for completions. Here is what every model with a ring
 * needs: opening it, the next entry, the wait.
 *
 * Needs: Linux 6.0 (multishot receive, IORING_RECV_MULTISHOT); a sysctl
 *        (kernel.io_uring_disabled) or a seccomp filter may forbid it.
 */
#ifndef URING_H
#define URING_H

#include <stdbool.h>
#include <stdint.h>

/* Why io_uring cannot be used here, or NULL. The text is static. */
const char *uring_missing(void);

#ifdef HAVE_URING
#include <liburing.h>

/* Opens a ring that only the calling thread will use. Returns false after
 * warn(3). */
bool uring_open(struct io_uring *ring);
void uring_close(struct io_uring *ring);

/* user_data of an operation whose completion interests nobody. */
enum { URING_NOBODY = 15 };

/* The next free entry; when there is none, submits what there is first. */
struct io_uring_sqe *uring_entry(struct io_uring *ring);

/* Submits all new entries, and does not wait. */
void uring_submit(struct io_uring *ring);

/* Submits all new entries and waits up to timeout_ns (-1: for ever) for a
 * completion. Returns early after a signal. False: the kernel had no memory
 * for completions and dropped some (EBADR), nobody knows whose. */
bool uring_wait(struct io_uring *ring, int64_t timeout_ns);

#endif
#endif
