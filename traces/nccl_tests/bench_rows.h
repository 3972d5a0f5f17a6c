#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/io/input.h"
#include "traces/nccl_tests/import_nccl_tests.h"

/* Rows and tables of measured collectives while a file is read: what its three readers (text, CSV
 * with titles, JSON) share. */

struct bench_cell {
    const char *at;
    size_t len;
};

/* A row as found, before equal sizes are joined. */
struct bench_found {
    struct traces_bench_row row;
    int32_t table;
};

struct bench_rank {
    struct bench_cell host, bus; /* bus: its address, "0000:07:00" or "0x07"; "" = not said */
    int64_t device;
};

struct bench_reader {
    const struct lw_input *in;
    const struct traces_bench_hint *hint;
    struct traces_bench *b;
    struct lw_err *err;
    int64_t line;
    bool once; /* a table has each size once; else the median of a size counts */
    struct traces_bench_table *tables;
    int64_t n_tables, tables_cap;
    struct bench_found *rows;
    int64_t n_rows, rows_cap;
    struct bench_rank *ranks;
    int64_t n_ranks, ranks_cap;
    int64_t last_rank; /* the highest number on a rank's line; -1: none */
    struct bench_cell test; /* operation of the last *_perf seen */
};

/* What a row states. Bandwidths in GB/s; below 0: not stated. */
struct bench_stated {
    int64_t bytes;
    lw_ps time, in_place; /* in_place <= 0: not measured */
    double algbw, busbw, in_algbw, in_busbw;
    int64_t n_wrong; /* values that the test found wrong, in both halves */
};

bool bench_is(struct bench_cell c, const char *word);
bool bench_number(struct bench_cell c, int power, int64_t *v); /* of 10^-power */
double bench_decimal(struct bench_cell c);                     /* -1: no number */
/* A copy that lives with the result; NULL and *status set without memory. */
char *bench_copy(struct bench_reader *r, struct bench_cell c, enum lw_status *status);
enum lw_status bench_operation(struct bench_reader *r, struct bench_cell name, enum lw_op_kind *op);
enum lw_dtype bench_dtype(struct bench_cell c, struct lw_err *err, enum lw_status *status);
/* The test whose name ("all_reduce_perf") stands anywhere in the line. */
void bench_note_test(struct bench_reader *r, const char *line, size_t len);
/* The library's version from its number, 22703 = 2.27.3, unless one is known. */
enum lw_status bench_version(struct bench_reader *r, int64_t code);

enum lw_status bench_add_rank(struct bench_reader *r, struct bench_rank rank);
/* A machine has each device number and bus address once (under Slurm each task may see its device
 * as number 0), so a host name that shows one k times represents k
 * machines (names are often cut or replaced in what is published). Sorts the ranks. */
int32_t bench_count_nodes(struct bench_reader *r);

/* A table of ranks and nodes, which the hint overrides, and of a dtype ("": f32); its op is the
 * caller's. */
enum lw_status bench_begin_table(struct bench_reader *r, int64_t ranks, int64_t nodes,
                                 struct bench_cell type, struct bench_cell gpu,
                                 struct traces_bench_table *t);
/* The table of a run that holds rows of a type; r->n_tables: none yet. The run's tables are those
 * from `from` on. Types that are one dtype here (int8, uint8) share a table. */
enum lw_status bench_table_of(struct bench_reader *r, int64_t from, struct bench_cell type,
                              int64_t *table);
/* The device that a rank names becomes the run's; LW_EFORMAT: another one is known. */
enum lw_status bench_take_gpu(const struct bench_reader *r, struct bench_cell here,
                              struct bench_cell *gpu);
/* *said: the hint or the name of a test gives it. */
enum lw_status bench_said_operation(struct bench_reader *r, enum lw_op_kind *op, bool *said);
/* LW_EINVAL where an option contradicts the file. */
enum lw_status bench_agrees(const struct bench_reader *r, const char *option, const char *asked,
                            bool agrees, const char *says);
enum lw_status bench_asks_operation(const struct bench_reader *r);
enum lw_status bench_refuses_host_time(const struct bench_reader *r);
enum lw_status bench_add_table(struct bench_reader *r, const struct traces_bench_table *t);
/* Bus bandwidth over bandwidth of an operation (nccl-tests, doc/PERFORMANCE.md). */
double bench_bus_factor(enum lw_op_kind op, int32_t n_ranks);
/* What cannot be in a row of a table, as text; false: nothing. */
bool bench_is_wrong(const struct traces_bench_table *t, const struct bench_stated *s, char *text,
                    size_t size);
/* Without a check. Rows of 0 bytes are left out: nccl-tests aligns what each rank has, so small
 * sizes become none. */
enum lw_status bench_add_row(struct bench_reader *r, int64_t table, const struct bench_stated *s);
/* With the check; its message has file and line. */
enum lw_status bench_take_row(struct bench_reader *r, int64_t table, const struct bench_stated *s);
enum lw_status bench_fill_tables(struct bench_reader *r);

/* Forms beside the text. */
enum lw_status bench_read_csv(struct bench_reader *r); /* nccl_tests_csv.c */
bool bench_csv_is(const char *text, size_t len);
enum lw_status bench_read_json(struct bench_reader *r); /* nccl_tests_json.c */
enum lw_status bench_read_link_times(struct bench_reader *r); /* link_times.c */
