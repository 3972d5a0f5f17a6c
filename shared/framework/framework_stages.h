#pragma once

#include <stdbool.h>
#include <stddef.h>

struct lw_device;
struct lw_framework;
struct lw_model_dims;
struct lw_strategy;
struct lw_workload;

/* The first module of each of pp * chunks parts, as "0,4,7": the embedding lies in the first part
 * and the head in the last. False: the framework has no rule of its own, or none for such a
 * strategy, which partitions as it says. */
bool lw_framework_stages(const struct lw_framework *f, const struct lw_model_dims *dims,
                         const struct lw_strategy *s, char *list, size_t size);

/* Why the framework itself ends such a run before its first step; NULL = it does not. */
const char *lw_framework_refusal(const struct lw_framework *f, const struct lw_model_dims *dims,
                                 const struct lw_strategy *s);

/* Adds to the modules at the ends of stages what the host sleeps for messages between them
 * (header_poll_ns); list: of lw_framework_stages. */
void lw_framework_stage_waits(const struct lw_framework *f, const struct lw_strategy *s,
                              const char *list, struct lw_workload *w);

/* Adds to them what the host fills and copies to such a device for each message (stage_fills);
 * nothing where the device lacks host_core_bytes_per_s or pageable_bytes_per_s. */
void lw_framework_stage_fills(const struct lw_framework *f, const struct lw_strategy *s,
                              const struct lw_device *d, const char *list, struct lw_workload *w);
