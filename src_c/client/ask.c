/* ask.c -- see ask.h.
 *
 *     ask_make:  make_echo | make_work | make_http    what to send
 *     ask_take:  take_echo | take_work | take_http    bytes that came, judged
 *     ask_end:   the stream ended: was that the end of the answer?
 *
 * Called by user.c for each request and each receive of each user, so echo, on
 * which rates are measured, is one memcmp(3) and no copy. Answers of work and
 * http are read byte by byte up to the end of a line; bodies are counted only.
 *
 * Bytes behind the end of an answer are a mismatch in every workload: requests
 * are not pipelined, so nothing more can be due.
 */
#include "ask.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Requests begin at one of so many places of the pattern. */
enum { STARTS = 4096 };
/* Any number of so many digits fits into 64 bits. */
enum { DIGITS = 19 };

enum http_stage { HTTP_STATUS, HTTP_HEADER, HTTP_BODY, HTTP_BODY_TO_END };

const char *ask_workload_name(enum ask_workload workload)
{
    static const char *const names[] = {"echo", "work", "http"};
    return names[workload];
}

static char *http_request(const char *host, const char *path, const char *word)
{
    char *text = NULL;
    int n =
        asprintf(&text, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: %s\r\n\r\n",
                 path, host, word);
    return n < 0 ? NULL : text;
}

/* Random, so that an answer which is shifted, repeated or somebody else's does
 * not pass; by the seed, so that a run can be repeated. */
static char *random_bytes(size_t bytes, uint64_t seed)
{
    struct rng rng = rng_make(seed, 0x7061747465726e);
    char *pattern = malloc(bytes);
    for (size_t i = 0; pattern && i < bytes; i++)
        pattern[i] = (char)(rng_next(&rng) >> 56);
    return pattern;
}

bool asks_make(struct asks *asks, const char *host, const char *path,
               uint64_t seed)
{
    if (asks->workload == ASK_ECHO && !asks->pattern)
        asks->pattern = random_bytes(asks->size_max + STARTS, seed);
    if (asks->workload == ASK_HTTP) {
        asks->http[0] = http_request(host, path, "keep-alive");
        asks->http[1] = http_request(host, path, "close");
    }
    return (asks->workload != ASK_ECHO || asks->pattern) &&
           (asks->workload != ASK_HTTP || (asks->http[0] && asks->http[1]));
}

void asks_free(struct asks *asks)
{
    free((char *)asks->pattern);
    free(asks->http[0]);
    free(asks->http[1]);
}

/* --- echo --------------------------------------------------------------- */

/* The place in the pattern comes from a hash of user and number, not from the
 * generator that draws sizes: that would shift the sizes of all that follow. */
static void make_echo(const struct asks *asks, struct ask *ask, uint64_t who,
                      uint64_t number, struct rng *rng)
{
    size_t choice = asks->size_max - asks->size_min;
    ask->out_bytes = asks->size_min + (choice ? rng_below(rng, choice + 1) : 0);
    ask->out =
        asks->pattern + rng_mix(who * 0x9e3779b97f4a7c15u + number) % STARTS;
    ask->expect = ask->out;
    ask->left = ask->out_bytes;
}

static enum ask_verdict take_echo(struct ask *ask, const char *data, size_t n)
{
    if (n > ask->left || memcmp(data, ask->expect, n) != 0)
        return ASK_MISMATCH;
    ask->expect += n;
    ask->left -= n;
    return ask->left ? ASK_MORE : ASK_DONE;
}

/* --- lines, for work and http ------------------------------------------- */

/* Adds a byte to the line; true when it was the line's end. What does not fit
 * is dropped: nothing that we look for is that far to the right. */
static bool line_add(struct ask *ask, char c)
{
    if (c == '\n') {
        if (ask->line_bytes > 0 && ask->line[ask->line_bytes - 1] == '\r')
            ask->line_bytes--;
        ask->line[ask->line_bytes] = '\0';
        return true;
    }
    if (ask->line_bytes < sizeof ask->line - 1)
        ask->line[ask->line_bytes++] = c;
    return false;
}

/* --- work --------------------------------------------------------------- */

static void make_work(const struct asks *asks, struct ask *ask, struct rng *rng)
{
    uint64_t us = (delay_draw(&asks->delay, rng) + 500) / 1000;
    ask->least = us;
    ask->out_bytes = (size_t)snprintf(
        ask->text, sizeof ask->text, "%llu %llu\n", (unsigned long long)us,
        (unsigned long long)rng_below(rng, asks->buckets));
    ask->out = ask->text;
}

/* Whether the line is digits to its end, which a zero byte is not, and no more
 * than surely fit; what was dropped of a longer one is not known. */
static bool line_number(const struct ask *ask, uint64_t *value)
{
    char *end;
    *value = strtoull(ask->line, &end, 10);
    return isdigit((unsigned char)ask->line[0]) &&
           end == ask->line + ask->line_bytes && ask->line_bytes <= DIGITS;
}

static enum ask_verdict take_work(struct ask *ask, const char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t value;
        if (!line_add(ask, data[i]))
            continue;
        return line_number(ask, &value) && value >= ask->least && i + 1 == n
                   ? ASK_DONE
                   : ASK_MISMATCH;
    }
    return ASK_MORE;
}

/* --- http --------------------------------------------------------------- */

static void make_http(const struct asks *asks, struct ask *ask, bool last)
{
    ask->out = asks->http[last];
    ask->out_bytes = strlen(ask->out);
    ask->stage = HTTP_STATUS;
    ask->closes = last;
    ask->left = UINT64_MAX; /* until a Content-Length is seen */
}

static enum ask_verdict http_done(const struct ask *ask)
{
    return ask->status >= 400 ? ASK_STATUS : ASK_DONE;
}

/* The value of header `name`, or NULL when this line is another one. */
static const char *header_value(const char *line, const char *name)
{
    size_t length = strlen(name);
    if (strncasecmp(line, name, length) != 0 || line[length] != ':')
        return NULL;
    return line + length + 1 + strspn(line + length + 1, " \t");
}

static enum ask_verdict http_status(struct ask *ask)
{
    int minor;
    if (sscanf(ask->line, "HTTP/1.%d %d", &minor, &ask->status) != 2)
        return ASK_MISMATCH;
    ask->closes |= minor == 0;
    ask->stage = HTTP_HEADER;
    return ASK_MORE;
}

/* The empty line: what follows depends on status and Content-Length. */
static enum ask_verdict http_body_begins(struct ask *ask)
{
    if (ask->status < 200) { /* 100 Continue and its like */
        ask->stage = HTTP_STATUS;
        return ASK_MORE;
    }
    if (ask->status == 204 || ask->status == 304 || ask->left == 0)
        return http_done(ask);
    ask->stage = ask->left == UINT64_MAX ? HTTP_BODY_TO_END : HTTP_BODY;
    return ASK_MORE;
}

/* A list of options (RFC 9110, 7.6.1), which is cut up; "close" wins, wherever
 * it stands. */
static void http_connection(struct ask *ask, char *options)
{
    bool closes = false, stays = false;
    for (char *word; (word = strsep(&options, ", \t"));) {
        closes |= strcasecmp(word, "close") == 0;
        stays |= strcasecmp(word, "keep-alive") == 0; /* HTTP/1.0 */
    }
    ask->closes = closes || (ask->closes && !stays);
}

static enum ask_verdict http_header(struct ask *ask)
{
    const char *value;
    if (ask->line_bytes == 0)
        return http_body_begins(ask);
    if ((value = header_value(ask->line, "Content-Length"))) {
        char *end;
        ask->left = strtoull(value, &end, 10);
        if (!isdigit((unsigned char)*value) || end - value > DIGITS ||
            end[strspn(end, " \t")])
            return ASK_MISMATCH;
    } else if ((value = header_value(ask->line, "Connection"))) {
        http_connection(ask, (char *)value);
    } else if (header_value(ask->line, "Transfer-Encoding")) {
        return ASK_MISMATCH; /* chunks are not spoken here */
    }
    return ASK_MORE;
}

static enum ask_verdict http_body(struct ask *ask, size_t n)
{
    if (ask->stage == HTTP_BODY_TO_END)
        return ASK_MORE;
    if (n > ask->left)
        return ASK_MISMATCH;
    ask->left -= n;
    return ask->left ? ASK_MORE : http_done(ask);
}

static enum ask_verdict take_http(struct ask *ask, const char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ask->stage >= HTTP_BODY)
            return http_body(ask, n - i);
        if (!line_add(ask, data[i]))
            continue;
        enum ask_verdict verdict =
            ask->stage == HTTP_STATUS ? http_status(ask) : http_header(ask);
        ask->line_bytes = 0;
        if (verdict != ASK_MORE)
            return i + 1 == n ? verdict : ASK_MISMATCH;
    }
    return ASK_MORE;
}

/* --- any ---------------------------------------------------------------- */

void ask_make(const struct asks *asks, struct ask *ask, uint64_t who,
              uint64_t number, bool last, struct rng *rng)
{
    ask->line_bytes = 0;
    ask->closes = false;
    switch (asks->workload) {
    case ASK_ECHO: make_echo(asks, ask, who, number, rng); break;
    case ASK_WORK: make_work(asks, ask, rng); break;
    case ASK_HTTP: make_http(asks, ask, last); break;
    }
}

enum ask_verdict ask_take(const struct asks *asks, struct ask *ask,
                          const char *data, size_t bytes)
{
    switch (asks->workload) {
    case ASK_ECHO: return take_echo(ask, data, bytes);
    case ASK_WORK: return take_work(ask, data, bytes);
    case ASK_HTTP: return take_http(ask, data, bytes);
    }
    return ASK_MISMATCH;
}

enum ask_verdict ask_end(const struct asks *asks, const struct ask *ask)
{
    return asks->workload == ASK_HTTP && ask->stage == HTTP_BODY_TO_END
               ? http_done(ask)
               : ASK_MORE;
}
