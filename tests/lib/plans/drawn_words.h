#pragma once

#include <stdio.h>
#include <string.h>

#include "tests/lib/prng.h"

/* Words of a strategy that are drawn at random. */

static inline const char *drawn_of(struct prng *r, const char *const *words, int n)
{
    return words[prng_below(r, n)];
}
#define ONE_OF(r, ...)                                                                             \
    drawn_of(r, (const char *const[]){__VA_ARGS__},                                                \
             sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))

/* "name value" after the words that are there; nothing for the value "". */
static inline void add_word(char *words, size_t room, const char *name, const char *value)
{
    size_t at = strlen(words);

    if (*value)
        snprintf(words + at, room - at, "%s%s %s", at > 0 ? " " : "", name, value);
}
