/* stop.h -- how the server is told to stop, and ends. */
#ifndef WINSOCK_STOP_H
#define WINSOCK_STOP_H

#include "winsock/model.h"

/* From now on Ctrl-C, Ctrl-Break, the closing of the console and, if the
 * options say so, the end of standard input end the process: it lets answers
 * that are on their way leave, prints the stats line and exits 0. */
void stop_install(const struct server *server);

#endif
