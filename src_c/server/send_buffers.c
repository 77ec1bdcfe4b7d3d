/* send_buffers.c -- see send_buffers.h. */
#include "send_buffers.h"

#include <stdlib.h>
#include <string.h>

enum {
    FREE_MOST = 64, /* 4 MiB that a burst may leave behind */
    /* Beyond malloc's own 16, so that the beginnings of buffers, all that
     * small answers touch, do not fall into the same set of a cache. */
    STAGGER_BYTES = 3 * 64,
};

char *send_buffers_pop(struct send_buffers *buffers)
{
    char *popped = buffers->first;
    if (!popped)
        return malloc(CONN_CHUNK + STAGGER_BYTES);
    memcpy(&buffers->first, popped, sizeof buffers->first);
    buffers->count--;
    return popped;
}

void send_buffers_push(struct send_buffers *buffers, char *buffer)
{
    if (buffers->count == FREE_MOST) {
        free(buffer);
        return;
    }
    memcpy(buffer, &buffers->first, sizeof buffers->first);
    buffers->first = buffer;
    buffers->count++;
}

void send_buffers_free(struct send_buffers *buffers)
{
    while (buffers->spare || buffers->first)
        free(send_buffer_take(buffers));
}
