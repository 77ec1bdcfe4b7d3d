/* test_redis_pool.c -- who gets which connection to Redis, and when one may be
 * used again; without a Redis. */
#include <assert.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <errno.h>

#include "redis/redis_pool.h"

enum { MANY = REDIS_CONNS + 4 };

static struct redis_pool pool;
static struct redis_request requests[MANY];
static int far_ends[REDIS_CONNS];

static void set_up(void)
{
    pool = (struct redis_pool){0};
    redis_pool_init(&pool);
    for (int i = 0; i < MANY; i++)
        redis_request_init(&requests[i], NULL);
}

/* As if a request had opened the connection and had had its whole reply. */
static void make_idle(struct redis_conn *redis)
{
    int ends[2];
    assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    redis->fd = ends[0];
    redis->state = REDIS_RECEIVING;
    redis_conn_keep(redis);
    far_ends[redis - pool.conns] = ends[1];
}

static void tear_down(void)
{
    redis_pool_close_all(&pool);
    for (int i = 0; i < REDIS_CONNS; i++) {
        if (far_ends[i])
            close(far_ends[i]);
        far_ends[i] = 0;
    }
}

static void the_first_to_wait_is_the_first_to_be_served(void)
{
    set_up();
    assert(!redis_pool_assign(&pool) && !redis_pool_can_assign(&pool));
    for (int i = 0; i < MANY; i++)
        redis_pool_queue(&pool, &requests[i]);
    for (int i = 0; i < REDIS_CONNS; i++) {
        assert(redis_pool_assign(&pool) == &requests[i]);
        assert(requests[i].redis->request == &requests[i]);
    }
    assert(!redis_pool_assign(&pool) && !redis_pool_can_assign(&pool));
    assert(pool.waiting == MANY - REDIS_CONNS);
    struct redis_conn *freed = requests[3].redis;
    redis_pool_release(&pool, &requests[3]);
    redis_pool_release(&pool, &requests[3]);
    assert(redis_pool_can_assign(&pool));
    assert(redis_pool_assign(&pool) == &requests[REDIS_CONNS]);
    assert(requests[REDIS_CONNS].redis == freed && !requests[3].redis);
    tear_down();
}

static void whoever_leaves_the_queue_is_not_served(void)
{
    set_up();
    redis_pool_queue(&pool, &requests[0]);
    redis_pool_queue(&pool, &requests[1]);
    redis_pool_release(&pool, &requests[0]);
    redis_pool_release(&pool, &requests[0]);
    assert(pool.waiting == 1);
    assert(redis_pool_assign(&pool) == &requests[1]);
    assert(!redis_pool_assign(&pool) && pool.waiting == 0);
    tear_down();
}

static void an_idle_connection_is_taken_before_a_closed_one(void)
{
    set_up();
    make_idle(&pool.conns[5]);
    redis_pool_queue(&pool, &requests[0]);
    assert(redis_pool_assign(&pool)->redis == &pool.conns[5]);
    redis_pool_release(&pool, &requests[0]);
    assert(pool.conns[5].state == REDIS_IDLE); /* kept: no reply is due */
    tear_down();
}

static void a_connection_that_owes_a_reply_is_closed(void)
{
    char byte;
    set_up();
    make_idle(&pool.conns[0]);
    redis_pool_queue(&pool, &requests[0]);
    struct redis_conn *redis = redis_pool_assign(&pool)->redis;
    assert(redis_conn_begin(redis, (struct span){"PING", 4}));
    assert(redis_conn_advance(redis) == REDIS_NEEDS_READ);
    redis_pool_release(&pool, &requests[0]);
    assert(redis->state == REDIS_CLOSED && !redis->request);
    assert(recv(far_ends[0], &byte, 1, 0) == 1 && byte == 'P');
    tear_down();
}

static unsigned unwatched;

static void count_unwatch(struct redis_pool *of, struct redis_conn *redis)
{
    assert(of == &pool && redis->state != REDIS_CLOSED);
    unwatched++;
}

/* io_uring: the poll of a closed descriptor completes later. */
static void a_closed_connection_is_free_when_the_kernel_has_let_go(void)
{
    set_up();
    pool.unwatch = count_unwatch;
    make_idle(&pool.conns[0]);
    pool.conns[0].watched = true;
    redis_pool_close(&pool, &pool.conns[0]);
    redis_pool_close(&pool, &pool.conns[0]);
    assert(unwatched == 1);
    redis_pool_queue(&pool, &requests[0]);
    assert(redis_pool_assign(&pool)->redis == &pool.conns[1]);
    pool.conns[0].watched = false;
    redis_pool_queue(&pool, &requests[1]);
    assert(redis_pool_assign(&pool)->redis == &pool.conns[0]);
    tear_down();
}

static void what_redis_closed_or_sent_unasked_is_stale(void)
{
    set_up();
    make_idle(&pool.conns[0]);
    make_idle(&pool.conns[1]);
    assert(!redis_conn_is_stale(&pool.conns[0]));
    assert(send(far_ends[0], "+", 1, 0) == 1);
    assert(redis_conn_is_stale(&pool.conns[0]));
    shutdown(far_ends[1], SHUT_WR);
    assert(redis_conn_is_stale(&pool.conns[1]));
    tear_down();
}

/* What becomes of a request on an idle connection that Redis closes. */
static struct redis_conn *broken_after(const char *reply)
{
    struct redis_conn *redis = &pool.conns[0];
    set_up();
    make_idle(redis);
    assert(redis_conn_begin(redis, (struct span){"PING", 4}));
    assert(redis_conn_advance(redis) == REDIS_NEEDS_READ);
    assert(send(far_ends[0], reply, strlen(reply), 0) ==
           (ssize_t)strlen(reply));
    shutdown(far_ends[0], SHUT_WR);
    if (*reply)
        assert(redis_conn_advance(redis) == REDIS_HAS_REPLY);
    assert(redis_conn_advance(redis) == REDIS_BROKEN);
    return redis;
}

static void only_a_reused_connection_without_a_reply_is_retried(void)
{
    struct redis_conn *redis = broken_after("");
    assert(redis->error == ECONNRESET && redis_conn_may_retry(redis));
    redis->error = ENOMEM;
    assert(!redis_conn_may_retry(redis));
    tear_down();
    redis = broken_after("+");
    assert(redis->error == ECONNRESET && !redis_conn_may_retry(redis));
    redis->got = 0;
    redis->reused = false; /* a fresh one */
    assert(!redis_conn_may_retry(redis));
    tear_down();
}

int main(void)
{
    the_first_to_wait_is_the_first_to_be_served();
    whoever_leaves_the_queue_is_not_served();
    an_idle_connection_is_taken_before_a_closed_one();
    a_connection_that_owes_a_reply_is_closed();
    a_closed_connection_is_free_when_the_kernel_has_let_go();
    what_redis_closed_or_sent_unasked_is_stale();
    only_a_reused_connection_without_a_reply_is_retried();
    puts("test_redis_pool: passed");
    return 0;
}
