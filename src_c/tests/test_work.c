/* test_work.c -- the work workload, without a socket. */
#include "talk.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"

static const struct workload *work;

static void begin(struct talk *talk, bool spin)
{
    struct workload_options options = {.buckets = 4, .spin = spin};
    assert(!work->setup(&options));
    talk_begin(talk, work, NULL);
}

static void end(struct talk *talk)
{
    talk_end(talk);
    work->teardown();
}

static void check(const char *text, const char *want, bool closes)
{
    for (size_t piece = 0; piece < 20; piece++) {
        struct talk talk;
        begin(&talk, false);
        talk_hear_pieces(&talk, text, strlen(text), piece);
        assert(strcmp(talk.out, want) == 0);
        assert(talk.closed == closes);
        end(&talk);
    }
}

static void lines_are_answered_wherever_they_are_cut(void)
{
    check("", "", false);
    check("5 1", "", false);
    check("5 1\n", "5\n", false);
    check("0 0\r\n7 0\r\n3 3\n1 0\n", "0\n7\n3\n8\n", false);
    check("60000000 3\n", "60000000\n", false);
    check("0005 01\n", "5\n", false);
}

static void what_is_no_request_is_told_and_ends_it(void)
{
    static const char want[] = "ERR want DELAY_US BUCKET, two whole numbers\n";
    check("\n", want, true);
    check("5\n", want, true);
    check("-5 1\n", want, true);
    check("5  1\n", want, true);
    check(" 5 1\n", want, true);
    check("5 1 \n", want, true);
    check("5 x\n9 9\n", want, true);
    check("1 1\n60000001 1\n", "1\nERR DELAY_US is above 60000000\n", true);
    check("99999999999999999999 1\n", "ERR DELAY_US is above 60000000\n", true);
    check("0 4\n", "ERR BUCKET is not there\n", true);
    check("0 4294967296\n", "ERR BUCKET is not there\n", true);
    check("0000000000000000000000000000000000000000000000000000000 1\n",
          "ERR the line is too long\n", true);
}

static void a_line_without_end_is_told_at_the_end(void)
{
    struct talk talk;
    begin(&talk, false);
    talk_hear_text(&talk, "1 1\n2 1");
    talk_hear(&talk, "", 0);
    assert(talk.closed);
    assert(strcmp(talk.out, "1\nERR the line has no end\n") == 0);
    end(&talk);
}

static void a_sleep_ends_when_it_was_asked_to(void)
{
    struct talk talk;
    begin(&talk, false);
    uint64_t before = clock_now_ns();
    talk_hear_text(&talk, "2000000 1\n0 1\n");
    uint64_t after = clock_now_ns();
    assert(talk.sleeps == 1 && talk.requests == 2);
    assert(talk.wake_ns >= before + 2 * NS_PER_S);
    assert(talk.wake_ns <= after + 2 * NS_PER_S);
    end(&talk);
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void spinning_burns_what_was_asked_for(void)
{
    struct talk talk;
    begin(&talk, true);
    double before = cpu_s();
    talk_hear_text(&talk, "30000 1\n30000 1\n");
    double burnt = cpu_s() - before;
    assert(burnt >= 0.06 && burnt < 0.3);
    assert(talk.sleeps == 0 && strcmp(talk.out, "30000\n60000\n") == 0);
    end(&talk);
}

/* A thousand answers do not overrun the room that a step has. */
static void many_lines_at_once(void)
{
    enum { LINES = 20000 };
    char *text = malloc(LINES * 4 + 1);
    struct talk talk;
    begin(&talk, false);
    for (int i = 0; i < LINES; i++)
        memcpy(text + i * 4, "0 2\n", 4);
    talk_hear(&talk, text, LINES * 4);
    assert(talk.requests == LINES && talk.out_bytes == LINES * 2);
    end(&talk);
    free(text);
}

static void *add_many(void *unused)
{
    struct talk talk;
    (void)unused;
    talk_begin(&talk, work, NULL);
    for (int i = 0; i < 2000; i++)
        talk_hear_text(&talk, "1 2\n");
    talk_end(&talk);
    return NULL;
}

/* Two processes of two threads each add to one bucket; nothing is lost. */
static void buckets_are_shared_by_threads_and_processes(void)
{
    struct talk talk;
    begin(&talk, false);
    pid_t child = fork();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert(pthread_create(&threads[i], NULL, add_many, NULL) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    if (child == 0)
        _exit(0);
    int status;
    assert(waitpid(child, &status, 0) == child && status == 0);
    talk_hear_text(&talk, "0 2\n");
    assert(strcmp(talk.out, "8000\n") == 0);
    end(&talk);
}

int main(void)
{
    work = workload_find("work");
    lines_are_answered_wherever_they_are_cut();
    what_is_no_request_is_told_and_ends_it();
    a_line_without_end_is_told_at_the_end();
    a_sleep_ends_when_it_was_asked_to();
    spinning_burns_what_was_asked_for();
    many_lines_at_once();
    buckets_are_shared_by_threads_and_processes();
    puts("test_work: passed");
    return 0;
}
