/* uring-poll.c -- io_uring used as if it were epoll: it only says who is ready.
 *
 *     io_uring_enter -> for each poll that completed: accept / read -> answer
 *                    -> io_uring_enter
 *
 * Good: the smallest change that puts io_uring under a server written for
 *       epoll; a new client's poll is handed over together with the wait, so
 *       watching costs no system call of its own.
 * Bad:  each read and each write is still a system call, and those are what
 *       a request is made of. What io_uring could save is not saved.
 * Look: a poll that stays armed (multishot, Linux 5.13) tells of changes only,
 *       as EPOLLET does; where the level matters, at the listening socket, it
 *       is armed anew each time. A completion may be on its way when its
 *       descriptor is dropped: places are numbered by turns, late ones fall
 *       through.
 */
#include "uring/uring.h"

#include "model.h"

#ifdef HAVE_URING

#include <stdlib.h>

#include "server/net.h"
#include "reactor/reactor.h"

/* user_data of a poll: the number of a place, and its turn. */
struct place {
    struct source *source;   /* NULL: free */
    uint32_t turn;           /* how often it was dropped */
    uint32_t next_free;
};

struct state {
    struct io_uring ring;
    struct place *places;
    uint32_t count, capacity;   /* places that were ever used; that there are */
    uint32_t first_free;        /* or count */
};

static bool watches_changes(const struct source *source)
{
    return source->kind == SOURCE_CLIENT || source->kind == SOURCE_REDIS;
}

static uint64_t name(const struct state *state, uint32_t slot)
{
    return (uint64_t)state->places[slot].turn << 32 | slot;
}

static void arm(struct state *state, const struct source *source)
{
    struct io_uring_sqe *entry = uring_entry(&state->ring);
    if (watches_changes(source))
        io_uring_prep_poll_multishot(
            entry, source->fd, READY_EDGES | URGENT_WAKEUP);
    else
        io_uring_prep_poll_add(entry, source->fd, POLLIN);
    entry->user_data = name(state, source->slot);
}

static bool grow(struct state *state)
{
    uint32_t capacity = state->capacity ? state->capacity * 2 : 256;
    struct place *places =
        realloc(state->places, capacity * sizeof *places);
    if (!places)
        return false;
    state->places = places;
    state->capacity = capacity;
    return true;
}

static bool add(struct loop *loop, struct source *source)
{
    struct state *state = loop->state;
    uint32_t slot = state->first_free;
    if (slot == state->capacity && !grow(state))
        return false;
    struct place *place = &state->places[slot];
    if (slot == state->count) {
        *place = (struct place){0};
        state->first_free = ++state->count;
    } else {
        state->first_free = place->next_free;
    }
    place->source = source;
    source->slot = slot;
    arm(state, source);
    return true;
}

/* The kernel holds on to the socket until the poll is gone, which happens with
 * the next wait. (IORING_OP_POLL_REMOVE would answer EALREADY, and leave it
 * armed, when an event of it is just on its way; a cancellation marks it.) */
static void drop(struct loop *loop, struct source *source)
{
    struct state *state = loop->state;
    struct io_uring_sqe *entry = uring_entry(&state->ring);
    io_uring_prep_cancel64(entry, name(state, source->slot), 0);
    entry->user_data = UINT64_MAX;
    struct place *place = &state->places[source->slot];
    place->source = NULL;
    place->turn++;
    place->next_free = state->first_free;
    state->first_free = source->slot;
}

/* A failed poll says nothing: the next read or write will. */
static unsigned uring_poll_ready(int result)
{
    if (result < 0)
        return READY_IN | READY_OUT;
    unsigned events = (unsigned)result;
    if (!urgent_in_wakeup(events))
        events &= ~(unsigned)URGENT_EVENT;
    return ready_of(events);
}

/* Who this completion is about, or NULL when that is gone. */
static struct source *find(const struct state *state, uint64_t user_data)
{
    uint32_t slot = (uint32_t)user_data;
    bool current = slot < state->count && name(state, slot) == user_data;
    return current ? state->places[slot].source : NULL;
}

static void on_completion(struct loop *loop, uint64_t user_data, int result,
                          bool armed)
{
    struct state *state = loop->state;
    struct source *source = find(state, user_data);
    if (source && source->kind == SOURCE_LISTENER)
        accept_clients(loop, source);
    else if (source && source->kind == SOURCE_CLIENT)
        serve_client(loop, source, uring_poll_ready(result));
    else if (source) /* Redis; the stop */
        serve_other(loop, source);
    if (!armed && source && find(state, user_data) == source)
        arm(state, source);
}

static const struct poller uring_poller = {
    .edge = true, .add = add, .drop = drop,
};

static void uring_poll_serve(struct loop *loop)
{
    struct state *state = loop->state;
    while (!reactor_done(loop)) {
        uring_wait(&state->ring, reactor_timeout_ns(loop));
        struct io_uring_cqe *cqe;
        unsigned head, count = 0;
        io_uring_for_each_cqe(&state->ring, head, cqe) {
            on_completion(loop, cqe->user_data, cqe->res,
                          cqe->flags & IORING_CQE_F_MORE);
            count++;
        }
        io_uring_cq_advance(&state->ring, count);
        run_timers(loop);
        end_round(loop);
    }
}

static int uring_poll_run(struct server *server)
{
    struct state state = {0};
    if (!uring_open(&state.ring))
        return -1;
    int result = loop_run(server, &uring_poller, &state, uring_poll_serve);
    io_uring_queue_exit(&state.ring);
    free(state.places);
    return result;
}

#else

static int uring_poll_run(struct server *server)
{
    (void)server;
    return -1;
}

#endif

const struct model_code uring_poll_model = {
    .run = uring_poll_run, .missing = uring_missing,
};
