/* guestbook.c -- see guestbook.h. */
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

static const char built_in[] =
    "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Guestbook</title>\n"
    "<h1>Guestbook</h1>\n<p>Visits: {{visitors}}</p>\n"
    "<form method=\"post\" action=\"/guestbook\">"
    "<input name=\"remark\" maxlength=\"250\" required>"
    "<button>Leave a remark</button></form>\n"
    "<ul>\n{{remarks}}</ul>\n";

static char from_file[TEMPLATE_MAX];
static struct span template = {built_in, sizeof built_in - 1};

void guestbook_setup(const char *root)
{
    char path[4096];
    if (!root)
        return;
    snprintf(path, sizeof path, "%s/guestbook.html", root);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, from_file, sizeof from_file);
    if (n > 0)
        template = (struct span){from_file, (size_t)n};
    close(fd);
}

/* --- commands --------------------------------------------------------- */

static const char read_commands[] =
    "*2\r\n$4\r\nINCR\r\n$18\r\n" VISITORS "\r\n"
    "*4\r\n$6\r\nLRANGE\r\n$17\r\n" REMARKS "\r\n$1\r\n0\r\n$2\r\n99\r\n";

const struct span guestbook_read = {read_commands, sizeof read_commands - 1};

static struct span word(const char *text)
{
    return (struct span){text, strlen(text)};
}

static void write_commands(struct buffer *to, struct span remark)
{
    resp_command(to, (struct span[]){word("LPUSH"), word(REMARKS), remark}, 3);
    resp_command(to, (struct span[]){word("LTRIM"), word(REMARKS), word("0"),
                                     word("99")}, 4);
}

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

/* --- replies ---------------------------------------------------------- */

static enum guestbook_news whole(struct span reply)
{
    enum resp_kind kind = resp_whole(reply, 2);
    return kind == RESP_MORE  ? GUESTBOOK_MORE
           : kind == RESP_BAD ? GUESTBOOK_NONSENSE
                              : GUESTBOOK_DONE;
}

enum guestbook_news guestbook_written(struct span reply)
{
    enum guestbook_news news = whole(reply);
    size_t at = 0;
    for (int i = 0; news == GUESTBOOK_DONE && i < 2; i++) {
        enum resp_kind kind = resp_next(reply, &at).kind;
        if (kind != RESP_NUMBER && kind != RESP_STATUS)
            news = GUESTBOOK_SORRY;
    }
    return news;
}

struct facts {
    int64_t visitors, remarks;
    struct span reply;
    size_t at;                  /* where in the reply the remarks begin */
};

/* Each remark an item, until the room that the rest may need is touched. */
static void add_remarks(struct buffer *to, const struct facts *facts)
{
    size_t at = facts->at;
    size_t rest = template.length;
    size_t limit = to->capacity > rest ? to->capacity - rest : 0;
    for (int64_t i = 0; i < facts->remarks && !to->full; i++) {
        size_t before = to->length;
        buffer_text(to, "<li>");
        buffer_escaped(to, resp_next(facts->reply, &at).text);
        buffer_text(to, "</li>\n");
        if (!to->full && to->length <= limit)
            continue;
        to->length = before;
        to->full = false;
        return;
    }
}

static bool fill(struct buffer *to, struct span name, void *context)
{
    const struct facts *facts = context;
    if (span_is(name, "visitors"))
        buffer_number(to, (uint64_t)facts->visitors);
    else if (span_is(name, "remarks"))
        add_remarks(to, facts);
    else
        return false;
    return true;
}

enum guestbook_news guestbook_page(struct span reply, struct buffer *page)
{
    enum guestbook_news news = whole(reply);
    struct facts facts = {.reply = reply};
    if (news != GUESTBOOK_DONE)
        return news;
    struct resp visitors = resp_next(reply, &facts.at);
    struct resp remarks = resp_next(reply, &facts.at);
    if (visitors.kind != RESP_NUMBER || remarks.kind != RESP_ARRAY)
        return GUESTBOOK_SORRY;
    facts.visitors = visitors.number;
    facts.remarks = remarks.number;
    template_render(page, template, fill, &facts);
    return page->full ? GUESTBOOK_SORRY : GUESTBOOK_DONE;
}
