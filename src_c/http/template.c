/* template.c -- see template.h.
 *
 *     template_render: text up to "{{", what fill() puts there, text, ...
 *
 * Called by guestbook.c for each page. The template is searched each time, some
 * hundred bytes at the speed of memmem(3); the cost of a page is in the
 * remarks, which template_escaped() copies in runs of plain text, looking at
 * eight bytes at once (SWAR: SIMD within a register). Where `to` is full, the
 * rest is left out and to->full says so.
 *
 * A hole without an end, or whose name nobody knows, stays as it stands: a page
 * shows the mistake to whoever wrote it, and is still sent.
 */
#include "template.h"

static const char *find(struct span text, const char *what)
{
    return text.length ? memmem(text.bytes, text.length, what, strlen(what))
                       : NULL;
}

static struct span from(struct span text, const char *start)
{
    size_t skipped = (size_t)(start - text.bytes);
    return (struct span){start, text.length - skipped};
}

void template_render(struct buffer *to, struct span text, template_fill *fill,
                     void *context)
{
    for (const char *open; (open = find(text, "{{"));) {
        const char *close = find(from(text, open + 2), "}}");
        if (!close)
            break;
        struct span name = {open + 2, (size_t)(close - open) - 2};
        buffer_add(to, text.bytes, (size_t)(open - text.bytes));
        if (!fill(to, name, context))
            buffer_add(to, open, name.length + 4);
        text = from(text, close + 2);
    }
    buffer_span(to, text);
}

/* The five characters that end text or a quoted attribute in HTML; NULL: any
 * other. "&apos;" is no entity of HTML 4. */
static const char *entity_of(char c)
{
    switch (c) {
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '&': return "&amp;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

enum { WORD = sizeof(uint64_t) };

#define EACH_BYTE (UINT64_MAX / 0xff) /* 0x0101010101010101 */

/* Whether a byte of the word is c: x ^ c has a zero byte, and only a zero byte
 * lends to its highest bit when 1 is taken from it. */
static inline bool holds(uint64_t word, char c)
{
    uint64_t x = word ^ (EACH_BYTE * (unsigned char)c);
    return (x - EACH_BYTE) & ~x & (EACH_BYTE << 7);
}

/* Eight bytes at a time. '<' and '>' differ in one bit only, and so do '&' and
 * '\'': setting it makes one comparison of two. */
static inline bool holds_markup(const char bytes[WORD])
{
    uint64_t word;
    memcpy(&word, bytes, WORD);
    return holds(word | EACH_BYTE * ('<' ^ '>'), '>') ||
           holds(word | EACH_BYTE * ('&' ^ '\''), '\'') || holds(word, '"');
}

/* How many bytes from the first on may be copied as they are. The last word of
 * a text may overlap the one before. */
static size_t plain_length(struct span text)
{
    size_t n = 0;
    while (text.length - n >= WORD && !holds_markup(text.bytes + n))
        n += WORD;
    if (text.length - n < WORD && text.length >= WORD &&
        !holds_markup(text.bytes + text.length - WORD))
        return text.length;
    while (n < text.length && !entity_of(text.bytes[n]))
        n++;
    return n;
}

void template_escaped(struct buffer *to, struct span text)
{
    while (text.length > 0) {
        size_t n = plain_length(text);
        buffer_add(to, text.bytes, n);
        if (n == text.length)
            return;
        buffer_text(to, entity_of(text.bytes[n]));
        text = from(text, text.bytes + n + 1);
    }
}
