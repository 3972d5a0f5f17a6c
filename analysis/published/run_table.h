#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/published/bars.h"
#include "shared/io/csv_rows.h"

/* Tables of measured training runs, one run a row: what was run, apart from what was measured. */

/* The configuration of a run. Texts are the cells, "" where the table does not say; numbers are 0
 * there. */
struct lw_run {
    const char *gpu, *network, *model, *framework, *zero, *precision, *recompute, *attention;
    const char *seq_parallel, *overlap, *dist_optimizer, *family, *tied, *grad_dtype, *partition;
    const char *offload, *options, *linear_bias, *task, *compile, *schedule, *flops, *memory;
    const char *state;     /* of the nodes, where it changed between rows */
    const char *moe;       /* what the source says of the experts */
    const char *expert_capacity; /* of the even share of tokens */
    const char *base;      /* known model that gives what the row does not; NULL = none */
    int64_t gpus, gpus_per_node, layers, hidden, ffn, heads, kv_heads, vocab, seq, gbs, mbs;
    int64_t micro_batches, tp, pp, vpp, dp, cp, ep, etp;
    int64_t experts, topk, moe_ffn, shared_ffn, dense_layers;
    int64_t batch_per_dp, model_parallel;
};

/* A run of every row: most tables have one. */
struct lw_run_variant {
    const char *name;      /* "" = the row's only one */
    const char *settings;  /* "field=text;...": wins over the row's cells */
    const char *measured;  /* "title:unit;...", preferred first; a unit is a word of units[] */
};

enum { LW_RUN_VARIANTS = 2 };

/* A kind of table, distinguished by its titles; a row of the table in run_tables.c. */
struct lw_run_table {
    const char *name, *titles;
    const char *aliases;   /* "field=title;..." where a title is not the field's
                            * name; NULL = none */
    /* "field=text;...": what the source says beside the table; for cells that are empty, and
       numbers that are not whole */
    const char *settings;
    struct lw_run_variant variants[LW_RUN_VARIANTS];
    struct lw_bars bars;
    double memory_bar_pct, rank_bar;
};

extern const struct lw_run_table lw_run_tables[]; /* ends with name == NULL */

/* The kind of a file, or NULL. */
const struct lw_run_table *lw_run_table_of(const struct lw_input *in);

/* Whether the row can be read, and its measured cells are numbers or empty: before anything is
 * predicted. LW_EFORMAT names the line, the title and the cell. */
enum lw_status lw_run_check(const struct lw_run_table *t, const struct lw_run_variant *v,
                            const struct lw_rows *rows, int32_t row, struct lw_err *err);
/* The configuration columns of a row; no other column is read. Strings live in `arena`.
 * LW_EFORMAT: a number out of range. */
enum lw_status lw_run_read(const struct lw_run_table *t, const struct lw_run_variant *v,
                           const struct lw_rows *rows, int32_t row, struct lw_arena *arena,
                           struct lw_run *out, struct lw_err *err);

/* The measurement of a row; 0 = not measured. */
struct lw_run_measured {
    double step_s, memory_bytes;
    const char *by;      /* title of the column that gave the step; "" = none */
    bool failed;         /* out of memory or crashed */
};

/* step_flops: what one step computes, by the definition of the table's FLOP rates; peak: a device's
 * rate, for utilisations. Either may be 0: the columns that need it are then passed over. */
void lw_run_measure(const struct lw_run_variant *v, const struct lw_rows *rows, int32_t row,
                    const struct lw_run *run, double step_flops, double peak,
                    struct lw_run_measured *out);
