/* http_reply.c -- see http_reply.h.
 *
 *     HTTP/1.1 STATUS, Date, [Content-Type,] Content-Length, [extra,]
 *     [Connection,] empty line
 *
 * Called by workloads/http.c, which puts a body behind it. Every answer has a
 * Content-Length, so the connection can be kept and no chunked coding is
 * needed. The version is 1.1 also to an HTTP/1.0 client (RFC 9110, 2.5): it
 * says what the server can do, and what differs, keep-alive, is said by
 * Connection. No Server field: it costs bytes in each answer.
 */
#include "http_reply.h"

#include <strings.h>
#include <time.h>

/* Status and reason phrase in one text, since the body of an error repeats it;
 * the phrases of RFC 9110, 15. */
static const char *reason(int status)
{
    switch (status) {
    case 200: return "200 OK";
    case 303: return "303 See Other";
    case 400: return "400 Bad Request";
    case 403: return "403 Forbidden";
    case 404: return "404 Not Found";
    case 405: return "405 Method Not Allowed";
    case 408: return "408 Request Timeout";
    case 411: return "411 Length Required";
    case 413: return "413 Content Too Large";
    case 414: return "414 URI Too Long";
    case 415: return "415 Unsupported Media Type";
    case 417: return "417 Expectation Failed";
    case 431: return "431 Request Header Fields Too Large";
    case 501: return "501 Not Implemented";
    case 503: return "503 Service Unavailable";
    case 505: return "505 HTTP Version Not Supported";
    default: return "500 Internal Server Error";
    }
}

/* "Date: …\r\n" (RFC 9110, 6.6.1), made once a second by each thread for
 * itself: strftime() costs more than the rest of a head, a shared copy a lock.
 * CLOCK_REALTIME_COARSE (Linux 2.6.32) reads no hardware. */
static void add_date(struct buffer *to)
{
    static _Thread_local time_t said;
    static _Thread_local char text[48];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != said) {
        struct tm utc;
        gmtime_r(&now.tv_sec, &utc);
        strftime(text, sizeof text, "Date: %a, %d %b %Y %T GMT\r\n", &utc);
        said = now.tv_sec;
    }
    buffer_text(to, text);
}

void http_reply(struct buffer *to, const struct http_reply *reply)
{
    buffer_text(to, "HTTP/1.1 ");
    buffer_text(to, reason(reply->status));
    buffer_text(to, "\r\n");
    add_date(to);
    if (reply->type) {
        buffer_text(to, "Content-Type: ");
        buffer_text(to, reply->type);
        buffer_text(to, "\r\n");
    }
    buffer_text(to, "Content-Length: ");
    buffer_number(to, reply->body_bytes);
    buffer_text(to, "\r\n");
    if (reply->extra)
        buffer_text(to, reply->extra);
    if (!reply->keep_alive)
        buffer_text(to, "Connection: close\r\n");
    else if (reply->http10) /* the default only since HTTP/1.1 */
        buffer_text(to, "Connection: keep-alive\r\n");
    buffer_text(to, "\r\n");
}

void http_error(struct buffer *to, int status,
                const struct http_request *request, const char *extra)
{
    const char *body = reason(status);
    http_reply(to, &(struct http_reply){.status = status,
                                        .type = "text/plain",
                                        .extra = extra,
                                        .body_bytes = strlen(body) + 1,
                                        .keep_alive = request->keep_alive,
                                        .http10 = request->http10});
    if (request->method == HTTP_HEAD)
        return;
    buffer_text(to, body);
    buffer_text(to, "\n");
}

/* A search through some twenty entries: files.c keeps the result with a file.
 * Unknown endings are bytes, which no browser runs or shows. */
const char *http_type(const char *path)
{
    /* clang-format off */
    static const struct {
        const char *end, *type;
    } types[] = {
        {"html", "text/html; charset=utf-8"}, {"htm", "text/html"},
        {"css", "text/css"}, {"js", "text/javascript"},
        {"json", "application/json"}, {"txt", "text/plain; charset=utf-8"},
        {"csv", "text/csv"}, {"xml", "application/xml"},
        {"pdf", "application/pdf"}, {"svg", "image/svg+xml"},
        {"png", "image/png"}, {"jpg", "image/jpeg"}, {"jpeg", "image/jpeg"},
        {"gif", "image/gif"}, {"webp", "image/webp"}, {"ico", "image/x-icon"},
        {"woff2", "font/woff2"}, {"wasm", "application/wasm"},
    };
    /* clang-format on */
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof types[0]; i++)
        if (strcasecmp(dot + 1, types[i].end) == 0)
            return types[i].type;
    return "application/octet-stream";
}
