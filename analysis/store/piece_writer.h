#pragma once

#include <stdint.h>

#include "analysis/store/pieces.h"
#include "shared/base/err.h"

/* A sequence of a plan or a run into two tables: its list of items, and pieces of it (pieces.h). */
struct lw_sql;
struct lw_store;

struct piece_tables {
    const char *add_item, *add_piece; /* the statements; a piece has owner, first, n, key, place */
    int n_numbers;                    /* of an item */
    void (*put_item)(void *ctx, struct lw_sql *add, int64_t owner, int64_t place,
                     const int64_t *item);
};

/* Zeroed: nothing is written. */
struct piece_writer {
    const struct piece_tables *tables; /* borrowed, as ctx is */
    void *ctx;
    struct lw_sql *add_item, *add_piece;
    int64_t owner; /* the plan or the run */
    struct piece_coder coder;
};

/* The writer stays where it is until its end, which releases it also where this failed. */
enum lw_status piece_writer_begin(struct piece_writer *w, struct lw_store *s,
                                  const struct piece_tables *tables, int64_t owner, void *ctx,
                                  struct lw_err *err);
/* Writes what is left unless st is a failure. Returns st, or what failed here or in a statement. */
enum lw_status piece_writer_end(struct piece_writer *w, enum lw_status st, struct lw_err *err);
