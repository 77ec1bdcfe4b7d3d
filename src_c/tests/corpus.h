/* corpus.h -- every input that fuzzing kept, given once to its fuzzer.
 *
 * So each of them is tried by any compiler, where `make fuzz` wants clang. A
 * test includes a fuzzer and then this. Run from the project's folder.
 */
#ifndef CORPUS_H
#define CORPUS_H

#include <assert.h>
#include <dirent.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>

/* In memory of exactly its size, so that a sanitizer sees a byte too many. */
static void corpus_take(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert(file && fseek(file, 0, SEEK_END) == 0);
    long size = ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(size ? (size_t)size : 1);
    assert(bytes && fread(bytes, 1, (size_t)size, file) == (size_t)size);
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    free(bytes);
}

static int corpus_replay(const char *folder, unsigned least)
{
    unsigned count = 0;
    DIR *inputs = opendir(folder);
    if (!inputs)
        err(1, "%s", folder);
    for (struct dirent *entry; (entry = readdir(inputs));) {
        char path[512];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        corpus_take(path);
        count++;
    }
    closedir(inputs);
    assert(count >= least);
    return 0;
}

#endif
