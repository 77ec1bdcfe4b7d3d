/* files.c -- see files.h. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "http_reply.h"

static const char built_in[] =
    "<!doctype html><title>connlab</title>\n"
    "<p>This server was given no --root, so this page is all there is. "
    "The <a href=\"/guestbook\">guestbook</a> needs --redis.</p>\n";

static int root_fd = -1;
static bool has_openat2;

/* --- opening below the root ------------------------------------------- */

enum { NAME_BYTES = FILES_PATH_MAX + 16 }; /* with index.html behind it */
enum { HOW = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

static int open_beneath(const char *path)
{
    struct open_how how = {.flags = HOW,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof how);
}

/* The same by hand: no name of the path may be a link. */
static int open_by_names(const char *path)
{
    char names[NAME_BYTES];
    snprintf(names, sizeof names, "%s", path);
    char *rest = names;
    int fd = root_fd;
    for (char *name; fd >= 0 && (name = strsep(&rest, "/"));) {
        int flags = HOW | O_NOFOLLOW | (rest ? O_DIRECTORY : 0);
        int next = *name ? openat(fd, name, flags) : openat(fd, ".", flags);
        if (fd != root_fd)
            close(fd);
        fd = next;
    }
    return fd;
}

/* One of the names between slashes is "..". */
static bool climbs(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")); at += 2)
        if ((at == path || at[-1] == '/') && (at[2] == '/' || !at[2]))
            return true;
    return false;
}

static int status_of(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return 403;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN: /* a name on the way was being moved */
        return 503;
    default: /* ENOENT, ENOTDIR; EXDEV, ELOOP: it leads out of the root */
        return 404;
    }
}

static struct file open_file(const char *path)
{
    struct file file = {.status = 404, .fd = -1, .type = http_type(path)};
    struct stat facts;
    if (climbs(path))
        return file;
    int fd = has_openat2 ? open_beneath(path) : open_by_names(path);
    if (fd < 0) {
        file.status = status_of(errno);
    } else if (fstat(fd, &facts) < 0 || !S_ISREG(facts.st_mode)) {
        close(fd);
    } else {
        file.status = 200;
        file.bytes = (uint64_t)facts.st_size;
        file.fd = fd;
    }
    return file;
}

/* --- small files, remembered for a second ----------------------------- */

enum { SLOTS = 256, SLOT_NAME_BYTES = 128 };

struct slot {
    char name[SLOT_NAME_BYTES];
    uint64_t read_ns;
    struct file file;
    char *body;
};

static struct slot slots[SLOTS];
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static struct slot *slot_of(const char *path)
{
    unsigned hash = 2166136261u; /* FNV-1a */
    for (const char *at = path; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    return &slots[hash % SLOTS];
}

static bool recall(const char *path, uint64_t now_ns, struct file *file,
                   char *body)
{
    struct slot *slot = slot_of(path);
    pthread_rwlock_rdlock(&lock);
    bool known = slot->body && now_ns < slot->read_ns + NS_PER_S &&
                 strcmp(slot->name, path) == 0;
    if (known) {
        *file = slot->file;
        memcpy(body, slot->body, file->bytes);
    }
    pthread_rwlock_unlock(&lock);
    return known;
}

static void remember(const char *path, uint64_t now_ns,
                     const struct file *file, const char *body)
{
    struct slot *slot = slot_of(path);
    if (strlen(path) >= SLOT_NAME_BYTES)
        return;
    pthread_rwlock_wrlock(&lock);
    char *moved = realloc(slot->body, file->bytes ? file->bytes : 1);
    if (moved) {
        memcpy(moved, body, file->bytes);
        slot->body = moved;
        slot->file = *file;
        slot->read_ns = now_ns;
        strcpy(slot->name, path);
    }
    pthread_rwlock_unlock(&lock);
}

/* Reads a small file whole and closes it. */
static void read_small(struct file *file, char *body)
{
    ssize_t n = pread(file->fd, body, file->bytes, 0);
    close(file->fd);
    file->fd = -1;
    if (n < 0)
        file->status = 503;
    else
        file->bytes = (uint64_t)n; /* it may have shrunk just now */
}

/* --- what others call ------------------------------------------------- */

const char *files_setup(const char *root)
{
    static char wrong[320];
    if (!root)
        return NULL;
    root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0) {
        snprintf(wrong, sizeof wrong, "--root %.200s: %s, want a directory",
                 root, strerror(errno));
        return wrong;
    }
    int probe = open_beneath(".");
    has_openat2 = probe >= 0 || (errno != ENOSYS && errno != EPERM);
    if (probe >= 0)
        close(probe);
    return NULL;
}

void files_teardown(void)
{
    for (int i = 0; i < SLOTS; i++)
        free(slots[i].body);
    if (root_fd >= 0)
        close(root_fd);
}

static struct file get_built_in(const char *name, char *body)
{
    struct file file = {.status = 404, .fd = -1, .type = http_type(name)};
    if (strcmp(name, "index.html") != 0)
        return file;
    file.status = 200;
    file.bytes = sizeof built_in - 1;
    memcpy(body, built_in, file.bytes);
    return file;
}

struct file files_get(const char *path, char *body)
{
    struct file file = {.status = 404, .fd = -1};
    char name[NAME_BYTES];
    path += strspn(path, "/");
    size_t length = strlen(path);
    if (length >= FILES_PATH_MAX)
        return file;
    memcpy(name, path, length + 1);
    if (length == 0 || path[length - 1] == '/')
        strcpy(name + length, "index.html");
    if (root_fd < 0)
        return get_built_in(name, body);
    uint64_t now_ns = clock_now_ns();
    if (recall(name, now_ns, &file, body))
        return file;
    file = open_file(name);
    if (file.status != 200 || file.bytes > FILES_SMALL)
        return file;
    read_small(&file, body);
    if (file.status == 200)
        remember(name, now_ns, &file, body);
    return file;
}
