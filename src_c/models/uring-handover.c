/* uring-handover.c -- one ring accepts; N rings serve, and get messages.
 *
 *     acceptor: io_uring_enter -> for each accepted: a message to the next ring
 *     worker:   io_uring_enter -> handed over / received / sent
 *                              -> new operations into its ring
 *
 * Good: all cores, each with an even share of the connections, and no lock, no
 *       pipe and no wake-up of ours: a message is a completion in the ring
 *       that the worker waits for anyway (IORING_OP_MSG_RING).
 * Bad:  each connection crosses from one thread to another, and the acceptor
 *       is one thread: with short connections it is the limit.
 * Look: threads share the table of descriptors, so a message needs to carry no
 *       more than the number. Between rings that keep descriptors of their own
 *       (fixed files), IORING_MSG_SEND_FD (6.0) moves one. In the wild, with
 *       queues: the boss group of Netty, the main thread of memcached.
 * Needs: Linux 6.0, as uring; IORING_OP_MSG_RING alone came with 5.18.
 * Try:  strace -f build/server uring-handover --workers 2: one thread comes
 *       back from io_uring_enter for each client that connects, two others for
 *       what clients send.
 */
#include "uring.h"

#include "model.h"

#ifdef HAVE_URING

#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "blocking/workers.h"

enum { RING_NOT_YET = -1, RING_CLOSED = -2 };

/* What the acceptor knows of the workers. */
struct ring_table {
    struct server fed; /* the server without its listening socket */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned count, next; /* of the worker that gets the next client */
    int ring_fds[];       /* or RING_… */
};

/* --- a worker --------------------------------------------------------- */

static void table_tell(struct ring_table *table, unsigned worker, int ring_fd)
{
    pthread_mutex_lock(&table->lock);
    table->ring_fds[worker] = ring_fd;
    pthread_cond_signal(&table->changed);
    pthread_mutex_unlock(&table->lock);
}

static bool handover_work(struct server *server, unsigned worker, void *shared)
{
    struct ring_table *table = shared;
    struct uring_loop *loop =
        uring_loop_new(&table->fed, model_slot(server, worker));
    bool opened = loop && uring_loop_open(loop);
    workers_take_turns(server);
    if (opened)
        stats_add(&server->stats->workers_started, 1);
    for (bool open = opened; open; open = uring_loop_reopen(loop)) {
        table_tell(table, worker, loop->ring.ring_fd);
        uring_serve(loop);
        table_tell(table, worker, RING_CLOSED);
    }
    table_tell(table, worker, RING_CLOSED);
    if (loop)
        uring_loop_free(loop);
    return opened;
}

/* --- the acceptor ----------------------------------------------------- */

/* Waits until each worker has opened its ring, or could not. */
static void table_await(struct ring_table *table)
{
    pthread_mutex_lock(&table->lock);
    for (unsigned i = 0; i < table->count; i++)
        while (table->ring_fds[i] == RING_NOT_YET)
            pthread_cond_wait(&table->changed, &table->lock);
    pthread_mutex_unlock(&table->lock);
}

static bool table_any(struct ring_table *table)
{
    bool any = false;
    pthread_mutex_lock(&table->lock);
    for (unsigned i = 0; i < table->count; i++)
        any |= table->ring_fds[i] >= 0;
    pthread_mutex_unlock(&table->lock);
    return any;
}

/* The next ring in turn that is open, or a negative number. */
static int table_next(struct ring_table *table)
{
    int ring_fd = RING_CLOSED;
    pthread_mutex_lock(&table->lock);
    for (unsigned i = 0; i < table->count && ring_fd < 0; i++)
        ring_fd = table->ring_fds[table->next++ % table->count];
    pthread_mutex_unlock(&table->lock);
    return ring_fd;
}

/* The other ring gets a completion with `fd` for its result. Only a message
 * that fails comes back to us (IOSQE_CQE_SKIP_SUCCESS, Linux 5.17). */
static void send_message(struct io_uring *ring, int ring_fd, int fd)
{
    struct io_uring_sqe *entry = uring_entry(ring);
    atomic_fetch_add_explicit(&uring_messages, 1, memory_order_release);
    io_uring_prep_msg_ring(entry, ring_fd, (unsigned)fd, URING_HANDED_OVER, 0);
    entry->flags |= IOSQE_CQE_SKIP_SUCCESS;
    entry->user_data = (uint64_t)(uint32_t)fd << 32 | URING_HANDED_OVER;
}

static void hand_over(struct uring_listener *from, struct ring_table *table,
                      int fd)
{
    int ring_fd = fd < 0 ? RING_CLOSED : table_next(table);
    if (ring_fd >= 0)
        send_message(from->ring, ring_fd, fd);
    else if (fd >= 0)
        net_refuse(from->server, fd, uring_refusal());
}

static void send_last_messages(struct io_uring *ring, struct ring_table *table)
{
    pthread_mutex_lock(&table->lock);
    for (unsigned i = 0; i < table->count; i++)
        if (table->ring_fds[i] >= 0)
            send_message(ring, table->ring_fds[i], -1);
    pthread_mutex_unlock(&table->lock);
    uring_wait(ring, 0);
}

/* Returns false once there will be no more connections. */
static bool handover_completed(struct uring_listener *from,
                               struct ring_table *table,
                               const struct io_uring_cqe *cqe)
{
    struct sockaddr_in6 peer;
    int failed = (int)(cqe->user_data >> 32), fd = ACCEPT_NONE;
    switch (uring_operation(cqe)) {
    case URING_ACCEPT: fd = uring_accepted(from, cqe, &peer); break;
    case URING_LISTENER_READY: fd = uring_listener_ready(from, &peer); break;
    case URING_HANDED_OVER:
        if (failed >= 0) /* that ring has just been closed */
            net_refuse(from->server, failed, uring_refusal());
        break;
    default: break;
    }
    hand_over(from, table, fd);
    return fd != ACCEPT_STOPPED;
}

static void accept_for_all(struct server *server, struct ring_table *table,
                           struct io_uring *ring)
{
    struct uring_listener from = {ring, server, URING_ACCEPT,
                                  URING_LISTENER_READY};
    uring_accept_arm(&from);
    for (bool more = true; more;) {
        if (!uring_wait(ring, -1)) { /* it may be the accept's that was lost */
            stats_error(server->stats, EBADR);
            uring_accept_cancel(&from);
            uring_accept_arm(&from);
        }
        struct io_uring_cqe *cqe;
        unsigned head, count = 0;
        io_uring_for_each_cqe(ring, head, cqe) {
            more &= handover_completed(&from, table, cqe);
            count++;
        }
        io_uring_cq_advance(ring, count);
    }
    send_last_messages(ring, table);
}

static struct ring_table *table_new(const struct server *server)
{
    unsigned workers = model_workers(server);
    struct ring_table *table =
        calloc(1, sizeof *table + workers * sizeof table->ring_fds[0]);
    if (!table) {
        warn("calloc");
        return NULL;
    }
    table->fed = *server;
    table->fed.listen_fd = -1;
    pthread_mutex_init(&table->lock, NULL);
    pthread_cond_init(&table->changed, NULL);
    for (unsigned i = 0; i < workers; i++)
        table->ring_fds[i] = RING_NOT_YET;
    return table;
}

static int uring_handover_run(struct server *server)
{
    struct io_uring ring;
    if (!uring_open(&ring))
        return -1;
    struct ring_table *table = table_new(server);
    bool serves = false;
    if (table) {
        table->count = workers_start(server, 0, model_workers(server),
                                     handover_work, table);
        table_await(table);
        serves = table_any(table);
    }
    workers_take_turns(server);
    if (serves)
        accept_for_all(server, table, &ring);
    int status = workers_end(serves, table);
    uring_close(&ring);
    return status;
}

#else
#define uring_handover_run NULL /* uring_missing() says why */
#endif

const struct model_code uring_handover_model = {
    .run = uring_handover_run,
    .missing = uring_missing,
};
