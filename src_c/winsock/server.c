/* server.c -- flags -> listening socket -> ready line -> model.
 *
 *     server.exe iocp --listen 127.0.0.1:7000
 *
 * The contract of the Linux server, for the echo workload: one JSON line when
 * it is ready, one with statistics when it is told to stop, diagnostics on
 * standard error, exit 0 after a stop, 1 when set-up fails, 2 on bad usage.
 */
#include <fcntl.h>
#include <io.h>
#include <stdio.h>

#include "winsock/net.h"
#include "winsock/options.h"
#include "winsock/stop.h"

static void print_ready(const struct server *server)
{
    printf("{\"event\":\"ready\",\"model\":\"%s\",\"workload\":\"echo\","
           "\"host\":\"%s\",\"port\":%u,\"pid\":%lu,\"processes\":1,"
           "\"workers\":%u}\n",
           server->model->name, server->options.host,
           net_port(server->listener), GetCurrentProcessId(), server->workers);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct server server = {0};
    _setmode(_fileno(stdout), _O_BINARY); /* lines end in \n, not in \r\n */
    options_read(argc, argv, &server);
    net_start();
    server.listener = net_listen(&server.options);
    stop_install(&server);
    print_ready(&server);
    server.model->run(&server); /* until the stop ends the process */
}
