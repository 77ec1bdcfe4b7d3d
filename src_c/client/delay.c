/* delay.c -- see delay.h.
 *
 *     delay_parse: "bimodal:5ms:4ms" -> struct delay;  delay_draw: -> ns
 *
 * Drawn by ask.c for each work request and by client_events.c for each pause
 * between an answer and the next request. Times are drawn in doubles and
 * rounded once at the end, so that their mean is that of the distribution; the
 * server's unit, whole microseconds, is ask.c's matter.
 */
#include "delay.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool has_spread;
} kinds[] = {
    [DELAY_FIXED] = {"fixed", false},
    [DELAY_UNIFORM] = {"uniform", true},
    [DELAY_EXPONENTIAL] = {"exponential", false},
    [DELAY_BIMODAL] = {"bimodal", true},
};

static const struct {
    const char *name;
    double ns;
} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"", 1e6}};

const char *delay_name(enum delay_kind kind)
{
    return kinds[kind].name;
}

double delay_parse_time(const char *text, const char **end)
{
    char *rest;
    double number = strtod(text, &rest);
    if (rest == text || !(number >= 0 && number <= 1e12))
        return -1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t length = strlen(units[i].name);
        if (strncmp(rest, units[i].name, length) == 0) {
            *end = rest + length;
            return number * units[i].ns;
        }
    }
    return -1;
}

/* "KIND:" at the start of *text: skips it. No kind at all means fixed. */
static int parse_kind(const char **text)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i].name);
        if (strncmp(*text, kinds[i].name, length) == 0 &&
            (*text)[length] == ':') {
            *text += length + 1;
            return (int)i;
        }
    }
    return strchr(*text, ':') ? -1 : (int)DELAY_FIXED;
}

bool delay_parse(const char *text, struct delay *delay)
{
    int kind = parse_kind(&text);
    if (kind < 0)
        return false;
    struct delay d = {.kind = (enum delay_kind)kind};
    d.mean_ns = delay_parse_time(text, &text);
    if (d.mean_ns < 0)
        return false;
    if (kinds[kind].has_spread) {
        if (*text != ':')
            return false;
        d.spread_ns = delay_parse_time(text + 1, &text);
        if (d.spread_ns < 0 || d.spread_ns > d.mean_ns)
            return false;
    }
    if (*text != '\0')
        return false;
    *delay = d;
    return true;
}

uint64_t delay_draw(const struct delay *delay, struct rng *rng)
{
    double ns = delay->mean_ns;
    switch (delay->kind) {
    case DELAY_FIXED: break;
    case DELAY_UNIFORM: ns += (2 * rng_unit(rng) - 1) * delay->spread_ns; break;
    case DELAY_EXPONENTIAL: ns = rng_exponential(rng, ns); break;
    case DELAY_BIMODAL:
        ns += rng_next(rng) >> 63 ? delay->spread_ns : -delay->spread_ns;
        break;
    }
    return ns > 0 ? (uint64_t)(ns + 0.5) : 0;
}
