#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/numbers/dtype.h"
#include "shared/workload/product.h"

/* What an op of PyTorch costs, by its name and shapes. */
enum { ET_INPUTS = 12, ET_DIMS = 6 };

struct et_shape {
    int32_t n; /* dimensions; -1 = no tensor, or nested */
    int64_t dim[ET_DIMS];
};

/* The matrix product of an op; false: it has none that is known. A convolution is the product of
 * its output pixels by what one of them sums. */
bool et_product(const char *name, const struct et_shape in[ET_INPUTS],
                const struct et_shape out[ET_INPUTS], enum lw_dtype dtype, struct lw_product *p,
                int32_t *times);
