#pragma once

#include <stdint.h>

#include "shared/base/err.h"

struct lw_sql;
struct lw_store;

/* The changes of memory of a run, in their order: rows of change, rank, at_ps, category, bytes, of
 * a database of any version that is read. End with lw_sql_finish. */
enum lw_status lw_store_query_memory(struct lw_store *s, int64_t run, struct lw_sql **out,
                                     struct lw_err *err);
/* LW_EFORMAT where the tables contradict each other: rows are missing or overlap. The error names
 * the file, the table, the run and what to do. */
enum lw_status lw_store_check_memory(struct lw_store *s, int64_t run, struct lw_err *err);
/* Rows of the table of schema versions 4 to 15, renamed to memory_before, as pieces; the table is
 * dropped. Call inside a transaction. */
enum lw_status lw_store_pack_memory(struct lw_store *s, struct lw_err *err);
/* Those of a run of another database, of any version that is read, under a number of this one.
 * LW_EFORMAT of the other database where it is damaged. */
enum lw_status lw_store_copy_memory(struct lw_store *s, int64_t to, struct lw_store *other,
                                    int64_t from, struct lw_err *err);
