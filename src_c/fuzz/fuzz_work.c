/* fuzz_work.c -- libFuzzer: any bytes to the work workload, cut anywhere.
 *
 * The first byte says into pieces of how many bytes the others are cut. The
 * answers must be the same as without cuts.
 */
#include "tests/talk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hear(struct talk *talk, const char *bytes, size_t n, size_t piece)
{
    struct workload_options options = {.buckets = 8};
    const struct workload *work = workload_find("work");
    assert(!work->setup(&options));
    talk_begin(talk, work, NULL);
    talk_hear_pieces(talk, bytes, n, piece);
    talk_hear(talk, NULL, 0);
    work->teardown();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct talk whole, pieces;
    if (size == 0)
        return 0;
    const char *bytes = (const char *)data + 1;
    hear(&whole, bytes, size - 1, 0);
    hear(&pieces, bytes, size - 1, data[0] % 50 + 1u);
    assert(whole.requests == pieces.requests);
    assert(strcmp(whole.out, pieces.out) == 0);
    talk_end(&whole);
    talk_end(&pieces);
    return 0;
}
