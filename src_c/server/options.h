/* options.h -- the server's command line. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "model.h"

/* Reads the command line into the server's model, workload and options.
 * Answers --help and --list itself and exits 0; exits 2 after naming the flag,
 * the value and what is allowed. */
void options_read(int argc, char **argv, struct server *server);

#endif
