/* test_queue.c -- arrivals on their way from one thread to others. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "reactor/handover.h"
#include "blocking/queue.h"

enum { PLACES = 4, TAKERS = 3, ARRIVALS = 20000 };

static void the_first_to_come_is_the_first_to_be_taken(void)
{
    struct queue *queue = queue_new(PLACES);
    struct arrival arrival = {0};
    for (int round = 0; round < 5; round++) {
        for (arrival.fd = 0; arrival.fd < 3; arrival.fd++)
            assert(queue_put(queue, &arrival));
        for (int fd = 0; fd < 3; fd++)
            assert(queue_take(queue, &arrival) && arrival.fd == fd);
    }
    queue_free(queue);
}

static void a_full_queue_refuses_and_an_ended_one_is_emptied(void)
{
    struct queue *queue = queue_new(PLACES);
    struct arrival arrival = {0};
    for (int i = 0; i < PLACES; i++)
        assert(queue_put(queue, &arrival));
    assert(!queue_put(queue, &arrival));
    assert(queue_take(queue, &arrival));
    assert(queue_put(queue, &arrival));
    queue_end(queue);
    for (int i = 0; i < PLACES; i++)
        assert(queue_take(queue, &arrival));
    assert(!queue_take(queue, &arrival));
    queue_free(queue);
}

static void *take_all(void *argument)
{
    struct arrival arrival;
    long sum = 0;
    while (queue_take(argument, &arrival))
        sum += arrival.fd;
    return (void *)sum;
}

static void each_arrival_goes_to_one_of_many_takers(void)
{
    struct queue *queue = queue_new(PLACES);
    pthread_t takers[TAKERS];
    for (int i = 0; i < TAKERS; i++)
        pthread_create(&takers[i], NULL, take_all, queue);
    long given = 0, taken = 0;
    for (int n = 0; n < ARRIVALS; n++) {
        struct arrival arrival = {.fd = n};
        given += queue_put(queue, &arrival) ? n : 0;
    }
    queue_end(queue);
    for (int i = 0; i < TAKERS; i++) {
        void *sum;
        pthread_join(takers[i], &sum);
        taken += (long)sum;
    }
    assert(given > 0 && taken == given);
    queue_free(queue);
}

static void a_handover_keeps_order_and_tells_its_end(void)
{
    struct handover handover;
    struct arrival came[8], arrival = {0};
    assert(handover_open(&handover));
    assert(handover_take(handover.take_fd, came, 8) == -1);
    for (arrival.fd = 0; arrival.fd < 10; arrival.fd++)
        assert(handover_give(&handover, &arrival));
    assert(handover_take(handover.take_fd, came, 8) == 8 && came[7].fd == 7);
    close(handover.give_fd);
    assert(handover_take(handover.take_fd, came, 8) == 2 && came[1].fd == 9);
    assert(handover_take(handover.take_fd, came, 8) == 0);
    close(handover.take_fd);
}

int main(void)
{
    the_first_to_come_is_the_first_to_be_taken();
    a_full_queue_refuses_and_an_ended_one_is_emptied();
    each_arrival_goes_to_one_of_many_takers();
    a_handover_keeps_order_and_tells_its_end();
    puts("queue: ok");
    return 0;
}
