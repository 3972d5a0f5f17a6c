#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/nsys/nsys_database.h"

/* A rank of a report: the work of one process on one device. */
struct nsys_part {
    int64_t process; /* upper bits of the report's ids of processes and threads; -1 = unknown */
    int64_t device;
};

/* In the order of devices, then of processes. Memory is the arena's. */
enum lw_status nsys_parts_find(const struct nsys_database *d, struct lw_arena *arena,
                               struct nsys_part **parts, int *n, struct lw_err *err);

/* That of the first kernel. *any: there is one. */
enum lw_status nsys_parts_first(const struct nsys_database *d, struct nsys_part *part, bool *any,
                                struct lw_err *err);

/* The process of a serialized id ("globalPid", "globalTid"): what is above its thread's 24 bits. */
int64_t nsys_process_of(int64_t global_id);
