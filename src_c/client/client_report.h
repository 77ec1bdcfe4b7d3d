/* client_report.h -- the result: one JSON object, and CSV files. */
#ifndef CLIENT_REPORT_H
#define CLIENT_REPORT_H

#include <stdio.h>

#include "client_shared.h"

/* Files are opened before the load begins, so that a path that cannot be
 * written is an error of set-up, and so that a descriptor is left for them. */
struct report {
    FILE *per_connection, *timeline, *histogram, *slices; /* or NULL */
};

/* NULL, or the name of the file that cannot be written (errno says why). */
const char *report_open(struct report *report, const struct plan *plan);

/* Merges what all threads recorded, prints the JSON object on standard output
 * and writes the files. False with errno when a write failed. */
bool report_write(struct report *report, const struct plan *plan,
                  const struct shared *shared);

#endif
