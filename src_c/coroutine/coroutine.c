/* coroutine.c -- see coroutine.h. */
#include "coroutine.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "coroutine_switch.h"
#include "coroutine_tools.h"

enum {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    STACK_BYTES = 512 * 1024, /* their frames are large */
#else
    STACK_BYTES = 64 * 1024,
#endif
    KEPT_MOST = 256,
};

/* --- coroutines --------------------------------------------------------- */

/* Lies at the high end of its own stack, on a page that is touched anyway. */
struct coroutine {
    _Alignas(16) struct context context;
    char *low; /* the lowest byte of the stack */
    void (*work)(void *value);
    void *value; /* of the latest resume */
    bool ended;
    unsigned valgrind_id;
    struct tools tools;
    struct coroutine *next; /* among those that are kept */
};

/* Of each thread that runs coroutines. A coroutine stays in the thread that
 * made it: where it may be resumed by another one (work stealing), neither
 * these nor errno may be looked at across a switch, because a compiler is free
 * to keep the address of what is thread-local. */
static _Thread_local struct context scheduler;
static _Thread_local struct coroutine *running;
static _Thread_local struct coroutine *kept;
static _Thread_local unsigned kept_count;

static void coroutine_enter(struct coroutine *coroutine)
{
    tools_enter(&coroutine->tools);
    context_switch(&scheduler, &coroutine->context);
    tools_back(&coroutine->tools, coroutine->ended);
}

static void coroutine_leave(struct coroutine *coroutine)
{
    tools_leave(&coroutine->tools, coroutine->ended);
    context_switch(&coroutine->context, &scheduler);
    tools_entered(&coroutine->tools);
}

/* The first function on every stack. */
static void coroutine_begin(void)
{
    struct coroutine *coroutine = running;
    tools_entered(&coroutine->tools);
    coroutine->work(coroutine->value);
    coroutine->ended = true;
    coroutine_leave(coroutine); /* for good */
}

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

/* A guard region is a mark in the page table, where a page without access is a
 * mapping of its own: stacks with such marks lie in one mapping, however many,
 * and a new one costs two thirds. Older kernels know no such advice. */
static bool stack_guard(char *low, size_t bytes)
{
    return madvise(low, bytes, MADV_GUARD_INSTALL) == 0 ||
           mprotect(low, bytes, PROT_NONE) == 0;
}

/* A page below the stack: 4 KiB, or as many as the whole stack has (64 KiB, as
 * kernels for AArch64 may be built). */
static size_t guard_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static struct coroutine *stack_map(void)
{
    size_t guard = guard_bytes(), bytes = guard + STACK_BYTES;
    char *low =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (low == MAP_FAILED)
        return NULL;
    if (!stack_guard(low, guard)) {
        munmap(low, bytes);
        return NULL;
    }
    char *high = low + bytes - sizeof(struct coroutine);
    struct coroutine *coroutine = (struct coroutine *)high;
    coroutine->low = low + guard;
    coroutine->valgrind_id = VALGRIND_STACK_REGISTER(low + guard, high);
    return coroutine;
}

/* False at vm.max_map_count: what lies between two others leaves a gap, and so
 * two mappings where there was one. */
static bool stack_unmap(struct coroutine *coroutine)
{
    unsigned id = coroutine->valgrind_id;
    size_t guard = guard_bytes();
    if (munmap(coroutine->low - guard, guard + STACK_BYTES) < 0)
        return false;
    VALGRIND_STACK_DEREGISTER(id);
    return true;
}

static struct coroutine *stack_take(void)
{
    struct coroutine *coroutine = kept;
    if (!coroutine)
        return stack_map();
    kept = coroutine->next;
    kept_count--;
    return coroutine;
}

static void stack_give_back(struct coroutine *coroutine)
{
    if (kept_count >= KEPT_MOST && stack_unmap(coroutine))
        return;
    coroutine->next = kept;
    kept = coroutine;
    kept_count++;
}

struct coroutine *coroutine_new(void (*work)(void *value))
{
    struct coroutine *coroutine = stack_take();
    if (!coroutine)
        return NULL;
    coroutine->work = work;
    coroutine->ended = false;
    coroutine->tools = (struct tools){
        .low = coroutine->low,
        .high = (char *)coroutine,
    };
    context_prepare(&coroutine->context, coroutine->low, (char *)coroutine,
                    coroutine_begin);
    return coroutine;
}

void coroutine_drop(struct coroutine *coroutine)
{
    stack_give_back(coroutine);
}

void coroutine_resume(struct coroutine *coroutine, void *value)
{
    running = coroutine;
    coroutine->value = value;
    coroutine_enter(coroutine);
    running = NULL;
    if (coroutine->ended)
        stack_give_back(coroutine);
}

void *coroutine_yield(void)
{
    struct coroutine *coroutine = running;
    coroutine_leave(coroutine);
    return coroutine->value;
}

void coroutine_trim(void)
{
    while (kept) {
        struct coroutine *coroutine = kept;
        kept = coroutine->next;
        stack_unmap(coroutine);
    }
    kept_count = 0;
}
