/* redis_uring.c -- see redis_uring.h. */
#include "redis_uring.h"

#ifdef HAVE_URING

#include <errno.h>
#include <poll.h>

#include "common/owner.h"

/* --- those who wait ----------------------------------------------------- */

void askers_init(struct askers *askers)
{
    list_init(&askers->queue);
}

void asker_init(struct asker *asker, struct conn *conn)
{
    *asker = (struct asker){.conn = conn};
    list_init(&asker->place);
}

void askers_begin(struct askers *askers, struct asker *asker)
{
    list_append(&askers->queue, &asker->place);
    askers->waiting++;
}

static void leave(struct askers *askers, struct asker *asker)
{
    list_leave(&asker->place);
    askers->waiting--;
}

/* --- one line ----------------------------------------------------------- */

static uint64_t name(const struct line *line)
{
    return (uintptr_t)line | ASKERS_TAG;
}

static void await(struct askers *askers, struct line *line, unsigned events)
{
    struct io_uring_sqe *entry = uring_entry(askers->ring);
    io_uring_prep_poll_add(entry, line->link.fd, events);
    entry->user_data = name(line);
    line->polling = true;
}

/* A poll that is still out completes, as cancelled; only then is the line
 * free again. */
static void hang_up(struct askers *askers, struct line *line)
{
    if (line->polling) {
        struct io_uring_sqe *entry = uring_entry(askers->ring);
        io_uring_prep_poll_remove(entry, name(line));
        entry->user_data = URING_NOBODY;
    }
    link_close(&line->link);
}

static void part(struct askers *askers, struct line *line, enum want want)
{
    struct asker *asker = line->asker;
    line->asker = NULL;
    asker->line = NULL;
    askers->answered(askers->loop, asker, want);
}

static void fail(struct askers *askers, struct line *line)
{
    stats_error(askers->stats, line->link.error);
    hang_up(askers, line);
    part(askers, line, conn_unanswered(line->asker->conn));
}

static void go_on(struct askers *askers, struct line *line)
{
    struct conn *conn = line->asker->conn;
    for (;;) {
        enum want want;
        switch (link_go_on(&line->link)) {
        case LINK_NEEDS_IN:
            return await(askers, line, POLLIN);
        case LINK_NEEDS_OUT:
            return await(askers, line, POLLOUT);
        case LINK_BROKE:
            return fail(askers, line);
        case LINK_HAS_REPLY:
            want = conn_replied(conn, line->link.reply, line->link.got);
            if (link_wants_more(conn))
                break;
            if (conn->hang_up)
                link_close(&line->link);
            else
                link_rest(&line->link);
            return part(askers, line, want);
        }
    }
}

static void start(struct askers *askers, struct line *line,
                  struct asker *asker)
{
    struct link *link = &line->link;
    if (link->state == LINK_RESTING && link_is_stale(link))
        link_close(link);
    line->asker = asker;
    asker->line = line;
    if (link_ask(link, asker->conn->ask, askers->stats))
        go_on(askers, line);
    else
        fail(askers, line);
}

void askers_ready(struct askers *askers, struct line *line)
{
    line->polling = false;
    if (line->asker)
        go_on(askers, line);
}

void askers_cancel(struct askers *askers, struct asker *asker)
{
    struct line *line = asker->line;
    if (list_joined(&asker->place))
        leave(askers, asker);
    if (!line)
        return;
    hang_up(askers, line); /* its reply would come to the next one */
    line->asker = NULL;
    asker->line = NULL;
}

void askers_expired(struct askers *askers, struct asker *asker)
{
    stats_error(askers->stats, ETIMEDOUT);
    askers_cancel(askers, asker);
    askers->answered(askers->loop, asker, conn_unanswered(asker->conn));
}

/* --- the pool ----------------------------------------------------------- */

/* A line that nobody uses: rather one that rests than one to be opened. */
static struct line *find_free(struct askers *askers)
{
    struct line *found = NULL;
    for (int i = 0; i < UPSTREAM_LINKS; i++) {
        struct line *line = &askers->lines[i];
        if (!line->asker && !line->polling &&
            (!found || line->link.state == LINK_RESTING))
            found = line;
    }
    return found;
}

void askers_round(struct askers *askers)
{
    for (unsigned n = askers->waiting; n > 0 && askers->waiting; n--) {
        struct line *line = find_free(askers);
        if (!line)
            return;
        struct asker *asker =
            OWNER_OF(askers->queue.after, struct asker, place);
        leave(askers, asker);
        start(askers, line, asker);
    }
}

void askers_free(struct askers *askers)
{
    for (int i = 0; i < UPSTREAM_LINKS; i++)
        hang_up(askers, &askers->lines[i]);
}

#endif
