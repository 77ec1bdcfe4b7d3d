/* no_uring.c -- run a program to which the kernel gives no io_uring.
 *
 *     no_uring ERRNO PROGRAM [ARGUMENT ...]
 *
 * io_uring_setup then fails with ERRNO: EPERM, as where an administrator or a
 * container forbids it; ENOSYS, as on a kernel that was built without it. The
 * sysctl for that is everybody's and needs root; a filter of system calls is
 * the process's own, and is passed on to what it starts.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int refuse(long call, unsigned error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
    if (argc < 3 || refuse(SYS_io_uring_setup, (unsigned)atoi(argv[1])) < 0) {
        perror("no_uring: prctl");
        return 1;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 1;
}
