#pragma once

#include "exec/tensors/tensors.h"
#include "shared/base/err.h"

/* What verification checks of a plan before its first step, because a run may end right by chance,
 * or never: every message meets its other end, a bucket that travels in another type is cast there
 * and back, and uses of one buffer are ordered. LW_ENO names the ops or the bucket. */
enum lw_status exec_audit(const struct exec_tensors *m, struct lw_err *err);
