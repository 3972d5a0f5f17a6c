#pragma once

#include <stdint.h>

#include "analysis/store/span_pack.h"
#include "shared/base/err.h"

struct lw_store;
struct span_writer;

/* Writes the spans of a run in blocks, some thousands of rows to a transaction: call outside of one
 * (own) or inside the caller's. Rows come in the order (step, pass, rank, op). */
enum lw_status span_writer_new(struct lw_store *s, int64_t run, bool own, struct span_writer **out,
                               struct lw_err *err);
/* at: step, pass, rank */
enum lw_status span_writer_add(struct span_writer *w, const int64_t at[3],
                               const int64_t row[SPAN_N_VALUES], struct lw_err *err);
/* Writes what is left unless st is a failure, which is then reported; frees. NULL is fine. */
enum lw_status span_writer_end(struct span_writer *w, enum lw_status st, struct lw_err *err);

/* Rows of the table of schema version 11 and before, renamed to span_before, as blocks; the table
 * is dropped. Call inside a transaction. */
enum lw_status lw_store_pack_spans(struct lw_store *s, struct lw_err *err);
/* The spans of a run of another database, under a number of this one. */
enum lw_status lw_store_copy_spans(struct lw_store *s, int64_t to, struct lw_store *other,
                                   int64_t from, struct lw_err *err);
