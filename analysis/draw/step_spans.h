#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/store/store.h"
#include "shared/plan/op.h"

/* The spans of one step of a run beside what their plan says of their ops: what pictures are made
 * of. Ranks of a stage whose spans are the same data from the same times on are read once. Times
 * are those of the file, ps. */
struct step_span {
    int64_t op;
    lw_ps ready, start, all_in, end; /* all_in: -1 unknown */
    int32_t stream;                  /* its number in the plan */
    uint8_t kind;                    /* enum lw_op_kind */
};

struct step_rank {
    int32_t rank, stage; /* stage: -1 = no plan */
    int64_t from, to;    /* its spans, in the order of the file */
};

struct step_stream {
    int64_t number;
    bool comm;
    char name[32]; /* "compute", "data comm" */
};

struct step_alike { /* what ops that differ in the micro-batch alone have in common */
    int64_t number, bytes;
    int32_t bucket;    /* -1: none */
    bool recorded;     /* of a recording's collectives */
    const char *name;
};

struct step_op {
    int64_t op, alike; /* alike: place in step_spans.alike, -1 none */
    int32_t micro_batch;
};

struct step_spans {
    struct step_span *spans;
    struct step_rank *ranks;     /* the first of each stage, then the second: as rows are shown */
    struct step_stream *streams; /* by number */
    struct step_alike *alike;    /* by number */
    struct step_op *ops;         /* by number */
    int64_t n_spans, n_ranks, n_streams, n_alike, n_ops;
    int64_t span_capacity, rank_capacity, stream_capacity, alike_capacity, op_capacity;
    bool several;                /* the ops belong to several micro-batches */
    struct lw_arena arena;       /* names */
};

/* alike(rank, first): of each rank that has spans in step ?2 of run ?1, the lowest rank of its
 * stage whose blocks are the same data from the same times on. One of them is read for all. */
#define WITH_ALIKE_RANKS                                                                         \
    "WITH alike AS (SELECT blocks.rank, min(blocks.rank) OVER (PARTITION BY text, pp) AS first"  \
    "  FROM (SELECT rank, group_concat(pass || ' ' || base_op || ' ' || base_ps || ' ' || data)" \
    "   AS text FROM"                                                                            \
    "   (SELECT rank, pass, base_op, base_ps, data FROM span_block WHERE run = ?1 AND step = ?2" \
    "    ORDER BY first) GROUP BY rank) AS blocks"                                               \
    "  LEFT JOIN plan_rank AS at ON at.plan = (SELECT plan FROM run WHERE id = ?1)"              \
    "   AND at.rank = blocks.rank) "

/* The spans, and the ops of the run's plan. No spans: no error. LW_EINVAL: a kind of op that this
 * version does not know. *out was zeroed before the first; free it also after an error. */
enum lw_status step_spans_read(struct lw_store *s, int64_t run, int64_t step,
                               struct step_spans *out, struct lw_err *err);
enum lw_status step_spans_read_ops(struct lw_store *s, const struct lw_run *run,
                                   struct step_spans *out, struct lw_err *err);
void step_spans_free(struct step_spans *x);

/* What the plan says: NULL where it says nothing (a recorded run has no plan). */
const struct step_op *step_op_of(const struct step_spans *x, const struct step_span *v);
const struct step_alike *step_alike_of(const struct step_spans *x, const struct step_op *op);
const struct step_stream *step_stream_of(const struct step_spans *x, const struct step_span *v);
