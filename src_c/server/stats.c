/* stats.c -- see stats.h. */
#include "stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static size_t stats_bytes(unsigned slots)
{
    return sizeof(struct stats) + slots * sizeof(struct stats_worker);
}

struct stats *stats_new(unsigned slots)
{
    struct stats *stats = mmap(NULL, stats_bytes(slots), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stats == MAP_FAILED)
        return NULL;
    stats->slots = slots;
    return stats;
}

void stats_free(struct stats *stats)
{
    munmap(stats, stats_bytes(stats->slots));
}

void stats_opened(struct stats *stats)
{
    stats_add(&stats->accepted, 1);
    uint64_t now = atomic_fetch_add(&stats->open_now, 1) + 1;
    uint64_t max = atomic_load(&stats->open_max);
    while (now > max)
        if (atomic_compare_exchange_weak(&stats->open_max, &max, now))
            break;
}

void stats_closed(struct stats *stats)
{
    atomic_fetch_sub(&stats->open_now, 1);
}

void stats_refused(struct stats *stats, enum refusal reason)
{
    stats_add(&stats->refused[reason], 1);
}

void stats_error(struct stats *stats, int error)
{
    stats_add(&stats->errors[error > 0 && error < STATS_ERRNOS ? error : 0], 1);
}

void stats_timeout(struct stats *stats, enum timeout kind)
{
    stats_add(&stats->timeouts[kind], 1);
}

static uint64_t print_refused(const struct stats *stats)
{
    static const char *const names[REFUSALS] = {
        "descriptors", "fd_setsize", "threads",  "processes",
        "queue_full",  "memory",     "stopping",
    };
    uint64_t total = 0;
    printf("\"refused\":{");
    for (int i = 0; i < REFUSALS; i++) {
        printf("%s\"%s\":%" PRIu64, i ? "," : "", names[i], stats->refused[i]);
        total += stats->refused[i];
    }
    printf("},");
    return total;
}

static void print_errors(const struct stats *stats)
{
    const char *comma = "";
    printf("\"errors\":{");
    for (int i = 0; i < STATS_ERRNOS; i++) {
        if (stats->errors[i] == 0)
            continue;
        const char *name = i ? strerrorname_np(i) : "unknown";
        printf("%s\"%s\":%" PRIu64, comma, name ? name : "unknown",
               stats->errors[i]);
        comma = ",";
    }
    printf("},");
}

void stats_print_json(const struct stats *stats)
{
    printf("\"accepted\":%" PRIu64 ",", stats->accepted);
    uint64_t refused = print_refused(stats);
    printf("\"refused_total\":%" PRIu64 ",\"open_max\":%" PRIu64 ",", refused,
           stats->open_max);
    printf("\"requests\":%" PRIu64 ",\"bytes_in\":%" PRIu64
           ",\"bytes_out\":%" PRIu64 ",",
           stats->requests, stats->bytes_in, stats->bytes_out);
    print_errors(stats);
    printf("\"timeouts\":{\"idle\":%" PRIu64 ",\"header\":%" PRIu64
           ",\"body\":%" PRIu64 "},",
           stats->timeouts[TIMEOUT_IDLE], stats->timeouts[TIMEOUT_HEADER],
           stats->timeouts[TIMEOUT_BODY]);
    printf("\"workers_started\":%" PRIu64 ",\"workers_lost\":%" PRIu64
           ",\"upstream_opened\":%" PRIu64 ",\"requests_per_worker\":[",
           stats->workers_started, stats->workers_lost, stats->upstream_opened);
    for (unsigned i = 0; i < stats->slots; i++)
        printf("%s%" PRIu64, i ? "," : "", stats->workers[i].requests);
    printf("]");
}
