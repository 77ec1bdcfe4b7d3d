/* root.c -- see root.h.
 *
 *     root_open -> has_dotdot? -> openat2(2) RESOLVE_BENEATH
 *                              -> or openat(2) O_NOFOLLOW, name by name
 *
 * A string check alone is not enough: a symbolic link below the root may lead
 * out of it, and a directory may be renamed between a check and the open
 * (TOCTOU). So the kernel walks the path from a descriptor of the root and
 * refuses to leave it. Called by files.c only; names are decoded already. Not a
 * chroot(2): it needs no privilege and binds nothing but these opens.
 */
#include "root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int root_fd = -1;
static bool has_openat2;

/* O_NONBLOCK: the open of a FIFO does not wait for a writer. O_NOCTTY: that of
 * a terminal does not make it ours. */
enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

/* openat2(2), Linux 5.6: EXDEV where the path would lead out of the root, by
 * "..", "/" or a symbolic link, without a race against a rename. */
static int open_beneath(const char *path)
{
    struct open_how how = {.flags = OPEN_FLAGS,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof how);
}

/* Before Linux 5.6: name by name with O_NOFOLLOW, so that no symbolic link is
 * followed, not even one that stays below the root. */
static int open_by_names(const char *path)
{
    char names[ROOT_NAME_MAX];
    snprintf(names, sizeof names, "%s", path);
    char *rest = names;
    int fd = root_fd;
    for (char *name; fd >= 0 && (name = strsep(&rest, "/"));) {
        int flags = OPEN_FLAGS | O_NOFOLLOW | (rest ? O_DIRECTORY : 0);
        int next = *name ? openat(fd, name, flags) : openat(fd, ".", flags);
        if (fd != root_fd)
            close(fd);
        fd = next;
    }
    return fd;
}

/* A name between slashes is "..": refused before the kernel sees it, and for
 * open_by_names(). */
static bool has_dotdot(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")); at += 2)
        if ((at == path || at[-1] == '/') && (at[2] == '/' || !at[2]))
            return true;
    return false;
}

/* O_PATH (Linux 2.6.39): a place to start from, for which no read permission
 * is needed. Opening "." tells whether openat2(2) is there: ENOSYS before Linux
 * 5.6, EPERM under a seccomp filter that does not know it. */
bool root_setup(const char *directory)
{
    root_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return false;
    int probe = open_beneath(".");
    has_openat2 = probe >= 0 || (errno != ENOSYS && errno != EPERM);
    if (probe >= 0)
        close(probe);
    return true;
}

void root_close(void)
{
    if (root_fd >= 0)
        close(root_fd);
    root_fd = -1;
}

bool root_is_set(void)
{
    return root_fd >= 0;
}

int root_open(const char *name)
{
    if (has_dotdot(name)) {
        errno = ENOENT;
        return -1;
    }
    return has_openat2 ? open_beneath(name) : open_by_names(name);
}
