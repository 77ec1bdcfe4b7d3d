/* test_conn.c -- what stands between a model and a workload.
 *
 * The test is the model: it fulfils what is wanted, or just does not yet.
 */
#include <assert.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "server/conn.h"
#include "server/stats.h"

static char spare[CONN_CHUNK], in[CONN_CHUNK];
static struct server server;
static struct worker worker = {&server, 0, {.spare = spare}};
static char others_spare[CONN_CHUNK];
static struct worker other = {&server, 1, {.spare = others_spare}};

static struct conn *open_on(const char *workload, int fd)
{
    struct workload_options options = {.buckets = 4};
    struct sockaddr_in6 peer = {.sin6_family = AF_INET6};
    server.workload = workload_find(workload);
    server.stats = stats_new(2);
    if (server.workload->setup)
        assert(!server.workload->setup(&options));
    struct conn *conn = conn_open(&worker, fd, &peer, 0);
    assert(conn && server.stats->open_now == 1);
    return conn;
}

static uint64_t served_by(const struct worker *who)
{
    return server.stats->workers[who->index].requests;
}

static void shut(struct conn *conn, unsigned requests)
{
    conn_close(conn);
    assert(server.stats->requests == requests);
    assert(served_by(&worker) + served_by(&other) == requests);
    assert(server.stats->open_now == 0 && server.stats->accepted == 1);
    conn_free(conn, 0);
    if (server.workload->teardown)
        server.workload->teardown();
    stats_free(server.stats);
}

/* Bytes come into the one buffer that all connections share. */
static enum want receive(struct conn *conn, const char *text)
{
    memset(in, '#', sizeof in);
    memcpy(in, text, strlen(text));
    return conn_received(conn, in, strlen(text));
}

static bool unsent_is(struct conn *conn, const char *text)
{
    return span_is(conn_unsent(conn), text);
}

static void what_is_not_sent_survives_the_shared_buffers(void)
{
    struct conn *conn = open_on("echo", open("/dev/null", 0));
    assert(receive(conn, "hello") == WANT_WRITE && unsent_is(conn, "hello"));
    assert(conn_sent(conn, 2) == WANT_WRITE && unsent_is(conn, "llo"));
    assert(conn_stash(conn) && conn_stash(conn));
    memset(in, '#', sizeof in);
    assert(unsent_is(conn, "llo"));
    assert(conn_sent(conn, 1) == WANT_WRITE && unsent_is(conn, "lo"));
    assert(conn_sent(conn, 2) == WANT_READ && !conn->kept_out);
    assert(conn->bytes_in == 5 && conn->bytes_out == 5);
    assert(conn_received(conn, in, 0) == WANT_CLOSE);
    shut(conn, 1);
}

static void a_beginning_is_kept_until_the_rest_comes(void)
{
    struct conn *conn = open_on("work", open("/dev/null", 0));
    assert(receive(conn, "0") == WANT_READ && conn->kept_in.bytes);
    assert(receive(conn, " ") == WANT_READ);
    assert(receive(conn, "2\n0") == WANT_WRITE && unsent_is(conn, "0\n"));
    assert(conn_sent(conn, 2) == WANT_READ);
    assert(receive(conn, " 1\n") == WANT_WRITE && unsent_is(conn, "0\n"));
    assert(conn_sent(conn, 2) == WANT_READ && !conn->kept_in.bytes);
    assert(conn_received(conn, in, 0) == WANT_CLOSE);
    shut(conn, 2);
}

static void sleeps_answers_and_the_next_request_take_turns(void)
{
    struct conn *conn = open_on("work", open("/dev/null", 0));
    assert(receive(conn, "5 1\n6 1\n0") == WANT_SLEEP);
    uint64_t first = conn->wake_ns;
    assert(conn_woken(conn) == WANT_WRITE && unsent_is(conn, "5\n"));
    assert(conn_sent(conn, 1) == WANT_WRITE && conn->send_buffer);
    assert(conn_sent(conn, 1) == WANT_SLEEP && conn->wake_ns > first);
    /* completion models cannot refuse bytes that come meanwhile */
    assert(conn_keep(conn, " 3\n", 3) && !conn->ended);
    assert(conn_keep(conn, NULL, 0) && conn->ended);
    assert(conn_woken(conn) == WANT_WRITE && unsent_is(conn, "11\n0\n"));
    assert(conn_sent(conn, 5) == WANT_CLOSE);
    shut(conn, 3);
}

static void an_answer_in_what_was_kept_changes_hands(void)
{
    struct conn *conn = open_on("echo", open("/dev/null", 0));
    assert(conn_keep(conn, "early", 5));
    assert(receive(conn, " bird") == WANT_WRITE);
    assert(unsent_is(conn, "early bird") && !conn->kept_in.bytes);
    assert(!conn_borrows(conn) && conn_unsent(conn).bytes == conn->kept_out);
    assert(conn_sent(conn, 10) == WANT_READ && !conn->kept_out);
    shut(conn, 1);
}

/* UBSan knows that memcpy(p, NULL, 0) is undefined before C2y. */
static void the_end_after_a_beginning_brings_no_bytes(void)
{
    struct conn *conn = open_on("work", open("/dev/null", 0));
    assert(receive(conn, "0") == WANT_READ && conn->kept_in.bytes);
    assert(conn_received(conn, NULL, 0) == WANT_WRITE);
    struct span error = conn_unsent(conn);
    assert(memcmp(error.bytes, "ERR ", 4) == 0);
    assert(conn_sent(conn, error.length) == WANT_CLOSE);
    shut(conn, 0);
}

/* Two clients of one loop: the second is served before the first answer has
 * left, as with io_uring, where nobody copies it aside. */
static void an_answer_keeps_its_buffer_until_it_is_sent(void)
{
    struct conn *first = open_on("work", open("/dev/null", 0));
    struct sockaddr_in6 peer = {.sin6_family = AF_INET6};
    struct conn *second = conn_open(&worker, open("/dev/null", 0), &peer, 0);
    assert(receive(first, "0 1\n0 1\n") == WANT_WRITE);
    assert(first->send_buffer == spare && !conn_borrows(first));
    assert(receive(second, "bad\n") == WANT_WRITE);
    assert(second->send_buffer && second->send_buffer != spare);
    assert(unsent_is(first, "0\n0\n"));
    assert(conn_sent(first, 3) == WANT_WRITE && unsent_is(first, "\n"));
    assert(conn_sent(first, 1) == WANT_READ && worker.buffers.spare == spare);
    conn_close(second); /* with its answer unsent: the buffer comes back */
    conn_free(second, 0);
    assert(worker.buffers.spare == spare && worker.buffers.count == 1);
    conn_close(first);
    conn_free(first, 0);
    worker.buffers.spare = NULL; /* it is ours */
    send_buffers_free(&worker.buffers);
    worker.buffers.spare = spare;
    server.workload->teardown();
    stats_free(server.stats);
}

/* A slow reader costs what it is owed, and not twice that. */
static void what_waits_takes_no_more_than_it_needs(void)
{
    struct conn *conn = open_on("echo", open("/dev/null", 0));
    assert(conn_received(conn, in, CONN_CHUNK) == WANT_WRITE);
    assert(conn_borrows(conn) && conn_stash(conn) && !conn_borrows(conn));
    assert(conn->send_buffer == spare && !conn->kept_out);
    assert(conn_sent(conn, CONN_CHUNK) == WANT_READ && !conn->send_buffer);
    assert(receive(conn, "little") == WANT_WRITE && conn_stash(conn));
    assert(!conn->send_buffer && malloc_usable_size(conn->kept_out) < 64);
    assert(conn_sent(conn, 6) == WANT_READ && !conn->kept_out);
    assert(conn_keep(conn, in, 40000));
    assert(malloc_usable_size(conn->kept_in.bytes) < 40000 + 64);
    assert(conn_keep(conn, in, 1)); /* in many pieces it is copied seldom */
    assert(conn->kept_in.capacity > 50000);
    shut(conn, 2);
}

static void echo_one(struct conn *conn)
{
    assert(receive(conn, "x") == WANT_WRITE && conn_sent(conn, 1) == WANT_READ);
}

/* As where a connection goes from thread to thread. */
static void requests_stay_with_the_worker_that_served_them(void)
{
    struct conn *conn = open_on("echo", open("/dev/null", 0));
    echo_one(conn);
    conn_move(conn, &worker);
    conn_move(conn, &other);
    assert(served_by(&worker) == 1 && served_by(&other) == 0);
    echo_one(conn);
    echo_one(conn);
    conn_move(conn, &worker);
    assert(served_by(&worker) == 1 && served_by(&other) == 2);
    echo_one(conn);
    shut(conn, 4);
}

static void a_failure_is_counted_and_closes(void)
{
    struct conn *conn = open_on("echo", open("/dev/null", 0));
    assert(receive(conn, "lost") == WANT_WRITE);
    assert(conn_failed(conn, EPIPE) == WANT_CLOSE);
    assert(conn_unsent(conn).length == 0 && conn->want == WANT_CLOSE);
    assert(conn->ended); /* there is nothing to drain */
    assert(server.stats->errors[EPIPE] == 1);
    shut(conn, 1);
}

/* Two ends of one TCP connection. */
static void connect_pair(int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert(bind(listener, (struct sockaddr *)&at, sizeof at) == 0);
    assert(listen(listener, 1) == 0);
    getsockname(listener, (struct sockaddr *)&at, &length);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert(connect(ends[0], (struct sockaddr *)&at, sizeof at) == 0);
    ends[1] = accept(listener, NULL, NULL);
    assert(ends[1] >= 0);
    close(listener);
}

/* Unread bytes would make close(2) a reset, and cost the last answer. */
static void the_last_answer_arrives_though_more_was_sent(void)
{
    int ends[2];
    char got[100];
    connect_pair(ends);
    struct conn *conn = open_on("work", ends[1]);
    assert(send(ends[0], "bad\n and more", 13, 0) == 13);
    for (int i = 0; i < 2; i++) /* than one look reads away */
        assert(send(ends[0], in, CONN_CHUNK, 0) == CONN_CHUNK);
    assert(recv(ends[1], in, 4, 0) == 4);
    assert(conn_received(conn, in, 4) == WANT_WRITE);
    struct span out = conn_unsent(conn);
    assert(send(ends[1], out.bytes, out.length, 0) == (ssize_t)out.length);
    assert(conn_sent(conn, out.length) == WANT_CLOSE);
    shut(conn, 0);
    ssize_t n = recv(ends[0], got, sizeof got, 0);
    assert(n == (ssize_t)out.length && memcmp(got, "ERR want", 8) == 0);
    assert(recv(ends[0], got, sizeof got, 0) == 0);
    close(ends[0]);
}

static void without_limits_nothing_has_a_deadline(void)
{
    struct conn *conn = open_on("work", open("/dev/null", 0));
    assert(conn_deadline_ns(conn) == UINT64_MAX);
    assert(receive(conn, "0") == WANT_READ);
    assert(conn_deadline_ns(conn) == UINT64_MAX);
    shut(conn, 0);
}

/* Idle: moved by each answer. Header: from the first byte, moved by none. */
static void what_has_begun_keeps_its_deadline(void)
{
    struct options limits = {.timed = true,
                             .timeout_ns = {[TIMEOUT_IDLE] = 90 * NS_PER_S,
                                            [TIMEOUT_HEADER] = 10 * NS_PER_S}};
    server.options = limits;
    struct conn *conn = open_on("work", open("/dev/null", 0));
    uint64_t idle_ns = conn_deadline_ns(conn);
    assert(idle_ns <= clock_now_ns() + 90 * NS_PER_S);
    assert(receive(conn, "0") == WANT_READ);
    uint64_t header_ns = conn_deadline_ns(conn);
    assert(header_ns <= clock_now_ns() + 10 * NS_PER_S);
    assert(receive(conn, " ") == WANT_READ);
    assert(conn_deadline_ns(conn) == header_ns);
    assert(receive(conn, "2\n0") == WANT_WRITE);
    assert(conn_deadline_ns(conn) > idle_ns);
    assert(conn_sent(conn, 2) == WANT_READ); /* and the next has begun */
    assert(conn_deadline_ns(conn) > header_ns);
    assert(conn_deadline_ns(conn) < idle_ns);
    assert(receive(conn, " 2\n9 2\n") == WANT_WRITE);
    assert(conn_sent(conn, 2) == WANT_SLEEP);
    assert(conn_deadline_ns(conn) == UINT64_MAX);
    shut(conn, 2);
    server.options = (struct options){0};
}

/* The limit is for each piece that a slow reader takes. */
static void what_is_sent_in_part_moves_the_deadline(void)
{
    server.options = (struct options){
        .timed = true, .timeout_ns = {[TIMEOUT_IDLE] = NS_PER_S}};
    struct conn *conn = open_on("echo", open("/dev/null", 0));
    assert(receive(conn, "hello") == WANT_WRITE);
    uint64_t first_ns = conn_deadline_ns(conn);
    assert(conn_sent(conn, 0) == WANT_WRITE);
    assert(conn_deadline_ns(conn) == first_ns);
    assert(conn_sent(conn, 2) == WANT_WRITE);
    assert(conn_deadline_ns(conn) > first_ns);
    assert(conn_sent(conn, 3) == WANT_READ);
    shut(conn, 1);
    server.options = (struct options){0};
}

/* The one buffer of a blocking model lies on a stack, and a second one that was
 * taken meanwhile would be freed by nobody. */
static void who_is_cut_with_an_answer_costs_no_second_buffer(void)
{
    server.options = (struct options){
        .timed = true, .timeout_ns = {[TIMEOUT_IDLE] = NS_PER_S}};
    struct conn *conn = open_on("work", open("/dev/null", 0));
    assert(receive(conn, "0 1\n") == WANT_WRITE);
    assert(conn->send_buffer == spare && !worker.buffers.spare);
    assert(conn_timed_out(conn) == WANT_CLOSE && !conn->ended);
    shut(conn, 1);
    assert(worker.buffers.spare == spare && worker.buffers.count == 0);
    server.options = (struct options){0};
}

/* It is told so, but for that, too, it is not waited without end. */
static void who_is_late_is_told_and_closed(void)
{
    server.options = (struct options){
        .timed = true, .timeout_ns = {[TIMEOUT_HEADER] = NS_PER_S}};
    struct conn *conn = open_on("work", open("/dev/null", 0));
    assert(receive(conn, "0") == WANT_READ);
    assert(conn_timed_out(conn) == WANT_WRITE);
    assert(unsent_is(conn, "ERR the line took too long\n"));
    assert(conn_deadline_ns(conn) <= clock_now_ns() + NS_PER_S);
    assert(conn_deadline_ns(conn) > clock_now_ns());
    assert(conn_sent(conn, 4) == WANT_WRITE); /* nor for the rest of it */
    assert(conn_deadline_ns(conn) <= clock_now_ns() + NS_PER_S);
    assert(conn_timed_out(conn) == WANT_CLOSE && !conn_unsent(conn).length);
    assert(server.stats->timeouts[TIMEOUT_HEADER] == 1);
    assert(server.stats->timeouts[TIMEOUT_IDLE] == 0);
    shut(conn, 0);
    server.options = (struct options){0};
}

int main(void)
{
    what_is_not_sent_survives_the_shared_buffers();
    a_beginning_is_kept_until_the_rest_comes();
    sleeps_answers_and_the_next_request_take_turns();
    an_answer_in_what_was_kept_changes_hands();
    the_end_after_a_beginning_brings_no_bytes();
    an_answer_keeps_its_buffer_until_it_is_sent();
    what_waits_takes_no_more_than_it_needs();
    requests_stay_with_the_worker_that_served_them();
    a_failure_is_counted_and_closes();
    the_last_answer_arrives_though_more_was_sent();
    without_limits_nothing_has_a_deadline();
    what_has_begun_keeps_its_deadline();
    what_is_sent_in_part_moves_the_deadline();
    who_is_cut_with_an_answer_costs_no_second_buffer();
    who_is_late_is_told_and_closed();
    puts("test_conn: passed");
    return 0;
}
