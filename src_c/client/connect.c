/* connect.c -- see connect.h.
 *
 * Sockets are non-blocking, without Nagle's delay (TCP_NODELAY), and closed on
 * exec. connect(2) on loopback has its answer at once; elsewhere it says
 * EINPROGRESS, and EPOLLOUT or POLLOUT tells when it is done.
 */
#include "connect.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51 /* linux/in.h */
#endif

bool connect_parse_sources(const char *text, struct endpoints *endpoints)
{
    char first[INET_ADDRSTRLEN];
    const char *dash = strchr(text, '-');
    size_t length = dash ? (size_t)(dash - text) : strlen(text);
    struct in_addr low, high;
    if (length >= sizeof first)
        return false;
    memcpy(first, text, length);
    first[length] = '\0';
    if (inet_pton(AF_INET, first, &low) != 1 ||
        inet_pton(AF_INET, dash ? dash + 1 : first, &high) != 1 ||
        ntohl(high.s_addr) < ntohl(low.s_addr))
        return false;
    endpoints->first_source = ntohl(low.s_addr);
    endpoints->source_count = ntohl(high.s_addr) - ntohl(low.s_addr) + 1;
    return endpoints->source_count; /* all there are would be 0 */
}

bool connect_is_loopback(const struct endpoints *endpoints)
{
    const struct sockaddr_in *target = (const void *)&endpoints->target;
    return target->sin_family == AF_INET &&
           ntohl(target->sin_addr.s_addr) >> 24 == 127;
}

void connect_name_ports(struct endpoints *endpoints)
{
    unsigned first, last;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (file && fscanf(file, "%u %u", &first, &last) == 2 && first <= last) {
        endpoints->first_port = first;
        endpoints->port_count = last - first + 1;
    }
    if (file)
        fclose(file);
}

/* port 0: any, as usual. A kernel that does not know it looks for one. */
static void set_port(int fd, uint32_t port)
{
    uint32_t range = port << 16 | port;
    setsockopt(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, &range, sizeof range);
}

/* Connections from one source have all different ports. */
static void name_port(const struct endpoints *endpoints, int fd, uint32_t who)
{
    uint32_t sources = endpoints->source_count ? endpoints->source_count : 1;
    uint32_t number = who / sources % endpoints->port_count;
    set_port(fd, endpoints->first_port + number);
}

static int bind_source(const struct endpoints *endpoints, int fd, uint32_t who)
{
    int yes = 1;
    struct sockaddr_in source = {
        .sin_family = AF_INET,
        .sin_addr.s_addr =
            htonl(endpoints->first_source + who % endpoints->source_count)};
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    return bind(fd, (struct sockaddr *)&source, sizeof source);
}

int connect_socket(const struct endpoints *endpoints, uint32_t who)
{
    int yes = 1;
    int fd = socket(endpoints->target.ss_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (endpoints->source_count && bind_source(endpoints, fd, who) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    if (endpoints->port_count)
        name_port(endpoints, fd, who);
    return fd;
}

static int try_source(const struct endpoints *endpoints, uint32_t i, char *text)
{
    struct in_addr address = {.s_addr = htonl(endpoints->first_source + i)};
    inet_ntop(AF_INET, &address, text, ADDRESS_BYTES);
    int fd = connect_socket(endpoints, i);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

int connect_try_sources(const struct endpoints *endpoints,
                        char text[ADDRESS_BYTES])
{
    int error = try_source(endpoints, 0, text);
    return error ? error
                 : try_source(endpoints, endpoints->source_count - 1, text);
}

static int begin(const struct endpoints *endpoints, int fd)
{
    return connect(fd, (const struct sockaddr *)&endpoints->target,
                   endpoints->target_bytes) < 0
               ? errno
               : 0;
}

int connect_begin(const struct endpoints *endpoints, int fd)
{
    int error = begin(endpoints, fd);
    if (error != EADDRNOTAVAIL || !endpoints->port_count)
        return error;
    set_port(fd, 0); /* somebody has the one that was named */
    return begin(endpoints, fd);
}

static uint64_t count_open(void)
{
    uint64_t count = 0;
    DIR *fds = opendir("/proc/self/fd");
    for (; fds && readdir(fds); count++)
        ;
    if (fds)
        closedir(fds);
    return count > 3 ? count - 3 : 3; /* ".", ".." and the directory */
}

uint64_t connect_descriptors_left(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return UINT64_MAX;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    uint64_t open = count_open();
    return limit.rlim_cur > open ? limit.rlim_cur - open : 0;
}
