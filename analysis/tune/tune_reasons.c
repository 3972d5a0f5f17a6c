/* Reasons by their text: a few, so a list. Numbers in a message are of its strategy alone: each run
 * of digits is one "#", but those of names and options stay. */
#include "analysis/tune/tune_reasons.h"

#include <ctype.h>
#include <string.h>

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* A size of a group in a plan's name: "dp8". */
static bool is_group(const char *word, size_t n)
{
    return n > 2 && word[1] == 'p' && strchr("cdept", word[0]) &&
           strspn(word + 2, "0123456789") >= n - 2;
}

/* A name or an option has its digits: "llama-2-7b", "--fp8". */
static bool is_name(const char *word, size_t n)
{
    size_t i = 0;

    while (i < n && !isalpha((unsigned char)word[i]))
        i++;
    return i < n && !isdigit((unsigned char)word[0]) && !is_group(word, n);
}

/* The message with its numbers left out. */
static void without_numbers(const char *msg, char *out, size_t size)
{
    size_t n = 0;

    while (*msg && n + 1 < size) {
        size_t length = 0;
        while (msg[length] && in_word(msg[length]))
            length++;
        bool kept = length == 0 || is_name(msg, length);
        length += length == 0;
        for (; length > 0 && n + 1 < size; msg++, length--) {
            bool digit = !kept && isdigit((unsigned char)*msg);
            if (!digit || n == 0 || out[n - 1] != '#')
                out[n++] = digit ? '#' : *msg;
        }
    }
    out[n] = '\0';
}

/* NULL: no strategy has it so far. */
static struct lw_tune_reason *reason_of(const struct lw_tune_result *r, const char *msg)
{
    char text[256];

    without_numbers(msg, text, sizeof text);
    for (int64_t i = 0; i < r->n_reasons; i++)
        if (strcmp(r->reasons[i].text, text) == 0)
            return &r->reasons[i];
    return NULL;
}

enum lw_status lw_tune_reason_count(struct lw_tune_result *r, const char *msg,
                                    enum lw_tune_found by, int64_t n, struct lw_err *err)
{
    struct lw_tune_reason *known = reason_of(r, msg);
    char text[256];

    r->n_invalid += n;
    if (known) {
        known->n += n;
        known->by = by > known->by ? by : known->by;
        return LW_OK;
    }
    without_numbers(msg, text, sizeof text);
    if (lw_reserve(&r->reasons, &r->reasons_capacity, r->n_reasons + 1,
                   sizeof *r->reasons) != 0)
        return lw_fail_nomem(err);
    struct lw_tune_reason x = {lw_arena_strdup(&r->arena, text),
                               lw_arena_strdup(&r->arena, msg), n, by};
    r->reasons[r->n_reasons++] = x;
    return x.text && x.example ? LW_OK : lw_fail_nomem(err);
}

void lw_tune_reasons_sort(struct lw_tune_result *r)
{
    for (int64_t i = 1; i < r->n_reasons; i++) {
        struct lw_tune_reason x = r->reasons[i];
        int64_t at = i;
        for (; at > 0 && r->reasons[at - 1].n < x.n; at--)
            r->reasons[at] = r->reasons[at - 1];
        r->reasons[at] = x;
    }
}
