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
 *       descriptor is dropped: user_data holds a slot and its generation, and
 *       one of an earlier generation is ignored.
 * Needs: Linux 6.0, as uring; the polls alone would need 5.13.
 * Try:  strace -f -c build/server uring-poll: recvfrom and sendto for each
 *       request, as in epoll, but no epoll_ctl when clients come and go.
 */
#include "uring/uring.h"

#include "model.h"

#ifdef HAVE_URING

#include <errno.h>
#include <stdlib.h>

#include "server/net.h"
#include "reactor/reactor.h"

/* user_data of a poll: the number of a slot, and its generation. */
struct poll_slot {
    struct source *source; /* NULL: free */
    uint32_t generation;   /* how often its poll was dropped */
    uint32_t next_free;
};

struct uring_polls {
    struct io_uring ring;
    struct poll_slot *slots;
    uint32_t count, capacity; /* slots that were ever used; that there are */
    uint32_t first_free;      /* or count */
};

static bool watches_changes(const struct source *source)
{
    return source->kind == SOURCE_CLIENT || source->kind == SOURCE_REDIS;
}

static uint64_t poll_user_data(const struct uring_polls *polls, uint32_t slot)
{
    return (uint64_t)polls->slots[slot].generation << 32 | slot;
}

static void poll_arm(struct uring_polls *polls, const struct source *source)
{
    struct io_uring_sqe *entry = uring_entry(&polls->ring);
    if (watches_changes(source))
        io_uring_prep_poll_multishot(entry, source->fd,
                                     READY_EDGES | URGENT_WAKEUP);
    else
        io_uring_prep_poll_add(entry, source->fd, POLLIN);
    entry->user_data = poll_user_data(polls, source->slot);
}

/* The kernel holds on to the socket until the poll is gone, which happens with
 * the next wait. (IORING_OP_POLL_REMOVE would answer EALREADY, and leave it
 * armed, when an event of it is just on its way; a cancellation marks it.) */
static void poll_disarm(struct uring_polls *polls, uint32_t slot)
{
    struct io_uring_sqe *entry = uring_entry(&polls->ring);
    io_uring_prep_cancel64(entry, poll_user_data(polls, slot), 0);
    entry->user_data = UINT64_MAX;
    polls->slots[slot].generation++;
}

static bool grow_slots(struct uring_polls *polls)
{
    uint32_t capacity = polls->capacity ? polls->capacity * 2 : 256;
    struct poll_slot *slots = realloc(polls->slots, capacity * sizeof *slots);
    if (!slots)
        return false;
    polls->slots = slots;
    polls->capacity = capacity;
    return true;
}

static bool uring_poll_add(struct loop *loop, struct source *source)
{
    struct uring_polls *polls = loop->state;
    uint32_t number = polls->first_free;
    if (number == polls->capacity && !grow_slots(polls))
        return false;
    struct poll_slot *slot = &polls->slots[number];
    if (number == polls->count) {
        *slot = (struct poll_slot){0};
        polls->first_free = ++polls->count;
    } else {
        polls->first_free = slot->next_free;
    }
    slot->source = source;
    source->slot = number;
    poll_arm(polls, source);
    return true;
}

static void uring_poll_drop(struct loop *loop, struct source *source)
{
    struct uring_polls *polls = loop->state;
    struct poll_slot *slot = &polls->slots[source->slot];
    poll_disarm(polls, source->slot);
    slot->source = NULL;
    slot->next_free = polls->first_free;
    polls->first_free = source->slot;
}

/* Completions were lost: a poll that is armed anew tells of what is ready. */
static void arm_all_anew(struct loop *loop)
{
    struct uring_polls *polls = loop->state;
    stats_error(loop->worker.server->stats, EBADR);
    for (uint32_t i = 0; i < polls->count; i++) {
        if (!polls->slots[i].source)
            continue;
        poll_disarm(polls, i);
        poll_arm(polls, polls->slots[i].source);
    }
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

/* The source of a completion, or NULL when it was dropped meanwhile. */
static struct source *find_source(const struct uring_polls *polls,
                                  uint64_t user_data)
{
    uint32_t slot = (uint32_t)user_data;
    bool current =
        slot < polls->count && poll_user_data(polls, slot) == user_data;
    return current ? polls->slots[slot].source : NULL;
}

static void on_completion(struct loop *loop, uint64_t user_data, int result,
                          bool armed)
{
    struct uring_polls *polls = loop->state;
    struct source *source = find_source(polls, user_data);
    if (source && source->kind == SOURCE_LISTENER)
        accept_clients(loop, source);
    else if (source && source->kind == SOURCE_CLIENT)
        serve_client(loop, source, uring_poll_ready(result));
    else if (source) /* Redis; the stop */
        serve_other(loop, source);
    if (!armed && source && find_source(polls, user_data) == source)
        poll_arm(polls, source);
}

static const struct poller uring_poller = {
    .edge = true,
    .add = uring_poll_add,
    .drop = uring_poll_drop,
};

static void uring_poll_serve(struct loop *loop)
{
    struct uring_polls *polls = loop->state;
    while (!reactor_done(loop)) {
        if (!uring_wait(&polls->ring, reactor_timeout_ns(loop)))
            arm_all_anew(loop);
        struct io_uring_cqe *cqe;
        unsigned head, count = 0;
        io_uring_for_each_cqe(&polls->ring, head, cqe) {
            on_completion(loop, cqe->user_data, cqe->res,
                          cqe->flags & IORING_CQE_F_MORE);
            count++;
        }
        io_uring_cq_advance(&polls->ring, count);
        run_timers(loop);
        end_round(loop);
    }
}

static int uring_poll_run(struct server *server)
{
    struct uring_polls polls = {0};
    if (!uring_open(&polls.ring))
        return -1;
    int result = loop_run(server, &uring_poller, &polls, uring_poll_serve);
    uring_close(&polls.ring);
    free(polls.slots);
    return result;
}

#else
#define uring_poll_run NULL /* uring_missing() says why */
#endif

const struct model_code uring_poll_model = {
    .run = uring_poll_run,
    .missing = uring_missing,
};
