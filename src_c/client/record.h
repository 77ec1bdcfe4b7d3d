/* record.h -- what was seen, kept per thread and merged by rule.
 *
 * Each thread of the client writes one record, one timeline, and one
 * row per connection, alone and without locks, into memory that the client's
 * processes share. Afterwards counters are added, histograms merged, maxima
 * taken; nothing is averaged over threads.
 *
 * What counts as inside the measurement window [from, to):
 *     requests, bytes         when the answer, or the byte, arrived
 *     response, service       closed loop: when the answer arrived
 *                             open loop: when the request was due, so that a
 *                             slow answer cannot slip out of the window
 *     lag                     when it ended
 *     longest wait            as response; without an answer: if it lasted
 *                             into the window
 * Connect times and all other counts are of the client's whole life.
 */
#ifndef RECORD_H
#define RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "hist.h"

enum failure {
    FAIL_NONE,
    FAIL_CONNECT_REFUSED,
    FAIL_CONNECT_TIMEOUT,
    FAIL_CONNECT_OTHER,
    FAIL_RESET,
    FAIL_CLOSED,
    FAIL_TIMEOUT,
    FAIL_MISMATCH,
    FAIL_SEND,
    FAIL_RECEIVE,
    FAIL_STATUS,
    /* limits of the client itself */
    FAIL_DESCRIPTORS,
    FAIL_PORTS,
    FAIL_KINDS
};

/* "reset", "closed", …; "" for FAIL_NONE. The names are the JSON's. */
const char *failure_name(enum failure kind);

/* An hour; the last row takes on what comes after. */
enum { TIMELINE_MS = 100, TIMELINE_ROWS = 36000 };

struct timeline_row { /* 100 ms of the timeline */
    uint64_t requests, bytes, errors, max_response_ns, active;
};

struct row_window { /* of a row, in the window */
    uint64_t requests, longest_wait_ns;
};

struct row { /* one connection (one user) */
    uint64_t requests, bytes_in, bytes_out;
    uint64_t response_sum_ns, session_ns;
    struct row_window window;
    uint32_t established; /* how often: more than 1 when it
                             reconnects */
    uint8_t error;        /* enum failure: the last one */
    bool active, attempted;
    bool lost; /* failed, and did not come back */
};

struct window {
    uint64_t arrivals, requests, bytes;
    uint64_t cpu_ns, spin_ns;        /* of the thread */
    uint64_t probed, probed_waiting; /* see client_probe.c */
    struct hist response;            /* from when a request was due */
    struct hist service;             /* from when it left */
    struct hist lag;                 /* plan_is_timed: from when something
                                        was due until it was done; else
                                        from when the engine woke until
                                        the answer's turn */
};

struct record {
    bool open_loop;
    uint64_t start_ns, from_ns, to_ns; /* of the load; of the window */
    uint64_t end_ns, last_answer_ns;
    uint64_t sent, completed, arrivals;
    uint64_t completed_ns; /* response times of all completed */
    uint64_t bytes_sent, bytes_received;
    uint64_t reconnects;
    uint64_t failures[FAIL_KINDS];
    uint64_t cpu_user_ns, cpu_system_ns; /* whole life of the thread */
    int end;                             /* enum stop_reason */
    const char *engine;                  /* its name */
    struct hist connect;                 /* from connect(2) */
    struct window window;
    struct timeline_row *timeline;
    unsigned timeline_rows;
};

static inline void raise_to(uint64_t *most, uint64_t value)
{
    if (value > *most)
        *most = value;
}

/* When the load begins and which part of it is measured. */
void record_begin(struct record *r, uint64_t start_ns, uint64_t from_ns,
                  uint64_t to_ns);

/* The row that a moment belongs to. */
struct timeline_row *record_timeline(struct record *r, uint64_t now_ns);

/* An answer was complete; its request was due at `intended`, left at `sent`. */
void record_answer(struct record *r, struct row *row, uint64_t intended_ns,
                   uint64_t sent_ns, uint64_t now_ns);

/* A user waited since then, and has no answer: it failed, or the end came. */
void record_wait(struct record *r, struct row *row, uint64_t since_ns,
                 uint64_t now_ns);

/* Something that was due came so much later because of the client itself. */
void record_lag(struct record *r, uint64_t due_ns, uint64_t now_ns);

void record_received(struct record *r, struct row *row, uint64_t bytes,
                     uint64_t now_ns);

void record_failure(struct record *r, struct row *row, enum failure kind,
                    uint64_t now_ns);

/* Forgets what the window had, of the record and of `count` rows: the rounds
 * before were warm-up. */
void record_begin_window(struct record *r, struct row *rows, uint32_t count);

/* What the window had at some time, to be gone back to. */
struct saved_window {
    struct window window;
    struct row_window rows[];
};

/* NULL when there is no memory. To be freed with free(3). */
struct saved_window *saved_window_make(uint32_t rows);
void record_save(const struct record *r, const struct row *rows, uint32_t count,
                 struct saved_window *into);
void record_restore(struct record *r, struct row *rows, uint32_t count,
                    const struct saved_window *from);

/* Adds everything but the timeline. */
void record_merge(struct record *into, const struct record *from);

#endif
