#ifndef LAPWING_H
#define LAPWING_H

/* Lapwing as a library: plan a training step, simulate it, read the result. Names and meanings here
 * stay as they are within a version of the soname; nothing else of liblapwing.so is visible.
 *
 * Handles belong to the caller and are freed by the _free functions, which take NULL. A function
 * that returns a handle returns NULL on failure and writes one line that says why into `error`
 * (at most error_size bytes with the final zero; NULL, 0 is fine). Strings and arrays live as
 * long as their handle. Handles may be used from several threads, one call on a handle at a
 * time. A NULL where a handle or a name is expected is an error: the call gives NULL or -1.
 * See docs/design/library.md. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LAPWING_API __attribute__((visibility("default")))
#else
#define LAPWING_API
#endif

typedef struct lapwing_plan lapwing_plan;
typedef struct lapwing_result lapwing_result;

LAPWING_API const char *lapwing_version(void); /* "0.1.0" */

/* workload: a workload file, the name of a model (`lapwing model --list`), a Hugging Face
 * config.json or a folder that holds one. A file of another device's times is computed again where
 * it was made from a model, else refused.
 * cluster: the name of a known system (`lapwing cluster`), or a cluster file. "-" is refused.
 * options: name and value in turns, ended by NULL: of the strategy, of a model ("batch", "seq",
 * "fp8", ...), "framework", "global-batch", "tokens" and "price". The names are those of the
 * command line without "--" ("dp", "8", "bucket-cap", "5MiB", NULL). options may be NULL. */
LAPWING_API lapwing_plan *lapwing_plan_make(const char *workload, const char *cluster,
                                            const char *const *options, char *error,
                                            size_t error_size);
LAPWING_API void lapwing_plan_free(lapwing_plan *plan);
LAPWING_API const char *lapwing_plan_hash(const lapwing_plan *plan); /* 32 hex digits */
/* Name of the framework that it was made with: that of "framework", else the one that such a
 * strategy is usually run with; "ideal" of recorded times. */
LAPWING_API const char *lapwing_plan_framework(const lapwing_plan *plan);
LAPWING_API int32_t lapwing_plan_ranks(const lapwing_plan *plan);
LAPWING_API int32_t lapwing_plan_buckets(const lapwing_plan *plan); /* that the run settles on */
/* -1: none */
LAPWING_API int64_t lapwing_plan_bucket_bytes(const lapwing_plan *plan, int32_t bucket);

/* Simulate `steps` optimizer steps, at most 1,000,000; 0: as many as lead to the steady state, and
 * one more. Steps that only lead there are not measured. The result does not refer to the plan. */
LAPWING_API lapwing_result *lapwing_simulate(const lapwing_plan *plan, int32_t steps, char *error,
                                             size_t error_size);
LAPWING_API void lapwing_result_free(lapwing_result *result);

/* A figure by its name; lapwing_figure_name(k) lists them, NULL after the last. Returns 0, or -1
 * for an unknown name. Times are picoseconds of the rank whose step is the longest:
 *   step_ps, exposed_comm_ps, compute_busy_ps, host_update_ps, copy_busy_ps, comm_busy_ps, idle_ps,
 *   peak_memory_bytes (-1: not known), bubble_ratio, n_ranks, n_steps, n_ops, n_events;
 *   p10_ps, p90_ps: between which 80 % of such steps would be measured (-1: not known)
 *   tokens_per_s, samples_per_s, mfu_pct, overlap_pct, memory_bytes and device_memory_bytes (of a
 *   device: taken, and there), fits (1, 0), price_per_device_hour, cost_per_trillion_tokens; with
 *   "tokens" days and device_hours, and with a price cost (-1: not known) */
LAPWING_API int lapwing_figure(const lapwing_result *result, const char *name, double *value);
LAPWING_API const char *lapwing_figure_name(int k);

/* The timeline: one row per op that ran, by (step, pass, rank, op). The first call that asks for a
 * row makes those of all ranks, which may be gigabytes; -1 or NULL: there is not the memory.
 * Columns of int32_t: step, pass, rank, stream, op; of int64_t, in picoseconds: ready_ps, issue_ps,
 * start_ps, all_in_ps, end_ps (-1 = not known). NULL: no such column. */
LAPWING_API int64_t lapwing_rows(const lapwing_result *result);
LAPWING_API const int32_t *lapwing_column32(const lapwing_result *result, const char *name);
LAPWING_API const int64_t *lapwing_column64(const lapwing_result *result, const char *name);
/* The kind of a row's op and its name ("all_reduce"); the name of an op, "" = it has none. */
LAPWING_API int32_t lapwing_kind(const lapwing_result *result, int64_t row);
LAPWING_API const char *lapwing_kind_name(int32_t kind);
LAPWING_API const char *lapwing_op_name(const lapwing_result *result, int32_t op);

#ifdef __cplusplus
}
#endif

#endif
