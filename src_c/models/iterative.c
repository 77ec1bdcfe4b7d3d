/* iterative.c -- serve one client to the end before looking at the next.
 *
 *     accept -> read -> answer -> ... -> close -> accept
 *
 * Good: no shared state, nothing to schedule; the shortest server there is.
 * Bad:  a second client waits for the first to leave.
 * Look: the second client's first answer takes as long as the first one stays;
 *       those who wait do so in the backlog, connected as far as they know.
 *       A client that is silent holds up all others (until --timeout-idle,
 *       where that is given). In the wild: inetd's "wait" services, and the
 *       first server of every textbook.
 * Needs: nothing.
 * Try:  strace -e trace=network: accept4, recvfrom, sendto, one client only;
 *       nc twice, and watch the second one wait.
 */
#include "blocking/blocking.h"

static int iterative_run(struct server *server)
{
    blocking_serve_all(server, server->process);
    return 0;
}

const struct model_code iterative_model = {.run = iterative_run};
