/* net.c -- see net.h. */
#include "net.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/flags.h"
#include "stop.h"

/* The spare descriptor against EMFILE, as libev's manual describes it ("The
 * special problem of accept()ing when you can't"). At the limit accept() fails
 * and the connection stays in the backlog, where a level-triggered poller
 * reports it for ever. So one descriptor is kept open for nothing; it is closed
 * to let in one connection too many, which is closed at once, and opened again.
 *
 * Between the two any thread's accept() may get the free number. While the
 * spare is out (reserve_out), whoever accepted a connection therefore checks
 * whether that took its place: took_reserve(). */
static int reserve_fd = -1;
static atomic_bool reserve_out;
static pthread_mutex_t reserve_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t look_lock = PTHREAD_MUTEX_INITIALIZER;

/* The kernel is short of memory (ENOMEM, ENOBUFS): nothing says when that ends,
 * so the caller's loop would retry at once and burn its core. */
enum { SHORTAGE_PAUSE_US = 1000 };

static void net_pause(struct server *server)
{
    stats_error(server->stats, errno);
    usleep(SHORTAGE_PAUSE_US);
}

void net_wait_failed(struct server *server, const char *call)
{
    if (errno == ENOMEM || errno == EAGAIN)
        net_pause(server);
    else if (errno != EINTR)
        err(1, "%s", call);
}

static void net_set_option(int fd, int level, int option, const char *name)
{
    int on = 1;
    if (setsockopt(fd, level, option, &on, sizeof on) < 0)
        err(1, "%s", name);
}

static struct addrinfo *net_resolve(const struct options *options)
{
    char port[8];
    snprintf(port, sizeof port, "%u", options->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICHOST};
    struct addrinfo *found;
    int error = getaddrinfo(options->host, port, &hints, &found);
    if (error)
        flags_refuse("--listen", options->host, "%s (a numeric address)",
                     gai_strerror(error));
    return found;
}

int net_listen(const struct options *options, bool shared)
{
    struct addrinfo *at = net_resolve(options);
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        err(1, "socket");
    net_set_option(fd, SOL_SOCKET, SO_REUSEADDR, "setsockopt SO_REUSEADDR");
    net_set_option(fd, IPPROTO_TCP, TCP_NODELAY, "setsockopt TCP_NODELAY");
    net_set_option(fd, SOL_SOCKET, SO_OOBINLINE, "setsockopt SO_OOBINLINE");
    if (shared)
        net_set_option(fd, SOL_SOCKET, SO_REUSEPORT, "setsockopt SO_REUSEPORT");
    if (bind(fd, at->ai_addr, at->ai_addrlen) < 0)
        err(1, "bind %s:%u", options->host, options->port);
    if (listen(fd, (int)options->backlog) < 0)
        err(1, "listen");
    freeaddrinfo(at);
    return fd;
}

uint16_t net_port(int fd)
{
    struct sockaddr_in6 at;
    socklen_t length = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &length) < 0)
        err(1, "getsockname");
    return ntohs(at.sin6_port); /* the same place as sin_port */
}

static void reserve_open(void)
{
    if (reserve_fd < 0)
        reserve_fd = eventfd(0, EFD_CLOEXEC); /* needs no /dev */
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

/* Whether a connection is in the backlog that no other thread takes. accept()
 * allocates the descriptor before it looks into the backlog: at the limit it
 * returns EMFILE even if nobody is there. Threads of a blocking model therefore
 * wait here, in poll(), instead; and one that already holds a descriptor is
 * given a moment to take the connection first. */
enum { LOOK_MS = 100 }; /* then the next one in the queue looks */

static bool net_client_waits(int listen_fd)
{
    struct pollfd listener = {.fd = listen_fd, .events = POLLIN};
    if (fcntl(listen_fd, F_GETFL) & O_NONBLOCK)
        return poll(&listener, 1, 0) > 0;
    if (poll(&listener, 1, LOOK_MS) <= 0 || stop_requested())
        return false;
    usleep(1000);
    return poll(&listener, 1, 0) > 0;
}

/* Connections may have been closed while we waited: F_DUPFD tells. Where the
 * machine's table is full, not ours (ENFILE), only an accept() can tell. */
static bool net_descriptor_free(int listen_fd, int error)
{
    if (error == ENFILE)
        return false;
    int fd = fcntl(listen_fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Out of descriptors: closes the spare one if a connection waits. Returns
 * whether accept() should be tried again; that may block for long in a blocking
 * model, so no lock is held by then. look_lock makes threads queue: one of them
 * looks at the backlog at a time. */
static bool reserve_lent(int listen_fd, int error)
{
    pthread_mutex_lock(&look_lock);
    bool lent = net_client_waits(listen_fd);
    if (lent) {
        pthread_mutex_lock(&reserve_lock);
        reserve_open();
        if (reserve_fd >= 0 && !net_descriptor_free(listen_fd, error))
            reserve_give_up();
        pthread_mutex_unlock(&reserve_lock);
    }
    pthread_mutex_unlock(&look_lock);
    return lent;
}

/* If the spare cannot be opened again, this connection has its number: it is
 * one too many, and is refused. (Without a spare, those after it would wait in
 * the backlog and not be counted.) */
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

bool net_accepted(struct server *server, int fd)
{
    return !atomic_load(&reserve_out) || !took_reserve(server, fd);
}

/* EINVAL: the listening socket was shut, which is how a stop begins. A process
 * that shares it with others may see that before its own SIGTERM arrives; it
 * waits for the signal, rather than call accept() in a loop. */
enum { SHUT_BEFORE_STOP_MS = 10 };

static void net_await_stop(void)
{
    struct pollfd stop = {.fd = stop_fd(), .events = POLLIN};
    if (!stop_requested())
        poll(&stop, 1, SHUT_BEFORE_STOP_MS);
}

/* Sorts errno into: nothing to accept now (ACCEPT_NONE), or the end of the
 * listener (ACCEPT_STOPPED). */
static int net_accept_failed(struct server *server)
{
    switch (errno) {
    case EMFILE:
    case ENFILE: break;
    case ENOBUFS:
    case ENOMEM: net_pause(server); break;
    case EINVAL:
    case EBADF: net_await_stop(); break;
    case EAGAIN:
    case EINTR: return ACCEPT_NONE;
    default: /* ECONNABORTED and the network's errors, see accept(2) */
        stats_error(server->stats, errno);
        return ACCEPT_NONE;
    }
    return stop_requested() ? ACCEPT_STOPPED : ACCEPT_NONE;
}

static int net_accept_once(struct server *server, struct sockaddr_in6 *peer,
                           int flags)
{
    socklen_t length = sizeof *peer;
    return accept4(server->listen_fd, (struct sockaddr *)peer, &length,
                   flags | SOCK_CLOEXEC);
}

int net_accept(struct server *server, struct sockaddr_in6 *peer, int flags)
{
    int fd = net_accept_once(server, peer, flags);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        int error = errno;
        bool again = reserve_lent(server->listen_fd, error);
        errno = error;
        fd = again ? net_accept_once(server, peer, flags) : -1;
    }
    if (fd < 0)
        return net_accept_failed(server);
    return net_accepted(server, fd) ? fd : ACCEPT_NONE;
}

void net_refuse(struct server *server, int fd, enum refusal reason)
{
    stats_refused(server->stats, reason);
    close(fd);
}

enum refusal net_refusal(int error)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
    case ETOOMANYREFS: return REFUSED_DESCRIPTORS;
    case EAGAIN: return REFUSED_THREADS;
    default: return REFUSED_MEMORY;
    }
}
