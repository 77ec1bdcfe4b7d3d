/* template.c -- see template.h. */
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
