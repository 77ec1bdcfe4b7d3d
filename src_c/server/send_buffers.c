/* send_buffers.c -- see send_buffers.h. */
#include "send_buffers.h"

#include <stdlib.h>
#include <string.h>

enum {
    FREE_MOST = 64,          /* 4 MiB that a burst may leave behind */
    /* Beyond malloc's own 16, so that the beginnings of buffers, all that
     * small answers touch, do not fall into the same set of a cache. */
    STAGGER_BYTES = 3 * 64,
};

char *send_buffer_take(struct send_buffers *buffers)
{
    char *taken = buffers->spare;
    if (taken) {
        buffers->spare = NULL;
        return taken;
    }
    taken = buffers->first;
    if (!taken)
        return malloc(CONN_CHUNK + STAGGER_BYTES);
    memcpy(&buffers->first, taken, sizeof buffers->first);
    buffers->count--;
    return taken;
}

void send_buffer_give(struct send_buffers *buffers, char *buffer)
{
    if (!buffers->spare) {
        buffers->spare = buffer;
    } else if (buffers->count < FREE_MOST) {
        memcpy(buffer, &buffers->first, sizeof buffers->first);
        buffers->first = buffer;
        buffers->count++;
    } else {
        free(buffer);
    }
}

void send_buffers_free(struct send_buffers *buffers)
{
    while (buffers->spare || buffers->first)
        free(send_buffer_take(buffers));
}
