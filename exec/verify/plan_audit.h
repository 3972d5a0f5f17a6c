#ifndef LW_EXEC_VERIFY_PLAN_AUDIT_H
#define LW_EXEC_VERIFY_PLAN_AUDIT_H

#include "exec/tensors/tensors.h"
#include "shared/base/err.h"

/* What verification asks of a plan before its first step, because a run may end right by luck, or
 * never: each gradient lies in one bucket of a pass, shards tile what is trained, every message
 * meets its other end, a bucket that travels in another type is cast there and back, and no op uses
 * what another one leaves without waiting for it. Layouts are made. LW_ENO names the ops, the bucket
 * or the parameter. */
enum lw_status exec_audit(const struct exec_tensors *m, struct lw_err *err);

#endif
