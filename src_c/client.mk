CLIENT_SRCS = client.c client_board.c client_crew.c client_epoll.c client_events.c client_phases.c client_plan.c client_probe.c client_report.c client_uring.c agenda.c ask.c delay.c dial.c epoll_ns.c fifo.c hist.c pace.c record.c user.c
CLIENT_TESTS = tests/test_hist.c tests/test_pace.c tests/test_user.c
