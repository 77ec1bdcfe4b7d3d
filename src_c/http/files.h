/* files.h -- the files below --root, and nothing else.
 *
 * The kernel guards the root: openat2(2) with RESOLVE_BENEATH (Linux 5.6)
 * fails whenever a "..", an absolute path or a symbolic link would lead out
 * of it. Where there is no such call, names are opened one by one and links
 * are not followed at all.
 *
 * A file of at most FILES_SMALL bytes is remembered for a second: it then
 * costs no system call. What was written meanwhile shows a second later.
 */
#ifndef FILES_H
#define FILES_H

#include <stdint.h>

#include "common/buffer.h"

enum {
    FILES_SMALL = 16 * 1024,
    FILES_PATH_MAX = 1024,
};

struct file {
    int status;             /* 200, or why not: 403, 404, 503 */
    const char *type;
    uint64_t bytes;
    int fd;                 /* 200: to be read and closed, or -1: ... */
};

/* Called once, before any fork or thread; root NULL: there is one page, built
 * in. Returns NULL, or what is wrong. */
const char *files_setup(const char *root);
void files_teardown(void);

/* Finds the file that a decoded path such as "/css/" or "/a.png" names. A small
 * one is copied to `body`, which has room for FILES_SMALL bytes, and has no
 * descriptor; a larger one is open. */
struct file files_get(const char *path, char *body);

#endif
