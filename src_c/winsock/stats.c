/* stats.c -- see stats.h. */
#include "winsock/stats.h"

#include <inttypes.h>
#include <stdio.h>

typedef volatile LONG64 counter;

struct worker_stats {
    _Alignas(64) counter requests;
    counter bytes_in, bytes_out;
};

static struct worker_stats by_worker[STATS_WORKERS];
static counter accepted, open_now, open_max, workers_started;
static counter refused[REFUSALS];

#define ERROR_ROW(name) {name, #name}
/* clang-format off */
static const struct {
    int value;
    const char *name;
} errors[] = {
    {0, "unknown"}, /* and all that have no row */
    ERROR_ROW(WSAEMFILE), ERROR_ROW(WSAENOBUFS), ERROR_ROW(WSAECONNRESET),
    ERROR_ROW(WSAECONNABORTED), ERROR_ROW(WSAENETRESET),
    ERROR_ROW(WSAENETDOWN), ERROR_ROW(WSAESHUTDOWN), ERROR_ROW(WSAETIMEDOUT),
    ERROR_ROW(WSAENOTCONN), ERROR_ROW(WSAEINVAL), ERROR_ROW(WSAENOTSOCK),
    ERROR_ROW(WSAEFAULT), ERROR_ROW(WSA_OPERATION_ABORTED),
    ERROR_ROW(WSA_NOT_ENOUGH_MEMORY), ERROR_ROW(ERROR_NETNAME_DELETED),
    ERROR_ROW(ERROR_CONNECTION_ABORTED),
};
/* clang-format on */
#undef ERROR_ROW

enum { ERRORS = sizeof errors / sizeof errors[0] };

static counter error_counts[ERRORS];

static void stats_add(counter *c, int64_t n)
{
    InterlockedExchangeAdd64(c, n);
}

void stats_opened(void)
{
    stats_add(&accepted, 1);
    LONG64 now = InterlockedIncrement64(&open_now);
    LONG64 max = open_max;
    while (now > max) {
        LONG64 seen = InterlockedCompareExchange64(&open_max, now, max);
        if (seen == max)
            break;
        max = seen;
    }
}

void stats_closed(void)
{
    stats_add(&open_now, -1);
}

void stats_refused(enum refusal reason)
{
    stats_add(&refused[reason], 1);
}

void stats_error(int error)
{
    int row = ERRORS - 1;
    while (row > 0 && errors[row].value != error)
        row--;
    stats_add(&error_counts[row], 1);
}

void stats_worker_started(void)
{
    stats_add(&workers_started, 1);
}

void stats_received(unsigned worker, unsigned bytes)
{
    stats_add(&by_worker[worker].requests, 1);
    stats_add(&by_worker[worker].bytes_in, bytes);
}

void stats_sent(unsigned worker, unsigned bytes)
{
    stats_add(&by_worker[worker].bytes_out, bytes);
}

static struct worker_stats stats_sum(void)
{
    struct worker_stats sum = {0};
    for (int i = 0; i < STATS_WORKERS; i++) {
        sum.requests += by_worker[i].requests;
        sum.bytes_in += by_worker[i].bytes_in;
        sum.bytes_out += by_worker[i].bytes_out;
    }
    return sum;
}

int64_t stats_traffic(void)
{
    struct worker_stats sum = stats_sum();
    return sum.bytes_in + sum.bytes_out;
}

static void print_refused(void)
{
    static const char *const names[REFUSALS] = {
        "fd_setsize",
        "threads",
        "memory",
    };
    int64_t total = 0;
    printf("\"refused\":{");
    for (int i = 0; i < REFUSALS; i++) {
        printf("%s\"%s\":%" PRId64, i ? "," : "", names[i],
               (int64_t)refused[i]);
        total += refused[i];
    }
    printf("},\"refused_total\":%" PRId64 ",", total);
}

static void print_errors(void)
{
    const char *comma = "";
    printf("\"errors\":{");
    for (int i = 0; i < ERRORS; i++) {
        if (error_counts[i] == 0)
            continue;
        printf("%s\"%s\":%" PRId64, comma, errors[i].name,
               (int64_t)error_counts[i]);
        comma = ",";
    }
    printf("},");
}

void stats_print_json(unsigned workers)
{
    struct worker_stats sum = stats_sum();
    printf("\"accepted\":%" PRId64 ",", (int64_t)accepted);
    print_refused();
    printf("\"open_max\":%" PRId64 ",\"requests\":%" PRId64
           ",\"bytes_in\":%" PRId64 ",\"bytes_out\":%" PRId64 ",",
           (int64_t)open_max, (int64_t)sum.requests, (int64_t)sum.bytes_in,
           (int64_t)sum.bytes_out);
    print_errors();
    printf("\"workers_started\":%" PRId64 ",\"requests_per_worker\":[",
           (int64_t)workers_started);
    for (unsigned i = 0; i < workers; i++)
        printf("%s%" PRId64, i ? "," : "", (int64_t)by_worker[i].requests);
    printf("]");
}
