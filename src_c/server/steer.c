/* steer.c -- see steer.h. */
#include "steer.h"

#include <err.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include "net.h"

void steer_by_cpu(int fd, unsigned count)
{
    struct sock_filter code[] = {
        /* A = the CPU that runs this; A %= count; return A */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_CPU),
        BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, count),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
                   sizeof program) < 0)
        err(1, "setsockopt SO_ATTACH_REUSEPORT_CBPF");
}
