/* uring.c -- hand the kernel whole operations; it says when they are done.
 *
 *     io_uring_enter -> for each completion: accepted / received / sent
 *                    -> new operations into the ring -> io_uring_enter
 *
 * Good: one system call a round, however many clients: accept and receive stay
 *       armed and complete again and again (multishot); the kernel picks a
 *       receive buffer only when bytes are there, so an idle client holds none.
 * Bad:  often switched off; bytes come whether they are wanted or not, so
 *       backpressure is our task, and late: of a client that sends and does not
 *       read we hold 2 MiB and more, epoll 64 KiB; what an operation points at
 *       belongs to the kernel until it completes, so closing takes a round.
 * Look: an echo is sent straight from the buffer in which it came, any other
 *       answer from the one in which it was built: nothing is copied. A client
 *       that sends more than a buffer at once is received from one by one,
 *       until its messages are smaller again (uring/flow.h).
 * Needs: Linux 6.0 (multishot receive, provided buffer rings); better 6.1
 *       (DEFER_TASKRUN). kernel.io_uring_disabled or seccomp may forbid it.
 * Try:  strace -f -c build/server uring: next to nothing but io_uring_enter,
 *       and of that one for some 20 requests with 50 clients.
 */
#include "uring/uring.h"

#include "model.h"

#ifdef HAVE_URING

#include "uring.h"

void uring_serve(struct uring_loop *loop)
{
    while (!uring_done(loop)) {
        uring_await(loop);
        struct io_uring_cqe *cqe;
        struct sockaddr_in6 peer;
        unsigned head, count = 0;
        io_uring_for_each_cqe(&loop->ring, head, cqe) {
            switch (uring_operation(cqe)) {
            case URING_ACCEPT: {
                int fd = uring_accepted(&loop->listener, cqe, &peer);
                uring_add_client(loop, fd, &peer);
                break;
            }
            case URING_RECEIVE:
                uring_received(loop, uring_subject(cqe), cqe);
                break;
            case URING_SEND:
                uring_sent(loop, uring_subject(cqe), cqe->res);
                break;
            default: /* Redis, a cancellation, a limit */
                uring_other(loop, cqe);
            }
            count++;
        }
        io_uring_cq_advance(&loop->ring, count);
        uring_run_timers(loop); /* delays, timeouts */
        uring_end_round(loop);
    }
}

static int uring_model_run(struct server *server)
{
    return uring_run(server, model_slot(server, 0), uring_serve);
}

#else
#define uring_model_run NULL /* uring_missing() says why */
#endif

const struct model_code uring_model = {
    .run = uring_model_run,
    .missing = uring_missing,
};
