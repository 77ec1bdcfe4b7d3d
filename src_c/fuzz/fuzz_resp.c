/* fuzz_resp.c -- libFuzzer: any bytes as Redis's replies, and as a form.
 *
 * The first byte says how much of the rest has come: what is bad must not
 * become good by what follows, nor what is whole become anything else.
 */
#include <assert.h>
#include <stdlib.h>

#include "http/guestbook.h"
#include "redis/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(struct span bytes)
{
    size_t at = 0;
    for (size_t before = 0;; before = at) {
        struct resp value = resp_next(bytes, &at);
        if (value.kind == RESP_MORE || value.kind == RESP_BAD)
            break;
        assert(at > before && at <= bytes.length);
        if (value.kind == RESP_STRING)
            assert(value.text.bytes + value.text.length + 2 ==
                   bytes.bytes + at);
    }
}

static enum guestbook_result result_of_page(struct span reply)
{
    static char room[1 << 16];
    struct buffer page = {.bytes = room, .capacity = sizeof room};
    return guestbook_page(reply, &page);
}

static void check_cut(struct span bytes, size_t cut)
{
    struct span part = {bytes.bytes, cut < bytes.length ? cut : bytes.length};
    enum guestbook_result first = result_of_page(part);
    assert(first == GUESTBOOK_INCOMPLETE || first == result_of_page(bytes));
    first = guestbook_written(part);
    assert(first == GUESTBOOK_INCOMPLETE || first == guestbook_written(bytes));
}

static void make_page(struct span reply, size_t room)
{
    char *bytes = malloc(room);
    struct buffer page = {.bytes = bytes, .capacity = room};
    enum guestbook_result result = guestbook_page(reply, &page);
    assert(page.length <= room);
    assert(result != GUESTBOOK_DONE || (page.length > 0 && !page.full));
    guestbook_written(reply);
    free(bytes);
}

static void take_form(struct span form)
{
    int status;
    struct span command = guestbook_write(form, &status);
    assert(command.bytes || status == 400 || status == 413);
    free((char *)command.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    guestbook_setup(NULL);
    if (size == 0)
        return 0;
    char *copy = malloc(size - 1);
    memcpy(copy, data + 1, size - 1);
    struct span bytes = {copy, size - 1};
    read_all(bytes);
    check_cut(bytes, data[0]);
    make_page(bytes, 65536);
    make_page(bytes, data[0] * 8u + 1);
    take_form(bytes);
    free(copy);
    return 0;
}
