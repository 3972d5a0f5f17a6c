#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/numbers/dtype.h"

/* State of a module that has no gradient, as the running mean of a batch norm. */
struct lw_buffer {
    const char *name;
    int64_t numel;
    enum lw_dtype dtype;
    bool broadcast; /* sent from rank 0 before a synchronised forward */
};
