/* The longest rows of a table, in the order of the recording. */
#include "traces/inspect/longest.h"

void traces_longest_add(struct traces_longest *l, int64_t ns)
{
    int64_t i = l->n < LONGEST_SHOWN ? l->n : LONGEST_SHOWN;

    l->n++;
    for (; i > 0 && l->ns[i - 1] < ns; i--)
        if (i < LONGEST_SHOWN)
            l->ns[i] = l->ns[i - 1];
    if (i < LONGEST_SHOWN)
        l->ns[i] = ns;
    l->n_least = 0;
    for (i = 0; i < LONGEST_SHOWN; i++)
        l->n_least += l->ns[i] == l->ns[LONGEST_SHOWN - 1];
}

bool traces_longest_shows(struct traces_longest *l, int64_t ns)
{
    int64_t least = l->ns[LONGEST_SHOWN - 1];

    if (l->all || l->n <= LONGEST_SHOWN || ns > least)
        return true;
    return ns == least && l->n_least-- > 0;
}

void traces_longest_note(const struct traces_longest *l, FILE *f)
{
    if (!l->all && l->n > LONGEST_SHOWN)
        fprintf(f, "  the %d longest of %lld collectives; --all prints every one\n", LONGEST_SHOWN,
                (long long)l->n);
}
