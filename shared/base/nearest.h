#pragma once

#include <stddef.h>

#include "shared/base/err.h"

/* The candidate that is nearest to `word`: try them one by one. */
struct lw_nearest {
    const char *word, *best; /* best: the nearest candidate so far; NULL = none is near */
    int distance;
};

struct lw_nearest lw_nearest_begin(const char *word);
void lw_nearest_try(struct lw_nearest *n, const char *candidate); /* borrowed */
/* " (did you mean 'gpt2'?)", or "" where nothing is near. prefix goes before the candidate
 * ("--"). */
const char *lw_nearest_hint(const struct lw_nearest *n, const char *prefix, char *buf,
                            size_t size);

/* "--option: unknown value 'jsn' (did you mean 'json'?); expected one of text, json, csv". words
 * ends with NULL; without an option the message begins with "unknown". */
enum lw_status lw_fail_word(struct lw_err *err, const char *option, const char *value,
                            const char *const *words);
