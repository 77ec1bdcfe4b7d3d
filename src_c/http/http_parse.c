/* http_parse.c -- see http_parse.h.
 *
 *     http_parse -> { cut_line -> read_request_line | read_header } until an
 *                   empty line -> check_headers
 *
 * Called by workloads/http.c with all bytes that came and were not used yet,
 * each time more of them are there: a head in pieces is parsed anew from its
 * beginning, since clients send nearly all heads in one piece, and a parser
 * that resumes would keep state for each connection. HTTP_HEAD_MAX bounds what
 * a client that drips its head can make of that.
 *
 * Functions that read a part return 0, or the status to refuse with (400, 411,
 * 413, 414, 417, 431, 501, 505); the first error ends it. Nothing here
 * allocates, waits or depends on the locale; fuzz/fuzz_http.c feeds it any
 * bytes, cut anywhere, and expects the same result as from all of them at once.
 */
#include "http_parse.h"

#include <strings.h>

/* What a method or the name of a header may be made of (RFC 9110, 5.6.2). */
static bool is_token_char(unsigned char c)
{
    static const bool others[128] = {
        ['!'] = 1,  ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1,
        ['\''] = 1, ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,
        ['^'] = 1,  ['_'] = 1, ['`'] = 1, ['|'] = 1, ['~'] = 1,
    };
    unsigned char letter = c | 0x20;
    return (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') ||
           (c < 128 && others[c]);
}

static bool is_token(struct span text)
{
    for (size_t i = 0; i < text.length; i++)
        if (!is_token_char((unsigned char)text.bytes[i]))
            return false;
    return text.length > 0;
}

/* No control character but, where allowed, the tab. A CR inside a line is one:
 * some parsers would take it for the end of the line. */
static bool is_printable(struct span text, bool tab)
{
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        if ((c < 0x20 && !(tab && c == '\t')) || c == 0x7f)
            return false;
    }
    return true;
}

static bool is_same(struct span text, const char *name, size_t length)
{
    return text.length == length && strncasecmp(text.bytes, name, length) == 0;
}

#define IS(text, literal) is_same(text, literal, sizeof literal - 1)

/* Cuts off what comes before `c`, which goes too; false: there is no `c`. */
static bool cut(struct span *rest, char c, struct span *before)
{
    const char *found =
        rest->length ? memchr(rest->bytes, c, rest->length) : NULL;
    if (!found)
        return false;
    size_t length = (size_t)(found - rest->bytes);
    *before = (struct span){rest->bytes, length};
    rest->bytes += length + 1;
    rest->length -= length + 1;
    return true;
}

static struct span trim(struct span text)
{
    while (text.length > 0 && (text.bytes[0] == ' ' || text.bytes[0] == '\t')) {
        text.bytes++;
        text.length--;
    }
    while (text.length > 0 && (text.bytes[text.length - 1] == ' ' ||
                               text.bytes[text.length - 1] == '\t'))
        text.length--;
    return text;
}

/* --- the request line ------------------------------------------------- */

/* With case (RFC 9110, 9.1): "get" is another method, which nobody has. */
static enum http_method read_method(struct span name)
{
    static const char *const known[] = {"PUT",   "DELETE", "OPTIONS",
                                        "PATCH", "TRACE",  "CONNECT"};
    if (span_is(name, "GET"))
        return HTTP_GET;
    if (span_is(name, "HEAD"))
        return HTTP_HEAD;
    if (span_is(name, "POST"))
        return HTTP_POST;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (span_is(name, known[i]))
            return HTTP_KNOWN;
    return HTTP_UNKNOWN;
}

/* What neither a Host field nor an authority may hold. User and password
 * ("u:p@host") are for a proxy, and a known disguise of where a link leads. */
static bool is_host(struct span text)
{
    for (size_t i = 0; i < text.length; i++)
        if (strchr(" \t,/@?#", text.bytes[i]))
            return false;
    return true;
}

/* Cuts off "http://host": the absolute form, as a proxy sends it (RFC 9112,
 * 3.2.2). The authority ends at the first '/' or '?' and must not be empty
 * (RFC 9110, 4.2.1). */
static bool cut_authority(struct span *target, size_t scheme_bytes)
{
    size_t end = scheme_bytes;
    while (end < target->length && !strchr("/?", target->bytes[end]))
        end++;
    struct span host = {target->bytes + scheme_bytes, end - scheme_bytes};
    target->bytes += end;
    target->length -= end;
    return host.length > 0 && is_host(host);
}

/* "/path?query"; in the absolute form the path may be missing: "/". */
static int parse_target(struct span target, struct http_request *request)
{
    static const char scheme[] = "http://";
    size_t n = sizeof scheme - 1;
    bool absolute =
        target.length >= n && strncasecmp(target.bytes, scheme, n) == 0;
    if (target.length == 0 || !is_printable(target, false) ||
        (absolute && !cut_authority(&target, n)))
        return 400;
    request->query = target;
    if (!cut(&request->query, '?', &request->path)) {
        request->path = target;
        request->query.length = 0;
    }
    if (absolute && request->path.length == 0)
        request->path = (struct span){"/", 1};
    bool rooted = request->path.length > 0 && request->path.bytes[0] == '/';
    return rooted || request->method >= HTTP_KNOWN ? 0 : 400;
}

/* "HTTP/1.x", with case (RFC 9112, 2.3); later minor versions are 1.1 to us. */
static int read_version(struct span version, struct http_request *request)
{
    if (version.length != 8 || memcmp(version.bytes, "HTTP/", 5) != 0 ||
        version.bytes[6] != '.' || (unsigned)(version.bytes[5] - '0') > 9 ||
        (unsigned)(version.bytes[7] - '0') > 9)
        return 400;
    if (version.bytes[5] != '1')
        return 505;
    request->http10 = version.bytes[7] == '0';
    request->keep_alive = !request->http10;
    return 0;
}

/* method SP target SP version: one space each, though RFC 9112, 3 would let a
 * recipient split at any white space. */
static int read_request_line(struct span line, struct http_request *request)
{
    struct span method, target;
    if (!cut(&line, ' ', &method) || !is_token(method) ||
        !cut(&line, ' ', &target))
        return 400;
    request->method = read_method(method);
    int error = read_version(line, request);
    return error ? error : parse_target(target, request);
}

/* --- headers ---------------------------------------------------------- */

/* RFC 9112, 6.3: digits only, once. No strtoul(): it takes blanks and signs. */
static int read_length(struct span value, struct http_request *request)
{
    if (request->has_length || value.length == 0)
        return 400;
    request->has_length = true;
    for (size_t i = 0; i < value.length; i++) {
        unsigned digit = (unsigned)(value.bytes[i] - '0');
        if (digit > 9)
            return 400;
        if (request->body_bytes <= UINT32_MAX) /* far too much already */
            request->body_bytes = request->body_bytes * 10 + digit;
    }
    return 0;
}

/* A list of options, perhaps over several lines (RFC 9110, 7.6.1); "close"
 * wins, wherever it stands (RFC 9112, 9.3). */
static int read_connection(struct span value, struct http_request *request)
{
    struct span word;
    for (bool more = true; more;) {
        more = cut(&value, ',', &word);
        word = trim(more ? word : value);
        request->has_close |= IS(word, "close");
        if (IS(word, "keep-alive") && request->http10)
            request->keep_alive = true;
    }
    request->keep_alive &= !request->has_close;
    return 0;
}

/* Two Host fields could mean two sites to two parsers (RFC 9112, 3.2). */
static int read_host(struct span value, struct http_request *request)
{
    if (request->has_host || !is_host(value))
        return 400;
    request->has_host = true;
    return 0;
}

/* Nothing here decodes chunks; what a body would be is only needed to say the
 * right error: 411 when "chunked" alone, 501 for any other coding. */
static int read_encoding(struct span value, struct http_request *request)
{
    request->chunked = !request->has_encoding && IS(value, "chunked");
    request->has_encoding = true;
    return 0;
}

/* HTTP/1.0 has no interim answers: there it is ignored (RFC 9110, 10.1.1). */
static int read_expect(struct span value, struct http_request *request)
{
    if (request->http10)
        return 0;
    request->expects_continue = IS(value, "100-continue");
    return request->expects_continue ? 0 : 417;
}

/* name ":" value. A blank before the colon, or a line that begins with one (a
 * fold), makes the name no token: 400 (RFC 9112, 5.1 and 5.2). */
static int read_header(struct span line, struct http_request *request)
{
    struct span name;
    if (!cut(&line, ':', &name) || !is_token(name) || !is_printable(line, true))
        return 400;
    line = trim(line);
    if (IS(name, "Host"))
        return read_host(line, request);
    if (IS(name, "Connection"))
        return read_connection(line, request);
    if (IS(name, "Content-Length"))
        return read_length(line, request);
    if (IS(name, "Transfer-Encoding"))
        return read_encoding(line, request);
    if (IS(name, "Expect"))
        return read_expect(line, request);
    if (IS(name, "Content-Type"))
        request->content_type = line;
    return 0;
}

/* What can be said only when all headers are known. */
static int check_headers(const struct http_request *request)
{
    if (!request->http10 && !request->has_host)
        return 400;
    if (request->has_encoding && (request->has_length || request->http10))
        return 400;
    if (request->has_encoding)
        return request->chunked ? 411 : 501; /* a body of unknown length */
    return request->body_bytes > HTTP_BODY_MAX ? 413 : 0;
}

/* --- the head --------------------------------------------------------- */

static enum http_found parse_refuse(struct http_request *request, int error)
{
    request->error = error;
    request->keep_alive = false;
    return HTTP_BAD;
}

/* The head has not ended yet: may it still? A stream that cannot become HTTP is
 * refused at its first byte, and does not wait for a line end or a timeout. */
static enum http_found unfinished(struct span line, size_t lines, bool full,
                                  struct http_request *request)
{
    if (full)
        return parse_refuse(request, lines ? 431 : 414);
    bool begins = lines == 0 && line.length > 0;
    if (begins && !is_token_char((unsigned char)line.bytes[0]) &&
        !span_is(line, "\r"))
        return parse_refuse(request, 400); /* TLS, or what else is not for us */
    return HTTP_INCOMPLETE;
}

/* Two empty lines before a request are skipped: old clients send one after a
 * body (RFC 9112, 2.2). */
static size_t skip_empty_lines(struct span bytes)
{
    size_t at = 0;
    while (at < 4 && bytes.length - at >= 2 &&
           memcmp(bytes.bytes + at, "\r\n", 2) == 0)
        at += 2;
    return at;
}

/* Cuts off a line and its CR LF. 0: there it is, -1: it ends later, 400: its LF
 * has no CR before it. */
static int cut_line(struct span *rest, struct span *line)
{
    if (!cut(rest, '\n', line))
        return -1;
    if (line->length == 0 || line->bytes[line->length - 1] != '\r')
        return 400;
    line->length--;
    return 0;
}

enum http_found http_parse(struct span bytes, struct http_request *request)
{
    *request = (struct http_request){.method = HTTP_UNKNOWN};
    size_t start = skip_empty_lines(bytes);
    size_t most = bytes.length < HTTP_HEAD_MAX ? bytes.length : HTTP_HEAD_MAX;
    struct span rest = {bytes.bytes + start, most - start}, line;
    for (size_t lines = 0;; lines++) {
        int error = cut_line(&rest, &line);
        if (error < 0)
            return unfinished(rest, lines, most == HTTP_HEAD_MAX, request);
        if (error == 0 && line.length == 0)
            break;
        if (error == 0)
            error = lines ? read_header(line, request)
                          : read_request_line(line, request);
        if (error)
            return parse_refuse(request, error);
    }
    request->head_bytes = (size_t)(rest.bytes - bytes.bytes);
    int error = check_headers(request);
    return error ? parse_refuse(request, error) : HTTP_COMPLETE;
}

/* --- encoded text ----------------------------------------------------- */

/* A digit's value; -1: it is none. No strtoul(), which would take "%+5". */
static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char letter = (char)(c | 0x20);
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

long http_decode(struct span text, bool plus, char *to, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < text.length; i++) {
        int c = (unsigned char)text.bytes[i];
        if (c == '%') {
            if (text.length - i < 3)
                return -1;
            int high = hex_digit(text.bytes[i + 1]);
            int low = hex_digit(text.bytes[i + 2]);
            c = high < 0 || low < 0 ? 0 : high * 16 + low;
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == 0)
            return -1;
        if (n == size)
            return -2;
        to[n++] = (char)c;
    }
    return (long)n;
}

bool http_is_media_type(struct span value, const char *type)
{
    struct span name;
    if (!cut(&value, ';', &name))
        name = value;
    return is_same(trim(name), type, strlen(type));
}

/* The first of that name counts, as in application/x-www-form-urlencoded
 * nothing says what more of them mean. Names are compared as they are sent:
 * ours need no encoding. */
bool http_form_field(struct span form, const char *name, struct span *value)
{
    for (bool more = true; more;) {
        struct span pair, key;
        more = cut(&form, '&', &pair);
        *value = more ? pair : form;
        if (cut(value, '=', &key) && span_is(key, name))
            return true;
    }
    return false;
}
