/* redis_reactor.c -- see redis_reactor.h.
 *
 * Conversations start at one place only, at the end of a round. So a client
 * whose request fails at once and who has the next one ready goes to the end
 * of the line, and no chain of failures can eat up the stack.
 */
#include "redis_reactor.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/owner.h"
#include "redis_conn.h"

struct line {
    struct source source;
    struct link link;
    struct client *client;      /* who talks; NULL: nobody */
};

struct upstream_pool {
    struct line lines[UPSTREAM_LINKS];
    struct node clients;        /* who wait */
    unsigned waiting;           /* how many */
};

/* NULL: memory is out. */
static struct upstream_pool *make_pool(void)
{
    struct upstream_pool *pool = calloc(1, sizeof *pool);
    if (pool)
        list_init(&pool->clients);
    return pool;
}

/* --- those who wait --------------------------------------------------- */

static void join(struct upstream_pool *pool, struct client *client)
{
    list_append(&pool->clients, &client->place);
    pool->waiting++;
}

static void leave(struct upstream_pool *pool, struct client *client)
{
    list_leave(&client->place);
    pool->waiting--;
}

void asking_begin(struct loop *loop, struct client *client)
{
    uint64_t deadline_ns = clock_now_ns() + UPSTREAM_PATIENCE_NS;
    if (!loop->upstream)
        loop->upstream = make_pool();
    if (!loop->upstream ||
        !timers_set(&loop->timers, &client->timer, deadline_ns)) {
        loop_pursue(loop, client, conn_failed(&client->conn, ENOMEM));
        return;
    }
    join(loop->upstream, client);
}

/* --- one line --------------------------------------------------------- */

static void hang_up(struct loop *loop, struct line *line)
{
    if (line->source.kind == SOURCE_UPSTREAM)
        loop_drop(loop, &line->source);
    link_close(&line->link);
}

/* Client and line part; the client goes on with `want`. */
static void part(struct loop *loop, struct line *line, enum want want)
{
    struct client *client = line->client;
    line->client = NULL;
    client->line = NULL;
    timers_cancel(&loop->timers, &client->timer);
    loop_pursue(loop, client, want);
}

static void fail(struct loop *loop, struct line *line)
{
    struct conn *conn = &line->client->conn;
    stats_error(loop->worker.server->stats, line->link.error);
    hang_up(loop, line);
    part(loop, line, conn_unanswered(conn));
}

static void go_on(struct loop *loop, struct line *line)
{
    struct conn *conn = &line->client->conn;
    for (;;) {
        enum want want;
        switch (link_go_on(&line->link)) {
        case LINK_NEEDS_IN:
            return loop_watch(loop, &line->source, READY_IN);
        case LINK_NEEDS_OUT:
            return loop_watch(loop, &line->source, READY_OUT);
        case LINK_BROKE:
            return fail(loop, line);
        case LINK_HAS_REPLY:
            want = conn_replied(conn, line->link.reply, line->link.got);
            if (link_wants_more(conn))
                break;
            if (conn->hang_up)
                hang_up(loop, line);
            else
                link_rest(&line->link);
            return part(loop, line, want);
        }
    }
}

static bool watch_new(struct loop *loop, struct line *line)
{
    line->source = (struct source){.fd = line->link.fd,
                                   .kind = SOURCE_UPSTREAM,
                                   .interest = READY_OUT};
    bool fits = !loop->poller->fits || loop->poller->fits(line->source.fd);
    errno = EMFILE;
    if (fits && loop->poller->add(loop, &line->source))
        return true;
    line->link.error = errno;
    line->source.kind = SOURCE_CLOSED;
    return false;
}

static void start(struct loop *loop, struct line *line, struct client *client)
{
    struct link *link = &line->link;
    line->client = client;
    client->line = line;
    bool fresh = link->state == LINK_CLOSED;
    bool talks =
        link_ask(link, client->conn.ask, loop->worker.server->stats) &&
        (!fresh || watch_new(loop, line));
    if (talks)
        go_on(loop, line);
    else
        fail(loop, line);
}

/* A link that rests is watched too, so one that Redis left is closed here
 * before anybody is given it. */
void asking_ready(struct loop *loop, struct source *source, unsigned ready)
{
    struct line *line = (struct line *)source;
    if (line->client)
        go_on(loop, line);
    else if (ready & ~(unsigned)READY_OUT && link_is_stale(&line->link))
        hang_up(loop, line);
}

void asking_cancel(struct loop *loop, struct client *client)
{
    struct line *line = client->line;
    if (list_joined(&client->place))
        leave(loop->upstream, client);
    if (!line)
        return;
    hang_up(loop, line); /* its reply would come to the next client */
    line->client = NULL;
    client->line = NULL;
}

void asking_expired(struct loop *loop, struct client *client)
{
    stats_error(loop->worker.server->stats, ETIMEDOUT);
    asking_cancel(loop, client);
    loop_pursue(loop, client, conn_unanswered(&client->conn));
}

/* --- the pool --------------------------------------------------------- */

/* A line that nobody uses: rather one that rests than one to be opened. */
static struct line *find_free(struct upstream_pool *pool)
{
    struct line *found = NULL;
    for (struct line *line = pool->lines; line < pool->lines + UPSTREAM_LINKS;
         line++)
        if (!line->client && (!found || line->link.state == LINK_RESTING))
            found = line;
    return found;
}

bool asking_round(struct loop *loop)
{
    struct upstream_pool *pool = loop->upstream;
    if (!pool || !pool->waiting)
        return false;
    struct line *line = find_free(pool);
    for (unsigned n = pool->waiting; line && n > 0 && pool->waiting; n--) {
        struct client *client =
            OWNER_OF(pool->clients.after, struct client, place);
        leave(pool, client);
        start(loop, line, client);
        line = find_free(pool);
    }
    return line && pool->waiting;
}

void asking_free(struct loop *loop)
{
    struct upstream_pool *pool = loop->upstream;
    for (int i = 0; pool && i < UPSTREAM_LINKS; i++)
        hang_up(loop, &pool->lines[i]);
    free(pool);
    loop->upstream = NULL;
}
