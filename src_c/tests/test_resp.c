/* test_resp.c -- what Redis says, cut anywhere; templates; the guestbook. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/guestbook.h"
#include "redis/resp.h"
#include "http/template.h"

static struct span span(const char *text)
{
    return (struct span){text, strlen(text)};
}

/* Reads the one value of `text` from memory of exactly that size. */
static enum resp_kind kind_of(const char *text, size_t n, struct resp *value)
{
    char *copy = malloc(n);
    size_t at = 0;
    memcpy(copy, text, n);
    *value = resp_next((struct span){copy, n}, &at);
    bool whole = value->kind != RESP_MORE && value->kind != RESP_BAD;
    assert(whole || at == 0);
    assert(!whole || at == n || value->kind == RESP_ARRAY);
    free(copy);
    return value->kind;
}

static void every_kind_is_told_and_every_cut_asks_for_more(void)
{
    /* clang-format off */
    static const struct {
        const char *text;
        enum resp_kind kind;
        int64_t number;
    } cases[] = {
        {"+OK\r\n", RESP_STATUS, 0}, {"-ERR no\r\n", RESP_ERROR, 0},
        {":42\r\n", RESP_NUMBER, 42}, {":-7\r\n", RESP_NUMBER, -7},
        {":-9223372036854775808\r\n", RESP_NUMBER, INT64_MIN},
        {":9223372036854775807\r\n", RESP_NUMBER, INT64_MAX},
        {"$3\r\na\r\n\r\n", RESP_STRING, 0}, {"$0\r\n\r\n", RESP_STRING, 0},
        {"$-1\r\n", RESP_NOTHING, 0}, {"*-1\r\n", RESP_NOTHING, 0},
        {"*2\r\n", RESP_ARRAY, 2}, {"+\r\n", RESP_STATUS, 0},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct resp value;
        size_t length = strlen(cases[i].text);
        assert(kind_of(cases[i].text, length, &value) == cases[i].kind);
        assert(value.number == cases[i].number);
        for (size_t n = 0; n < length; n++)
            assert(kind_of(cases[i].text, n, &value) == RESP_MORE);
    }
}

static void what_is_not_resp_is_bad(void)
{
    static const char *const texts[] = {
        "x",
        "HTTP/1.1 200 OK\r\n",
        ":\r\n",
        ":-\r\n",
        ":1a\r\n",
        ":+1\r\n",
        ":9223372036854775808\r\n",
        ":99999999999999999999\r\n",
        "$-2\r\n",
        "$1048577\r\n",
        "*65537\r\n",
        "*-2\r\n",
        "+a\rb",
        "$2\r\nabc",
        "$2\r\nab\rc",
        "$ 1\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct resp value;
        assert(kind_of(texts[i], strlen(texts[i]), &value) == RESP_BAD);
    }
    char endless[RESP_LINE_MAX + 2];
    memset(endless, '+', sizeof endless);
    struct resp value;
    assert(kind_of(endless, sizeof endless, &value) == RESP_BAD);
}

static void numbers_are_whole_texts(void)
{
    int64_t number = 0;
    assert(resp_number(span("-12"), &number) && number == -12);
    assert(resp_number(span("0"), &number) && number == 0);
    static const char *const others[] = {"", "-", "+1", "1 ", "1.5", "a"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert(!resp_number(span(others[i]), &number));
}

static void commands_are_arrays_of_strings(void)
{
    char room[64];
    struct buffer to = {.bytes = room, .capacity = sizeof room};
    struct span words[] = {span("SET"), span("a b"), {"\0\r\n", 3}};
    static const char want[] =
        "*3\r\n$3\r\nSET\r\n$3\r\na b\r\n$3\r\n\0\r\n\r\n";
    resp_command(&to, words, 3);
    assert(!to.full && to.length == sizeof want - 1);
    assert(memcmp(to.bytes, want, to.length) == 0);
}

static bool fill(struct buffer *to, struct span name, void *context)
{
    (void)context;
    if (!span_is(name, "x"))
        return false;
    template_escaped(to, span("<a href='\"&\">"));
    return true;
}

static void check_template(const char *text, const char *want)
{
    char room[200];
    struct buffer to = {.bytes = room, .capacity = sizeof room};
    template_render(&to, span(text), fill, NULL);
    assert(!to.full && span_is((struct span){to.bytes, to.length}, want));
}

static void holes_are_filled_and_markup_is_not(void)
{
#define TEXT "&lt;a href=&#39;&quot;&amp;&quot;&gt;"
    check_template("", "");
    check_template("none", "none");
    check_template("{{x}}", TEXT);
    check_template("a{{x}}b{{x}}c", "a" TEXT "b" TEXT "c");
    check_template("{{y}} {{x", "{{y}} {{x");
    check_template("{{}}{{{x}}}", "{{}}{{{x}}}");
    check_template("}}{{", "}}{{");
}

static void text_is_escaped_wherever_it_holds_markup(void)
{
    static const struct {
        const char *text, *html;
    } cases[] = {
        {"", ""},
        {"a", "a"},
        {"<", "&lt;"},
        {"a<", "a&lt;"},
        {"<a", "&lt;a"},
        {"a<<b", "a&lt;&lt;b"},
        {"\xc3\xa4>\xc3\xa4", "\xc3\xa4&gt;\xc3\xa4"},
        {"=;?!", "=;?!"},
        {"&amp;", "&amp;amp;"},
    };
    char room[100];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer to = {.bytes = room, .capacity = sizeof room};
        template_escaped(&to, span(cases[i].text));
        assert(!to.full);
        assert(span_is((struct span){to.bytes, to.length}, cases[i].html));
    }
    struct buffer small = {.bytes = room, .capacity = 5};
    template_escaped(&small, span("ab<"));
    assert(small.full);
}

/* --- the guestbook ---------------------------------------------------- */

static enum guestbook_result page(const char *reply, size_t room, char *text)
{
    struct buffer to = {.bytes = text, .capacity = room - 1};
    enum guestbook_result result = guestbook_page(span(reply), &to);
    text[to.length] = '\0';
    return result;
}

static void the_page_shows_what_redis_said(void)
{
    static char text[65536];
    assert(page(":12\r\n*2\r\n$3\r\n<i>\r\n$5\r\nhello\r\n", sizeof text,
                text) == GUESTBOOK_DONE);
    assert(strstr(text, "Visits: 12<"));
    assert(strstr(text, "<li>&lt;i&gt;</li>\n<li>hello</li>\n</ul>"));
    assert(page(":12\r\n*2\r\n$3\r\nabc\r\n", sizeof text, text) ==
           GUESTBOOK_INCOMPLETE);
    assert(page("-LOADING\r\n*0\r\n", sizeof text, text) == GUESTBOOK_ERROR);
    assert(page(":1\r\n-WRONGTYPE x\r\n", sizeof text, text) ==
           GUESTBOOK_ERROR);
    assert(page("HTTP/1.1 400\r\n", sizeof text, text) == GUESTBOOK_NOT_RESP);
    assert(page(":1\r\n*1\r\n*1\r\n:1\r\n", sizeof text, text) ==
           GUESTBOOK_NOT_RESP);
    assert(page("+OK\r\n*0\r\n", sizeof text, text) == GUESTBOOK_ERROR);
    assert(page(":1\r\n:2\r\n", sizeof text, text) == GUESTBOOK_ERROR);
    assert(page(":-3\r\n*0\r\n", sizeof text, text) == GUESTBOOK_ERROR);
}

/* What a HEAD asks for shows the page of the GET that would come next. */
static void a_look_shows_the_next_visit(void)
{
    static char text[65536];
    assert(memmem(guestbook_peek.bytes, guestbook_peek.length, "INCR", 4) ==
           NULL);
    assert(page("$2\r\n12\r\n*0\r\n", sizeof text, text) == GUESTBOOK_DONE);
    assert(strstr(text, "Visits: 13<"));
    assert(page("$-1\r\n*0\r\n", sizeof text, text) == GUESTBOOK_DONE);
    assert(strstr(text, "Visits: 1<"));
    assert(page("$1\r\nx\r\n*0\r\n", sizeof text, text) == GUESTBOOK_ERROR);
}

/* Every cut asks for more; else the rest would come to the next request. */
static void a_reply_is_whole_when_its_last_value_is(void)
{
    static const char *const replies[] = {
        ":1\r\n*3\r\n$1\r\na\r\n$-1\r\n$0\r\n\r\n",
        "-ERR\r\n*1\r\n$1\r\na\r\n",
        "$1\r\nx\r\n-ERR\r\n",
    };
    static char text[65536], part[100];
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        size_t length = strlen(replies[i]);
        assert(page(replies[i], sizeof text, text) ==
               (i ? GUESTBOOK_ERROR : GUESTBOOK_DONE));
        for (size_t n = 0; n < length; n++) {
            memcpy(part, replies[i], n);
            part[n] = '\0';
            assert(page(part, sizeof text, text) == GUESTBOOK_INCOMPLETE);
        }
    }
}

/* 100 remarks of 1000 quotes are 600 kB as HTML. */
static void a_page_ends_where_its_room_does(void)
{
    static char reply[110000], remark[1001], text[65536];
    memset(remark, '"', 1000);
    int n = sprintf(reply, ":1\r\n*100\r\n");
    for (int i = 0; i < 100; i++)
        n += sprintf(reply + n, "$1000\r\n%s\r\n", remark);
    assert(page(reply, sizeof text, text) == GUESTBOOK_DONE);
    assert(strlen(text) > 55000 && strstr(text, "</li>\n</ul>\n"));
    assert(page(reply, 2000, text) == GUESTBOOK_DONE);
    assert(strstr(text, "<ul>\n</ul>\n"));
    assert(page(reply, 100, text) == GUESTBOOK_ERROR);
}

static void check_write(const char *form, int status, const char *want)
{
    int said;
    struct span command = guestbook_write(span(form), &said);
    assert(!command.bytes == !want);
    assert(want || said == status);
    if (want)
        assert(memmem(command.bytes, command.length, want, strlen(want)));
    free((char *)command.bytes);
}

static void a_form_becomes_commands(void)
{
    static char longest[1010] = "remark=";
    memset(longest + 7, 'a', 1000);
    check_write("remark=hi", 0, "$2\r\nhi\r\n");
    check_write("a=b&remark=a+b%21%0d%0aFLUSHALL&remark=2", 0,
                "$14\r\na b!\r\nFLUSHALL\r\n");
    check_write("", 400, NULL);
    check_write("remark", 400, NULL);
    check_write("remark=", 400, NULL);
    check_write("remarks=1", 400, NULL);
    check_write("remark=%4", 400, NULL);
    check_write("remark=%00", 400, NULL);
    check_write(longest, 0, "$1000\r\na");
    longest[1007] = 'b';
    check_write(longest, 413, NULL);
}

static void a_write_is_done_when_both_commands_are(void)
{
    assert(guestbook_written(span(":1\r\n+OK\r\n")) == GUESTBOOK_DONE);
    assert(guestbook_written(span(":1\r\n+OK")) == GUESTBOOK_INCOMPLETE);
    assert(guestbook_written(span("-ERR\r\n+OK\r\n")) == GUESTBOOK_ERROR);
    assert(guestbook_written(span(":1\r\n-OOM\r\n")) == GUESTBOOK_ERROR);
    assert(guestbook_written(span("-ERR\r\n")) == GUESTBOOK_INCOMPLETE);
    assert(guestbook_written(span("$-1\r\n+OK\r\n")) == GUESTBOOK_ERROR);
    assert(guestbook_written(span(":1\r\n*-1\r\n")) == GUESTBOOK_ERROR);
    assert(guestbook_written(span("<html>\r\n")) == GUESTBOOK_NOT_RESP);
    assert(guestbook_written(span("*0\r\n:1\r\n")) == GUESTBOOK_NOT_RESP);
}

int main(void)
{
    every_kind_is_told_and_every_cut_asks_for_more();
    what_is_not_resp_is_bad();
    numbers_are_whole_texts();
    commands_are_arrays_of_strings();
    holes_are_filled_and_markup_is_not();
    text_is_escaped_wherever_it_holds_markup();
    the_page_shows_what_redis_said();
    a_look_shows_the_next_visit();
    a_reply_is_whole_when_its_last_value_is();
    a_page_ends_where_its_room_does();
    a_form_becomes_commands();
    a_write_is_done_when_both_commands_are();
    puts("test_resp: passed");
    return 0;
}
