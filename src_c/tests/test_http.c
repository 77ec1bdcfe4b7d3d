/* test_http.c -- HTTP without a socket: what is asked, what is answered.
 *
 * Whole conversations are fed in pieces of 1, 2, 3, … bytes: where TCP cuts
 * must not matter. Requests are strings beside macros, which clang-format would
 * take apart.
 */
/* clang-format off */
#include "talk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "http/files.h"
#include "http/http_parse.h"
#include "http/http_reply.h"

static char base[] = "/tmp/test_http.XXXXXX"; /* we work in base/www */

static void put(const char *name, const char *text, int repeat)
{
    FILE *file = fopen(name, "w");
    assert(file);
    for (int i = 0; i < repeat; i++)
        fputs(text, file);
    fclose(file);
}

/* --- parsing ---------------------------------------------------------- */

/* The error of a request in memory of exactly its size; -1: incomplete. */
static int parse(const char *text, struct http_request *request)
{
    size_t n = strlen(text);
    char *copy = malloc(n);
    memcpy(copy, text, n);
    enum http_found found = http_parse((struct span){copy, n}, request);
    free(copy);
    return found == HTTP_INCOMPLETE ? -1 : request->error;
}

#define GET "GET / HTTP/1.1\r\n"
#define HOST "Host: x\r\n"

static const struct {
    const char *text;
    int error;
} judged[] = {
    {GET HOST "\r\n", 0},
    {"GET / HTTP/1.0\r\n\r\n", 0},
    {"\r\n\r\n" GET HOST "\r\n", 0},
    {"GET / HTTP/1.9\r\n" HOST "\r\n", 0},
    {"GET http://x/a?b HTTP/1.1\r\n" HOST "\r\n", 0},
    {"GET HTTP://x HTTP/1.1\r\n" HOST "\r\n", 0},
    {"GET http://x?b=/c HTTP/1.1\r\n" HOST "\r\n", 0},
    {"GET http://[::1]:80/ HTTP/1.1\r\n" HOST "\r\n", 0},
    {"OPTIONS http://x HTTP/1.1\r\n" HOST "\r\n", 0},
    {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 0},
    {GET "host:\r\n\r\n", 0},
    {GET "Host: [::1]:80 \t\r\nX: a\tb\xc3\xa4\r\n\r\n", 0},
    {GET HOST "Content-Length: 16384\r\n\r\n", 0},
    {"", -1}, {"\r", -1}, {"\r\n", -1}, {"G", -1}, {GET, -1},
    {GET HOST, -1}, {GET HOST "\r", -1},
    {GET "\r\n", 400},                             /* no Host */
    {GET HOST HOST "\r\n", 400},
    {GET "Host: a b\r\n\r\n", 400},
    {GET "Host: a,b\r\n\r\n", 400},
    {"GET /\r\n\r\n", 400},                        /* HTTP/0.9 */
    {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET / HTTP/1.1 \r\n" HOST "\r\n", 400},
    {"GET / x HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET x HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET * HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET  HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET /\x01 HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http:// HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http:///a HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http://?a HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http://u@x/ HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http://x#/ HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http://\x01\x02/page HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http://x\x7f HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET https://x/ HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET ?a HTTP/1.1\r\n" HOST "\r\n", 400},
    /* no LF without a CR */
    {"GET / HTTP/1.1\nHost: x\n\n", 400},
    {"GET / HTTP/1.1\n", 400}, {"\n", 400}, {"\r\n\n", 400},
    {"\n" GET HOST "\r\n", 400},
    {GET HOST "X: a\n\r\n", 400},
    {GET HOST "\n", 400},
    {"GET / http/1.1\r\n" HOST "\r\n", 400},
    {"GET / HTTP/1.x\r\n" HOST "\r\n", 400},
    {"GET / HTTP/11\r\n" HOST "\r\n", 400},
    {"G(T / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
    {"GET / HTTP/0.9\r\n" HOST "\r\n", 505},
    {"\x16\x03\x01", 400},                         /* TLS */
    {" GET", 400},
    {GET HOST "X: a\rb\r\n\r\n", 400},
    {GET HOST "X: a\r\r\n\r\n", 400},
    {GET HOST "X: a\r\n folded\r\n\r\n", 400},
    {GET HOST "\tX: a\r\n\r\n", 400},
    {GET HOST "X : a\r\n\r\n", 400},
    {GET HOST ": a\r\n\r\n", 400},
    {GET HOST "nocolon\r\n\r\n", 400},
    {GET HOST "X\x80: a\r\n\r\n", 400},
    {GET HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
    {GET HOST "Content-Length: 1, 1\r\n\r\n", 400},
    {GET HOST "Content-Length: +1\r\n\r\n", 400},
    {GET HOST "Content-Length: -1\r\n\r\n", 400},
    {GET HOST "Content-Length: 0x1\r\n\r\n", 400},
    {GET HOST "Content-Length:\r\n\r\n", 400},
    {GET HOST "Content-Length: 1 1\r\n\r\n", 400},
    {GET HOST "Content-Length: 16385\r\n\r\n", 413},
    {GET HOST "Content-Length: 18446744073709551616\r\n\r\n", 413},
    {GET HOST "Content-Length: 99999999999999999999999\r\n\r\n", 413},
    {GET HOST "Transfer-Encoding: chunked\r\n\r\n", 411},
    {GET HOST "Transfer-Encoding: Chunked\r\n\r\n", 411},
    {GET HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
    {GET HOST "Transfer-Encoding: xchunked\r\n\r\n", 501},
    {GET HOST "Transfer-Encoding: chunked\r\n"
     "Transfer-Encoding: chunked\r\n\r\n", 501},
    {GET HOST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
     400},
    {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {GET HOST "Expect: 100-continue\r\n\r\n", 0},
    {GET HOST "Expect: magic\r\n\r\n", 417},
    {"GET / HTTP/1.0\r\nExpect: magic\r\n\r\n", 0},
};

static void requests_are_judged(void)
{
    for (size_t i = 0; i < sizeof judged / sizeof judged[0]; i++) {
        struct http_request request;
        int error = parse(judged[i].text, &request);
        if (error != judged[i].error)
            fprintf(stderr, "%d instead of %d: %s\n", error, judged[i].error,
                   judged[i].text);
        assert(error == judged[i].error);
    }
}

static void facts_are_read(void)
{
    static const char text[] =
        "POST /a%20b?c=d?e HTTP/1.1\r\nhOsT: x\r\ncontent-LENGTH: 12 \r\n"
        "Connection: a, Close ,b\r\nContent-Type:text/x\r\n\r\nbody";
    struct http_request r;
    struct span all = {text, sizeof text - 1};
    assert(http_parse(all, &r) == HTTP_COMPLETE);
    assert(r.method == HTTP_POST && span_is(r.path, "/a%20b"));
    assert(span_is(r.query, "c=d?e") && span_is(r.content_type, "text/x"));
    assert(r.body_bytes == 12 && !r.keep_alive && !r.http10);
    assert(r.head_bytes == all.length - 4);
    for (size_t n = 0; n < r.head_bytes; n++) {
        struct http_request cut;
        assert(http_parse((struct span){text, n}, &cut) == HTTP_INCOMPLETE);
    }
}

static void connections_stay_or_close(void)
{
    struct http_request r;
    assert(parse(GET HOST "\r\n", &r) == 0 && r.keep_alive);
    assert(parse(GET HOST "Connection: close\r\n\r\n", &r) == 0);
    assert(!r.keep_alive);
    assert(parse(GET HOST "Connection: closed\r\n\r\n", &r) == 0);
    assert(r.keep_alive);
    assert(parse("GET / HTTP/1.0\r\n\r\n", &r) == 0);
    assert(!r.keep_alive && r.http10);
    assert(parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &r) == 0);
    assert(r.keep_alive);
    assert(parse(GET "Transfer-Encoding: x\r\n\r\n", &r) == 400);
    assert(!r.keep_alive);
    assert(parse("GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n",
                 &r) == 0);
    assert(!r.keep_alive);
    assert(parse("GET / HTTP/1.0\r\nConnection: close\r\n"
                 "Connection: keep-alive\r\n\r\n", &r) == 0);
    assert(!r.keep_alive);
}

static void heads_are_bounded(void)
{
    static char text[HTTP_HEAD_MAX * 2] = "GET /";
    struct http_request r;
    memset(text + 5, 'a', sizeof text - 6);
    assert(parse(text, &r) == 414);
    memcpy(text, GET "X: ", strlen(GET "X: "));
    assert(parse(text, &r) == 431);
    int n = sprintf(text, GET HOST);
    while ((size_t)n < HTTP_HEAD_MAX - 20)
        n += sprintf(text + n, "X: y\r\n");
    assert(parse(text, &r) == -1);
    sprintf(text + n, "\r\n");
    assert(parse(text, &r) == 0);
    for (int i = 0; i < 5; i++)
        n += sprintf(text + n, "X: y\r\n");
    sprintf(text + n, "\r\n");
    assert(parse(text, &r) == 431);
}

static void check_decode(const char *text, bool plus, long n, const char *want)
{
    char to[8];
    struct span span = {text, strlen(text)};
    assert(http_decode(span, plus, to, sizeof to) == n);
    assert(n < 0 || memcmp(to, want, (size_t)n) == 0);
}

static void percent_is_decoded(void)
{
    check_decode("", false, 0, "");
    check_decode("a%2Fb+", false, 4, "a/b+");
    check_decode("a%2fb+", true, 4, "a/b ");
    check_decode("%25%7e%C3%A4", false, 4, "%~\xc3\xa4");
    check_decode("12345678", false, 8, "12345678");
    check_decode("123456789", false, -2, "");
    check_decode("%", false, -1, "");
    check_decode("a%4", false, -1, "");
    char to[1]; /* and the digit that lies behind the end is none of it */
    assert(http_decode((struct span){"%41", 2}, false, to, sizeof to) == -1);
    check_decode("%4g", false, -1, "");
    check_decode("%-1", false, -1, "");
    check_decode("%00", false, -1, "");
}

static void dates_and_types(void)
{
    char room[HTTP_REPLY_MAX + 1];
    struct buffer to = {.bytes = room, .capacity = HTTP_REPLY_MAX};
    http_reply(&to, &(struct http_reply){.status = 200, .keep_alive = true,
                                         .body_bytes = 1234567890});
    room[to.length] = '\0';
    assert(!to.full && strstr(room, "\r\nContent-Length: 1234567890\r\n\r\n"));
    struct tm when;
    const char *date = strstr(room, "Date: ");
    assert(date && strptime(date, "Date: %a, %d %b %Y %T GMT\r\n", &when));
    assert(strcmp(http_type("/a.b/c.HTML"), "text/html; charset=utf-8") == 0);
    assert(strcmp(http_type("png"), "application/octet-stream") == 0);
    assert(strcmp(http_type("a.png"), "image/png") == 0);
}

/* --- conversations ---------------------------------------------------- */

static const struct workload *http;
static const char *redis_says;

/* What is answered, without the dates. */
static char *answers(const char *text, size_t piece, bool *closed)
{
    struct talk talk;
    talk_begin(&talk, http, redis_says);
    talk.reply_piece = piece;
    talk_hear_pieces(&talk, text, strlen(text), piece);
    *closed = talk.closed;
    char *out = strdup(talk.out);
    for (char *date; (date = strstr(out, "Date: "));)
        memmove(date, date + 37, strlen(date + 37) + 1);
    talk_end(&talk);
    return out;
}

static void check(const char *text, const char *want, bool closes)
{
    for (size_t piece = 0; piece < 40; piece++) {
        bool closed;
        char *out = answers(text, piece, &closed);
        if (strcmp(out, want) != 0)
            fprintf(stderr, "%s\n--- instead of\n%s\n", out, want);
        assert(strcmp(out, want) == 0);
        assert(closed == closes);
        free(out);
    }
}

#define OK(type, length) "HTTP/1.1 200 OK\r\nContent-Type: " type \
    "\r\nContent-Length: " length "\r\n"
#define HTML "text/html; charset=utf-8"
#define PLAIN(status, length) "HTTP/1.1 " status \
    "\r\nContent-Type: text/plain\r\nContent-Length: " length "\r\n"
#define ERROR(status, length, headers) PLAIN(status, length) headers "\r\n" \
    status "\n"
#define NOT_FOUND ERROR("404 Not Found", "14", "")
#define BAD_REQUEST ERROR("400 Bad Request", "16", "")
#define WRONG_METHOD \
    ERROR("405 Method Not Allowed", "23", "Allow: GET, HEAD\r\n")
#define WRONG_TYPE ERROR("415 Unsupported Media Type", "27", "")
#define REQUEST(method, path) method " " path " HTTP/1.1\r\n" HOST
#define PAGE OK(HTML, "6") "\r\n<html>"

static void files_are_served(void)
{
    check(REQUEST("GET", "/") "\r\n", PAGE, false);
    check(REQUEST("GET", "/?a=b") "\r\n", PAGE, false);
    check(REQUEST("GET", "//index%2ehtml") "\r\n", PAGE, false);
    check(REQUEST("HEAD", "/") "\r\n", OK(HTML, "6") "\r\n", false);
    check(REQUEST("GET", "/sub/a.css") "\r\n", OK("text/css", "0") "\r\n",
          false);
    check("GET / HTTP/1.0\r\n\r\n",
          OK(HTML, "6") "Connection: close\r\n\r\n<html>", true);
    check("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
          OK(HTML, "6") "Connection: keep-alive\r\n\r\n<html>", false);
}

/* A small file whose name does not fit where files are remembered. */
static void long_names_are_served(void)
{
    char name[161], text[300];
    memset(name, 'n', 160);
    name[160] = '\0';
    put(name, "<html>", 1);
    snprintf(text, sizeof text, REQUEST("GET", "/%s") "\r\n", name);
    check(text, OK("application/octet-stream", "6") "\r\n<html>", false);
    assert(unlink(name) == 0);
}

static void nothing_outside_of_the_root_is_served(void)
{
    static const char *const paths[] = {
        "/../secret", "/%2e%2e/secret", "/sub/../../secret", "/..", "/sub/..",
        "/.%2e/secret", "//../secret", "/out", "/outdir/secret", "/sub/up",
        "/sub", "/nope", "/sub/a.css/", "/index.html/x", "/absolute", "/loop",
        "/fifo", "/..%2fsecret", "/sub/%2e%2e/%2e%2e/secret",
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, REQUEST("GET", "%s") "\r\n", paths[i]);
        check(text, NOT_FOUND, false);
    }
    check(REQUEST("GET", "/%2") "\r\n", BAD_REQUEST, false);
    check(REQUEST("GET", "/%00") "\r\n", BAD_REQUEST, false);
}

static void requests_follow_each_other(void)
{
    check(REQUEST("GET", "/") "\r\n" REQUEST("GET", "/x") "\r\n"
          REQUEST("HEAD", "/x") "\r\n" REQUEST("GET", "/") "\r\n",
          PAGE NOT_FOUND PLAIN("404 Not Found", "14") "\r\n" PAGE, false);
    check(REQUEST("GET", "/") "Connection: close\r\n\r\n"
          REQUEST("GET", "/") "\r\n",
          OK(HTML, "6") "Connection: close\r\n\r\n<html>", true);
    /* a body that nobody wants is not the next request */
    check(REQUEST("GET", "/") "Content-Length: 20\r\n\r\n"
          "GET /x HTTP/1.1\r\n\r\n\r" REQUEST("GET", "/") "\r\n", PAGE PAGE,
          false);
}

static void errors_are_told(void)
{
    check(REQUEST("PUT", "/") "Content-Length: 3\r\n\r\nabc"
          REQUEST("GET", "/") "\r\n", WRONG_METHOD PAGE, false);
    check(REQUEST("POST", "/") "Content-Length: 0\r\n\r\n", WRONG_METHOD,
          false);
    check(REQUEST("BREW", "/") "\r\n", ERROR("501 Not Implemented", "20", ""),
          false);
    check(REQUEST("GET", "/") "X: a\r\n b\r\n\r\n",
          ERROR("400 Bad Request", "16", "Connection: close\r\n"), true);
    check(REQUEST("GET", "/") "Content-Length: 99999\r\n\r\n",
          ERROR("413 Content Too Large", "22", "Connection: close\r\n"), true);
}

static void the_guestbook_asks_redis(void)
{
    static const char get[] = REQUEST("GET", "/guestbook") "\r\n";
    static const char top[] =
        OK(HTML, "40") "Cache-Control: no-store\r\n\r\n";
    char want[500];
    redis_says = ":7\r\n*1\r\n$4\r\n<hi>\r\n";
    snprintf(want, sizeof want, "%s7 <ol><li>&lt;hi&gt;</li>\n</ol> {{else}}",
             top);
    check(get, want, false);
    check(REQUEST("HEAD", "/guestbook") "\r\n", top, false);
    snprintf(want, sizeof want, PAGE "%s7 <ol><li>&lt;hi&gt;</li>\n</ol>"
             " {{else}}" PAGE, top);
    check(REQUEST("GET", "/") "\r\n" REQUEST("GET", "/guestbook") "\r\n"
          REQUEST("GET", "/") "\r\n", want, false);
}

#define SORRY ERROR("503 Service Unavailable", "24", "Retry-After: 1\r\n")

static void no_answer_from_redis_is_503(void)
{
    static const char *const replies[] = {
        NULL, ":7\r\n*1\r\n$4\r\n<h", "-LOADING\r\n*0\r\n", "!", "",
        "+OK\r\n+OK\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        redis_says = replies[i];
        check(REQUEST("GET", "/guestbook") "\r\n" REQUEST("GET", "/") "\r\n",
              SORRY PAGE, false);
    }
    redis_says = NULL;
    check(REQUEST("POST", "/guestbook") "Content-Length: 8\r\n\r\nremark=1"
          REQUEST("GET", "/") "\r\n", SORRY PAGE, false);
}

#define POST REQUEST("POST", "/guestbook")
#define SEE_OTHER "HTTP/1.1 303 See Other\r\nContent-Length: 0\r\n" \
    "Location: /guestbook\r\n\r\n"

static void remarks_are_taken(void)
{
    redis_says = ":1\r\n+OK\r\n";
    check(POST "Content-Length: 9\r\n\r\nremark=hi" REQUEST("GET", "/") "\r\n",
          SEE_OTHER PAGE, false);
    check(POST "Content-Length: 9\r\nContent-Type: "
          "application/x-www-form-urlencoded; charset=x\r\n\r\nremark=hi",
          SEE_OTHER, false);
    check(POST "Content-Length: 4\r\n\r\na=hi" REQUEST("GET", "/") "\r\n",
          BAD_REQUEST PAGE, false);
    check(POST "Content-Length: 2\r\nContent-Type: text/json\r\n\r\n{}",
          WRONG_TYPE, false);
    check(POST "\r\n" REQUEST("GET", "/") "\r\n",
          ERROR("411 Length Required", "20", "") PAGE, false);
    struct talk talk;
    talk_begin(&talk, http, NULL);
    talk_hear_text(&talk, POST "Content-Length: 10\r\n\r\nremark=%0a");
    assert(strstr(talk.last_ask, "LPUSH\r\n$17\r\nguestbook:remarks\r\n"
                                 "$1\r\n\n\r\n"));
    talk_end(&talk);
}

/* Any case, parameters or none; not what merely begins like it. */
static void media_types_have_no_case(void)
{
    static const struct {
        const char *type;
        bool is_form;
    } cases[] = {
        {"Application/X-WWW-Form-URLencoded", true},
        {"application/x-www-form-urlencoded ;charset=UTF-8", true},
        {"application/x-www-form-urlencoded2", false},
        {"application/x-www-form", false}, {"text/plain", false}, {";", false},
    };
    redis_says = ":1\r\n+OK\r\n";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[300];
        snprintf(text, sizeof text, POST "Content-Length: 9\r\n"
                 "Content-Type: %s\r\n\r\nremark=hi", cases[i].type);
        check(text, cases[i].is_form ? SEE_OTHER : WRONG_TYPE, false);
    }
}

/* A safe method changes nothing: HEAD asks for the count, GET raises it. */
static void a_head_counts_nobody(void)
{
    static const struct {
        const char *text, *reply;
        bool counts;
    } cases[] = {
        {REQUEST("GET", "/guestbook") "\r\n", ":7\r\n*0\r\n", true},
        {REQUEST("HEAD", "/guestbook") "\r\n", "$1\r\n6\r\n*0\r\n", false},
    };
    for (size_t i = 0; i < 2; i++) {
        struct talk talk;
        talk_begin(&talk, http, cases[i].reply);
        talk_hear_text(&talk, cases[i].text);
        assert(!strstr(talk.last_ask, "INCR") == !cases[i].counts);
        assert(strstr(talk.out, "HTTP/1.1 200 OK\r\n"));
        assert(strstr(talk.out, "Content-Length: 20\r\n"));
        talk_end(&talk);
    }
}

static void paths_of_the_absolute_form_are_found(void)
{
    check(REQUEST("GET", "http://h/index.html?a=/x") "\r\n", PAGE, false);
    check(REQUEST("GET", "http://h?x=/secret") "\r\n", PAGE, false);
    check(REQUEST("GET", "http://h/nope?/index.html") "\r\n", NOT_FOUND,
          false);
}

static void nonsense_from_redis_ends_that_connection(void)
{
    struct talk talk;
    talk_begin(&talk, http, "HTTP/1.1 400\r\n");
    talk_hear_text(&talk, REQUEST("GET", "/guestbook") "\r\n");
    assert(talk.hung_up && strncmp(talk.out, "HTTP/1.1 503", 12) == 0);
    talk_end(&talk);
}

static void a_client_that_waits_is_told_to_go_on(void)
{
    struct talk talk;
    talk_begin(&talk, http, ":1\r\n+OK\r\n");
    talk_hear_text(&talk, POST "Content-Length: 9\r\n"
                   "Expect: 100-continue\r\n\r\n");
    assert(strcmp(talk.out, "HTTP/1.1 100 Continue\r\n\r\n") == 0);
    talk_hear_text(&talk, "remark=");
    talk_hear_text(&talk, "hi");
    assert(strstr(talk.out, "\r\n\r\nHTTP/1.1 303 See Other\r\n"));
    assert(talk.requests == 1 && !talk.closed);
    talk_end(&talk);
    /* HTTP/1.0 knows no interim answers */
    check("POST /guestbook HTTP/1.0\r\nContent-Length: 9\r\n"
          "Expect: 100-continue\r\n\r\nremark=hi",
          "HTTP/1.1 303 See Other\r\nContent-Length: 0\r\n"
          "Location: /guestbook\r\nConnection: close\r\n\r\n", true);
    /* refused before the body: nobody knows whether it will come */
    check(REQUEST("PUT", "/") "Content-Length: 9\r\nExpect: 100-continue\r\n"
          "\r\n", ERROR("405 Method Not Allowed", "23",
          "Allow: GET, HEAD\r\nConnection: close\r\n"), true);
}

static void the_end_ends_it(void)
{
    struct talk talk;
    talk_begin(&talk, http, NULL);
    talk_hear_text(&talk, REQUEST("GET", "/"));
    talk_hear(&talk, "", 0);
    assert(talk.closed && talk.out_bytes == 0);
    talk_end(&talk);
    talk_begin(&talk, http, NULL);
    talk_hear_text(&talk, POST "Content-Length: 9\r\n\r\nrem");
    talk_hear(&talk, "", 0);
    assert(talk.closed && talk.out_bytes == 0);
    talk_end(&talk);
}

/* --- large files ------------------------------------------------------ */

enum { LARGE = 300000 };

static void large_files_go_out_in_chunks(void)
{
    static const char head[] = OK("application/octet-stream", "300000") "\r\n";
    bool closed;
    char *out = answers(REQUEST("GET", "/large.bin") "\r\n"
                        REQUEST("HEAD", "/large.bin") "\r\n"
                        REQUEST("GET", "/") "\r\n", 0, &closed);
    char *body = out + sizeof head - 1;
    assert(strncmp(out, head, sizeof head - 1) == 0);
    for (int i = 0; i < LARGE; i++)
        assert(body[i] == 'a' + i % 26);
    assert(strcmp(body + LARGE,
                  OK("application/octet-stream", "300000") "\r\n" PAGE) == 0);
    assert(!closed);
    free(out);
}

/* A step at a time, to get at a file while it is being sent. */
static void a_file_that_shrinks_ends_the_connection(void)
{
    static const char text[] = REQUEST("GET", "/shrinks") "\r\n";
    static char room[TALK_ROOM];
    void *session = calloc(1, http->session_bytes);
    struct step step = {.in = text, .in_bytes = sizeof text - 1,
                        .room = room, .room_bytes = sizeof room};
    assert(http->step(session, &step) == WANT_WRITE);
    assert(step.out_bytes > 60000 && step.requests == 0);
    assert(truncate("shrinks", 10) == 0);
    step = (struct step){.room = room, .room_bytes = sizeof room};
    assert(http->step(session, &step) == WANT_CLOSE);
    assert(step.out_bytes == 0);
    http->close(session);
    free(session);
}

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void who_leaves_early_leaves_no_descriptor(void)
{
    static const char text[] = REQUEST("GET", "/large.bin") "\r\n";
    static char room[TALK_ROOM];
    int before = open_descriptors();
    void *session = calloc(1, http->session_bytes);
    struct step step = {.in = text, .in_bytes = sizeof text - 1,
                        .room = room, .room_bytes = sizeof room};
    assert(http->step(session, &step) == WANT_WRITE);
    assert(open_descriptors() == before + 1);
    http->close(session);
    assert(open_descriptors() == before);
    free(session);
}

static void a_changed_file_shows_after_a_second(void)
{
    bool closed;
    put("changes", "one", 1);
    free(answers(REQUEST("GET", "/changes") "\r\n", 0, &closed));
    put("changes", "two", 1);
    usleep(1100000);
    char *out = answers(REQUEST("GET", "/changes") "\r\n", 0, &closed);
    assert(strcmp(out + strlen(out) - 3, "two") == 0);
    free(out);
}

/* --- the root --------------------------------------------------------- */

static void make_root(void)
{
    assert(mkdtemp(base) && chdir(base) == 0);
    put("secret", "secret", 1);
    assert(mkdir("elsewhere", 0755) == 0);
    put("elsewhere/secret", "secret", 1);
    assert(mkdir("www", 0755) == 0 && chdir("www") == 0);
    put("index.html", "<html>", 1);
    put("guestbook.html", "{{visitors}} <ol>{{remarks}}</ol> {{else}}", 1);
    assert(mkdir("sub", 0755) == 0);
    put("sub/a.css", "", 1);
    assert(symlink("../secret", "out") == 0);
    assert(symlink("../../secret", "sub/up") == 0);
    assert(symlink("../elsewhere", "outdir") == 0);
    assert(symlink("/etc/passwd", "absolute") == 0);
    assert(symlink("loop", "loop") == 0);
    assert(mkfifo("fifo", 0644) == 0);
    put("shrinks", "0123456789", 20000);
    put("large.bin", "abcdefghijklmnopqrstuvwxyz", LARGE / 26 + 1);
    assert(truncate("large.bin", LARGE) == 0);
}

static void remove_root(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", base);
    assert(system(command) == 0);
}

static void set_up(const char *root)
{
    struct workload_options options = {.root = root};
    assert(!http->setup(&options));
}

static void without_a_root_there_is_one_page(void)
{
    struct workload_options options = {0};
    bool closed;
    set_up(NULL);
    char *out = answers(REQUEST("GET", "/") "\r\n", 0, &closed);
    assert(strstr(out, "given no --root"));
    free(out);
    check(REQUEST("GET", "/a") "\r\n", NOT_FOUND, false);
    options.root = "/nowhere";
    assert(strstr(http->setup(&options), "--root /nowhere: No such file"));
    options = (struct workload_options){.redis = "nonsense"};
    assert(strstr(http->setup(&options), "--redis nonsense: want HOST:PORT"));
    options.redis = ":6379";
    assert(strstr(http->setup(&options), "want HOST:PORT"));
    options.redis = "[::1]:6379";
    assert(!http->setup(&options));
}

static void links_within_the_root_are_followed(void)
{
    assert(symlink("../index.html", "sub/in") == 0);
    check(REQUEST("GET", "/sub/in") "\r\n",
          OK("application/octet-stream", "6") "\r\n<html>", false);
    assert(unlink("sub/in") == 0);
}

/* From here on, as on a kernel before 5.6. */
static void take_openat2_away(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    assert(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    assert(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void the_root_holds_without_openat2(void)
{
    pid_t child = fork();
    if (child == 0) {
        take_openat2_away();
        usleep(1100000); /* what is remembered was opened the other way */
        set_up(".");
        files_are_served();
        nothing_outside_of_the_root_is_served();
        _exit(0);
    }
    int status;
    assert(waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
    http = workload_find("http");
    requests_are_judged();
    facts_are_read();
    connections_stay_or_close();
    heads_are_bounded();
    percent_is_decoded();
    dates_and_types();
    without_a_root_there_is_one_page();
    make_root();
    set_up(".");
    files_are_served();
    long_names_are_served();
    nothing_outside_of_the_root_is_served();
    links_within_the_root_are_followed();
    requests_follow_each_other();
    errors_are_told();
    the_guestbook_asks_redis();
    no_answer_from_redis_is_503();
    remarks_are_taken();
    media_types_have_no_case();
    a_head_counts_nobody();
    paths_of_the_absolute_form_are_found();
    nonsense_from_redis_ends_that_connection();
    a_client_that_waits_is_told_to_go_on();
    the_end_ends_it();
    large_files_go_out_in_chunks();
    a_file_that_shrinks_ends_the_connection();
    who_leaves_early_leaves_no_descriptor();
    a_changed_file_shows_after_a_second();
    the_root_holds_without_openat2();
    http->teardown();
    remove_root();
    puts("test_http: passed");
    return 0;
}
