#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/draw/look.h"
#include "analysis/draw/plot_style.h"
#include "analysis/store/store.h"

/* One step of each of some runs as rows of bars, read from the database: what a timeline shows, as
 * gnuplot, characters or SVG. Times count from picture_step.from. Ranks whose bars are the same are
 * one group of rows; see analysis/draw/equal_ranks.h. */
enum { PICTURE_TEXT = 64 };

struct picture_step {
    int64_t step;
    lw_ps from;        /* the first start on any rank of an op that is not a message */
    lw_ps length;      /* from there to the last end on any rank */
    lw_ps span;        /* span_ns of docs/glossary.md: messages count too */
};

struct picture_bar {
    int32_t row, bucket;
    int32_t micro_batch; /* -1: none, or the step has only one */
    int64_t bytes;
    lw_ps ready, start, all_in, end; /* all_in: -1 unknown */
    int32_t n_ops;     /* 1, or how many were joined */
    uint8_t kind;      /* enum lw_op_kind */
    uint8_t look;      /* enum picture_look */
    bool comm, work;   /* communication; compute or copies; neither: host */
};

struct picture_row { /* a stream of a group of ranks */
    int32_t run, rank, stream; /* rank: the lowest of the group */
    double y;          /* downwards in rows, negative: blocks of runs and groups stand apart */
    char group[PICTURE_TEXT];  /* "stage 1, ranks 4-7 (4)"; "" in all rows of it but the first */
    char label[PICTURE_TEXT];  /* of the stream: "compute" */
};

/* Where communication runs and neither compute nor copies do, on the row of the communication. */
struct picture_strip {
    int32_t row;
    lw_ps start, end;
    lw_ps covered;             /* of it; less than its length when strips were joined */
};

struct picture {
    struct picture_bar *bars;  /* by row, then start */
    struct picture_row *rows;  /* by run, stage, rank, then compute before communication */
    struct picture_strip *strips;
    int64_t n_bars, n_rows, n_strips, bar_capacity, row_capacity, strip_capacity;
    struct picture_step *step; /* [n_runs] */
    int32_t *left_out;         /* [n_runs] ranks that no row represents */
    lw_ps most;                /* the longest of the steps, as drawn */
    double bottom;             /* below the last row */
};

struct picture_view {
    const struct lw_run *runs; /* borrowed */
    int32_t n_runs;
    int32_t step;              /* -1 = the one nearest the median */
    int32_t max_ranks;         /* groups of a run: one of each stage first, then by rank */
};

/* The step to show (-1: the one nearest the median). LW_EINVAL: a run without spans, or without
 * that step. */
enum lw_status picture_find_step(struct lw_store *s, const struct lw_run *run, int32_t wanted,
                                 struct picture_step *out, struct lw_err *err);

/* LW_EINVAL: as picture_find_step. */
enum lw_status picture_read(struct lw_store *s, const struct picture_view *p, struct picture *out,
                            struct lw_err *err);
void picture_free(struct picture *pic);

/* The bar that begins at i joined with those after it that cannot be distinguished when `gap` is
 * half a pixel: work of one kind and micro-batch less than a gap apart (or with only something
 * shorter than a gap in between), and anything that is itself no longer than a gap as long as the
 * whole is not (it takes the kind of its longest). Returns the index after them. */
int64_t picture_join(const struct picture *pic, int64_t i, lw_ps gap, struct picture_bar *out);
/* The same for strips less than a gap apart. */
int64_t picture_join_strips(const struct picture *pic, int64_t i, lw_ps gap,
                            struct picture_strip *out);

/* A text goes into the wider part of a bar, [*from, *to): waiting or the rest. True: on dark. */
bool picture_text_place(const struct picture_bar *b, lw_ps *from, lw_ps *to);

/* "bucket 3, 1.00 MiB", "forward 2", "12 ops"; returns buf. */
const char *picture_name(const struct picture_bar *b, char buf[PICTURE_TEXT]);
char picture_letter(const struct picture_bar *b); /* of its kind: 'F', of recomputation 'r' */
/* The longest text for a bar that has at most n characters: its name, "F2", "2"; or "". */
const char *picture_text(const struct picture_bar *b, int64_t n, char buf[PICTURE_TEXT]);
int32_t picture_colour(const struct picture_bar *b);

/* The legend: an entry for each look that the picture shows, with the colours that it has there.
 * Returns how many. */
int picture_keys(const struct picture *pic, struct plot_key keys[N_LOOKS]);
