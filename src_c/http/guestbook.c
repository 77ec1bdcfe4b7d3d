/* guestbook.c -- see guestbook.h.
 *
 *     GET   guestbook_read  -> Redis -> guestbook_page: read_page -> template
 *     POST  guestbook_write -> Redis -> guestbook_written -> 303 See Other
 *
 * Called by workloads/http.c, which sends the commands as WANT_ASK and calls
 * guestbook_page() or guestbook_written() each time more of the reply is there:
 * a reply in pieces is read anew from its beginning, and the page is made once,
 * when it is whole.
 *
 * The commands are pipelined: both are sent before a reply is awaited, one trip
 * to Redis instead of two. They are no transaction (MULTI): between INCR and
 * LRANGE another client's remark may appear, which no reader can tell. The list
 * is cut by LTRIM with each remark, so it never holds more than a page shows.
 */
#include "guestbook.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "http_parse.h"
#include "redis/resp.h"
#include "template.h"

#define VISITORS "guestbook:visitors"
#define REMARKS "guestbook:remarks"

enum { TEMPLATE_MAX = 16 * 1024 };

static const char built_in_page[] =
    "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Guestbook</title>\n"
    "<h1>Guestbook</h1>\n<p>Visits: {{visitors}}</p>\n"
    "<form method=\"post\" action=\"/guestbook\">"
    "<input name=\"remark\" maxlength=\"250\" required>"
    "<button>Leave a remark</button></form>\n"
    "<ul>\n{{remarks}}</ul>\n";

static char from_file[TEMPLATE_MAX + 1];
static struct span template = {built_in_page, sizeof built_in_page - 1};

const char *guestbook_setup(const char *root)
{
    static char wrong[320];
    char path[4096];
    if (!root)
        return NULL;
    snprintf(path, sizeof path, "%s/guestbook.html", root);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    ssize_t n = read(fd, from_file, sizeof from_file);
    if (n > 0)
        template = (struct span){from_file, (size_t)n};
    close(fd);
    snprintf(wrong, sizeof wrong,
             "--root %.200s: guestbook.html has more than %d bytes", root,
             TEMPLATE_MAX);
    return n > TEMPLATE_MAX ? wrong : NULL;
}

/* --- commands --------------------------------------------------------- */

/* Those that do not change are written out as RESP: $N is the length of what
 * follows. LRANGE 0 99: as many as GUESTBOOK_REMARKS. */
#define NEWEST                                                                 \
    "*4\r\n$6\r\nLRANGE\r\n$17\r\n" REMARKS "\r\n$1\r\n0\r\n$2\r\n99\r\n"

static const char read_commands[] =
    "*2\r\n$4\r\nINCR\r\n$18\r\n" VISITORS "\r\n" NEWEST;
static const char peek_commands[] =
    "*2\r\n$3\r\nGET\r\n$18\r\n" VISITORS "\r\n" NEWEST;

const struct span guestbook_read = {read_commands, sizeof read_commands - 1};
const struct span guestbook_peek = {peek_commands, sizeof peek_commands - 1};

static struct span word(const char *text)
{
    return (struct span){text, strlen(text)};
}

static void write_commands(struct buffer *to, struct span remark)
{
    resp_command(to, (struct span[]){word("LPUSH"), word(REMARKS), remark}, 3);
    resp_command(
        to,
        (struct span[]){word("LTRIM"), word(REMARKS), word("0"), word("99")},
        4);
}

/* The remark is decoded on the stack and copied into the commands, which must
 * live until Redis has them: the form lies in the client's receive buffer. */
struct span guestbook_write(struct span form, int *status)
{
    char text[GUESTBOOK_REMARK_MAX];
    struct span value, nothing = {NULL, 0};
    enum { COMMANDS = GUESTBOOK_REMARK_MAX + 256 };
    bool found = http_form_field(form, "remark", &value);
    long n = found ? http_decode(value, true, text, sizeof text) : -1;
    *status = n > 0 ? 503 : n == -2 ? 413 : 400;
    if (n <= 0)
        return nothing;
    char *memory = malloc(COMMANDS);
    if (!memory)
        return nothing;
    struct buffer commands = {.bytes = memory, .capacity = COMMANDS};
    write_commands(&commands, (struct span){text, (size_t)n});
    return (struct span){commands.bytes, commands.length};
}

/* --- replies ------------------------------------------------------------ */

/* What a value means where neither a nested array nor an error is expected. */
static enum guestbook_result result_of(enum resp_kind kind)
{
    switch (kind) {
    case RESP_MORE: return GUESTBOOK_INCOMPLETE;
    case RESP_BAD:
    case RESP_ARRAY: /* its elements would have to be skipped */
        return GUESTBOOK_NOT_RESP;
    case RESP_ERROR: return GUESTBOOK_ERROR;
    default: return GUESTBOOK_DONE;
    }
}

/* The reply cannot be read on from here: more is to come, or it is no RESP. */
static bool stops_reading(enum guestbook_result result)
{
    return result == GUESTBOOK_INCOMPLETE || result == GUESTBOOK_NOT_RESP;
}

/* Whether the next value is of the kind that its command answers with. */
static enum guestbook_result read_kind(struct span reply, size_t *at,
                                       enum resp_kind wanted)
{
    enum resp_kind kind = resp_next(reply, at).kind;
    enum guestbook_result result = result_of(kind);
    return result != GUESTBOOK_DONE || kind == wanted ? result
                                                      : GUESTBOOK_ERROR;
}

/* LPUSH says how many there are now, LTRIM says OK. Both values are read also
 * when the first is an error: else the second would be taken for the reply to
 * the next request. */
enum guestbook_result guestbook_written(struct span reply)
{
    size_t at = 0;
    enum guestbook_result first = read_kind(reply, &at, RESP_NUMBER);
    if (stops_reading(first))
        return first;
    enum guestbook_result second = read_kind(reply, &at, RESP_STATUS);
    return second == GUESTBOOK_DONE ? first : second;
}

struct page {
    uint64_t visitors;
    struct span remarks[GUESTBOOK_REMARKS];
    unsigned count;
};

/* INCR says a number, GET a string of digits, or nothing before the first. One
 * below zero, which anybody may set, counts no visits. */
static enum guestbook_result read_visitors(struct span reply, size_t *at,
                                           uint64_t *visitors)
{
    struct resp value = resp_next(reply, at);
    enum guestbook_result result = result_of(value.kind);
    if (value.kind == RESP_STRING && !resp_number(value.text, &value.number))
        return GUESTBOOK_ERROR;
    bool counted = value.kind == RESP_NUMBER;
    *visitors = (uint64_t)value.number + !counted;
    bool wrong = value.kind == RESP_STATUS || value.number < 0;
    return wrong ? GUESTBOOK_ERROR : result;
}

/* The remarks of an array; more of them than a page shows are read past. */
static enum guestbook_result read_remarks(struct span reply, size_t *at,
                                          struct page *page)
{
    struct resp head = resp_next(reply, at);
    if (head.kind != RESP_ARRAY) {
        enum guestbook_result result = result_of(head.kind);
        return result == GUESTBOOK_DONE ? GUESTBOOK_ERROR : result;
    }
    for (int64_t i = 0; i < head.number; i++) {
        struct resp remark = resp_next(reply, at);
        if (stops_reading(result_of(remark.kind)))
            return result_of(remark.kind);
        if (page->count < GUESTBOOK_REMARKS)
            page->remarks[page->count++] = remark.text;
    }
    return GUESTBOOK_DONE;
}

/* A reply is read once, the remarks noted where they lie: the page is made of
 * them when all are there. */
static enum guestbook_result read_page(struct span reply, struct page *page)
{
    size_t at = 0;
    enum guestbook_result first = read_visitors(reply, &at, &page->visitors);
    if (stops_reading(first))
        return first;
    enum guestbook_result second = read_remarks(reply, &at, page);
    return second == GUESTBOOK_DONE ? first : second;
}

/* Each remark an item, until the room that the rest may need is touched. */
static void add_remarks(struct buffer *to, const struct page *page)
{
    size_t rest = template.length;
    size_t limit = to->capacity > rest ? to->capacity - rest : 0;
    for (unsigned i = 0; i < page->count && !to->full; i++) {
        size_t before = to->length;
        buffer_text(to, "<li>");
        template_escaped(to, page->remarks[i]);
        buffer_text(to, "</li>\n");
        if (!to->full && to->length <= limit)
            continue;
        to->length = before;
        to->full = false;
        return;
    }
}

/* What the holes of the template are: template_fill. */
static bool guestbook_fill(struct buffer *to, struct span name, void *context)
{
    const struct page *page = context;
    if (span_is(name, "visitors"))
        buffer_number(to, page->visitors);
    else if (span_is(name, "remarks"))
        add_remarks(to, page);
    else
        return false;
    return true;
}

enum guestbook_result guestbook_page(struct span reply, struct buffer *to)
{
    struct page page;
    page.count = 0;
    enum guestbook_result result = read_page(reply, &page);
    if (result != GUESTBOOK_DONE)
        return result;
    template_render(to, template, guestbook_fill, &page);
    return to->full ? GUESTBOOK_ERROR : GUESTBOOK_DONE;
}
