/* test_uring.c -- whoever asks for io_uring is sent no signal because of it. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "uring/uring.h"

enum { TIMES = 20, WATCH_MS = 25 };

/* Two ends on loopback; at the second, urgent bytes are bytes of the stream. */
static void connect_pair(int ends[2])
{
    struct sockaddr_in any = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    assert(bind(listener, (struct sockaddr *)&any, sizeof any) == 0);
    assert(listen(listener, 1) == 0);
    assert(getsockname(listener, (struct sockaddr *)&any, &length) == 0);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert(connect(ends[0], (struct sockaddr *)&any, sizeof any) == 0);
    ends[1] = accept(listener, NULL, NULL);
    assert(ends[1] >= 0);
    assert(setsockopt(ends[1], SOL_SOCKET, SO_OOBINLINE, &one, sizeof one) ==
           0);
    close(listener);
}

/* Where urgent bytes begin, a read that does not wait fails if a signal has
 * come (tcp_recvmsg, in the kernel): so reading says whether one has. */
static unsigned signals_seen(int fd)
{
    char byte;
    unsigned seen = 0;
    for (uint64_t until = clock_now_ns() + WATCH_MS * NS_PER_MS;
         clock_now_ns() < until;)
        seen += recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 1;
    return seen;
}

static void asking_leaves_nothing_behind(void)
{
    int ends[2];
    char byte;
    connect_pair(ends);
    assert(send(ends[0], "!", 1, MSG_OOB) == 1);
    assert(recv(ends[1], &byte, 1, MSG_PEEK) == 1);
    for (int i = 0; i < TIMES; i++) {
        uring_missing();
        assert(signals_seen(ends[1]) == 0);
    }
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    asking_leaves_nothing_behind();
    printf("test_uring: passed\n");
    return 0;
}
