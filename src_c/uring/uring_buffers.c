/* uring_buffers.c -- see uring_buffers.h.
 *
 *     provided in a ring -> the kernel takes one per receive -> returned
 *
 * Provided buffer rings (IORING_REGISTER_PBUF_RING, Linux 5.19): an idle client
 * holds none. Address space for the most that there may be is reserved at once
 * (MAP_NORESERVE), memory is used page by page as buffers are written to, and
 * their number doubles when a receive found none (ENOBUFS).
 */
#include "uring_buffers.h"

#ifdef HAVE_URING

#include <err.h>
#include <errno.h>
#include <sys/mman.h>

#include "common/ring.h"
#include "server/net.h"

enum {
    /* Between buffers, so that their first lines, the only ones that small
     * messages touch, do not all fall into the same set of a cache. */
    GAP_BYTES = 3 * 64,
};

static void *reserve(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static size_t stride(const struct uring_buffers *buffers)
{
    return buffers->bytes + GAP_BYTES;
}

static size_t ring_bytes(const struct uring_buffers *buffers)
{
    return buffers->most * sizeof(struct io_uring_buf);
}

char *uring_buffer(const struct uring_buffers *buffers, unsigned id)
{
    return buffers->memory + id * stride(buffers);
}

void uring_buffer_return(struct uring_buffers *buffers, unsigned id)
{
    io_uring_buf_ring_add(buffers->ring, uring_buffer(buffers, id),
                          buffers->bytes, (unsigned short)id,
                          io_uring_buf_ring_mask(buffers->most), 0);
    io_uring_buf_ring_advance(buffers->ring, 1);
}

static void provide(struct uring_buffers *buffers, unsigned count)
{
    while (buffers->count < count)
        uring_buffer_return(buffers, buffers->count++);
}

bool uring_buffers_grow(struct uring_buffers *buffers)
{
    if (buffers->count == buffers->most)
        return false;
    provide(buffers, buffers->count * 2);
    return true;
}

static int register_group(const struct uring_buffers *buffers,
                          struct io_uring *ring)
{
    struct io_uring_buf_reg request = {
        .ring_addr = (uintptr_t)buffers->ring,
        .ring_entries = buffers->most,
        .bgid = (uint16_t)buffers->group,
    };
    return io_uring_register_buf_ring(ring, &request, 0);
}

bool uring_buffers_open(struct uring_buffers *buffers, struct io_uring *ring,
                        unsigned group, unsigned bytes, unsigned first,
                        unsigned most)
{
    *buffers = (struct uring_buffers){
        .group = group,
        .bytes = bytes,
        .most = most,
    };
    buffers->memory = reserve(most * stride(buffers));
    buffers->ring = reserve(ring_bytes(buffers));
    int error = buffers->memory && buffers->ring ? register_group(buffers, ring)
                                                 : -ENOMEM;
    if (error < 0) {
        warnx("io_uring_register_buf_ring: %s", ring_error(-error));
        uring_buffers_close(buffers);
        return false;
    }
    io_uring_buf_ring_init(buffers->ring);
    provide(buffers, first);
    return true;
}

void uring_buffers_close(struct uring_buffers *buffers)
{
    if (buffers->memory)
        munmap(buffers->memory, buffers->most * stride(buffers));
    if (buffers->ring)
        munmap(buffers->ring, ring_bytes(buffers));
    *buffers = (struct uring_buffers){0};
}

#endif
