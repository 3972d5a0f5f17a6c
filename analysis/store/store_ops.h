#pragma once

#include <stdint.h>

#include "shared/base/err.h"

struct lw_store;
struct op_writer;

/* Writes the ops of a plan, which come by ascending number, as pieces: in a transaction. */
enum lw_status op_writer_new(struct lw_store *s, int64_t plan, struct op_writer **out,
                             struct lw_err *err);
enum lw_status op_writer_add(struct op_writer *w, int64_t op, int64_t micro_batch, int64_t alike,
                             struct lw_err *err);
/* Writes what is left unless st is a failure, which is then reported; frees. NULL is fine. */
enum lw_status op_writer_end(struct op_writer *w, enum lw_status st, struct lw_err *err);

/* Rows of the table of schema versions 13 to 15, renamed to op_row_before, as pieces; the table is
 * dropped. Call inside a transaction. */
enum lw_status lw_store_pack_ops(struct lw_store *s, struct lw_err *err);
/* Those of a plan of another database, of any version that is read, under a number of this one. */
enum lw_status lw_store_copy_ops(struct lw_store *s, int64_t to, struct lw_store *other,
                                 int64_t from, struct lw_err *err);
