/* thread-pair.c -- two threads for every connection: one reads, one writes.
 *
 *     accept -> pthread_create -> accept
 *     reader: read -> answer -> send, or put into the outbox -> read
 *     writer: wait for the outbox -> send -> wait
 *
 * Good: the reader goes on reading and answering while the writer is stuck on
 *       a client that takes its time; each is still code for one client.
 * Bad:  two stacks and two tasks for each client; and while the outbox is not
 *       empty every answer costs a copy, a lock and a switch to the writer.
 * Look: the outbox is bounded. Once a slow client has filled it the reader
 *       waits too: else one client that sends and never reads would take all
 *       memory. As long as the client keeps up, the reader sends by itself
 *       (MSG_DONTWAIT) and the writer sleeps: with every answer through the
 *       outbox this model paid 1.8 times what thread pays for an echo. In the
 *       wild: chat and message brokers (a goroutine to read, one to write, for
 *       each WebSocket), where not only the reader writes.
 * Needs: as thread; half as many clients fit into threads-max.
 * Try:  strace -f -c: no futex while the client reads; then stop reading.
 */
#include "thread.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "blocking/blocking.h"
#include "blocking/threads.h"
#include "common/clock.h"
#include "common/owner.h"

enum { OUTBOX = 16 * 1024 };

/* Answers on their way from the reader to the writer: a ring. */
struct outbox {
    pthread_mutex_t lock;
    pthread_cond_t filled, drained;
    int fd;
    size_t first, length;
    uint64_t sent;
    int error;    /* of the writer's send, which then has left;
                   * EAGAIN: the client read nothing for too long */
    bool counted; /* an error of this connection, by the reader */
    bool ended;   /* the reader will put nothing more */
    bool left;    /* the writer will send nothing more */
    char *ring;   /* OUTBOX bytes */
};

struct pair {
    struct outbox *outbox;
    struct conn conn;
};

static const size_t pair_extra = offsetof(struct pair, conn);

static struct outbox *pair_outbox(struct conn *conn)
{
    return OWNER_OF(conn, struct pair, conn)->outbox;
}

/* --- the writer ------------------------------------------------------- */

/* Waits for bytes that lie in one piece; none: the end. */
static struct span pair_next_piece(struct outbox *box)
{
    pthread_mutex_lock(&box->lock);
    while (box->length == 0 && !box->ended)
        pthread_cond_wait(&box->filled, &box->lock);
    size_t to_edge = OUTBOX - box->first;
    struct span piece = {box->ring + box->first,
                         box->length < to_edge ? box->length : to_edge};
    pthread_mutex_unlock(&box->lock);
    return piece;
}

static void pair_take_out(struct outbox *box, ssize_t n, int error)
{
    pthread_mutex_lock(&box->lock);
    if (n > 0) {
        box->first = (box->first + (size_t)n) % OUTBOX;
        box->length -= (size_t)n;
        box->sent += (uint64_t)n;
        if (box->length == 0)
            box->first = 0; /* the same page again: less memory */
    } else if (error != EINTR) {
        box->error = error;
        shutdown(box->fd, SHUT_RD); /* the reader may wait for more */
    }
    pthread_cond_signal(&box->drained);
    pthread_mutex_unlock(&box->lock);
}

static void *pair_write_all(void *argument)
{
    struct outbox *box = argument;
    for (struct span piece; !box->error;) {
        piece = pair_next_piece(box);
        if (piece.length == 0)
            break;
        ssize_t n = send(box->fd, piece.bytes, piece.length, MSG_NOSIGNAL);
        pair_take_out(box, n, errno);
    }
    pthread_mutex_lock(&box->lock);
    box->left = true;
    pthread_cond_signal(&box->drained);
    pthread_mutex_unlock(&box->lock);
    return NULL;
}

/* --- the reader ------------------------------------------------------- */

static ssize_t pair_receive(struct conn *conn, char *buffer, size_t size)
{
    ssize_t n = blocking_kernel.receive(conn, buffer, size);
    if (n < 0 && errno != EINTR)
        pair_outbox(conn)->counted = true;
    return n;
}

static size_t pair_copy_in(struct outbox *box, struct span out)
{
    size_t last = (box->first + box->length) % OUTBOX;
    size_t free_bytes = OUTBOX - box->length, to_edge = OUTBOX - last;
    size_t n = out.length < free_bytes ? out.length : free_bytes;
    size_t part = n < to_edge ? n : to_edge;
    memcpy(box->ring + last, out.bytes, part);
    memcpy(box->ring, out.bytes + part, n - part);
    box->length += n;
    return n;
}

/* With the outbox full, waits for the writer; the lock is held. */
static ssize_t pair_put(struct outbox *box, struct span out)
{
    while (box->length == OUTBOX && !box->error)
        pthread_cond_wait(&box->drained, &box->lock);
    errno = box->error;
    if (box->error)
        return -1;
    size_t n = pair_copy_in(box, out);
    pthread_cond_signal(&box->filled);
    return (ssize_t)n;
}

/* Stands in for send(). Nothing in the outbox: the writer does nothing, and
 * will not until something lies there, so the reader may send. */
static ssize_t pair_send(struct conn *conn)
{
    struct outbox *box = pair_outbox(conn);
    struct span out = conn_unsent(conn);
    ssize_t n = -1;
    pthread_mutex_lock(&box->lock);
    errno = EAGAIN;
    if (box->length == 0 && !box->error)
        n = send(box->fd, out.bytes, out.length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0)
        box->sent += (uint64_t)n;
    else if (errno == EAGAIN && !(conn->timed_out && box->length == OUTBOX))
        n = pair_put(box, out); /* whom we give up does not make us wait */
    box->counted = n < 0 && errno != EINTR;
    pthread_mutex_unlock(&box->lock);
    return n;
}

/* The reader has given up on a client, which may be stuck in the writer, and
 * unlike that it has an answer left to give, such as 408: for a moment. */
enum { LAST_ANSWER_MS = 100 };

static bool pair_writer_leaves(struct outbox *box)
{
    uint64_t until_ns = clock_now_ns() + LAST_ANSWER_MS * NS_PER_MS;
    struct timespec until = clock_timespec(until_ns);
    int error = 0;
    pthread_mutex_lock(&box->lock);
    while (!box->left && !error)
        error = pthread_cond_clockwait(&box->drained, &box->lock,
                                       CLOCK_MONOTONIC, &until);
    bool left = box->left;
    pthread_mutex_unlock(&box->lock);
    return left;
}

static void pair_join_writer(struct conn *conn, pthread_t writer)
{
    if (conn->timed_out && !pair_writer_leaves(pair_outbox(conn)))
        shutdown(conn->fd, SHUT_RDWR);
    pthread_join(writer, NULL);
}

static void pair_end(struct outbox *box)
{
    pthread_mutex_lock(&box->lock);
    box->ended = true;
    pthread_cond_signal(&box->filled);
    pthread_mutex_unlock(&box->lock);
}

static void pair_read_all(struct conn *conn, struct blocking_buffers *buffers,
                          pthread_t writer)
{
    struct blocking_calls calls = blocking_kernel;
    struct outbox *box = pair_outbox(conn);
    calls.receive = pair_receive;
    calls.send = pair_send;
    blocking_converse(conn, buffers->in, sizeof buffers->in, &calls);
    pair_end(box);
    pair_join_writer(conn, writer);
    if (box->error == EAGAIN)
        conn_timed_out(conn);
    else if (box->error && !box->counted && !conn->timed_out)
        conn_failed(conn, box->error);
    conn->bytes_out = box->sent;
    conn_close(conn);
    conn_free(conn, pair_extra);
}

static void pair_serve(struct server *server, const struct arrival *arrival)
{
    struct blocking_buffers buffers;
    struct worker worker = {server, server->process, {.spare = buffers.out}};
    char ring[OUTBOX]; /* not zeroed: a page not touched costs no memory */
    struct outbox box = {.fd = arrival->fd, .ring = ring};
    pthread_t writer;
    pthread_mutex_init(&box.lock, NULL);
    pthread_cond_init(&box.filled, NULL);
    pthread_cond_init(&box.drained, NULL);
    if (!threads_spawn(&writer, pair_write_all, &box)) {
        net_refuse(server, arrival->fd, net_refusal(errno));
        return;
    }
    stats_add(&server->stats->workers_started, 1);
    blocking_limit_waits(server, arrival->fd);
    struct conn *conn =
        conn_open(&worker, arrival->fd, &arrival->peer, pair_extra);
    if (conn) {
        OWNER_OF(conn, struct pair, conn)->outbox = &box;
        pair_read_all(conn, &buffers, writer);
    } else {
        pair_end(&box);
        pthread_join(writer, NULL);
    }
}

static int thread_pair_run(struct server *server)
{
    thread_each(server, pair_serve);
    return 0;
}

const struct model_code thread_pair_model = {.run = thread_pair_run};
