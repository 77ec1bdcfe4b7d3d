/* workload.h -- what a server does with the bytes, apart from how it waits.
 *
 * A workload never touches a socket. It is handed what came (`in`), leaves
 * what is to be sent (`out`), and returns what it wants next. Blocking,
 * readiness and completion models fulfil that wish each in their own way, so
 * a difference between two measurements is the model and nothing else.
 *
 *     step() -> WANT_READ    call me when more bytes came (or the end)
 *               WANT_WRITE   call me again when `out` is on its way
 *               WANT_SLEEP   call me at wake_ns
 *               WANT_ASK     send `ask` upstream, call me with its reply
 *               WANT_CLOSE   send `out`, then close
 *
 * Whatever is wanted, `out` is sent first. A workload keeps its place between
 * two calls in its session, a struct of session_bytes that starts zeroed.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum want { WANT_READ, WANT_WRITE, WANT_SLEEP, WANT_ASK, WANT_CLOSE };

/* One call's worth of bytes. `out` may lie in `in`, in `room` or in memory
 * that outlives the connection; `ask` in the session, in what belongs to it
 * until the reply has come, or in such memory: upstream may be busy. */
struct step {
    const char *in; /* from the client: what earlier calls did not use */
    size_t in_bytes;
    bool in_end;       /* the client will send no more */
    const char *reply; /* from upstream: everything since WANT_ASK */
    size_t reply_bytes;
    bool reply_failed; /* upstream is away, too slow, or broke off */
    bool timed_out;    /* what began in `in` took too long: answer, close */
    char *room;        /* to build an answer in; ours until it is sent */
    size_t room_bytes;

    size_t used; /* how many bytes of `in` are done with */
    const char *out;
    size_t out_bytes;
    const char *ask; /* with WANT_ASK; 0 bytes: more of the same reply */
    size_t ask_bytes;
    bool in_body;      /* with WANT_READ: for the rest of a request's body */
    bool hang_up;      /* the reply made no sense: trust upstream no more */
    uint64_t wake_ns;  /* with WANT_SLEEP */
    unsigned requests; /* how many were finished by this call */
};

/* The flags that workloads understand, as server.c parsed them. */
struct workload_options {
    unsigned buckets;  /* work: how many locked buckets */
    bool spin;         /* work: burn the delay instead of sleeping it */
    const char *root;  /* http: directory of static files, or NULL */
    const char *redis; /* http: HOST:PORT of the guestbook, or NULL */
};

struct workload {
    const char *name;
    const char *label;   /* as printed on figures */
    const char *missing; /* why it is not built in here, or NULL */
    const char *takes;   /* its own flags, comma-separated, or NULL */
    size_t session_bytes;
    /* Once, before any fork or thread. Returns NULL, or what is wrong. */
    const char *(*setup)(const struct workload_options *options);
    void (*teardown)(void);
    enum want (*step)(void *session, struct step *step);
    void (*close)(void *session); /* release what the session holds */
};

/* The named workload, or NULL. */
const struct workload *workload_find(const char *name);

/* Whether the flag, without its dashes, means something to the workload. */
bool workload_takes(const struct workload *workload, const char *flag);

/* Prints the registry as a JSON array on standard output. */
void workload_list_json(void);

/* "echo, work, http": for messages. The text is static. */
const char *workload_names(void);

#endif
