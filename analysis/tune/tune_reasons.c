/* Reasons by their text: a few, so a list. Numbers in a message are of its strategy alone: each run
 * of digits is one "#". */
#include "analysis/tune/tune_reasons.h"

#include <ctype.h>
#include <string.h>

/* The message with its numbers left out. */
static void without_numbers(const char *msg, char *out, size_t size)
{
    size_t n = 0;

    for (; *msg && n + 1 < size; msg++) {
        bool digit = isdigit((unsigned char)*msg) != 0;
        if (digit && n > 0 && out[n - 1] == '#')
            continue;
        out[n++] = digit ? '#' : *msg;
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
