/* Random words of a search's arguments, and the best that a search finds. */
#include "tests/lib/commands/tune_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"

const char *tune_one_of(struct prng *r, const char *words)
{
    static char out[16][96];
    static int at;
    int n = 1;

    for (const char *c = words; *c; c++)
        n += *c == '|';
    for (int skip = prng_below(r, n); skip > 0; skip--)
        words = strchr(words, '|') + 1;
    at = (at + 1) % 16;
    snprintf(out[at], sizeof out[at], "%.*s", (int)strcspn(words, "|"), words);
    return out[at];
}

char *tune_best_of(const char *args)
{
    const char *json = lapwingf("tune %s --no-db --format json -q", args);
    const char *at = strstr(json, "\"best\""), *end = at ? strstr(at, "\"pareto\"") : NULL;

    assert_non_null(end);
    return strndup(at, (size_t)(end - at));
}
