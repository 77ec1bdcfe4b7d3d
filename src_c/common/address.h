/* address.h -- HOST:PORT or [V6]:PORT, as all programs take it. */
#ifndef ADDRESS_H
#define ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

enum { HOST_BYTES = 256 };

/* Splits at the last colon, and takes brackets off. The port is -1 when it is
 * no whole number from 0 to 65535; false when the text is not of this form. */
bool address_split(const char *text, char host[HOST_BYTES], int *port);

/* The first address that getaddrinfo(3) finds with these flags, for a port from
 * 1 to 65535; of IPv4 if there is one, since "localhost" may be ::1 as well and
 * servers listen at 127.0.0.1. NULL, or what is wrong with the text. */
const char *address_find(const char *text, int flags,
                         struct sockaddr_storage *address, socklen_t *bytes);

#endif
