#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "shared/plan/op.h"

struct lw_plan;
struct lw_store;

/* The id of the plan with this hash and these times; its rows are inserted when it is new. Call
 * inside a transaction. LW_EINVAL: the plan has no hash. */
enum lw_status lw_store_put_plan(struct lw_store *s, const struct lw_plan *p, int64_t *id,
                                 struct lw_err *err);

/* Plans get the hashes that their files have now. One whose file is missing or damaged keeps its
 * own. Call inside a transaction. */
enum lw_status lw_store_hash_plans(struct lw_store *s, struct lw_err *err);

const char *lw_store_class_name(enum lw_op_kind kind); /* "compute", "collective", ... */
