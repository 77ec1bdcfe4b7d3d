/* list.h -- a ring of nodes that lie inside what they list.
 *
 * A list is a node of its own; a node that is in no list points at itself. So
 * entering and leaving never ask where, and leaving twice does no harm.
 */
#ifndef LIST_H
#define LIST_H

#include <stdbool.h>

struct node {
    struct node *before, *after;
};

static inline void list_init(struct node *node)
{
    node->before = node->after = node;
}

static inline bool list_empty(const struct node *list)
{
    return list->after == list;
}

/* Whether the node is in a list. */
static inline bool list_joined(const struct node *node)
{
    return !list_empty(node);
}

static inline void list_leave(struct node *node)
{
    node->before->after = node->after;
    node->after->before = node->before;
    list_init(node);
}

/* The node is in no list. */
static inline void list_append(struct node *list, struct node *node)
{
    node->before = list->before;
    node->after = list;
    list->before->after = node;
    list->before = node;
}

/* Hands all nodes of a list over to another, which is empty. */
static inline void list_move(struct node *from, struct node *to)
{
    list_append(from, to);
    list_leave(from);
}

#endif
