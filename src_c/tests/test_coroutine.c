/* test_coroutine.c -- stacks that stop and go on; lists. */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "coroutine/coroutine.h"
#include "common/list.h"

enum { MANY = 600, TURNS = 20 }; /* more than there are stacks kept */

struct counter {
    int number, turns;
    double sum;
};

/* Keeps its place, its integers and its doubles across every switch. */
static void count(void *value)
{
    struct counter *counter = value;
    double sum = counter->number;
    for (int i = 0; i < TURNS; i++) {
        double root = sqrt(sum + i);
        int expected = counter->number * 1000 + i;
        assert((intptr_t)coroutine_yield() == expected);
        sum += root;
        counter->turns++;
    }
    counter->sum = sum;
}

static double sum_without_switches(int number)
{
    double sum = number;
    for (int i = 0; i < TURNS; i++)
        sum += sqrt(sum + i);
    return sum;
}

static void coroutines_keep_their_place(void)
{
    static struct counter counters[MANY];
    static struct coroutine *coroutines[MANY];
    for (int i = 0; i < MANY; i++) {
        counters[i] = (struct counter){.number = i};
        coroutines[i] = coroutine_new(count);
        assert(coroutines[i]);
        coroutine_resume(coroutines[i], &counters[i]);
    }
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < MANY; i++) {
            assert(counters[i].turns == turn);
            intptr_t value = i * 1000 + turn;
            coroutine_resume(coroutines[i], (void *)value);
        }
    for (int i = 0; i < MANY; i++)
        assert(fabs(counters[i].sum - sum_without_switches(i)) < 1e-6);
}

static void end_at_once(void *value)
{
    *(int *)value += 1;
}

static void a_stack_serves_one_after_the_other(void)
{
    int ended = 0;
    struct coroutine *first = coroutine_new(end_at_once);
    coroutine_resume(first, &ended);
    struct coroutine *second = coroutine_new(end_at_once);
    assert(second == first);
    coroutine_drop(second); /* never ran */
    assert(ended == 1);
    coroutine_trim();
}

static void nodes_leave_from_anywhere_and_twice(void)
{
    struct node list, other, nodes[3];
    list_init(&list);
    list_init(&other);
    for (int i = 0; i < 3; i++) {
        list_init(&nodes[i]);
        list_append(&list, &nodes[i]);
    }
    list_leave(&nodes[1]);
    list_leave(&nodes[1]);
    assert(list.after == &nodes[0] && nodes[0].after == &nodes[2]);
    list_move(&list, &other);
    assert(list_empty(&list));
    assert(other.after == &nodes[0] && other.before == &nodes[2]);
    struct node third;
    list_init(&third);
    list_move(&list, &third);
    assert(list_empty(&third));
    assert(list_empty(&list));
}

int main(void)
{
    coroutines_keep_their_place();
    a_stack_serves_one_after_the_other();
    nodes_leave_from_anywhere_and_twice();
    puts("test_coroutine: ok");
    return 0;
}
