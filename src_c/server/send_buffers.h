/* send_buffers.h -- a free list of buffers in which answers are built.
 *
 * malloc(3) for each answer is dear where answers are large: glibc gives the
 * top of its heap back to the kernel whenever 128 KiB of it are free
 * (M_TRIM_THRESHOLD), and every page of the next answer is a page fault.
 * So each worker keeps the buffers that it has freed, and takes the one that
 * was used last: it is in the cache.
 */
#ifndef SEND_BUFFERS_H
#define SEND_BUFFERS_H

#include <stddef.h>

/* The most that is read, and the most that is answered, in one go. */
enum { CONN_CHUNK = 64 * 1024 };

/* Not shared between threads; all zeros: none yet. */
struct send_buffers {
    char *spare;    /* one at hand, or NULL; may be the owner's own */
    char *first;    /* further free ones, each holds the address of the next */
    unsigned count; /* how many those are: a burst is not kept for ever */
};

/* One of the list, or a new one; one more into the list, if that is not too
 * long already. */
char *send_buffers_pop(struct send_buffers *buffers);
void send_buffers_push(struct send_buffers *buffers, char *buffer);

/* CONN_CHUNK bytes, not zeroed; NULL with errno when memory is out. */
static inline char *send_buffer_take(struct send_buffers *buffers)
{
    char *taken = buffers->spare;
    buffers->spare = NULL;
    return taken ? taken : send_buffers_pop(buffers);
}

/* Gives one back, to the same list or to another. */
static inline void send_buffer_give(struct send_buffers *buffers, char *buffer)
{
    if (buffers->spare)
        send_buffers_push(buffers, buffer);
    else
        buffers->spare = buffer;
}

/* Frees what lies in the list; the spare one too, so not where that is the
 * owner's own. */
void send_buffers_free(struct send_buffers *buffers);

#endif
