/* options.h -- the server's command line. */
#ifndef WINSOCK_OPTIONS_H
#define WINSOCK_OPTIONS_H

#include "winsock/model.h"

/* Reads the command line. Answers --help and --list itself and exits 0; exits
 * 2 after naming the flag, the value and what is allowed. */
void options_read(int argc, char **argv, struct server *server);

#endif
