/* epoll-offload.c -- one loop for all I/O, a pool of threads for requests.
 *
 *     loop:   epoll_wait -> accept / read, queue it / send -> epoll_wait
 *     thread: take from the queue -> answer, however long that takes -> loop
 *
 * Good: a request may block (on a file) or compute, and the loop goes on
 *       reading and sending; the threads are as many as the work needs, not
 *       as many as there are clients ("half-sync/half-async").
 * Bad:  every request crosses to another thread and back: a lock, a copy of
 *       what was read, a wake-up (futex) and one of the loop (eventfd). Short
 *       requests pay more for that than for their answer; as many long ones as
 *       there are threads hold up the rest. On one core a thread that wakes
 *       preempts the loop.
 * Look: in pool and prethread a thread is held by a connection, here by a
 *       request: idle and slow clients hold nothing. With work --delay-kind
 *       spin it uses all cores where epoll uses one. Redis is I/O, and the
 *       loop's: so is the page that is made of its reply. On one core,
 *       workers_take_turns() would cut the CPU time of an echo to 0.60, but
 *       also the rate of requests that sleep, the threads' purpose, to 0.90.
 * Wild: libuv (Node.js: files, DNS), nginx's thread pools ("aio threads"),
 *       Netty's executor groups, memcached's extstore.
 * Needs: Linux 2.6.27 (eventfd2); 256 KiB of stack a thread.
 * Try:  strace -f -c build/server epoll-offload, one client: some 3 futex, a
 *       write and a read a request, beside the loop's recvfrom and sendto.
 */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "blocking/threads.h"
#include "blocking/workers.h"
#include "epoll-et.h"
#include "server/net.h"
#include "server/stop.h"

enum { EVENTS = 512 };

/* One step of a connection, on its way to a thread and back. */
struct job {
    struct node node; /* in offload->todo, or ->done */
    struct client *client;
    bool received; /* bytes[0 .. count); else `count` were sent */
    size_t count;
    char *buffer; /* to answer in, that the loop has left over; or NULL */
    char bytes[];
};

struct offload {
    struct loop *loop;
    int done_fd;          /* wakes the loop: `done` is not empty */
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t queued;
    struct node todo, done; /* jobs */
    bool ending;
};

/* The first of a list that is not empty. */
static struct job *jobs_take(struct node *jobs)
{
    struct job *job = OWNER_OF(jobs->after, struct job, node);
    list_leave(&job->node);
    return job;
}

/* --- a thread of the pool --------------------------------------------- */

/* Waits for a job; NULL: there will be none. */
static struct job *offload_take(struct offload *offload)
{
    pthread_mutex_lock(&offload->lock);
    while (list_empty(&offload->todo) && !offload->ending)
        pthread_cond_wait(&offload->queued, &offload->lock);
    struct job *job = offload->ending ? NULL : jobs_take(&offload->todo);
    pthread_mutex_unlock(&offload->lock);
    return job;
}

/* The workload's step, and the sleeps that it wants, which stand for a disk.
 * What it wants after that the loop can do without blocking. */
static void offload_step(const struct job *job)
{
    struct conn *conn = &job->client->conn;
    enum want want = job->received ? conn_received(conn, job->bytes, job->count)
                                   : conn_sent(conn, job->count);
    while (want == WANT_SLEEP) {
        stop_sleep_until(conn->wake_ns);
        want = conn_woken(conn);
    }
    if (!conn_stash(conn)) /* an echo lies in job->bytes */
        conn_failed(conn, ENOMEM);
}

static void offload_give_back(struct offload *offload, struct job *job)
{
    pthread_mutex_lock(&offload->lock);
    bool first = list_empty(&offload->done);
    list_append(&offload->done, &job->node);
    pthread_mutex_unlock(&offload->lock);
    if (first)
        eventfd_write(offload->done_fd, 1);
}

static bool offload_work(struct server *server, unsigned worker, void *shared)
{
    struct offload *offload = shared;
    struct worker self = {.server = server,
                          .index = model_slot(server, worker)};
    stats_add(&server->stats->workers_started, 1);
    for (struct job *job; (job = offload_take(offload));) {
        if (job->buffer)
            send_buffer_give(&self.buffers, job->buffer);
        job->buffer = NULL;
        conn_move(&job->client->conn, &self);
        offload_step(job);
        conn_move(&job->client->conn, &offload->loop->worker);
        offload_give_back(offload, job);
    }
    send_buffers_free(&self.buffers);
    return true;
}

/* --- the loop --------------------------------------------------------- */

/* The client is a thread's from here on: see loop->offload. Answers are built
 * in a thread's buffers and sent by the loop, where they gather: each job takes
 * one back. */
static bool offload_queue(struct loop *loop, struct client *client,
                          const char *bytes, size_t count)
{
    struct offload *offload = loop->offload_state;
    struct job *job = malloc(sizeof *job + (bytes ? count : 0));
    if (!job)
        return false;
    *job = (struct job){
        .client = client, .received = bytes != NULL, .count = count};
    if (loop->worker.buffers.count > 0)
        job->buffer = send_buffers_pop(&loop->worker.buffers);
    if (bytes)
        memcpy(job->bytes, bytes, count);
    pthread_mutex_lock(&offload->lock);
    list_append(&offload->todo, &job->node);
    pthread_mutex_unlock(&offload->lock);
    /* the lock is free when the thread wakes, or it would wait once more */
    pthread_cond_signal(&offload->queued);
    return true;
}

/* Clients whose step is done: sends, reads, closes, as they want. */
static void offload_take_back(struct offload *offload)
{
    struct node done;
    list_init(&done);
    eventfd_read(offload->done_fd, &(eventfd_t){0});
    pthread_mutex_lock(&offload->lock);
    list_move(&offload->done, &done);
    pthread_mutex_unlock(&offload->lock);
    while (!list_empty(&done)) {
        struct job *job = jobs_take(&done);
        client_return(offload->loop, job->client);
        free(job);
    }
}

static void offload_serve(struct offload *offload)
{
    struct loop *loop = offload->loop;
    struct epoll_event events[EVENTS];
    while (!reactor_done(loop)) {
        int n = epoll_et_wait(loop, events, EVENTS);
        if (n < 0)
            net_wait_failed(loop->worker.server, "epoll_wait");
        for (int i = 0; i < n; i++) {
            struct source *source = events[i].data.ptr;
            unsigned ready = ready_of(events[i].events);
            if (source->kind == SOURCE_LISTENER)
                accept_clients(loop, source);
            else if (source->kind == SOURCE_CLIENT)
                serve_client(loop, source, ready);
            else if (source->kind == SOURCE_JOBS)
                offload_take_back(offload);
            else /* Redis; the stop */
                serve_other(loop, source);
        }
        run_timers(loop);
        end_round(loop);
    }
}

/* --- the model -------------------------------------------------------- */

static void offload_end(struct offload *offload)
{
    pthread_mutex_lock(&offload->lock);
    offload->ending = true;
    pthread_cond_broadcast(&offload->queued);
    pthread_mutex_unlock(&offload->lock);
}

static void jobs_free(struct node *jobs)
{
    while (!list_empty(jobs)) {
        struct job *job = jobs_take(jobs);
        free(job->buffer);
        free(job);
    }
}

/* No thread works any more, and jobs are left only if a stop was overdue. */
static void offload_free(struct offload *offload)
{
    loop_end(offload->loop);
    epoll_et_free(offload->loop);
    jobs_free(&offload->todo);
    jobs_free(&offload->done);
    close(offload->done_fd);
    pthread_cond_destroy(&offload->queued);
    pthread_mutex_destroy(&offload->lock);
    free(offload);
}

static struct offload *offload_new(struct server *server)
{
    struct offload *offload = calloc(1, sizeof *offload);
    struct loop *loop = epoll_et_new(server, 0);
    int done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!offload || !loop || done_fd < 0) {
        warn("eventfd or calloc");
        return NULL; /* and the process ends */
    }
    *offload = (struct offload){.loop = loop, .done_fd = done_fd};
    pthread_mutex_init(&offload->lock, NULL);
    pthread_cond_init(&offload->queued, NULL);
    list_init(&offload->todo);
    list_init(&offload->done);
    loop->offload = offload_queue;
    loop->offload_state = offload;
    return offload;
}

static int epoll_offload_run(struct server *server)
{
    struct offload *offload = offload_new(server);
    if (!offload)
        return -1;
    struct loop *loop = offload->loop;
    unsigned workers = model_workers(server);
    bool serves = loop_listen(loop) &&
                  loop_add(loop, &loop->jobs, offload->done_fd, SOURCE_JOBS) &&
                  workers_start(server, 0, workers, offload_work, offload) > 0;
    if (serves)
        offload_serve(offload);
    offload_end(offload);
    if (threads_wait())
        offload_free(offload);
    return serves ? 0 : -1;
}

const struct model_code epoll_offload_model = {.run = epoll_offload_run};
