/* What tests against the fakes of tests/fake_gpu share. */
#include "tests/lib/fake_gpu.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

void needs_fakes(void)
{
    const char *dir = getenv("LAPWING_FAKE_GPU");

    if (dir && *dir)
        return;
    printf("SKIP: the plugin was left out of this build (CUDA toolkit or NCCL headers not found, "
           "or CUDA=0)\n");
    skip();
}

static void expect_words(const char *text, const char *words, bool there)
{
    size_t n = strlen(text);

    if ((strstr(text, words) != NULL) != there)
        fail_msg("'%s' is%s in:%s", words, there ? " not" : "", text + (n > 700 ? n - 700 : 0));
}

void has(const char *text, const char *words)
{
    expect_words(text, words, true);
}

void has_not(const char *text, const char *words)
{
    expect_words(text, words, false);
}
