/* test_corpus_resp.c -- what fuzzing kept for fuzz_resp.c. */
#include "fuzz/fuzz_resp.c"

#include "corpus.h"

int main(void)
{
    return corpus_replay("src_c/fuzz/corpus/resp", 50);
}
