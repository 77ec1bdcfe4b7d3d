/* test_corpus_work.c -- what fuzzing kept for fuzz_work.c. */
#include "fuzz/fuzz_work.c"

#include "corpus.h"

int main(void)
{
    return corpus_replay("src_c/fuzz/corpus/work", 15);
}
