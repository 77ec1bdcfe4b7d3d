/* One thread; libuv waits in epoll and calls back. An answer is written at once; while
 * a part of it waits for room, nothing more is read from that client. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { BUFFER_BYTES = 65536, BACKLOG = 1024 };

struct client {
    uv_tcp_t tcp;
    uv_write_t write;
    char buffer[BUFFER_BYTES];
};

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer);

static void on_close(uv_handle_t *handle)
{
    free(handle->data);
}

static void leave(struct client *client)
{
    uv_close((uv_handle_t *)&client->tcp, on_close);
}

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer)
{
    struct client *client = handle->data;
    (void)wanted;
    *buffer = uv_buf_init(client->buffer, sizeof client->buffer);
}

static void on_write(uv_write_t *write, int status)
{
    struct client *client = write->data;
    if (uv_is_closing((uv_handle_t *)&client->tcp))
        return;
    if (status < 0)
        leave(client);
    else
        uv_read_start((uv_stream_t *)&client->tcp, on_alloc, on_read);
}

/* Not for every answer: to stop reading and to go on takes two calls of epoll_ctl(). */
static void write_later(struct client *client, unsigned from, unsigned to)
{
    uv_buf_t rest = uv_buf_init(client->buffer + from, to - from);
    uv_stream_t *stream = (uv_stream_t *)&client->tcp;
    uv_read_stop(stream);
    if (uv_write(&client->write, stream, &rest, 1, on_write) < 0)
        leave(client);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct client *client = stream->data;
    if (n < 0) {
        leave(client);
    } else if (n > 0) {
        uv_buf_t answer = uv_buf_init(buffer->base, (unsigned)n);
        int sent = uv_try_write(stream, &answer, 1);
        if (sent == UV_EAGAIN)
            sent = 0;
        if (sent < 0)
            leave(client);
        else if (sent < n)
            write_later(client, (unsigned)sent, (unsigned)n);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct client *client = status < 0 ? NULL : malloc(sizeof *client);
    if (!client)
        return;
    uv_tcp_init(listener->loop, &client->tcp);
    client->tcp.data = client->write.data = client;
    if (uv_accept(listener, (uv_stream_t *)&client->tcp) == 0)
        uv_read_start((uv_stream_t *)&client->tcp, on_alloc, on_read);
    else
        leave(client);
}

static void must(int status)
{
    if (status < 0) {
        fprintf(stderr, "echo: %s\n", uv_strerror(status));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    uv_loop_t *loop = uv_default_loop();
    uv_tcp_t listener;
    struct sockaddr_in at;
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return printf("libuv %s\n", uv_version_string()) < 0;
    signal(SIGPIPE, SIG_IGN); /* of a client that has gone: libuv leaves it to us */
    must(uv_ip4_addr("127.0.0.1", argc > 1 ? atoi(argv[1]) : 0, &at));
    must(uv_tcp_init(loop, &listener));
    must(uv_tcp_bind(&listener, (struct sockaddr *)&at, 0));
    must(uv_listen((uv_stream_t *)&listener, BACKLOG, on_connection));
    return uv_run(loop, UV_RUN_DEFAULT);
}
