#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/framework/memory_figures.h"
#include "shared/timeline/timeline.h"

struct lw_prediction;

/* What takes the memory of a device where the fullest rank holds most. See
 * docs/design/memory.md. */
struct lw_memory_part {
    const char *kind;              /* "activations", a word */
    const char *name;              /* for people */
    /* Of activations: modules that hold as much each, the first and the last, -1 = none, and how
     * many: fewer than from first to last where others lie between. */
    int32_t first_module, last_module, n_modules;
    int64_t bytes;
    double share_pct;              /* of the device's bytes */
};

struct lw_memory_story {
    struct lw_arena arena;         /* owns the rest */
    struct lw_memory_peak at;      /* its rank, step and op; bytes of the plan's tensors */
    bool in_step;                  /* the optimizer's step holds more than any backward */
    struct lw_memory_part *parts;  /* the largest first; add up to figures.fullest.device */
    int32_t n_parts;
    int64_t allocated, reserved, device; /* bytes of that rank */
};

/* Of a prediction that lw_predict has made. LW_EINVAL: activations are not known. */
enum lw_status lw_memory_story_of(const struct lw_prediction *s, struct lw_memory_story *out,
                                  struct lw_err *err);
void lw_memory_story_free(struct lw_memory_story *x);
