/* The words for how real an execution was. */
#include "shared/timeline/run_sources.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* In the order of what is said of a run that several apply to: the last. */
static const char *const words[] = {"real", "spin", "sleep", "paced", "emulated"};
enum { REAL, SPIN, SLEEP, PACED, EMULATED, N_WORDS };

/* Words are separated by ", "; none is a part of another. */
static bool has(const char *text, int word)
{
    return strstr(text, words[word]) != NULL;
}

struct lw_run_sources lw_run_sources_of(const char *text)
{
    struct lw_run_sources s = {"", "", ""};

    if (!text || !*text)
        return s;
    for (int k = 0; k < N_WORDS; k++)
        if (has(text, k))
            s.last = words[k];
    s.network = words[has(text, EMULATED) ? EMULATED : has(text, PACED) ? PACED : REAL];
    for (int k = REAL; k <= SLEEP; k++)
        if (has(text, k))
            s.compute = words[k];
    if (!*s.compute && has(text, EMULATED))
        s.compute = words[EMULATED];
    return s;
}

const char *lw_run_sources_text(char text[LW_RUN_SOURCES], const char *by_clock, const char *last)
{
    bool emulated = strcmp(last, words[EMULATED]) == 0;
    const char *compute = by_clock ? by_clock : emulated ? last : words[REAL];
    bool more = strcmp(last, compute) != 0;

    snprintf(text, LW_RUN_SOURCES, "%s%s%s", compute, more ? ", " : "", more ? last : "");
    return text;
}
