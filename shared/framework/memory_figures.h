#pragma once

#include <stdint.h>
#include <stdio.h>

#include "shared/framework/framework_memory.h"
#include "shared/json/jsonout.h"

struct lw_cluster;
struct lw_device;
struct lw_framework;
struct lw_measure;
struct lw_plan;
struct lw_summary;

/* Memory of a plan as its framework holds it: what sim, plan, exec and recommend print. */
struct lw_memory_figures {
    int64_t peak_bytes; /* of the largest rank's tensors; -1: activations are not known */
    int64_t own_bytes;  /* outside the allocator's memory (lw_framework_own_bytes) */
    /* As the framework holds and prints it: of the fullest rank, of rank 0 and of the last rank;
     * needed: the most that any rank's allocator needs. */
    struct lw_framework_bytes fullest, first, last;
    double needed;
};

/* Of a prediction's summary, whose plan lw_framework_hold has changed. */
void lw_memory_figures_of(const struct lw_summary *s, const struct lw_plan *p,
                          const struct lw_framework *f, const struct lw_cluster *c,
                          struct lw_memory_figures *out);

/* The rank whose tensors take most, the lowest of several. */
const struct lw_measure *lw_memory_fullest(const struct lw_summary *s);

/* Bytes of a device that the fullest rank takes, and the least that the fullest needs of it. */
int64_t lw_memory_device_bytes(const struct lw_memory_figures *m);
int64_t lw_memory_least_bytes(const struct lw_memory_figures *m);
/* What the fullest rank lacks; 0 = it fits, -1 = unknown. */
int64_t lw_memory_missing_bytes(const struct lw_memory_figures *m, const struct lw_device *d);
bool lw_memory_is_close(const struct lw_memory_figures *m, const struct lw_device *d);

/* "memory 12.3 GiB a device of 79.6 GiB that it reports: fits", as a line. */
enum lw_status lw_memory_figures_text(const struct lw_memory_figures *m, const struct lw_device *d,
                                      FILE *f, struct lw_err *err);
/* "framework_memory", into the object that is open; nothing where the peak is not known. */
void lw_memory_figures_json(struct lw_jsonout *o, const struct lw_memory_figures *m);
