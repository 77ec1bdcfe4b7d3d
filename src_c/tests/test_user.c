/* test_user.c -- requests, answers and the user's machine, without a socket.
 *
 * Every answer is fed in pieces of 1, 2, 3, … bytes: where TCP cuts must not
 * matter.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ask.h"
#include "client/user.h"

static struct rng rng;

static struct asks asks_of(enum ask_workload workload)
{
    struct asks asks = {
        .workload = workload, .size_min = 1, .size_max = 300, .buckets = 4};
    assert(delay_parse("2", &asks.delay));
    assert(asks_make(&asks, "host:1", "/page", 1));
    return asks;
}

/* Feeds `text` in pieces; the verdict of the piece that decided. */
static enum ask_verdict feed(const struct asks *asks, struct ask *ask,
                             const char *text, size_t bytes, size_t piece)
{
    enum ask_verdict verdict = ASK_MORE;
    for (size_t at = 0; at < bytes && verdict == ASK_MORE; at += piece)
        verdict = ask_take(asks, ask, text + at,
                           bytes - at < piece ? bytes - at : piece);
    return verdict;
}

/* Makes a request, copies what must be echoed; returns how many bytes. */
static size_t ask_echo(const struct asks *asks, struct ask *ask, uint64_t i,
                       char *copy)
{
    ask_make(asks, ask, i % 7, i, false, &rng);
    memcpy(copy, ask->out, ask->out_bytes);
    return ask->out_bytes;
}

static void echoes_are_compared_byte_by_byte(void)
{
    struct asks asks = asks_of(ASK_ECHO);
    struct ask ask;
    char copy[301];
    for (uint64_t i = 0; i < 600; i++) {
        size_t n = ask_echo(&asks, &ask, i, copy);
        assert(n >= 1 && n <= 300);
        assert(feed(&asks, &ask, copy, n, 1 + i % 5) == ASK_DONE);
        n = ask_echo(&asks, &ask, i, copy);
        copy[i % n] ^= 1; /* one bit anywhere is noticed */
        assert(feed(&asks, &ask, copy, n, 1 + i % 5) == ASK_MISMATCH);
        n = ask_echo(&asks, &ask, i, copy);
        copy[n] = 0; /* so is a byte too many */
        assert(ask_take(&asks, &ask, copy, n + 1) == ASK_MISMATCH);
    }
    asks_free(&asks);
}

/* Another connection's answer, or an earlier one, is not ours. */
static void requests_differ_by_connection_and_number(void)
{
    struct asks asks = asks_of(ASK_ECHO);
    struct ask a, b;
    unsigned same = 0;
    asks.size_min = 64;
    asks.size_max = 64;
    for (uint64_t i = 0; i < 1000; i++) {
        ask_make(&asks, &a, i, 5, false, &rng);
        ask_make(&asks, &b, i + 1, 5, false, &rng);
        same += memcmp(a.out, b.out, 64) == 0;
        ask_make(&asks, &b, i, 6, false, &rng);
        same += memcmp(a.out, b.out, 64) == 0;
    }
    assert(same < 10);
    asks_free(&asks);
}

static void check_work_bytes(const char *answer, size_t bytes,
                             enum ask_verdict expected)
{
    struct asks asks = asks_of(ASK_WORK);
    struct ask ask;
    for (size_t piece = 1; piece <= bytes; piece++) {
        ask_make(&asks, &ask, 0, 0, false, &rng);
        assert(strncmp(ask.out, "2000 ", 5) == 0);
        assert(ask.out[ask.out_bytes - 1] == '\n');
        assert(feed(&asks, &ask, answer, bytes, piece) == expected);
    }
    asks_free(&asks);
}

static void check_work(const char *answer, enum ask_verdict expected)
{
    check_work_bytes(answer, strlen(answer), expected);
}

static void work_answers_a_number_that_is_large_enough(void)
{
    check_work("2000\n", ASK_DONE);
    check_work("123456789\n", ASK_DONE);
    check_work("1999\n", ASK_MISMATCH);
    check_work("error\n", ASK_MISMATCH);
    check_work("\n", ASK_MISMATCH);
    check_work("2000", ASK_MORE);
}

static void work_answers_hold_nothing_but_the_number(void)
{
    static const char zero[] = "2000\0garbage\n";
    check_work_bytes(zero, sizeof zero - 1, ASK_MISMATCH);
    check_work("9999999999999999999\n", ASK_DONE);
    check_work("18446744073709551616\n", ASK_MISMATCH);
    check_work(
        "9999999999999999999999999999999999999999999999999999999999999999"
        "garbage\n",
        ASK_MISMATCH);
}

static void check_http(const char *answer, enum ask_verdict expected,
                       bool closes)
{
    struct asks asks = asks_of(ASK_HTTP);
    struct ask ask;
    for (size_t piece = 1; piece <= strlen(answer); piece++) {
        ask_make(&asks, &ask, 0, 0, false, &rng);
        assert(strncmp(ask.out, "GET /page HTTP/1.1\r\nHost: host:1\r\n", 34) ==
               0);
        assert(feed(&asks, &ask, answer, strlen(answer), piece) == expected);
        assert(expected == ASK_MISMATCH || ask.closes == closes);
    }
    asks_free(&asks);
}

static void http_answers_end_where_they_say(void)
{
    check_http("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", ASK_DONE,
               false);
    check_http("HTTP/1.1 200 OK\ncontent-length:5\n\nhello", ASK_DONE, false);
    check_http("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n"
               "\r\n",
               ASK_DONE, true);
    check_http("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", ASK_DONE, true);
    check_http("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n"
               "Content-Length: 1\r\n\r\nx",
               ASK_DONE, false);
    check_http("HTTP/1.1 200 OK\r\nConnection: Upgrade, Close ,foo\r\n"
               "Content-Length: 0\r\n\r\n",
               ASK_DONE, true);
    check_http("HTTP/1.1 200 OK\r\nConnection: closed, foo\r\n"
               "Content-Length: 0\r\n\r\n",
               ASK_DONE, false);
    check_http("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
               ASK_STATUS, false);
    check_http("HTTP/1.1 304 Not Modified\r\n\r\n", ASK_DONE, false);
    check_http("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"
               "Content-Length: 1\r\n\r\nx",
               ASK_DONE, false);
    check_http("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", ASK_MORE,
               false);
    check_http("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
               ASK_MISMATCH, false);
    check_http("HTTP/1.1 200 OK\r\nContent-Length: 1 \r\n\r\nx", ASK_DONE,
               false);
    check_http("HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\nx", ASK_MISMATCH,
               false);
    check_http("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", ASK_MISMATCH,
               false);
    check_http("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n"
               "\r\nx",
               ASK_MISMATCH, false);
    check_http("SSH-2.0-OpenSSH\r\n", ASK_MISMATCH, false);
}

static void http_body_may_end_with_the_stream(void)
{
    struct asks asks = asks_of(ASK_HTTP);
    struct ask ask;
    const char *answer = "HTTP/1.0 200 OK\r\n\r\nall of this";
    ask_make(&asks, &ask, 0, 0, true, &rng);
    assert(strstr(ask.out, "Connection: close\r\n"));
    assert(feed(&asks, &ask, answer, strlen(answer), 3) == ASK_MORE);
    assert(ask_end(&asks, &ask) == ASK_DONE);
    ask_make(&asks, &ask, 0, 0, true, &rng);
    assert(feed(&asks, &ask, answer, 10, 3) == ASK_MORE);
    assert(ask_end(&asks, &ask) == ASK_MORE);
    asks_free(&asks);
}

/* The whole life of a user, each arrow of the picture in user.h. */
static void a_user_goes_round(void)
{
    struct asks asks = asks_of(ASK_ECHO);
    struct row row = {0};
    struct user u = {.fd = -1, .row = &row};
    const char *out;
    char copy[300];
    size_t n, left;
    user_connect(&u, 5, 100);
    user_connected(&u, 200);
    assert(u.state == USER_READY && u.fd == 5 && row.established == 1);
    assert(row.attempted && u.since_ns == 100 && u.opened_ns == 200);
    u.failures = 2; /* to connect: an answer ends the row of them */
    assert(user_receive(&u, &asks, "x", 1) == USER_GARBLED);
    for (int i = 0; i < 3; i++) {
        u.wants = true;
        user_ask(&u, &asks, false, 1000, 1100, &rng);
        assert(!u.wants);
        out = user_outgoing(&u, &n);
        memcpy(copy, out, n);
        user_sent(&u, 1);
        assert(user_outgoing(&u, &left) == out + 1 && left == n - 1);
        user_sent(&u, n - 1);
        assert(user_outgoing(&u, &left) == out + n && left == 0);
        assert(user_receive(&u, &asks, copy, n) == USER_ANSWERED);
        assert(u.state == USER_READY && u.asked == 1u + (unsigned)i);
        assert(u.asked_here == u.asked && u.failures == 0);
        assert(u.intended_ns == 1000 && u.since_ns == 1100);
    }
    uint32_t generation = u.generation;
    user_hang_up(&u, false, 700);
    assert(u.state == USER_AWAY && u.fd == -1 && u.generation != generation);
    assert(row.session_ns == 500);
    user_connect(&u, 6, 800);
    assert(u.asked_here == 0);
    user_hang_up(&u, true, 900);
    assert(u.state == USER_GONE && row.session_ns == 500);
    asks_free(&asks);
}

static void an_answer_before_the_request_has_left_is_wrong(void)
{
    struct asks asks = asks_of(ASK_ECHO);
    struct row row = {0};
    struct user u = {.fd = -1, .row = &row};
    size_t n;
    user_connect(&u, 5, 100);
    user_connected(&u, 200);
    user_ask(&u, &asks, false, 300, 300, &rng);
    const char *out = user_outgoing(&u, &n);
    user_sent(&u, n - 1);
    assert(user_receive(&u, &asks, out, n) == USER_GARBLED);
    assert(user_end_of_stream(&u, &asks) == USER_CUT_OFF);
    asks_free(&asks);
}

int main(void)
{
    rng = rng_make(1, 1);
    echoes_are_compared_byte_by_byte();
    requests_differ_by_connection_and_number();
    work_answers_a_number_that_is_large_enough();
    work_answers_hold_nothing_but_the_number();
    http_answers_end_where_they_say();
    http_body_may_end_with_the_stream();
    a_user_goes_round();
    an_answer_before_the_request_has_left_is_wrong();
    puts("test_user: passed");
    return 0;
}
