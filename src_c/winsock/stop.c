/* stop.c -- see stop.h.
 *
 *     Ctrl-C, Ctrl-Break, console closed, end of input -> all quiet? -> stats
 *
 * No model knows of a stop: Windows calls the handler in a thread of its own,
 * which waits until no byte moves any more and ends the process, whatever its
 * other threads wait for.
 */
#include "winsock/stop.h"

#include <stdio.h>

#include "winsock/net.h"
#include "winsock/stats.h"

enum {
    QUIET_MS = 50,  /* nothing received or sent for so long: all done */
    GRACE_MS = 800, /* ... and then what is open is cut */
};

static const struct server *stopping;
static volatile LONG told;
static ULONGLONG started_ms;

static double seconds(FILETIME time)
{
    ULARGE_INTEGER ticks = {.LowPart = time.dwLowDateTime,
                            .HighPart = time.dwHighDateTime};
    return (double)ticks.QuadPart / 1e7; /* of 100 ns */
}

static void stop_await_quiet(void)
{
    int64_t before = -1, now = stats_traffic();
    for (int ms = 0; ms < GRACE_MS && now != before; ms += QUIET_MS) {
        Sleep(QUIET_MS);
        before = now;
        now = stats_traffic();
    }
}

static void stop_print_stats(void)
{
    FILETIME created, exited, kernel, user;
    GetProcessTimes(GetCurrentProcess(), &created, &exited, &kernel, &user);
    printf("{\"event\":\"stats\",\"model\":\"%s\",\"workload\":\"echo\","
           "\"processes\":1,",
           stopping->model->name);
    stats_print_json(stopping->workers);
    printf(",\"cpu_user_s\":%.6f,\"cpu_system_s\":%.6f,\"seconds\":%.6f}\n",
           seconds(user), seconds(kernel),
           (double)(GetTickCount64() - started_ms) / 1e3);
    fflush(stdout);
}

/* The first to be told does it; nobody returns. */
_Noreturn static void stop(void)
{
    if (InterlockedExchange(&told, 1))
        Sleep(INFINITE);
    stop_await_quiet();
    stop_print_stats();
    ExitProcess(0);
}

static BOOL WINAPI stop_on_control(DWORD control)
{
    (void)control;
    stop();
}

static DWORD WINAPI stop_at_eof(void *input)
{
    char unused[64];
    DWORD n;
    while (ReadFile(input, unused, sizeof unused, &n, NULL) && n > 0)
        continue;
    stop();
}

void stop_install(const struct server *server)
{
    stopping = server;
    started_ms = GetTickCount64();
    /* A parent may have us ignore Ctrl-C, as a shell does for what runs in
     * the background. */
    SetConsoleCtrlHandler(NULL, FALSE);
    if (!SetConsoleCtrlHandler(stop_on_control, TRUE))
        net_die("SetConsoleCtrlHandler");
    if (server->options.until_eof &&
        !CreateThread(NULL, 0, stop_at_eof, GetStdHandle(STD_INPUT_HANDLE), 0,
                      NULL))
        net_die("CreateThread");
}
