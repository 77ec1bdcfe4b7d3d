/* net.c -- see net.h. */
#include "winsock/net.h"

#include <stdio.h>
#include <stdlib.h>

/* Short of handles or buffers: nothing says when that ends, so the caller's
 * loop would retry at once and burn its core. */
enum { SHORTAGE_PAUSE_MS = 10 };

_Noreturn void net_die(const char *call)
{
    int error = WSAGetLastError();
    char reason[256] = "";
    FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS |
                       FORMAT_MESSAGE_MAX_WIDTH_MASK,
                   NULL, (DWORD)error, 0, reason, sizeof reason, NULL);
    fprintf(stderr, "server: %s: %s(error %d)\n", call, reason, error);
    exit(1);
}

void net_start(void)
{
    WSADATA offered;
    int error = WSAStartup(MAKEWORD(2, 2), &offered);
    WSASetLastError(error);
    if (error)
        net_die("WSAStartup");
}

static struct addrinfo *net_resolve(const struct options *options)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICHOST};
    struct addrinfo *found;
    int error = getaddrinfo(options->host, options->port, &hints, &found);
    if (error) {
        fprintf(stderr, "server: --listen %s: want a numeric address\n",
                options->host);
        exit(2);
    }
    return found;
}

static void net_switch_on(SOCKET socket, int level, int option)
{
    BOOL on = TRUE;
    if (setsockopt(socket, level, option, (const char *)&on, sizeof on))
        net_die("setsockopt");
}

SOCKET net_listen(const struct options *options)
{
    struct addrinfo *at = net_resolve(options);
    SOCKET listener = socket(at->ai_family, SOCK_STREAM, IPPROTO_TCP);
    if (listener == INVALID_SOCKET)
        net_die("socket");
    net_switch_on(listener, SOL_SOCKET, SO_EXCLUSIVEADDRUSE);
    if (bind(listener, at->ai_addr, (int)at->ai_addrlen))
        net_die("bind");
    if (listen(listener, options->backlog))
        net_die("listen");
    freeaddrinfo(at);
    return listener;
}

unsigned net_port(SOCKET socket)
{
    struct sockaddr_in6 at;
    int length = sizeof at;
    if (getsockname(socket, (struct sockaddr *)&at, &length))
        net_die("getsockname");
    return ntohs(at.sin6_port); /* the same place as sin_port */
}

/* Without a pause when the client has left again. Any other reason may last,
 * and has more than one number: out of descriptors Wine says WSAEINVAL, where
 * Windows says WSAEMFILE or WSAENOBUFS. */
static void net_accept_failed(void)
{
    int error = WSAGetLastError();
    if (error == WSAEWOULDBLOCK)
        return;
    stats_error(error);
    if (error != WSAECONNRESET)
        Sleep(SHORTAGE_PAUSE_MS);
}

/* An option that cannot be set, because the client has left, does no harm. */
SOCKET net_accept(SOCKET listener)
{
    BOOL on = TRUE;
    SOCKET client = accept(listener, NULL, NULL);
    if (client == INVALID_SOCKET)
        net_accept_failed();
    else
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, (const char *)&on,
                   sizeof on);
    return client;
}

void net_do_not_block(SOCKET socket)
{
    u_long on = 1;
    if (ioctlsocket(socket, (long)FIONBIO, &on))
        net_die("ioctlsocket FIONBIO");
}

void net_refuse(SOCKET socket, enum refusal reason)
{
    stats_refused(reason);
    closesocket(socket);
}

void net_wait_failed(const char *call)
{
    int error = WSAGetLastError();
    if (error != WSAENOBUFS && error != WSA_NOT_ENOUGH_MEMORY)
        net_die(call);
    stats_error(error);
    Sleep(SHORTAGE_PAUSE_MS);
}
