/* queue.c -- see queue.h.
 *
 *     acceptor: queue_put -> | | | | | -> queue_take: workers
 *
 * Used by pool. A bounded ring under a mutex; takers sleep on a condition
 * variable, and each arrival wakes one of them. A queue without a lock would
 * gain nothing here: one thread puts, and a taker that finds nothing has to
 * sleep in the kernel anyway.
 */
#include "queue.h"

#include <pthread.h>
#include <stdlib.h>

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t came;
    bool ended;
    unsigned places, first, count;
    struct arrival ring[];
};

struct queue *queue_new(unsigned places)
{
    struct queue *queue =
        calloc(1, sizeof *queue + places * sizeof queue->ring[0]);
    if (!queue)
        return NULL;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->came, NULL);
    queue->places = places;
    return queue;
}

void queue_free(struct queue *queue)
{
    if (!queue)
        return;
    pthread_cond_destroy(&queue->came);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

bool queue_put(struct queue *queue, const struct arrival *arrival)
{
    pthread_mutex_lock(&queue->lock);
    bool fits = queue->count < queue->places;
    if (fits) {
        unsigned last = (queue->first + queue->count++) % queue->places;
        queue->ring[last] = *arrival;
        pthread_cond_signal(&queue->came);
    }
    pthread_mutex_unlock(&queue->lock);
    return fits;
}

bool queue_take(struct queue *queue, struct arrival *arrival)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->count == 0 && !queue->ended)
        pthread_cond_wait(&queue->came, &queue->lock);
    bool any = queue->count > 0;
    if (any) {
        *arrival = queue->ring[queue->first];
        queue->first = (queue->first + 1) % queue->places;
        queue->count--;
    }
    pthread_mutex_unlock(&queue->lock);
    return any;
}

void queue_end(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->ended = true;
    pthread_cond_broadcast(&queue->came);
    pthread_mutex_unlock(&queue->lock);
}
