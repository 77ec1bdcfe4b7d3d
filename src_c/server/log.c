/* log.c -- see log.h.
 *
 * Rows gather in a buffer and leave in whole lines by one write(2) to a file
 * opened with O_APPEND, so that processes may share it without mixing rows.
 */
#include "log.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "net.h"

enum { BUFFER = 32 * 1024, ROW = 160 };

static int log_fd = -1;
static char buffer[BUFFER];
static size_t buffered;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

void log_open(const char *path)
{
    static const char header[] =
        "peer,port,requests,bytes_in,bytes_out,seconds\n";
    if (!path)
        return;
    log_fd =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd < 0)
        err(1, "%s", path);
    if (write(log_fd, header, sizeof header - 1) != sizeof header - 1)
        err(1, "write --log");
}

static void flush_locked(void)
{
    size_t at = 0;
    while (at < buffered) {
        ssize_t n = write(log_fd, buffer + at, buffered - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            warn("write --log");
            break;
        }
        at += (size_t)n;
    }
    buffered = 0;
}

static void peer_text(const struct sockaddr_in6 *peer, char *text, size_t size)
{
    const void *address = &peer->sin6_addr;
    if (peer->sin6_family == AF_INET)
        address = &((const struct sockaddr_in *)peer)->sin_addr;
    if (!inet_ntop(peer->sin6_family, address, text, (socklen_t)size))
        text[0] = '\0';
}

void log_write(const struct conn *conn)
{
    if (log_fd < 0)
        return;
    char peer[INET6_ADDRSTRLEN], row[ROW];
    peer_text(&conn->peer, peer, sizeof peer);
    double seconds = (double)(clock_now_ns() - conn->opened_ns) / NS_PER_S;
    int n = snprintf(row, sizeof row,
                     "%s,%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.6f\n", peer,
                     ntohs(conn->peer.sin6_port), conn->requests,
                     conn->bytes_in, conn->bytes_out, seconds);
    pthread_mutex_lock(&log_lock);
    if (buffered + (size_t)n > BUFFER)
        flush_locked();
    memcpy(buffer + buffered, row, (size_t)n);
    buffered += (size_t)n;
    pthread_mutex_unlock(&log_lock);
}

void log_flush(void)
{
    pthread_mutex_lock(&log_lock);
    if (log_fd >= 0)
        flush_locked();
    pthread_mutex_unlock(&log_lock);
}
