/* record.c -- see record.h.
 *
 * The window is [from_ns, to_ns). With slices it opens anew in each, after the
 * lead-in, and closes with the last answer; outside of slices from_ns is
 * UINT64_MAX.
 */
#include "record.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

const char *failure_name(enum failure kind)
{
    static const char *const names[FAIL_KINDS] = {
        [FAIL_NONE] = "",
        [FAIL_CONNECT_REFUSED] = "connect_refused",
        [FAIL_CONNECT_TIMEOUT] = "connect_timeout",
        [FAIL_CONNECT_OTHER] = "connect_other",
        [FAIL_RESET] = "reset",
        [FAIL_CLOSED] = "closed",
        [FAIL_TIMEOUT] = "timeout",
        [FAIL_MISMATCH] = "mismatch",
        [FAIL_SEND] = "send",
        [FAIL_RECEIVE] = "receive",
        [FAIL_STATUS] = "status",
        [FAIL_DESCRIPTORS] = "descriptors",
        [FAIL_PORTS] = "ports",
    };
    return names[kind];
}

void record_begin(struct record *r, uint64_t start_ns, uint64_t from_ns,
                  uint64_t to_ns)
{
    r->start_ns = start_ns;
    r->from_ns = from_ns;
    r->to_ns = to_ns;
}

/* One comparison of times per event: nothing is switched on or off when the
 * window opens, so no thread can be late for it. */
static bool in_window(const struct record *r, uint64_t ns)
{
    return ns >= r->from_ns && ns < r->to_ns;
}

struct timeline_row *record_timeline(struct record *r, uint64_t now_ns)
{
    uint64_t i = now_ns > r->start_ns
                     ? (now_ns - r->start_ns) / (TIMELINE_MS * NS_PER_MS)
                     : 0;
    return &r->timeline[i < r->timeline_rows ? i : r->timeline_rows - 1];
}

void record_answer(struct record *r, struct row *row, uint64_t intended_ns,
                   uint64_t sent_ns, uint64_t now_ns)
{
    uint64_t response_ns = now_ns - intended_ns;
    struct timeline_row *at = record_timeline(r, now_ns);
    at->requests++;
    raise_to(&at->max_response_ns, response_ns);
    r->completed++;
    r->completed_ns += response_ns;
    r->last_answer_ns = now_ns;
    row->requests++;
    row->response_sum_ns += response_ns;
    if (in_window(r, now_ns)) {
        r->window.requests++;
        row->window.requests++;
    }
    if (in_window(r, r->open_loop ? intended_ns : now_ns)) {
        hist_add(&r->window.response, response_ns);
        hist_add(&r->window.service, now_ns - sent_ns);
        raise_to(&row->window.longest_wait_ns, response_ns);
    }
}

void record_wait(struct record *r, struct row *row, uint64_t since_ns,
                 uint64_t now_ns)
{
    if (now_ns >= r->from_ns && now_ns > since_ns)
        raise_to(&row->window.longest_wait_ns, now_ns - since_ns);
}

void record_lag(struct record *r, uint64_t due_ns, uint64_t now_ns)
{
    if (in_window(r, now_ns))
        hist_add(&r->window.lag, now_ns > due_ns ? now_ns - due_ns : 0);
}

void record_received(struct record *r, struct row *row, uint64_t bytes,
                     uint64_t now_ns)
{
    r->bytes_received += bytes;
    row->bytes_in += bytes;
    record_timeline(r, now_ns)->bytes += bytes;
    if (in_window(r, now_ns))
        r->window.bytes += bytes;
}

void record_failure(struct record *r, struct row *row, enum failure kind,
                    uint64_t now_ns)
{
    r->failures[kind]++;
    row->error = (uint8_t)kind;
    if (r->start_ns)
        record_timeline(r, now_ns)->errors++;
}

void record_begin_window(struct record *r, struct row *rows, uint32_t count)
{
    memset(&r->window, 0, sizeof r->window);
    for (uint32_t i = 0; i < count; i++)
        rows[i].window = (struct row_window){0};
}

struct saved_window *saved_window_make(uint32_t rows)
{
    struct saved_window *saved;
    return calloc(1, sizeof *saved + rows * sizeof saved->rows[0]);
}

void record_save(const struct record *r, const struct row *rows, uint32_t count,
                 struct saved_window *into)
{
    into->window = r->window;
    for (uint32_t i = 0; i < count; i++)
        into->rows[i] = rows[i].window;
}

void record_restore(struct record *r, struct row *rows, uint32_t count,
                    const struct saved_window *from)
{
    r->window = from->window;
    for (uint32_t i = 0; i < count; i++)
        rows[i].window = from->rows[i];
}

static void merge_window(struct window *into, const struct window *from)
{
    into->arrivals += from->arrivals;
    into->requests += from->requests;
    into->bytes += from->bytes;
    into->cpu_ns += from->cpu_ns;
    into->spin_ns += from->spin_ns;
    into->probed += from->probed;
    into->probed_waiting += from->probed_waiting;
    hist_merge(&into->response, &from->response);
    hist_merge(&into->service, &from->service);
    hist_merge(&into->lag, &from->lag);
}

void record_merge(struct record *into, const struct record *from)
{
    into->sent += from->sent;
    into->completed += from->completed;
    into->arrivals += from->arrivals;
    into->bytes_sent += from->bytes_sent;
    into->bytes_received += from->bytes_received;
    into->reconnects += from->reconnects;
    into->cpu_user_ns += from->cpu_user_ns;
    into->cpu_system_ns += from->cpu_system_ns;
    for (unsigned i = 0; i < FAIL_KINDS; i++)
        into->failures[i] += from->failures[i];
    raise_to(&into->end_ns, from->end_ns);
    raise_to(&into->last_answer_ns, from->last_answer_ns);
    hist_merge(&into->connect, &from->connect);
    merge_window(&into->window, &from->window);
}
