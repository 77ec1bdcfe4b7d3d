/* connect.h -- the client's sockets: where to, from where, and how many.
 *
 * A connection is named by four numbers: address and port of both ends. With
 * one source address and one target, only the source port is left to differ,
 * and the kernel has some 28 thousand of those (ip_local_port_range). Loopback
 * owns all of 127/8, so more sources give more connections: source i of
 * FIRST-LAST is bound with IP_BIND_ADDRESS_NO_PORT (Linux 4.2), which leaves
 * the port open until connect(2) knows the whole quadruple.
 *
 * The kernel looks for a free port by trying one after the other: half of them
 * taken, each further connect(2) takes milliseconds. A client of many
 * connections knows which ports it has not used, and names one for each
 * (IP_LOCAL_PORT_RANGE, Linux 6.3); where somebody else has that, or on an
 * older kernel, the kernel looks as usual. 25500 connections from one address
 * took 16 s of CPU time without, 0.6 s with it.
 */
#ifndef CONNECT_H
#define CONNECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct endpoints {
    struct sockaddr_storage target;
    socklen_t target_bytes;
    uint32_t first_source, source_count; /* IPv4, host order; count 0: any */
    uint32_t first_port, port_count;     /* to name; count 0: none */
};

/* Lets each connection name its port from now on. */
void connect_name_ports(struct endpoints *endpoints);

/* Parses "FIRST-LAST" or one address, IPv4, at most 2^32 - 1 of them. False
 * when it is neither. */
bool connect_parse_sources(const char *text, struct endpoints *endpoints);

/* Binds a socket to the first and to the last source and closes it. 0, or the
 * errno of the one that cannot be bound, whose address is put into `text`. */
enum { ADDRESS_BYTES = 16 }; /* 255.255.255.255 and the end */
int connect_try_sources(const struct endpoints *endpoints,
                        char text[ADDRESS_BYTES]);

/* Whether the target is in 127/8, to which every address there may connect. */
bool connect_is_loopback(const struct endpoints *endpoints);

/* A new non-blocking TCP socket, without Nagle's delay, bound to the source of
 * connection number `who`. -1 with errno when there is none. */
int connect_socket(const struct endpoints *endpoints, uint32_t who);

/* Starts to connect. 0 or errno; EINPROGRESS is the usual answer. */
int connect_begin(const struct endpoints *endpoints, int fd);

/* Raises this process' limit of descriptors as far as the system lets it;
 * returns how many more it may open. */
uint64_t connect_descriptors_left(void);

#endif
