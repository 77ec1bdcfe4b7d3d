/* test_coroutine.c -- stacks that stop and go on; lists. */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/list.h"
#include "common/owner.h"
#include "coroutine/coroutine.h"
#include "coroutine/scheduler.h"
#include "coroutine/stackless.h"

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

/* Writes downwards until it is at `value`, which lies on the stack below. */
static void overflow(void *value)
{
    char here = 0;
    for (volatile char *at = &here; at > (char *)value; at -= 64)
        *at = 1;
}

/* A page that is not there, and not the stack below it, which is another's. */
static void an_overflow_ends_the_program(void)
{
    fflush(stdout);
    pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would report it */
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        coroutine_trim(); /* two new stacks, side by side */
        struct coroutine *first = coroutine_new(overflow);
        struct coroutine *below = coroutine_new(overflow);
        coroutine_resume(first, below);
        _exit(0);
    }
    int status;
    assert(waitpid(child, &status, 0) == child);
    assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
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

/* Threads that each resume coroutines of their own do not see one another. */
static void *count_in_a_thread(void *argument)
{
    (void)argument;
    struct counter counters[2] = {{.number = 1}, {.number = 2}};
    struct coroutine *both[2];
    for (int i = 0; i < 2; i++) {
        both[i] = coroutine_new(count);
        coroutine_resume(both[i], &counters[i]);
    }
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < 2; i++) {
            intptr_t value = (i + 1) * 1000 + turn;
            coroutine_resume(both[i], (void *)value);
        }
    for (int i = 0; i < 2; i++)
        assert(fabs(counters[i].sum - sum_without_switches(i + 1)) < 1e-6);
    coroutine_trim();
    return NULL;
}

static void threads_have_coroutines_of_their_own(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert(!pthread_create(&threads[i], NULL, count_in_a_thread, NULL));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* Reads three bytes from a pipe, waits for a fourth in vain, and ends. */
struct reader {
    struct task task;
    uint16_t line;
    int fd, came, late, turns;
    uint64_t end_ns;
};

static void read_three(struct task *task)
{
    struct reader *reader = OWNER_OF(task, struct reader, task);
    bool came;
    reader->turns++;
    STACKLESS_BEGIN(&reader->line);
    assert(task_watch(task, reader->fd, EPOLLIN));
    while (reader->came < 3) {
        STACKLESS_AWAIT(&reader->line, task, TASK_IN, UINT64_MAX, came);
        assert(came);
        char byte;
        assert(read(reader->fd, &byte, 1) == 1 && byte == 'x');
        task->events = 0;
        reader->came++;
    }
    task_wake(task);
    STACKLESS_YIELD(&reader->line);
    reader->end_ns = clock_now_ns() + 5 * NS_PER_MS;
    STACKLESS_AWAIT(&reader->line, task, TASK_IN, reader->end_ns, came);
    reader->late += !came && clock_now_ns() >= reader->end_ns;
    task_end(task);
    STACKLESS_END();
}

static void a_stackless_task_goes_on_where_it_waited(void)
{
    struct scheduler scheduler;
    struct reader readers[2] = {0};
    int pipes[2][2];
    assert(scheduler_init(&scheduler));
    for (int i = 0; i < 2; i++) {
        assert(pipe(pipes[i]) == 0);
        readers[i].fd = pipes[i][0];
        task_start(&scheduler, &readers[i].task, read_three);
    }
    for (int round = 0; !list_empty(&scheduler.open); round++) {
        if (round > 0 && round < 4)
            for (int i = 0; i < 2; i++)
                assert(write(pipes[i][1], "x", 1) == 1);
        scheduler_wait(&scheduler, NULL);
        scheduler_expire(&scheduler);
        scheduler_resume(&scheduler);
    }
    for (int i = 0; i < 2; i++) {
        assert(readers[i].came == 3 && readers[i].late == 1);
        assert(readers[i].turns == 6); /* begin, three bytes, yield, too late */
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
    scheduler_destroy(&scheduler);
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
    an_overflow_ends_the_program();
    a_stack_serves_one_after_the_other();
    threads_have_coroutines_of_their_own();
    a_stackless_task_goes_on_where_it_waited();
    nodes_leave_from_anywhere_and_twice();
    puts("test_coroutine: ok");
    return 0;
}
