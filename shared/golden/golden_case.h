#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/numbers/dtype.h"
#include "shared/base/err.h"
#include "shared/golden/golden.h"
#include "shared/json/value.h"

/* One recorded case as a checker sees it: its inputs are read by name, and every expected field is
 * compared with what the policies answer, as text. A checker returns LW_OK (the case passes),
 * LW_ENO (it does not: the message names the field and the first difference), LW_EFORMAT (not a
 * case of its kind) or LW_ENOMEM. */
struct lw_golden_case {
    struct lw_arena *arena;      /* scratch, freed after the case */
    const struct lw_value *root; /* a JSON line; NULL in a table */
    int32_t n_cells;             /* a row of a CSV table */
    char *const *titles, *const *cells;
    const char *file;            /* the case's file, as the user wrote it */
    int n_profiles;              /* folders of recorded profiles (--profiles) */
    const char *const *profiles;
    const struct lw_golden_engine *engine; /* its run may be NULL */
};

typedef enum lw_status lw_golden_check(struct lw_golden_case *c, struct lw_err *err);

lw_golden_check lw_golden_c10d, lw_golden_c10d_trace;
lw_golden_check lw_golden_picotron, lw_golden_picotron_launch;
lw_golden_check lw_golden_oss, lw_golden_sharded;
lw_golden_check lw_golden_uniform, lw_golden_balanced, lw_golden_partition_row;
lw_golden_check lw_golden_groups, lw_golden_shared_module, lw_golden_grad_handlers;
lw_golden_check lw_golden_bucketing_row;
lw_golden_check lw_golden_schedule_1f1b, lw_golden_schedule_interleaved;
lw_golden_check lw_golden_manifest_row, lw_golden_megatron_row, lw_golden_pipedream_row;

/* Every field or column is one of these (separated by blanks), so that none goes unchecked. Called
 * before the checker of a case; of what a case holds in a list each checker sees to it. */
enum lw_status lw_golden_known(const struct lw_golden_case *c, const char *names,
                               struct lw_err *err);

/* Inputs: fields of a JSON line, or cells of a row. A field of another type, or a number out of
 * range, is LW_EFORMAT; so is an absent one except where said. Lists (of a cell: with ';' between)
 * live in the case's arena. */
enum lw_status lw_golden_int(const struct lw_golden_case *c, const char *name, int64_t min,
                             int64_t max, int64_t *v, struct lw_err *err);
enum lw_status lw_golden_int32(const struct lw_golden_case *c, const char *name, int32_t min,
                               int32_t max, int32_t *v, struct lw_err *err);
enum lw_status lw_golden_bool(const struct lw_golden_case *c, const char *name, bool *v,
                              struct lw_err *err); /* absent: false */
enum lw_status lw_golden_list(const struct lw_golden_case *c, const char *name, int64_t min,
                              int64_t max, int64_t **v, int32_t *n, struct lw_err *err);
/* Like lw_golden_list with room for 32 bits; absent: *v = NULL, *n = -1. */
enum lw_status lw_golden_indices(const struct lw_golden_case *c, const char *name, int32_t min,
                                 int32_t max, int32_t **v, int32_t *n, struct lw_err *err);
/* The elements of one value that is a list of whole numbers. */
enum lw_status lw_golden_value_ints(struct lw_arena *arena, const struct lw_value *value,
                                    const char *what, int64_t min, int64_t max, int64_t **v,
                                    int32_t *n, struct lw_err *err);
/* "dtype": one name for all n, or a list of n; absent: f32. */
enum lw_status lw_golden_dtypes(const struct lw_golden_case *c, int32_t n, enum lw_dtype **v,
                                struct lw_err *err);

/* Expected answers, of a field or a cell. `ours` is freed in every case. */
enum lw_status lw_golden_expect(const struct lw_golden_case *c, const char *name,
                                struct lw_text *ours, struct lw_err *err);
enum lw_status lw_golden_expect_word(const struct lw_golden_case *c, const char *name,
                                     const char *word, struct lw_err *err);
enum lw_status lw_golden_expect_number(const struct lw_golden_case *c, const char *name, int64_t v,
                                       struct lw_err *err);
/* The reference raised this class of error (NULL: none, then "error" is absent or null), and none
 * of the answers named is there beside it. */
enum lw_status lw_golden_expect_error(const struct lw_golden_case *c, const char *error,
                                      const char *answers, struct lw_err *err);
/* A cell's text; LW_EFORMAT if the table has no such column. */
enum lw_status lw_golden_cell(const struct lw_golden_case *c, const char *title, const char **text,
                              struct lw_err *err);

/* Puts our open buckets into the order of the case: the reference system keeps them in the order of
 * a hash table. wanted[k]: its list of bucket k (NULL: unknown). A list that we do not have changes
 * nothing, and the comparison shows the difference. */
struct lw_bucketing;
enum lw_status lw_golden_order_open(struct lw_golden_case *c, const struct lw_value *const *wanted,
                                    struct lw_bucketing *b, struct lw_err *err);
