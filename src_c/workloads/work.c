/* work.c -- a request that costs time, then a moment under a lock.
 *
 *     "DELAY_US BUCKET\n" -> wait or compute -> lock, add, unlock -> "SUM\n"
 *
 * The delay is 0 … 60 s in microseconds. With --delay-kind sleep it passes on
 * the clock, as it would behind a disk or a database; with spin it is computed
 * away as CPU time of the serving thread, so that 50 threads that spin on two
 * cores take 25 times as long as two of them.
 *
 * BUCKET is 0 … --buckets less one; a number beyond is an error rather than
 * taken modulo, so that client and server cannot differ in silence. A bucket
 * holds the sum of all delays that were ever asked of it, in microseconds. It
 * lies in memory that all processes of the server share, under its own lock,
 * which survives the death of a process that holds it (a robust mutex).
 *
 * A line that is none of this gets "ERR reason\n" and the connection closes.
 * Look: fewer buckets, more waiting for a lock -- if the model computes on
 *       several cores at once; one loop in one thread never waits.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/shared_lock.h"
#include "server/stop.h"
#include "workload.h"

enum {
    DELAY_MAX_US = 60 * 1000 * 1000,
    LINE_MAX_BYTES = 40, /* with its end; two numbers need 17 */
    ANSWER_MAX_BYTES = 40,
};

/* On a cache line of its own: neighbours must not slow each other down. */
struct bucket {
    _Alignas(64) pthread_mutex_t lock;
    uint64_t sum_us;
};

struct work_request {
    uint64_t delay_us, bucket;
};

struct work_session {
    struct work_request asleep; /* the request whose delay passes … */
    bool sleeping;              /* … if there is one */
};

static struct bucket *work_buckets;
static unsigned work_bucket_count;
static bool spin;

/* --- buckets ---------------------------------------------------------- */

/* A process that is killed between the two calls leaves a sum that holds its
 * delay or does not: right either way. */
static uint64_t bucket_add(struct bucket *bucket, uint64_t us)
{
    shared_lock(&bucket->lock);
    uint64_t sum = bucket->sum_us += us;
    shared_unlock(&bucket->lock);
    return sum;
}

static const char *work_setup(const struct workload_options *options)
{
    void *memory =
        mmap(NULL, options->buckets * sizeof *work_buckets,
             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return "--buckets: there is no memory for so many";
    work_buckets = memory;
    work_bucket_count = options->buckets;
    spin = options->spin;
    for (unsigned i = 0; i < work_bucket_count; i++)
        shared_lock_init(&work_buckets[i].lock);
    return NULL;
}

static void work_teardown(void)
{
    munmap(work_buckets, work_bucket_count * sizeof *work_buckets);
}

/* --- one line --------------------------------------------------------- */

/* Reads digits from *at on; false when there are none. Stops growing where
 * every limit of ours is passed. */
static bool work_read_number(const char **at, const char *end, uint64_t *number)
{
    const char *start = *at;
    *number = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
        if (*number <= UINT32_MAX)
            *number = *number * 10 + (uint64_t)(**at - '0');
    return *at > start;
}

/* Returns NULL, or what is wrong with the line (its end cut off). */
static const char *work_read_line(const char *line, size_t length,
                                  struct work_request *request)
{
    const char *end = line + length;
    if (length > 0 && end[-1] == '\r')
        end--;
    bool numbers = work_read_number(&line, end, &request->delay_us) &&
                   line < end && *line++ == ' ' &&
                   work_read_number(&line, end, &request->bucket) &&
                   line == end;
    if (!numbers)
        return "want DELAY_US BUCKET, two whole numbers";
    if (request->delay_us > DELAY_MAX_US)
        return "DELAY_US is above 60000000";
    return request->bucket < work_bucket_count ? NULL : "BUCKET is not there";
}

enum work_found { FOUND_NOTHING, FOUND_REQUEST, FOUND_ERROR };

/* Takes the next line from `in`; on FOUND_ERROR *wrong says what it is. */
static enum work_found work_take_request(struct step *step,
                                         struct work_request *request,
                                         const char **wrong)
{
    const char *line = step->in + step->used;
    size_t left = step->in_bytes - step->used;
    size_t most = left < LINE_MAX_BYTES ? left : LINE_MAX_BYTES;
    const char *end = most ? memchr(line, '\n', most) : NULL;
    *wrong = "the line is too long";
    if (end) {
        step->used += (size_t)(end - line) + 1;
        *wrong = work_read_line(line, (size_t)(end - line), request);
        return *wrong ? FOUND_ERROR : FOUND_REQUEST;
    }
    if (left < LINE_MAX_BYTES && step->in_end)
        *wrong = "the line has no end";
    else if (left < LINE_MAX_BYTES)
        return FOUND_NOTHING;
    return left > 0 ? FOUND_ERROR : FOUND_NOTHING;
}

/* --- the work --------------------------------------------------------- */

/* Computes for so much CPU time. That clock is a system call, so it is asked
 * about once a microsecond. */
static void work_compute(uint64_t us)
{
    uint64_t end_ns = clock_thread_cpu_ns() + us * 1000;
    volatile uint64_t x = end_ns | 1;
    while (clock_thread_cpu_ns() < end_ns && !stop_overdue())
        for (int i = 0; i < 256; i++)
            x = x * 6364136223846793005u + 1442695040888963407u;
}

/* What this call has answered so far, to add to. */
static struct buffer work_answers(const struct step *step)
{
    return (struct buffer){.bytes = step->room,
                           .length = step->out_bytes,
                           .capacity = step->room_bytes};
}

static void work_answer(struct step *step, const struct work_request *request)
{
    struct bucket *bucket = &work_buckets[request->bucket];
    uint64_t sum = bucket_add(bucket, request->delay_us);
    struct buffer out = work_answers(step);
    buffer_number(&out, sum);
    buffer_text(&out, "\n");
    step->out = out.bytes;
    step->out_bytes = out.length;
    step->requests++;
}

static enum want work_refuse(struct step *step, const char *reason)
{
    struct buffer out = work_answers(step);
    buffer_text(&out, "ERR ");
    buffer_text(&out, reason);
    buffer_text(&out, "\n");
    step->out = out.bytes;
    step->out_bytes = out.length;
    step->used = step->in_bytes;
    return WANT_CLOSE;
}

static enum want work_step(void *session, struct step *step)
{
    struct work_session *s = session;
    if (s->sleeping)
        work_answer(step, &s->asleep);
    s->sleeping = false;
    while (step->room_bytes - step->out_bytes > 2 * ANSWER_MAX_BYTES) {
        struct work_request request;
        const char *wrong;
        switch (work_take_request(step, &request, &wrong)) {
        case FOUND_NOTHING:
            if (step->timed_out)
                return work_refuse(step, "the line took too long");
            return step->in_end ? WANT_CLOSE : WANT_READ;
        case FOUND_ERROR: return work_refuse(step, wrong);
        case FOUND_REQUEST: break;
        }
        if (request.delay_us > 0 && !spin) {
            *s = (struct work_session){request, true};
            step->wake_ns = clock_now_ns() + request.delay_us * 1000;
            return WANT_SLEEP;
        }
        if (request.delay_us > 0)
            work_compute(request.delay_us);
        work_answer(step, &request);
        if (request.delay_us > 0) /* what comes next must not hold it up */
            return WANT_WRITE;
    }
    return WANT_WRITE;
}

const struct workload workload_work = {
    .name = "work",
    .label = "delay, then a locked bucket",
    .takes = "buckets,delay-kind",
    .session_bytes = sizeof(struct work_session),
    .setup = work_setup,
    .teardown = work_teardown,
    .step = work_step,
};
