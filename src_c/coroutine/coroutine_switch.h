/* coroutine_switch.h -- leaving one stack and going on with another.
 *
 *     context_prepare(&c, low, high, f)  c will enter f() on that stack
 *     context_switch(&ours, &c)          a later switch to ours returns here
 *
 * A switch looks like a call to the compiler, so only what a callee must keep
 * (System V: rbx, rbp, r12-r15; AAPCS64: x19-x30, d8-d15) has to be saved,
 * and it is saved on the stack that is left. The modes of the floating-point
 * unit are not ours to change and stay. Included by coroutine.c alone.
 */
#ifndef COROUTINE_SWITCH_H
#define COROUTINE_SWITCH_H

#include <stddef.h>

#if defined(__x86_64__) && !defined(COROUTINE_UCONTEXT)

struct context {
    void *top; /* of its stack: all else lies there */
};

/* rdi: where to save our stack pointer; rsi: the one to go on with. */
void coroutine_switch(void **from, void *to);
__asm__(".text\n"
        ".globl coroutine_switch\n"
        ".hidden coroutine_switch\n"
        ".type coroutine_switch, @function\n"
        "coroutine_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size coroutine_switch, . - coroutine_switch\n");

/* As if begin() had been called, from nowhere, and had not started yet. */
static void context_prepare(struct context *context, char *low, char *high,
                            void (*begin)(void))
{
    (void)low;
    void **top = (void **)high;
    *--top = NULL;          /* where begin() would return to */
    *--top = (void *)begin; /* where the switch returns to */
    for (int i = 0; i < 6; i++)
        *--top = NULL; /* the six registers */
    context->top = top;
}

static void context_switch(struct context *from, const struct context *to)
{
    coroutine_switch(&from->top, to->top);
}

#elif defined(__aarch64__) && !defined(COROUTINE_UCONTEXT)

struct context {
    void *top;
};

/* x0: where to save our stack pointer; x1: the one to go on with. */
void coroutine_switch(void **from, void *to);
__asm__(".text\n"
        ".globl coroutine_switch\n"
        ".hidden coroutine_switch\n"
        ".type coroutine_switch, @function\n"
        "coroutine_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size coroutine_switch, . - coroutine_switch\n");

static void context_prepare(struct context *context, char *low, char *high,
                            void (*begin)(void))
{
    (void)low;
    enum { X30 = 11, SAVED = 20 };
    void **top = (void **)high - SAVED;
    for (int i = 0; i < SAVED; i++)
        top[i] = NULL;
    top[X30] = (void *)begin; /* the link register: where ret goes */
    context->top = top;
}

static void context_switch(struct context *from, const struct context *to)
{
    coroutine_switch(&from->top, to->top);
}

#else /* any other machine: as POSIX had it, with a system call a switch */

#include <ucontext.h>

struct context {
    ucontext_t state;
};

static void context_prepare(struct context *context, char *low, char *high,
                            void (*begin)(void))
{
    getcontext(&context->state);
    context->state.uc_stack.ss_sp = low;
    context->state.uc_stack.ss_size = (size_t)(high - low);
    context->state.uc_link = NULL;
    makecontext(&context->state, begin, 0);
}

static void context_switch(struct context *from, const struct context *to)
{
    swapcontext(&from->state, &to->state);
}

#endif

#endif
