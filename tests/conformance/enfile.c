/* enfile.c -- a machine whose table of open files is full, for one process.
 *
 * The real limit (fs.file-max) is everybody's and does not bind root, so no
 * test may run into it. Preloaded into a server, this lets accepted sockets
 * and the reserve have FILES places together; beyond, calls fail with ENFILE.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

enum { FILES = 20, DESCRIPTORS = 1024 };

static atomic_int taken;
static atomic_bool ours[DESCRIPTORS];

static bool take(void)
{
    if (atomic_fetch_add(&taken, 1) < FILES)
        return true;
    atomic_fetch_sub(&taken, 1);
    errno = ENFILE;
    return false;
}

static int keep(int fd)
{
    if (fd >= 0)
        ours[fd] = true;
    else
        atomic_fetch_sub(&taken, 1);
    return fd;
}

int accept4(int fd, struct sockaddr *peer, socklen_t *length, int flags)
{
    int (*real)(int, struct sockaddr *, socklen_t *, int) =
        dlsym(RTLD_NEXT, "accept4");
    return take() ? keep(real(fd, peer, length, flags)) : -1;
}

int open(const char *path, int flags, ...)
{
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    va_list more;
    va_start(more, flags);
    int mode = flags & O_CREAT ? va_arg(more, int) : 0;
    va_end(more);
    if (strcmp(path, "/dev/null") != 0)
        return real(path, flags, mode);
    return take() ? keep(real(path, flags, mode)) : -1;
}

int close(int fd)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "close");
    if (fd >= 0 && fd < DESCRIPTORS && atomic_exchange(&ours[fd], false))
        atomic_fetch_sub(&taken, 1);
    return real(fd);
}
