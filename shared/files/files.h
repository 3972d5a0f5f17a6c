#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/framework/framework.h"
#include "shared/plan/plan.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/workload.h"

/* Lapwing's own files: JSON with "lapwing": 1 and "kind". docs/formats/ describes each with a full
 * example. Reading checks the result (lw_*_check) and names file, JSON path, value and what is
 * allowed; a file of another version or kind is refused. Names may be "-". Writing is atomic. */

enum lw_status lw_workload_read(const char *file, struct lw_workload *w, struct lw_err *err);
enum lw_status lw_workload_write(const struct lw_workload *w, const char *file, struct lw_err *err);

enum lw_status lw_cluster_read(const char *file, struct lw_cluster *c, struct lw_err *err);
enum lw_status lw_cluster_write(const struct lw_cluster *c, const char *file, struct lw_err *err);
/* The same of a file in memory: with LW_JSON_PADDING bytes after it; *text with free. */
enum lw_status lw_cluster_read_text(const char *name, const char *text, size_t len,
                                    struct lw_cluster *c, struct lw_err *err);
enum lw_status lw_cluster_write_text(const struct lw_cluster *c, char **text, size_t *len,
                                     struct lw_err *err);
/* A name of a known system ("dgx-a100", "host"), a file, or "SYSTEM with KIND": see
 * lw_cluster_put_device. */
enum lw_status lw_cluster_find(const char *name_or_file, struct lw_cluster *c, struct lw_err *err);
/* The same, or the kind of a known system's device ("A100-SXM4-80GB", or "h100" where one kind
 * begins so): its cluster. */
enum lw_status lw_cluster_find_device(const char *name, struct lw_cluster *c, struct lw_err *err);
/* The first known system with that kind of device (lw_device_same_kind), else of its family where
 * a recorder names one ("NVIDIA H100 NVL"), but never the host; c->name NULL: there is none. */
enum lw_status lw_cluster_find_recorded(const char *recorded, struct lw_cluster *c,
                                        struct lw_err *err);
/* The network of a cluster with another kind of device: that of a known system, else a name and
 * what copies need, which stays the cluster's. What was measured with its own device
 * (interference) and its price go. Its name becomes "SYSTEM with KIND". */
enum lw_status lw_cluster_put_device(struct lw_cluster *c, const char *kind, struct lw_err *err);
/* The k-th known system's name; NULL after the last. */
const char *lw_cluster_known(int k);

enum lw_status lw_framework_read(const char *file, struct lw_framework *f, struct lw_err *err);
enum lw_status lw_framework_write(const struct lw_framework *f, const char *file,
                                  struct lw_err *err);
/* A name of a known framework ("megatron-lm", "ideal") or a file. */
enum lw_status lw_framework_find(const char *name_or_file, struct lw_framework *f,
                                 struct lw_err *err);
/* The k-th known framework's name; false after the last. */
bool lw_framework_known(int k, char name[64]);

/* Strings of the strategy live in the arena. */
enum lw_status lw_strategy_read(const char *file, struct lw_arena *arena, struct lw_strategy *s,
                                struct lw_err *err);

/* LW_EPLAN when the plan in the file fails lw_plan_check, or when its "hash" is not that of its
 * contents (it was edited; without the field "hash" it is taken as it is). unchecked: read without
 * these two. Every index is verified in any case. */
enum lw_status lw_plan_read(const char *file, bool unchecked, struct lw_plan *p,
                            struct lw_err *err);
enum lw_status lw_plan_write(const struct lw_plan *p, const char *file, struct lw_err *err);
/* The same of a file in memory: with LW_JSON_PADDING bytes after it; *text with free. */
enum lw_status lw_plan_read_text(const char *name, const char *text, size_t len, bool unchecked,
                                 struct lw_plan *p, struct lw_err *err);
enum lw_status lw_plan_write_text(const struct lw_plan *p, char **text, size_t *len,
                                  struct lw_err *err);

/* The file into an open stream; whether that failed is the caller's to see. */
enum lw_status lw_plan_write_stream(const struct lw_plan *p, FILE *to, struct lw_err *err);

/* A name with '/', that ends in .json or .gz, "-", or of a file that is there. Others may
 * name a model or a cluster. */
bool lw_names_file(const char *name);
/* The same without those that have '/' alone, as names of models on Hugging Face do. */
bool lw_is_file(const char *name);

/* The "kind" of one of our files ("plan", ...) without reading the rest; "" when it is none. */
enum lw_status lw_file_kind(const char *file, char kind[16], struct lw_err *err);
