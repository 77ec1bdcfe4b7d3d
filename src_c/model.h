/* model.h -- what a model of connection handling fulfils.
 *
 * A model answers one question: how do we wait for many clients? It gets a
 * listening socket and serves connections from it until it is told to stop.
 * One model is one file in models/ and one row in models.def.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "server/stats.h"
#include "workload.h"

enum family { BLOCKING, PROCESSES, THREADS, READINESS, COMPLETION, COROUTINE };

/* What a model can and cannot do; the conformance suite reads it. */
enum trait {
    SERIAL = 1 << 0,          /* serves one client at a time */
    FIXED_WORKERS = 1 << 1,   /* takes --workers N */
    WORKER_EACH = 1 << 2,     /* makes a thread or process per connection */
    HOLDS_FDSETSIZE = 1 << 3, /* cannot watch a descriptor >= FD_SETSIZE */
    SLOW_HURTS = 1 << 4,      /* a slow client holds up more than itself */
    HAS_QUEUE = 1 << 5,       /* takes --queue N */
    OWN_LISTENERS = 1 << 6,   /* each worker listens on a socket of its own */
    TWO_EACH = 1 << 7,        /* with WORKER_EACH: makes two */
    WORKER_GROUPS = 1 << 8,   /* makes a thread for each group of connections */
    TIMES_OUT = 1 << 9,       /* takes --timeout-…: see conn_deadline_ns() */
    BUSY_WAITS = 1 << 10,     /* takes --busy-wait */
    NOTICES_RESET = 1 << 11,  /* of a client while its delay passes, at once */
};

/* The flags of the command line, checked. */
struct options {
    const char *host;
    uint16_t port;
    unsigned workers;
    unsigned processes;
    unsigned backlog;
    unsigned queue;
    bool busy_wait;       /* never block in a wait: ask again at once */
    bool steer_cpu;       /* see steer.h */
    uint64_t extra_ns;    /* CPU time that each request costs besides */
    const char *log_path; /* or NULL */
    uint64_t timeout_ns[TIMEOUTS]; /* 0: no limit */
    bool timed;                    /* there is a limit among them */
    struct workload_options workload;
};

/* One process's share of the server: what a model is given to run on. */
struct server {
    const struct model *model;
    const struct workload *workload;
    struct options options;
    int listen_fd;         /* blocking, until the model sets it otherwise */
    const int *listen_fds; /* with OWN_LISTENERS one a worker: listen_fd, … */
    unsigned process;      /* which of --processes this is, from 0 */
    struct stats *stats;   /* shared by all processes of the server */
};

/* What the file of a model exports, as NAME_model. */
struct model_code {
    /* Serves until stop_requested(), then finishes what is in flight.
     * Returns 0, or -1 after warn(3) when it could not set itself up. */
    int (*run)(struct server *server);
    /* Why it cannot run on this kernel, or NULL; left out: it always can. */
    const char *(*missing)(void);
};

/* A row of models.def. */
struct model {
    const char *name;
    enum family family;
    const char *label; /* as printed on figures */
    unsigned traits;
    const struct model_code *code;
};

/* The named model, or NULL. */
const struct model *model_find(const char *name);

/* Prints the registry as a JSON array on standard output. */
void model_list_json(void);

/* Why the model cannot run here, or NULL. The text is static. */
const char *model_missing(const struct model *model);

/* "iterative, thread, ...": for messages. The text is static. */
const char *model_names(void);

/* The workers that this server runs: --workers; 1 where it takes none. */
unsigned model_workers(const struct server *server);

/* The place of a process's worker, from 0, in requests_per_worker. */
unsigned model_slot(const struct server *server, unsigned worker);

#endif
