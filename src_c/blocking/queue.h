/* queue.h -- accepted connections that wait for a worker: bounded, shared. */
#ifndef QUEUE_H
#define QUEUE_H

#include <stdbool.h>

#include "server/net.h"

struct queue;

/* Returns NULL when memory is out. */
struct queue *queue_new(unsigned places);

/* Nobody may wait in queue_take(). What is left is not closed. */
void queue_free(struct queue *queue);

/* Returns false at once when no place is free. */
bool queue_put(struct queue *queue, const struct arrival *arrival);

/* Waits for the one that has waited longest; false: the queue has ended, and
 * is empty. */
bool queue_take(struct queue *queue, struct arrival *arrival);

/* Nothing more will be put: those who wait in queue_take() return. */
void queue_end(struct queue *queue);

#endif
