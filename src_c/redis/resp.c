/* resp.c -- see resp.h.
 *
 *     resp_next -> read_line -> read_value -> read_string | read_array
 *
 * A pull parser: the caller asks for one value after the other and knows what
 * it expects, so arrays need no recursion and no memory. Called by
 * http/guestbook.c; fuzz/fuzz_resp.c feeds it any bytes. Of RESP 3 (HELLO 3,
 * Redis 6) nothing is read: a server speaks RESP 2 until it is asked.
 */
#include "resp.h"

static const struct resp more = {.kind = RESP_MORE}, bad = {.kind = RESP_BAD};

/* The line that begins at `at`, without its \r\n; RESP_STATUS when found. What
 * has no end after RESP_LINE_MAX is refused: a peer must not fill memory. */
static enum resp_kind read_line(struct span bytes, size_t at, struct span *line)
{
    size_t left = bytes.length - at;
    size_t most = left < RESP_LINE_MAX ? left : RESP_LINE_MAX;
    const char *start = bytes.bytes + at;
    const char *cr = most ? memchr(start, '\r', most) : NULL;
    if (!cr)
        return left < RESP_LINE_MAX ? RESP_MORE : RESP_BAD;
    *line = (struct span){start, (size_t)(cr - start)};
    if (line->length + 1 == left)
        return RESP_MORE;
    return cr[1] == '\n' ? RESP_STATUS : RESP_BAD;
}

/* Adds up below zero, where there is one number more (INT64_MIN). */
bool resp_number(struct span line, int64_t *number)
{
    size_t sign = line.length > 0 && line.bytes[0] == '-';
    int64_t value = 0;
    for (size_t i = sign; i < line.length; i++) {
        unsigned digit = (unsigned)(line.bytes[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, (int64_t)digit, &value))
            return false;
    }
    if (line.length == sign || (!sign && value == INT64_MIN))
        return false;
    *number = sign ? value : -value;
    return true;
}

/* The bytes of a string whose head ends at *at. Its length is known, so bytes
 * like \r\n inside it end nothing; what comes of its own \r\n is checked. */
static struct resp read_string(struct span bytes, size_t *at, int64_t length)
{
    if (length == -1)
        return (struct resp){.kind = RESP_NOTHING};
    if (length < 0 || length > RESP_STRING_MAX)
        return bad;
    size_t n = (size_t)length, left = bytes.length - *at;
    const char *text = bytes.bytes + *at;
    if ((left > n && text[n] != '\r') || (left > n + 1 && text[n + 1] != '\n'))
        return bad;
    if (left < n + 2)
        return more;
    *at += n + 2;
    return (struct resp){.kind = RESP_STRING, .text = {text, n}};
}

/* Only the head: the elements are values of their own, read one by one. */
static struct resp read_array(int64_t length)
{
    if (length == -1)
        return (struct resp){.kind = RESP_NOTHING};
    if (length < 0 || length > RESP_ARRAY_MAX)
        return bad;
    return (struct resp){.kind = RESP_ARRAY, .number = length};
}

/* A value whose first line is `line`, the type in front cut off. */
static struct resp read_value(char type, struct span line, struct span bytes,
                              size_t *at)
{
    int64_t number = 0;
    if (type == '+')
        return (struct resp){.kind = RESP_STATUS, .text = line};
    if (type == '-')
        return (struct resp){.kind = RESP_ERROR, .text = line};
    if (!resp_number(line, &number))
        return bad;
    if (type == ':')
        return (struct resp){.kind = RESP_NUMBER, .number = number};
    return type == '$' ? read_string(bytes, at, number) : read_array(number);
}

static bool is_type(char c)
{
    return c == '$' || c == ':' || c == '*' || c == '+' || c == '-';
}

struct resp resp_next(struct span bytes, size_t *at)
{
    struct span line;
    if (*at >= bytes.length)
        return more;
    char type = bytes.bytes[*at];
    if (!is_type(type))
        return bad;
    enum resp_kind found = read_line(bytes, *at + 1, &line);
    if (found != RESP_STATUS)
        return (struct resp){.kind = found};
    size_t next = *at + 1 + line.length + 2;
    struct resp value = read_value(type, line, bytes, &next);
    if (value.kind != RESP_MORE && value.kind != RESP_BAD)
        *at = next;
    return value;
}

void resp_command(struct buffer *to, const struct span *words, unsigned count)
{
    buffer_text(to, "*");
    buffer_number(to, count);
    buffer_text(to, "\r\n");
    for (unsigned i = 0; i < count; i++) {
        buffer_text(to, "$");
        buffer_number(to, words[i].length);
        buffer_text(to, "\r\n");
        buffer_span(to, words[i]);
        buffer_text(to, "\r\n");
    }
}
