/* log.h -- --log FILE: one CSV row per finished connection.
 *
 *     peer,port,requests,bytes_in,bytes_out,seconds
 */
#ifndef LOG_H
#define LOG_H

#include "conn.h"

/* Starts the file with its header; NULL: no log. Dies on failure. */
void log_open(const char *path);

/* Adds the row of a connection that is about to close. Thread-safe. */
void log_write(const struct conn *conn);

/* Writes out what is buffered; each process calls it before it ends. */
void log_flush(void);

#endif
