/* net_errors.h -- saying which call failed and why, on standard error. */
#ifndef NET_ERRORS_H
#define NET_ERRORS_H

/* Prints "server: call: reason" for errno and exits with status 1. */
_Noreturn void net_die(const char *call);

/* Prints "server: call: reason" for errno. */
void net_warn(const char *call);

#endif
