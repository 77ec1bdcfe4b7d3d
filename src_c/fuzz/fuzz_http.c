/* fuzz_http.c -- libFuzzer: any bytes to the http workload, cut anywhere.
 *
 *     piece | what the client says | 0xff | what Redis says
 *
 * Cut into pieces of so many bytes or not, the answers must be the same, but
 * for dates and for "100 Continue", which depends on what has come. And where
 * a request ends must not depend on how much of it is there.
 */
#include <strings.h>

#include "http/http_parse.h"
#include "tests/talk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct workload *http;

static void mask_dates(char *text)
{
    for (char *date = text; (date = strstr(date, "\r\nDate: ")); date += 8)
        memset(date + 8, 'x', 29);
}

static void hear(struct talk *talk, struct span client, struct span redis,
                 size_t piece)
{
    talk_begin(talk, http, NULL);
    talk->reply = redis.length ? redis.bytes : NULL;
    talk->reply_bytes = redis.length;
    talk->reply_piece = piece;
    talk_hear_pieces(talk, client.bytes, client.length, piece);
    talk_hear(talk, NULL, 0);
    mask_dates(talk->out);
}

static void compare(struct span client, struct span redis, size_t piece)
{
    struct talk whole, pieces;
    hear(&whole, client, redis, 0);
    hear(&pieces, client, redis, piece);
    if (!strstr(pieces.out, "HTTP/1.1 100 Continue")) {
        assert(whole.requests == pieces.requests);
        assert(strcmp(whole.out, pieces.out) == 0);
    }
    talk_end(&whole);
    talk_end(&pieces);
}

static void check_end(struct span client, size_t cut)
{
    struct http_request all, part;
    struct span start = {client.bytes,
                         cut < client.length ? cut : client.length};
    enum http_found whole = http_parse(client, &all);
    enum http_found found = http_parse(start, &part);
    if (whole == HTTP_COMPLETE) {
        assert(all.head_bytes <= client.length);
        bool there = start.length >= all.head_bytes;
        assert(found == (there ? HTTP_COMPLETE : HTTP_INCOMPLETE));
        assert(!there || part.head_bytes == all.head_bytes);
    } else if (found == HTTP_BAD) {
        assert(whole == HTTP_BAD && all.error == part.error);
    } else {
        assert(found == HTTP_INCOMPLETE);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct workload_options options = {0};
    if (!http) {
        http = workload_find("http");
        assert(!http->setup(&options));
    }
    if (size == 0)
        return 0;
    struct span client = {(const char *)data + 1, size - 1}, redis = {0};
    const char *split = memchr(client.bytes, 0xff, client.length);
    if (split) {
        size_t length = (size_t)(split - client.bytes);
        redis = (struct span){split + 1, client.length - length - 1};
        client.length = length;
    }
    compare(client, redis, data[0] % 100 + 1u);
    check_end(client, data[0]);
    return 0;
}
