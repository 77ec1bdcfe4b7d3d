/* floor_costs.c -- the other prices: a round trip, a switch, a start, a sleep.
 *
 * Each is a loop that does the thing until the window is over and divides.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/parent.h"
#include "floor.h"
#include "floor_setup.h"

/* Times that a thing is done before the window. */
enum { WARM = 3 };

/* Does `once` until the window is over; mean nanoseconds. */
static double mean_ns(const struct floor_plan *plan, void (*once)(void *),
                      void *argument)
{
    for (int warm = 0; warm < WARM; warm++)
        once(argument);
    uint64_t times = 0, begin = clock_now_ns(), now = begin;
    uint64_t end = begin + clock_seconds_ns(plan->duration_s);
    for (; now < end; now = clock_now_ns(), times++)
        once(argument);
    return (double)(now - begin) / (double)times;
}

static void must_write(int fd, const char *bytes, size_t n)
{
    if (write(fd, bytes, n) != (ssize_t)n)
        err(1, "write");
}

/* Reads exactly n bytes; false at the end of the stream. */
static bool must_read(int fd, char *bytes, size_t n)
{
    for (size_t had = 0; had < n;) {
        ssize_t more = read(fd, bytes + had, n - had);
        if (more < 0)
            err(1, "read");
        if (more == 0)
            return false;
        had += (size_t)more;
    }
    return true;
}

/* --- there and back ---------------------------------------------------- */

struct trip {
    int out, in; /* what we write to, and read from */
    size_t size;
    char *bytes;
};

static void there_and_back(void *argument)
{
    struct trip *trip = argument;
    must_write(trip->out, trip->bytes, trip->size);
    if (!must_read(trip->in, trip->bytes, trip->size))
        errx(1, "read: the other half left");
}

static void bounce(struct trip *trip)
{
    while (must_read(trip->in, trip->bytes, trip->size))
        must_write(trip->out, trip->bytes, trip->size);
}

struct floor_trip floor_ping_pong(const struct floor_plan *plan)
{
    int pair[2];
    floor_tcp_pair(pair);
    static char bytes[FLOOR_SIZE_MAX];
    struct trip trip = {pair[1], pair[1], plan->size_bytes, bytes};
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        err(1, "fork");
    if (pid == 0) {
        parent_die_with(parent);
        close(pair[1]);
        floor_pin(plan->cores[0]);
        trip.in = trip.out = pair[0];
        bounce(&trip);
        _exit(0);
    }
    close(pair[0]);
    floor_pin(plan->cores[1]);
    double begin_s = floor_cpu_s(pid);
    double ns = mean_ns(plan, there_and_back, &trip);
    double cpu_s = floor_cpu_s(pid) - begin_s;
    close(pair[1]);
    waitpid(pid, NULL, 0);
    /* the three that warm up are in the CPU time as well, and not counted */
    double trips = plan->duration_s * 1e9 / ns + WARM;
    return (struct floor_trip){ns, begin_s < 0 ? -1 : cpu_s * 1e9 / trips};
}

static void *bounce_main(void *argument)
{
    bounce(argument);
    return NULL;
}

/* Threads that hand a byte round, each through a pipe of its own. The caller is
 * the first. `pipes` and `joined` of them are there. */
struct ring {
    unsigned size, pipes, joined;
    struct seat {
        int pipe[2];      /* what this thread reads from */
        struct trip trip; /* from there to the next thread's */
        char byte;
        pthread_t thread;
    } *seats;
};

/* False when the system has no room for so many pipes or threads. */
static bool ring_open(struct ring *ring)
{
    for (; ring->pipes < ring->size; ring->pipes++)
        if (pipe2(ring->seats[ring->pipes].pipe, O_CLOEXEC) < 0)
            return false;
    for (; ring->joined < ring->size; ring->joined++) {
        struct seat *seat = &ring->seats[ring->joined];
        struct seat *next = &ring->seats[(ring->joined + 1) % ring->size];
        seat->trip =
            (struct trip){next->pipe[1], seat->pipe[0], 1, &seat->byte};
        if (ring->joined > 0 &&
            pthread_create(&seat->thread, NULL, bounce_main, &seat->trip))
            return false;
    }
    return true;
}

/* One after the other finds that nobody writes to it any more. */
static void ring_close(struct ring *ring)
{
    for (unsigned i = 0; i < ring->pipes; i++) {
        close(ring->seats[i].pipe[1]);
        if (0 < i && i < ring->joined)
            pthread_join(ring->seats[i].thread, NULL);
        close(ring->seats[i].pipe[0]);
    }
}

/* All threads stay on one core, so each hand-over is a context switch. */
static double ring_ns(const struct floor_plan *plan, unsigned threads)
{
    struct seat *seats = calloc(threads, sizeof *seats);
    if (!seats)
        err(1, "calloc");
    struct ring ring = {.size = threads, .seats = seats};
    double ns = -1;
    floor_pin(plan->cores[1]);
    if (ring_open(&ring))
        ns = mean_ns(plan, there_and_back, &seats[0].trip) / threads;
    ring_close(&ring);
    free(seats);
    return ns;
}

double floor_switch_ns(const struct floor_plan *plan)
{
    return ring_ns(plan, 2);
}

double floor_ring_ns(const struct floor_plan *plan)
{
    return ring_ns(plan, plan->connections > 2 ? plan->connections : 2);
}

/* --- starting somebody -------------------------------------------------- */

static void *nothing(void *argument)
{
    return argument;
}

static void thread_once(void *argument)
{
    (void)argument;
    pthread_t thread;
    errno = pthread_create(&thread, NULL, nothing, NULL);
    if (errno)
        err(1, "pthread_create");
    pthread_join(thread, NULL);
}

static void process_once(void *argument)
{
    (void)argument;
    pid_t pid = fork();
    if (pid < 0)
        err(1, "fork");
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
}

double floor_thread_ns(const struct floor_plan *plan)
{
    floor_pin(plan->cores[1]);
    return mean_ns(plan, thread_once, NULL);
}

double floor_process_ns(const struct floor_plan *plan)
{
    floor_pin(plan->cores[1]);
    return mean_ns(plan, process_once, NULL);
}

/* --- sleeping ------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct floor_overshoot floor_timer(const struct floor_plan *plan)
{
    enum { SLEEPS_MAX = 10000 };
    static double late_ns[SLEEPS_MAX];
    size_t n = (size_t)(plan->duration_s * 1000);
    n = n < 10 ? 10 : n > SLEEPS_MAX ? SLEEPS_MAX : n;
    prctl(PR_SET_TIMERSLACK, 1ul); /* as the server does */
    for (size_t i = 0; i < n; i++) {
        uint64_t due = clock_now_ns() + NS_PER_MS;
        struct timespec until = clock_timespec(due);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        late_ns[i] = (double)(clock_now_ns() - due);
    }
    qsort(late_ns, n, sizeof *late_ns, compare);
    size_t p99_rank = (n * 99 + 99) / 100; /* rounded up, as hist.h does */
    return (struct floor_overshoot){
        .median_ns = late_ns[n / 2],
        .p99_ns = late_ns[p99_rank - 1],
        .max_ns = late_ns[n - 1],
    };
}
