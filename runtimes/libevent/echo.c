/* One thread; libevent waits in epoll, and a bufferevent per client reads and writes.
 * A client that does not read is not read from beyond a high-water mark. */
#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BACKLOG = 1024, UNSENT_MOST = 1 << 20 };

static void on_event(struct bufferevent *client, short events, void *unused);

static void close_when_sent(struct bufferevent *client, void *unused)
{
    (void)unused;
    bufferevent_free(client);
}

static void on_read(struct bufferevent *client, void *unused)
{
    struct evbuffer *unsent = bufferevent_get_output(client);
    (void)unused;
    bufferevent_write_buffer(client, bufferevent_get_input(client));
    if (evbuffer_get_length(unsent) > UNSENT_MOST)
        bufferevent_disable(client, EV_READ);
}

static void on_sent(struct bufferevent *client, void *unused)
{
    (void)unused;
    bufferevent_enable(client, EV_READ);
}

static void on_event(struct bufferevent *client, short events, void *unused)
{
    (void)unused;
    size_t left = evbuffer_get_length(bufferevent_get_output(client));
    if ((events & BEV_EVENT_EOF) && left > 0)
        bufferevent_setcb(client, NULL, close_when_sent, on_event, NULL);
    else if (events & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        bufferevent_free(client);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd,
                      struct sockaddr *from, int bytes, void *unused)
{
    struct event_base *base = evconnlistener_get_base(listener);
    struct bufferevent *client =
        bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    (void)from, (void)bytes, (void)unused;
    if (!client) {
        evutil_closesocket(fd);
        return;
    }
    bufferevent_setcb(client, on_read, on_sent, on_event, NULL);
    bufferevent_enable(client, EV_READ | EV_WRITE);
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return printf("libevent %s\n", event_get_version()) < 0;
    at.sin_port = htons((in_port_t)(argc > 1 ? atoi(argv[1]) : 0));
    signal(SIGPIPE, SIG_IGN);
    struct event_base *base = event_base_new();
    if (!base || !evconnlistener_new_bind(
                     base, on_accept, NULL,
                     LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_FREE, BACKLOG,
                     (struct sockaddr *)&at, sizeof at)) {
        perror("echo");
        return 1;
    }
    return event_base_dispatch(base);
}
