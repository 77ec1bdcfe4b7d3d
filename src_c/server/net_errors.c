/* net_errors.c -- see net_errors.h. */
#include "net_errors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void net_warn(const char *call)
{
    fprintf(stderr, "server: %s: %s\n", call, strerror(errno));
}

_Noreturn void net_die(const char *call)
{
    net_warn(call);
    exit(1);
}
