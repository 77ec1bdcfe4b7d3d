/* files.h -- the files below --root (root.h), and nothing else.
 *
 * A file of at most FILES_SMALL bytes is remembered for a second: it then
 * costs no system call, a lock that only writers hold alone, and one copy.
 * What was written meanwhile shows a second later.
 */
#ifndef FILES_H
#define FILES_H

#include <stdint.h>

#include "common/buffer.h"

enum {
    FILES_SMALL = 16 * 1024,
    FILES_PATH_MAX = 1024,
};

struct file_slot;

struct file {
    int status; /* 200, or why not: 403, 404, 503 */
    const char *type;
    uint64_t bytes;
    const char *body;       /* a small one's bytes, until it is released */
    int fd;                 /* a large one's, or -1 */
    struct file_slot *slot; /* where it is remembered, locked meanwhile */
    char *own;              /* memory of one that is not remembered */
};

/* Called once, before any fork or thread; root NULL: there is one page, built
 * in. Returns NULL, or what is wrong. */
const char *files_setup(const char *root);
void files_teardown(void);

/* Finds the file that a decoded path such as "/css/" or "/a.png" names.
 * Release it, whatever its status, and do not wait before: a small one holds
 * the lock of its slot. Of a large one, fd may be kept instead. */
struct file files_get(const char *path);
void files_release(struct file *file);

#endif
