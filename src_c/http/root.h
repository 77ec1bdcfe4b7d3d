/* root.h -- opens files below one directory, and nothing outside of it.
 *
 *     openat2(2), RESOLVE_BENEATH    Linux 5.6: the kernel guards the root
 *     openat(2), O_NOFOLLOW          before, or where a filter denies it: name
 *                                    by name, and no symbolic link is followed
 */
#ifndef ROOT_H
#define ROOT_H

#include <stdbool.h>

enum { ROOT_NAME_MAX = 1024 + 16 }; /* longest name, with its 0 byte */

/* Called once, before any fork or thread. False with errno: no directory. */
bool root_setup(const char *directory);
void root_close(void);

/* Whether root_setup() has succeeded. */
bool root_is_set(void);

/* Opens a name such as "css/a.css" for reading, without waiting. Returns the
 * descriptor, or -1 with errno: EXDEV, ELOOP or ENOENT outside of the root. */
int root_open(const char *name);

#endif
