/* coroutine_tools.h -- what valgrind and the sanitizers are told of stacks.
 *
 * Each of these tools follows the stack pointer, and takes a switch for an
 * error or a leak unless it is told. Without a tool, all of it is nothing.
 *
 *     tools_enter()      before the switch to a coroutine
 *     tools_entered()    the first thing on its stack
 *     tools_leave()      before the switch back, for good if it has ended
 *     tools_back()       the first thing on ours
 *
 * Included by coroutine.c alone; its functions must be inlined, because
 * ThreadSanitizer counts calls and returns for each stack.
 */
#ifndef COROUTINE_TOOLS_H
#define COROUTINE_TOOLS_H

#include <stdbool.h>
#include <stddef.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(low, high) 0u
#define VALGRIND_STACK_DEREGISTER(id) (void)(id)
#endif

#ifdef __has_feature /* clang */
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#elif __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#define TOOLS_INLINE static inline __attribute__((always_inline))

/* A tool's view of a coroutine's stack. */
struct tools {
    const char *low, *high;
    void *shadow;
};

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>

/* Of the thread's own stack. */
static _Thread_local void *tools_shadow;
static _Thread_local const void *tools_low;
static _Thread_local size_t tools_bytes;

TOOLS_INLINE void tools_enter(struct tools *to)
{
    __sanitizer_start_switch_fiber(&tools_shadow, to->low,
                                   (size_t)(to->high - to->low));
}

TOOLS_INLINE void tools_entered(struct tools *here)
{
    __sanitizer_finish_switch_fiber(here->shadow, &tools_low, &tools_bytes);
}

TOOLS_INLINE void tools_leave(struct tools *here, bool ended)
{
    __sanitizer_start_switch_fiber(ended ? NULL : &here->shadow, tools_low,
                                   tools_bytes);
}

TOOLS_INLINE void tools_back(struct tools *from, bool ended)
{
    (void)from, (void)ended;
    __sanitizer_finish_switch_fiber(tools_shadow, NULL, NULL);
}

#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>

static _Thread_local void *tools_fiber; /* the thread's own */

TOOLS_INLINE void tools_enter(struct tools *to)
{
    tools_fiber = __tsan_get_current_fiber();
    if (!to->shadow)
        to->shadow = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(to->shadow, 0);
}

TOOLS_INLINE void tools_entered(struct tools *here)
{
    (void)here;
}

TOOLS_INLINE void tools_leave(struct tools *here, bool ended)
{
    (void)here, (void)ended;
    __tsan_switch_to_fiber(tools_fiber, 0);
}

TOOLS_INLINE void tools_back(struct tools *from, bool ended)
{
    if (ended)
        __tsan_destroy_fiber(from->shadow);
}

#else

TOOLS_INLINE void tools_enter(struct tools *to)
{
    (void)to;
}

TOOLS_INLINE void tools_entered(struct tools *here)
{
    (void)here;
}

TOOLS_INLINE void tools_leave(struct tools *here, bool ended)
{
    (void)here, (void)ended;
}

TOOLS_INLINE void tools_back(struct tools *from, bool ended)
{
    (void)from, (void)ended;
}

#endif
#endif
