#ifndef LW_SHARED_GOLDEN_H
#define LW_SHARED_GOLDEN_H

#include <stdint.h>

#include "shared/arena.h"
#include "shared/err.h"

/* Recorded answers of reference systems, repeated by the policies of this tree. A file is JSON
 * lines, one case each, or a CSV table, one case a row; what it holds is found by its content. See
 * docs/design/golden.md. */
struct lw_golden_failure {
    const char *file; /* as named by the user */
    int64_t line;
    const char *id; /* of the case; "" when it has none */
    const char *message;
};

enum { LW_GOLDEN_PROFILES = 16 };
struct lw_golden_result {
    const char *profiles[LW_GOLDEN_PROFILES]; /* set before a run: folders of recorded profiles */
    int n_profiles;
    struct lw_arena arena; /* owns the failures' strings; the array is its own */
    int64_t n_passed, n_failed, cap;
    struct lw_golden_failure *failures; /* [n_failed] in order */
};
void lw_golden_free(struct lw_golden_result *r);

/* Run every case of a file and add to *r. A case that is wrong, unknown or unreadable is a failure;
 * LW_EIO and LW_ENOMEM end the run. */
enum lw_status lw_golden_file(const char *file, struct lw_golden_result *r, struct lw_err *err);

#endif
