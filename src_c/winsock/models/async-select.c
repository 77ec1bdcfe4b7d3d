/* async-select.c -- one thread, to whose window Winsock posts a message for
 * each change.
 *
 *     GetMessage -> which socket? -> accept /
 *                   send what is unsent, receive, send -> GetMessage
 *
 * Good: a program with windows waits for its user and for the network in one
 *       place; no set of sockets to hand over.
 * Bad:  every change is a message: it is posted, waits behind those of all
 *       other clients, and is dispatched; one thread serves them all.
 * Look: the window is never shown (HWND_MESSAGE), its queue is what counts. It
 *       holds 10 000 messages unless the registry says otherwise
 *       (USERPostMessageLimit). FD_READ is posted again only after recv(),
 *       FD_WRITE only after send() has said WSAEWOULDBLOCK, so that each socket
 *       has few messages in the queue at once. FD_CLOSE is posted once, and may
 *       come before the last bytes were received. A message may be older than
 *       its socket's client, whose handle another may have by now: it is a
 *       hint, and only recv() tells.
 * Needs: user32, and Windows 2000 for HWND_MESSAGE.
 * Try:  server.exe async-select with 10, 1000 and 5000 clients: compare with
 *       iocp. Linux kin: models/sigio.c.
 */
#include "winsock/table.h"

enum { WM_SOCKET = WM_USER + 1 };

static SOCKET listener;
static struct table table;

static void drop_client(struct conn *conn)
{
    table_drop(&table, conn);
    conn_close(conn);
}

static void serve_client(struct conn *conn, long event)
{
    conn->ended |= event == FD_CLOSE;
    if (conn_advance(conn) == WANT_CLOSE)
        drop_client(conn);
}

/* Until WSAAsyncSelect the client has FD_ACCEPT, inherited from the listener;
 * from then on it does not block. Of a reset that came before, Wine 8 posts
 * nothing: so the client is served once without a message. */
static void accept_client(HWND window)
{
    SOCKET client = net_accept(listener);
    struct conn *conn =
        client == INVALID_SOCKET ? NULL : conn_open(client, sizeof *conn);
    if (!conn)
        return;
    table_add(&table, conn);
    if (WSAAsyncSelect(client, window, WM_SOCKET,
                       FD_READ | FD_WRITE | FD_CLOSE) == 0) {
        serve_client(conn, 0);
        return;
    }
    stats_error(WSAGetLastError());
    drop_client(conn);
}

static LRESULT CALLBACK on_message(HWND window, UINT message, WPARAM socket,
                                   LPARAM told)
{
    if (message != WM_SOCKET)
        return DefWindowProc(window, message, socket, told);
    struct conn *conn = table_find(&table, socket);
    if (socket == listener)
        accept_client(window);
    else if (conn)
        serve_client(conn, WSAGETSELECTEVENT(told));
    return 0;
}

static HWND make_window(void)
{
    WNDCLASSA kind = {.lpfnWndProc = on_message, .lpszClassName = "connlab"};
    if (!RegisterClassA(&kind))
        net_die("RegisterClass");
    HWND window = CreateWindowA("connlab", "", 0, 0, 0, 0, 0, HWND_MESSAGE,
                                NULL, NULL, NULL);
    if (!window)
        net_die("CreateWindow");
    return window;
}

_Noreturn void async_select_run(const struct server *server)
{
    HWND window = make_window();
    MSG message;
    listener = server->listener;
    if (WSAAsyncSelect(listener, window, WM_SOCKET, FD_ACCEPT))
        net_die("WSAAsyncSelect");
    while (GetMessage(&message, NULL, 0, 0) > 0)
        DispatchMessage(&message);
    net_die("GetMessage");
}
