#pragma once

#include <stdio.h>
#include <string.h>

#include "shared/strategy/strategy.h"

/* "name value name value ..." on top of the defaults. Its texts stay until the next call. After
 * cmocka.h. */
static inline struct lw_strategy strategy(const char *words)
{
    static char text[512]; /* values are kept by pointer */
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};

    snprintf(text, sizeof text, "%s", words);
    for (char *name = strtok(text, " "); name; name = strtok(NULL, " "))
        if (lw_strategy_set(&s, name, strtok(NULL, " "), &err) != LW_OK)
            fail_msg("%s", err.msg);
    return s;
}
