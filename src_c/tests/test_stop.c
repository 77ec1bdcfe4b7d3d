/* test_stop.c -- a stop shuts every listener and every connection's reading. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/net.h"
#include "server/stop.h"

enum { LISTENERS = 1500, CONNECTIONS = 300 };

static int listen_fds[LISTENERS], ends[CONNECTIONS][2];

static void open_all(void)
{
    struct options options = {.host = "127.0.0.1", .backlog = 1};
    for (int i = 0; i < LISTENERS; i++) {
        listen_fds[i] = net_listen(&options, false);
        stop_watch_listener(listen_fds[i]);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]) == 0);
        stop_watch(ends[i][0]);
    }
}

static void close_all(void)
{
    for (int i = 0; i < LISTENERS; i++)
        close(listen_fds[i]);
    for (int i = 0; i < CONNECTIONS; i++) {
        assert(!stop_unwatch(ends[i][0]));
        close(ends[i][0]);
        close(ends[i][1]);
    }
}

static bool ended(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* EAGAIN, not EINVAL: nobody waits there, but somebody may. */
static bool takes_clients(int listen_fd)
{
    fcntl(listen_fd, F_SETFL, O_NONBLOCK);
    return accept(listen_fd, NULL, NULL) < 0 && errno == EAGAIN;
}

/* Blocks in none of them: a listener that was shut says EINVAL. */
static void a_stop_reaches_all(void)
{
    stop_install(-1);
    open_all();
    assert(stop_unwatch(ends[7][0]));
    stop_unwatch_listener(listen_fds[LISTENERS - 1]);
    raise(SIGTERM);
    assert(stop_requested());
    assert(takes_clients(listen_fds[LISTENERS - 1]));
    for (int i = 0; i < LISTENERS - 1; i++)
        assert(accept(listen_fds[i], NULL, NULL) < 0 && errno == EINVAL);
    for (int i = 0; i < CONNECTIONS; i++)
        assert(ended(ends[i][0]) == (i != 7));
    assert(send(ends[1][0], "x", 1, 0) == 1); /* it may still answer */
    close_all();
}

/* What a child does after fork(). */
static void it_begins_anew(void)
{
    stop_install(-1);
    assert(!stop_requested());
    assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[0]) == 0);
    raise(SIGTERM);
    assert(!ended(ends[0][0])); /* nobody said to watch it */
    close(ends[0][0]);
    close(ends[0][1]);
}

/* As one who waited for a worker until then. */
static void who_is_opened_when_a_stop_is_overdue_is_cut(void)
{
    stop_install(-1);
    raise(SIGTERM);
    raise(SIGALRM); /* at once, not in 0.8 s */
    assert(stop_overdue());
    assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[0]) == 0);
    stop_watch(ends[0][0]);
    assert(ended(ends[0][0]));
    assert(send(ends[0][0], "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
    assert(!stop_unwatch(ends[0][0]));
    close(ends[0][0]);
    close(ends[0][1]);
}

int main(void)
{
    net_raise_limits();
    a_stop_reaches_all();
    it_begins_anew();
    who_is_opened_when_a_stop_is_overdue_is_cut();
    puts("test_stop: passed");
    return 0;
}
