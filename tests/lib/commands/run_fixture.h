#pragma once

#include <stdint.h>

#include "analysis/store/store.h"

/* A hand-made plan of two ranks and runs of it, stored for the tests of compare, plot and report.
 *
 * Plan: forward, backward, then an all-reduce per bucket (sizes[n_buckets]), then the optimizer.
 * Rank r's step s, in microseconds from its start at 1000 * s:
 *     forward   0 .. 100
 *     backward  100 .. 300
 *     bucket k  ready 200 + 50 k, launched 1 later, starts 2 later (rank 1: 12 later), all in when
 *               rank 1 starts, lasts `wire_us` from there; one after the other
 *     optimizer from the end of the last bucket (or 300), 20 long
 * so with two buckets and wire_us = 100: bucket 0 is ready at 200, all in at 212, ends at 312;
 * bucket 1 is ready at 250, starts and is all in at 312, ends at 412; the step ends at 432. */
struct fixture_run {
    enum lw_run_kind kind;
    const int64_t *sizes;
    int32_t n_buckets, n_steps;
    int64_t wire_us, cap_bytes;
    int32_t n_warmup; /* their wire time is ten times longer */
    const char *device; /* kind that the plan's times are of; NULL: none */
};

/* A database of its own, lapwing.db in the folder of file_fixture.h; fixture_close removes it. */
int runs_open(void **state);   /* setup: runs_db is set */
extern char runs_db[128];

/* 1 and 4 MiB of gradients: predicted, and measured 40 us a bucket slower; and all in one
 * bucket. */
extern const struct fixture_run runs_predicted, runs_measured, runs_one_bucket;

int64_t runs_store(const struct fixture_run *f); /* the run's id; fails the test on any error */
void runs_sql(const char *sql);                  /* run it on the database */
void runs_rows_sql(const char *sql);             /* with op_row and memory as tables */
void runs_change_spans(const char *sql);         /* with span as a table too; then as today */
