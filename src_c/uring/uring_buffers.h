/* uring_buffers.h -- receive buffers that the kernel picks from.
 *
 * A provided buffer ring (IORING_REGISTER_PBUF_RING, Linux 5.19): a receive
 * names a group instead of a buffer, and the kernel takes one of the group
 * when bytes have come. So a connection that waits holds none. Address space
 * for all is reserved (MAP_NORESERVE), memory is used only as they are.
 */
#ifndef URING_BUFFERS_H
#define URING_BUFFERS_H

#include "uring.h"

#ifdef HAVE_URING

/* A group of buffers of one size. */
struct uring_buffers {
    struct io_uring_buf_ring *ring;
    char *memory;
    unsigned group, bytes;
    unsigned count, most; /* the kernel may choose from; can ever be */
};

/* Registers `first` buffers of `bytes` as a group, which may grow to `most`, a
 * power of two. False after warn(3). */
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
