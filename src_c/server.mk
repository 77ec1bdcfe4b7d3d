SERVER_SRCS = server.c options.c models.c workloads.c stats.c stop.c net.c \
              log.c conn.c blocking.c threads.c timers.c reactor.c
SERVER_SRCS += upstream.c links.c asking.c children.c
SERVER_SRCS += crew.c epoll_ns.c
SERVER_SRCS += http_parse.c http_reply.c files.c template.c resp.c guestbook.c
SERVER_SRCS += uring.c uring_asking.c
SERVER_SRCS += queue.c handover.c
SERVER_TESTS += tests/test_http.c tests/test_resp.c tests/test_work.c
SERVER_TESTS += tests/test_timers.c tests/test_conn.c
SERVER_SRCS += coroutine.c
SERVER_TESTS += tests/test_coroutine.c
SERVER_TESTS += tests/test_queue.c tests/test_children.c tests/test_uring.c
