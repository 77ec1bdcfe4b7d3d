/* net.h -- sockets, and the three grades of error.
 *
 *   set-up fails             net_die(): the call and the reason, exit 1
 *   a peer's fault, a limit  counted in stats; the server goes on
 *   our own bug              assert()
 */
#ifndef WINSOCK_NET_H
#define WINSOCK_NET_H

#include "winsock/model.h"
#include "winsock/stats.h"

/* Prints "server: call: reason" for WSAGetLastError(), which is GetLastError()
 * as well, and exits with status 1. */
_Noreturn void net_die(const char *call);

/* Starts Winsock 2.2; dies when it is not there. */
void net_start(void);

/* A listening TCP socket at options->host and port ("0": Windows chooses). Its
 * place is its own (SO_EXCLUSIVEADDRUSE): on Windows SO_REUSEADDR would let
 * another process listen there too. Dies on failure. */
SOCKET net_listen(const struct options *options);

/* The port that a socket is bound to, in host order. */
unsigned net_port(SOCKET socket);

/* The next client, blocking until there is one where the listener blocks. It
 * sends small answers at once (TCP_NODELAY).
 *
 * Returns INVALID_SOCKET when there is none: it left again, or, after a
 * moment's pause, when there is no handle or no buffer for it; both are
 * counted. */
SOCKET net_accept(SOCKET listener);

/* Calls on the socket return WSAEWOULDBLOCK instead of waiting. */
void net_do_not_block(SOCKET socket);

/* Closes a connection that a limit of ours does not let in, and counts it. */
void net_refuse(SOCKET socket, enum refusal reason);

/* A wait failed for `call`: short of memory, which is counted and tried again
 * after a moment's pause; for any other reason dies. */
void net_wait_failed(const char *call);

#endif
