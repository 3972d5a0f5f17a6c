#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"

/* Recorded answers of reference systems, repeated by the policies of this tree. A file is JSON
 * lines, one case each, or a CSV table, one case a row; what it holds is found by its content. See
 * docs/design/golden.md. */
struct lw_golden_failure {
    const char *file; /* as named by the user */
    int64_t line;
    const char *id; /* of the case; "" when it has none */
    const char *message;
};

/* Runs one step of a plan, sends buffered: the simulator, which shared/ does not see. *timeline is
 * zeroed before. */
struct lw_plan;
struct lw_timeline;
struct lw_golden_engine {
    enum lw_status (*run)(const void *ctx, const struct lw_plan *plan,
                          struct lw_timeline *timeline, struct lw_err *err);
    const void *ctx;
};

enum { LW_GOLDEN_PROFILES = 16 };
struct lw_golden_result {
    const char *profiles[LW_GOLDEN_PROFILES]; /* set before a run: folders of recorded profiles */
    int n_profiles;
    struct lw_golden_engine engine; /* set before a run; without one, what needs it fails */
    struct lw_arena arena; /* owns the failures' strings; the array is its own */
    int64_t n_passed, n_failed, cap;
    struct lw_golden_failure *failures; /* [n_failed] in order */
};
void lw_golden_free(struct lw_golden_result *r);

/* Run every case of a file and add to *r. A case that is wrong, unknown or unreadable is a failure;
 * LW_EIO and LW_ENOMEM end the run. */
enum lw_status lw_golden_file(const char *file, struct lw_golden_result *r, struct lw_err *err);
