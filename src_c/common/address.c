/* address.c -- see address.h. */
#include "address.h"

#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* strtoul(3) would take a sign or spaces, getaddrinfo(3) any number, and of one
 * above 65535 the rest. */
static int read_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    unsigned long port = strtoul(text, NULL, 10);
    return digits > 0 && text[digits] == '\0' && port <= 65535 ? (int)port : -1;
}

bool address_split(const char *text, char host[HOST_BYTES], int *port)
{
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text)
        return false;
    *port = read_port(colon + 1);
    size_t length = (size_t)(colon - text);
    if (text[0] == '[' && colon[-1] == ']') {
        text++;
        length -= 2;
    }
    if (length == 0 || length >= HOST_BYTES)
        return false;
    memcpy(host, text, length);
    host[length] = '\0';
    return true;
}

const char *address_find(const char *text, int flags,
                         struct sockaddr_storage *address, socklen_t *bytes)
{
    char host[HOST_BYTES], service[8];
    int port;
    struct addrinfo *found, hints = {.ai_family = AF_INET,
                                     .ai_socktype = SOCK_STREAM,
                                     .ai_flags = flags | AI_NUMERICSERV};
    if (!address_split(text, host, &port))
        return "want HOST:PORT, such as 127.0.0.1:7000";
    if (port < 1)
        return "want a port from 1 to 65535";
    snprintf(service, sizeof service, "%u", (uint16_t)port);
    int error = getaddrinfo(host, service, &hints, &found);
    if (error) {
        hints.ai_family = AF_UNSPEC;
        error = getaddrinfo(host, service, &hints, &found);
    }
    if (error)
        return gai_strerror(error);
    memcpy(address, found->ai_addr, found->ai_addrlen);
    *bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return NULL;
}
