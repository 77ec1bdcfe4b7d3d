/* echo.c -- what came goes back, any length, any chunking (RFC 862).
 *
 *     in -> out, without a copy: the answer is the bytes where they lie
 *
 * An echo server sees no message boundaries. A "request" is therefore one
 * read that brought bytes; it equals the client's count as long as the client
 * waits for each answer and a message fits into one read: 64 KiB, with io_uring
 * 32 KiB at first (uring/flow.h), where an echo of 33 KiB is two requests.
 */
#include "workload.h"

static enum want echo_step(void *session, struct step *step)
{
    (void)session;
    step->out = step->in;
    step->out_bytes = step->used = step->in_bytes;
    step->requests = step->in_bytes > 0;
    return step->in_end ? WANT_CLOSE : WANT_READ;
}

const struct workload workload_echo = {
    .name = "echo",
    .label = "echo",
    .step = echo_step,
};
