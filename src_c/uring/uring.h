/* uring.h -- io_uring: one ring of operations in, one of completions out.
 *
 * A system call that would be made for each operation becomes an entry in
 * memory that is shared with the kernel; one io_uring_enter(2) hands over all
 * new entries and waits for completions. What both models that use it need is
 * here: opening a ring, the next entry, the wait, and receive buffers that
 * the kernel picks from. Linux 6.0 at least: receives that stay armed.
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
 * net_warn(). */
bool uring_open(struct io_uring *ring);

/* user_data of an operation whose completion interests nobody. */
enum { URING_NOBODY = 15 };

/* The next free entry; when there is none, submits what there is first. */
struct io_uring_sqe *uring_entry(struct io_uring *ring);

/* Submits all new entries and waits up to timeout_ns (-1: for ever) for a
 * completion. Returns early after a signal. */
void uring_wait(struct io_uring *ring, int64_t timeout_ns);

/* --- receive buffers ---------------------------------------------------- */

/* A group of buffers of one size, of which the kernel takes one when bytes
 * have come. Memory for all is reserved, but used only as they are. */
struct uring_buffers {
    struct io_uring_buf_ring *ring;
    char *memory;
    unsigned group, bytes;
    unsigned count, most;        /* the kernel may choose from; can ever be */
};

/* Registers `first` buffers of `bytes` as a group, which may grow to `most`, a
 * power of two. False after net_warn(). */
bool uring_buffers_open(struct uring_buffers *buffers, struct io_uring *ring,
                        unsigned group, unsigned bytes, unsigned first,
                        unsigned most);

/* After the ring is closed; does nothing to a group that is all zeros. */
void uring_buffers_close(struct uring_buffers *buffers);

/* Doubles the number of buffers. Returns false when that is the most. */
bool uring_buffers_grow(struct uring_buffers *buffers);

/* Where buffer number `id` lies; and giving it back to the kernel. */
char *uring_buffer(const struct uring_buffers *buffers, unsigned id);
void uring_buffer_return(struct uring_buffers *buffers, unsigned id);

#endif
#endif
