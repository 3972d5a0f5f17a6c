#pragma once

#include <stdbool.h>
#include <stdio.h>

struct lw_device;
struct lw_framework;
struct lw_strategy;

/* What named the framework of a prediction. */
enum lw_framework_from {
    LW_FRAMEWORK_GIVEN,    /* --framework */
    LW_FRAMEWORK_USUAL,    /* nothing: the rule of docs/design/frameworks.md */
    LW_FRAMEWORK_WORKLOAD, /* the workload file, which was made with it */
    LW_FRAMEWORK_PLAN,     /* the plan file, likewise */
    LW_FRAMEWORK_RECORDED, /* nothing: times are recorded, and nothing is added */
    LW_N_FRAMEWORK_FROM,
};
const char *lw_framework_from_word(int from); /* "option"; NULL after the last */

/* Which framework, and why. Texts are borrowed. */
struct lw_framework_choice {
    enum lw_framework_from from;
    const char *name;
    char hash[33];    /* of its data */
    const char *file; /* as --framework has it, where from is GIVEN */
    char why[240];    /* where it is not GIVEN */
    char left_out[128]; /* lw_framework_left_out */
};

/* The framework that such a strategy is usually run with on a device: its name, and the reason in
 * out->why. transformer: the model is one, as the frameworks that split models ask. The rule:
 * docs/design/frameworks.md. */
void lw_framework_usual(const struct lw_strategy *s, const struct lw_device *d, bool transformer,
                        struct lw_framework_choice *out);

/* "framework", "framework_hash" and "framework_from", into the object that is open; NULL: nulls. */
struct lw_jsonout;
void lw_framework_choice_json(struct lw_jsonout *o, const struct lw_framework_choice *c);
/* The line of a command's head: name, hash, why, and how to take another. */
void lw_framework_choice_print(const struct lw_framework_choice *c, FILE *f);
