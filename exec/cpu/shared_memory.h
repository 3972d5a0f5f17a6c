#pragma once

#include <stdint.h>

#include "exec/backend/backend.h"
#include "shared/base/err.h"

/* Memory that the processes of a run share, at the same address in each: a pointer of one is a
 * pointer of all. It has no name in any file system, and goes with the last of them. */
struct exec_region;

/* All processes together. LW_ENOTSUP: they are not on one machine, or the address is taken in
 * one. */
enum lw_status exec_region_open(const struct exec_process *p, int32_t n_ranks,
                                struct exec_region **r, struct lw_err *err);
void exec_region_close(struct exec_region *r); /* NULL is fine */

/* Zeroed memory, 64-byte aligned, until close: a rank's own (only that rank's process asks), or
 * common (owner
 * -1: all processes ask for the same, in the same order, and get the same). NULL: the part is
 * full. */
void *exec_region_take(struct exec_region *r, int32_t owner, int64_t bytes);
