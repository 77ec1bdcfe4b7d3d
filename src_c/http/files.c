/* files.c -- see files.h.
 *
 *     files_get -> cache_find: a fresh copy?            -> its body, locked
 *               -> files_open -> small: cache_fill      -> its body, locked
 *                             -> large: the descriptor, for read(2) in pieces
 *
 * A direct-mapped cache of 256 slots, by FNV-1a of the name: two names of one
 * slot replace each other, which costs a read and is never wrong. An entry is
 * used for a second and then read again; there is no stat(2) or inotify(7) per
 * request, so a server answers with a changed file up to a second late.
 *
 * workloads/http.c calls this in every model, also in loops: a read of a file
 * that is not in the page cache blocks the loop, as in any server without a
 * pool for disk reads (epoll-offload has one). Slots are locked by
 * pthread_rwlock_t between threads; processes have a cache each.
 */
#include "files.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "http_reply.h"
#include "root.h"

static const char built_in_page[] =
    "<!doctype html><title>connlab</title>\n"
    "<p>This server was given no --root, so this page is all there is. "
    "The <a href=\"/guestbook\">guestbook</a> needs --redis.</p>\n";

static_assert(ROOT_NAME_MAX >= FILES_PATH_MAX + sizeof "index.html",
              "a path of a folder has index.html put behind it");

/* --- one file ---------------------------------------------------------- */

/* Shortage is 503, which a client may try again; a name that leads nowhere, or
 * out of the root, is 404 alike: an answer tells nothing of what lies there. */
static int status_of(int error)
{
    switch (error) {
    case EACCES:
    case EPERM: return 403;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN: /* a name on the way was being moved */ return 503;
    default: /* ENOENT, ENOTDIR; EXDEV, ELOOP: it leads out of the root */
        return 404;
    }
}

/* Regular files only: a FIFO or a device has no length. It is opened first and
 * looked at by fstat(2), so that no rename can come between. */
static struct file files_open(const char *path)
{
    struct file file = {.status = 404, .fd = -1, .type = http_type(path)};
    struct stat facts;
    int fd = root_open(path);
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

/* A lock for each, on cache lines of its own: threads that serve different
 * files do not meet. Whoever reads a file again writes it under the lock. */
struct file_slot {
    _Alignas(64) pthread_rwlock_t lock;
    uint64_t read_ns;
    struct file file;
    char *body;
    char name[SLOT_NAME_BYTES];
};

static struct file_slot slots[SLOTS];

/* Before any thread: files_setup(). A second set-up, in tests, keeps them. */
static void slots_init(void)
{
    static bool done;
    for (int i = 0; !done && i < SLOTS; i++)
        pthread_rwlock_init(&slots[i].lock, NULL);
    done = true;
}

/* NULL: the name is too long to be remembered. */
static struct file_slot *slot_of(const char *name)
{
    unsigned hash = 2166136261u; /* FNV-1a */
    const char *at;
    for (at = name; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    return at - name < SLOT_NAME_BYTES ? &slots[hash % SLOTS] : NULL;
}

/* True: the slot stays locked, for its body to be read. */
static bool cache_find(struct file_slot *slot, const char *name,
                       uint64_t now_ns, struct file *file)
{
    pthread_rwlock_rdlock(&slot->lock);
    if (slot->body && now_ns < slot->read_ns + NS_PER_S &&
        strcmp(slot->name, name) == 0) {
        *file = slot->file;
        return true;
    }
    pthread_rwlock_unlock(&slot->lock);
    return false;
}

/* The whole file, into memory that is made large enough; closes it. */
static char *read_whole(struct file *file, char *memory)
{
    char *body = realloc(memory, file->bytes ? file->bytes : 1);
    ssize_t n = body ? pread(file->fd, body, file->bytes, 0) : -1;
    close(file->fd);
    file->fd = -1;
    file->status = n < 0 ? 503 : 200;
    file->bytes = n < 0 ? 0 : (uint64_t)n; /* it may have shrunk just now */
    file->body = body;
    return body ? body : memory;
}

/* Reads the file into the slot, which stays locked. Threads that find an entry
 * too old at once each read it; the last one's copy stays. */
static void cache_fill(struct file_slot *slot, const char *name,
                       uint64_t now_ns, struct file *file)
{
    pthread_rwlock_wrlock(&slot->lock);
    slot->body = read_whole(file, slot->body);
    file->slot = slot;
    slot->file = *file;
    slot->read_ns = file->status == 200 ? now_ns : 0;
    strcpy(slot->name, name);
}

/* --- what others call ------------------------------------------------- */

const char *files_setup(const char *root)
{
    static char wrong[320];
    slots_init();
    if (!root)
        return NULL;
    if (root_setup(root))
        return NULL;
    snprintf(wrong, sizeof wrong, "--root %.200s: %s, want a directory", root,
             strerror(errno));
    return wrong;
}

void files_teardown(void)
{
    for (int i = 0; i < SLOTS; i++)
        free(slots[i].body);
    root_close();
}

static struct file files_built_in(const char *name)
{
    struct file file = {.status = 404, .fd = -1, .type = http_type(name)};
    if (strcmp(name, "index.html") != 0)
        return file;
    file.status = 200;
    file.bytes = sizeof built_in_page - 1;
    file.body = built_in_page;
    return file;
}

/* "a/" -> "a/index.html", without the slashes in front; false: too long. */
static bool name_of(const char *path, char name[ROOT_NAME_MAX])
{
    path += strspn(path, "/");
    size_t length = strlen(path);
    if (length >= FILES_PATH_MAX)
        return false;
    memcpy(name, path, length + 1);
    if (length == 0 || path[length - 1] == '/')
        strcpy(name + length, "index.html");
    return true;
}

struct file files_get(const char *path)
{
    struct file file = {.status = 404, .fd = -1};
    char name[ROOT_NAME_MAX];
    if (!name_of(path, name))
        return file;
    if (!root_is_set())
        return files_built_in(name);
    uint64_t now_ns = clock_now_ns();
    struct file_slot *slot = slot_of(name);
    if (slot && cache_find(slot, name, now_ns, &file))
        return file;
    file = files_open(name);
    if (file.status != 200 || file.bytes > FILES_SMALL)
        return file;
    if (slot)
        cache_fill(slot, name, now_ns, &file);
    else
        file.own = read_whole(&file, NULL);
    return file;
}

void files_release(struct file *file)
{
    if (file->slot)
        pthread_rwlock_unlock(&file->slot->lock);
    if (file->fd >= 0)
        close(file->fd);
    free(file->own);
    *file = (struct file){.status = file->status, .fd = -1};
}
