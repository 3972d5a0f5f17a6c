#pragma once

#include <stdint.h>

#include "shared/numbers/dtype.h"
#include "shared/numbers/units.h"

/* What a device does by itself, as it was measured over sizes. A size is in bytes of the
 * payload, as ops have it; of a product in FLOPs. */
enum lw_work_kind {
    LW_WORK_GEMM,     /* one product of square matrices */
    LW_WORK_FILL,     /* a gradient is written */
    LW_WORK_COPY_IN,  /* it is divided by the ranks on its way into its bucket */
    LW_WORK_COPY_OUT, /* and comes back */
    LW_WORK_COPY,
    LW_WORK_CAST,     /* size: in the type that is not sent */
    LW_WORK_SGD,      /* an optimizer's step; size: of the parameters */
    LW_WORK_MOMENTUM,
    LW_WORK_ADAM,
    LW_N_WORK_KINDS,
};

const char *lw_work_name(enum lw_work_kind kind); /* "copy_in"; NULL after the last */

struct lw_work_table {
    enum lw_work_kind kind;
    enum lw_dtype dtype, from; /* of what results, of what is read: they differ in casts */
    int32_t n_rows;            /* ascending by size */
    const int64_t *size;
    const lw_ps *time_ps;
    const lw_ps *spread_ps;    /* interquartile range; NULL = unknown */
    const char *source;
};

struct lw_device;

/* The device's table for the kind and its types (from LW_N_DTYPES: whatever is read). For want
 * of one, that of other types, but never of another type of products. NULL: none. */
const struct lw_work_table *lw_work_find(const struct lw_device *d, enum lw_work_kind kind,
                                         enum lw_dtype dtype, enum lw_dtype from);
/* shared/cluster/curve.h; nothing takes no time. */
lw_ps lw_work_time(const struct lw_work_table *t, int64_t size);
