/* template.h -- a text with holes: "{{name}}" is where something goes. */
#ifndef TEMPLATE_H
#define TEMPLATE_H

#include "common/buffer.h"

/* Appends what belongs in the hole of that name; false: no such name, and the
 * hole is left as it stands. */
typedef bool template_fill(struct buffer *to, struct span name, void *context);

/* Appends the template with its holes filled. */
void template_render(struct buffer *to, struct span text, template_fill *fill,
                     void *context);

/* Appends text in which nothing is markup to HTML, nor ends an attribute. */
void template_escaped(struct buffer *to, struct span text);

#endif
