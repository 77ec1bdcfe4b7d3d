/* net.c -- see net.h. */
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stop.h"

/* A descriptor kept back, given up to let in one that is too many and to close
 * it. Whose accept() then got it is anybody's: each who was let in while it is
 * out hands it back (took_reserve). */
static int reserve_fd = -1;
static atomic_bool reserve_out;
static pthread_mutex_t reserve_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t look_lock = PTHREAD_MUTEX_INITIALIZER;

/* Without the pause, a caller that tries again would do nothing else. */
enum { SHORTAGE_PAUSE_US = 1000 };

static void sit_out_shortage(struct server *server)
{
    stats_error(server->stats, errno);
    usleep(SHORTAGE_PAUSE_US);
}

void net_wait_failed(struct server *server, const char *call)
{
    if (errno == ENOMEM || errno == EAGAIN)
        sit_out_shortage(server);
    else if (errno != EINTR)
        net_die(call);
}

static void set_option(int fd, int level, int option, const char *name)
{
    int on = 1;
    if (setsockopt(fd, level, option, &on, sizeof on) < 0)
        net_die(name);
}

static struct addrinfo *resolve(const struct options *options)
{
    char port[8];
    snprintf(port, sizeof port, "%u", options->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICHOST};
    struct addrinfo *found;
    int error = getaddrinfo(options->host, port, &hints, &found);
    if (error) {
        fprintf(stderr, "server: --listen %s: %s (a numeric address)\n",
                options->host, gai_strerror(error));
        exit(2);
    }
    return found;
}

int net_listen(const struct options *options, bool shared)
{
    struct addrinfo *at = resolve(options);
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        net_die("socket");
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, "setsockopt SO_REUSEADDR");
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, "setsockopt TCP_NODELAY");
    set_option(fd, SOL_SOCKET, SO_OOBINLINE, "setsockopt SO_OOBINLINE");
    if (shared)
        set_option(fd, SOL_SOCKET, SO_REUSEPORT, "setsockopt SO_REUSEPORT");
    if (bind(fd, at->ai_addr, at->ai_addrlen) < 0)
        net_die("bind");
    if (listen(fd, (int)options->backlog) < 0)
        net_die("listen");
    freeaddrinfo(at);
    return fd;
}

uint16_t net_port(int fd)
{
    struct sockaddr_in6 at;
    socklen_t length = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &length) < 0)
        net_die("getsockname");
    return ntohs(at.sin6_port); /* the same place as sin_port */
}

static void reserve_open(void)
{
    if (reserve_fd < 0)
        reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    atomic_store(&reserve_out, reserve_fd < 0);
}

static void reserve_give_up(void)
{
    atomic_store(&reserve_out, true);
    close(reserve_fd);
    reserve_fd = -1;
}

void net_raise_limits(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max < STOP_FDS ? limit.rlim_max : STOP_FDS;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    reserve_open();
}

/* Whether a connection waits that nobody takes. accept() runs out of
 * descriptors before it looks whether anybody is there, so threads that block
 * in it wait here instead; and one of them that holds a descriptor already is
 * given a moment to take the connection first. */
enum { LOOK_MS = 100 }; /* then the next one in the queue looks */

static bool left_waiting(int listen_fd)
{
    struct pollfd listener = {.fd = listen_fd, .events = POLLIN};
    if (fcntl(listen_fd, F_GETFL) & O_NONBLOCK)
        return poll(&listener, 1, 0) > 0;
    if (poll(&listener, 1, LOOK_MS) <= 0 || stop_requested())
        return false;
    usleep(1000);
    return poll(&listener, 1, 0) > 0;
}

/* Others may have left while we waited. Where the machine's table is full and
 * not ours (ENFILE), only an accept() can tell. */
static bool descriptor_free(int listen_fd, int error)
{
    if (error == ENFILE)
        return false;
    int fd = fcntl(listen_fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Out of descriptors: gives up the reserve when somebody waits. Threads queue
 * here, one of them looking. Returns whether accept() should try again; in a
 * blocking model that may wait for long, so no lock is held by then. */
static bool reserve_lent(int listen_fd, int error)
{
    pthread_mutex_lock(&look_lock);
    bool lent = left_waiting(listen_fd);
    if (lent) {
        pthread_mutex_lock(&reserve_lock);
        reserve_open();
        if (reserve_fd >= 0 && !descriptor_free(listen_fd, error))
            reserve_give_up();
        pthread_mutex_unlock(&reserve_lock);
    }
    pthread_mutex_unlock(&look_lock);
    return lent;
}

/* One that was let in on the descriptor which the reserve had given up is one
 * too many: without a reserve, those after it would wait and not be counted. */
static bool took_reserve(struct server *server, int fd)
{
    pthread_mutex_lock(&reserve_lock);
    reserve_open();
    bool took = reserve_fd < 0;
    if (took) {
        net_refuse(server, fd, REFUSED_DESCRIPTORS);
        reserve_open();
    }
    pthread_mutex_unlock(&reserve_lock);
    return took;
}

/* The listening socket was shut. One of several processes that share it may be
 * told so before its own stop: it waits for that, rather than try in vain. */
enum { SHUT_BEFORE_STOP_MS = 10 };

static void await_stop(void)
{
    struct pollfd stop = {.fd = stop_fd(), .events = POLLIN};
    if (!stop_requested())
        poll(&stop, 1, SHUT_BEFORE_STOP_MS);
}

/* Tells a connection that left early or was one too many from the end. */
static int accept_failed(struct server *server)
{
    switch (errno) {
    case EMFILE:
    case ENFILE:
        break;
    case ENOBUFS:
    case ENOMEM:
        sit_out_shortage(server);
        break;
    case EINVAL:
    case EBADF:
        await_stop();
        break;
    case EAGAIN:
    case EINTR:
        return ACCEPT_NONE;
    default: /* ECONNABORTED and the network's errors, see accept(2) */
        stats_error(server->stats, errno);
        return ACCEPT_NONE;
    }
    return stop_requested() ? ACCEPT_STOPPED : ACCEPT_NONE;
}

static int accept_once(struct server *server, struct sockaddr_in6 *peer,
                       int flags)
{
    socklen_t length = sizeof *peer;
    return accept4(server->listen_fd, (struct sockaddr *)peer, &length,
                   flags | SOCK_CLOEXEC);
}

int net_accept(struct server *server, struct sockaddr_in6 *peer, int flags)
{
    int fd = accept_once(server, peer, flags);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        int error = errno;
        bool again = reserve_lent(server->listen_fd, error);
        errno = error;
        fd = again ? accept_once(server, peer, flags) : -1;
    }
    if (fd < 0)
        return accept_failed(server);
    if (atomic_load(&reserve_out) && took_reserve(server, fd))
        return ACCEPT_NONE;
    return fd;
}

void net_refuse(struct server *server, int fd, enum refusal reason)
{
    stats_refused(server->stats, reason);
    close(fd);
}
