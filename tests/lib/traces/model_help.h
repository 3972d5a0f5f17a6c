#pragma once

#include "traces/models/models.h"

/* 10^12 flop/s in f32, bf16 and f16 at efficiency 0.5, and 10^9 B/s: a byte takes a nanosecond. */
struct lw_device model_device(void);
/* A model on that device; the test fails with the message if it is refused. */
struct lw_workload model_build(const char *name, struct traces_model_shape shape);
/* The same, freed by the teardown of MODEL_TEST; device NULL: that one. MODEL("gpt2", .seq = 2048).
 */
struct lw_workload model_kept(const char *name, const struct lw_device *device,
                              struct traces_model_shape shape);
#define MODEL(name, ...) model_kept(name, NULL, (struct traces_model_shape){__VA_ARGS__})
int model_forget(void **state);
#define MODEL_TEST(name) TEST_WITH(name, NULL, model_forget)
/* Sizes of a config.json's text, "config.json" in messages; `shape`: options first, then the sizes.
 * *name is NULL where it is refused. At most 4 KiB. */
enum lw_status model_read_config(const char *text, const char **name,
                                 struct traces_model_shape *shape, struct lw_err *err);
/* The largest share of FairScale's partition, which a plan counts for every rank of the role: each
 * parameter, as registered, goes to the first of n <= 64 members with the fewest elements
 * (fairscale/optim/oss.py, partition_parameters). */
double model_fullest_share(const struct lw_workload *w, int n);
/* The first, second, ... allocation fails, until none does; nothing is kept. */
void model_without_memory(const char *name, struct traces_model_shape shape);
