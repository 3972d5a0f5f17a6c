#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/numbers/dtype.h"
#include "shared/base/err.h"

/* What a kernel is, by its name: the first mark that the name contains (any case) decides. Marks of
 * a user's file come before the built-in ones. See docs/design/kernel_class.md. */
enum lw_kernel_class {
    LW_KERNEL_OTHER,   /* no mark fits */
    LW_KERNEL_COMM,    /* moves data between ranks */
    LW_KERNEL_COMPUTE, /* bound by arithmetic: matrix products, convolutions, attention */
    LW_KERNEL_MEMORY,  /* bound by device memory: elementwise, normalisation, reductions, copies */
    LW_N_KERNEL_CLASSES,
};

struct lw_kernel_mark {
    enum lw_kernel_class class;
    const char *mark; /* of a user's; NULL: of the built-in ones */
    bool has_dtype; /* of the arithmetic, where the name tells it */
    enum lw_dtype dtype;
};

/* The type of a matrix product's inputs. fp8: dtype is that of the rate it is a multiple of. */
struct lw_kernel_type {
    bool known, fp8;
    enum lw_dtype dtype;
};

/* A user's marks. Zeroed = only the built-in ones. */
struct lw_kernel_table {
    struct lw_arena arena;
    int32_t n;
    struct lw_kernel_mark *marks;
};

/* A file of lines "CLASS MARK [DTYPE]" (comm, compute, memory, other); # begins a comment.
 * LW_EFORMAT names file and line. */
enum lw_status lw_kernel_table_read(const char *file, struct lw_kernel_table *out,
                                    struct lw_err *err);
void lw_kernel_table_free(struct lw_kernel_table *t);

/* The mark that decides; NULL = none fits. user may be NULL. */
const struct lw_kernel_mark *lw_kernel_mark_of(const struct lw_kernel_table *user,
                                               const char *name);
/* By the user's marks, then by the name. */
struct lw_kernel_type lw_kernel_type_of(const struct lw_kernel_table *user, const char *name);
/* As a recorder names the type of an input ("c10::BFloat16", "c10::Float8_e4m3fn", "float"). */
struct lw_kernel_type lw_kernel_type_named(const char *type);
enum lw_kernel_class lw_kernel_class_of(const struct lw_kernel_table *user, const char *name);
bool lw_kernel_is_comm(const char *name);                 /* by the built-in marks */
const char *lw_kernel_class_name(enum lw_kernel_class c); /* "comm", ... */
