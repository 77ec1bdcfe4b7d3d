/* test_corpus_http.c -- what fuzzing kept for fuzz_http.c. */
#include "fuzz/fuzz_http.c"

#include "corpus.h"

int main(void)
{
    return corpus_replay("src_c/fuzz/corpus/http", 100);
}
