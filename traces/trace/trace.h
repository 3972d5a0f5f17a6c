#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/base/progress.h"
#include "shared/numbers/dtype.h"
#include "traces/trace/string_table.h"

/* A recorded trace as tables, whatever file it came from. One row per interval worth keeping, in
 * order of start (longer ones first, then file order, so that a parent comes before its children).
 * Times are ns since base_ns. */

enum lw_row_class {
    LW_ROW_HOST,   /* op on a host thread; user ranges too where the format mixes them */
    LW_ROW_USER,   /* user range on a host thread */
    LW_ROW_LAUNCH, /* runtime or driver call */
    LW_ROW_KERNEL, /* device kernel, communication kernels included */
    LW_ROW_MEM,    /* device copy or set */
    LW_ROW_SYNC,   /* what a waiting call waited for, as the recorder knows it: link is that call */
    LW_N_ROW_CLASSES,
};

/* What few rows have: communication and shapes. Texts are string numbers, -1 = absent. */
struct lw_row_detail {
    int32_t op, dtype;         /* collective and element type as the recorder names them */
    int32_t group;             /* name of its process group */
    int32_t wait_stream;       /* sync: stream that is waited for, -1 = unknown or all */
    int64_t wait_record;       /* sync: correlation of the event's record, -1 = unknown */
    int64_t in_numel, out_numel; /* elements of its message; -1 = absent */
    int32_t group_size;        /* ranks; 0 = absent */
    int32_t shape_type;        /* element type of the first input */
    int64_t shape_numel;       /* elements of the first input; -1 = shape not recorded */
    int64_t message_bytes;     /* of a message whose elements are not recorded; 0 = absent */
    /* Of an operator where the reading keeps them (lw_trace_reading.shapes): number + 1 of a text
     * with an item per input, each ended by ';'; 0 = absent. Sizes "4,64", "*768" of a list of
     * tensors (elements), "" of what is no tensor or a scalar; types as the recorder names them;
     * values of those that are no tensors. */
    int32_t input_sizes, input_types, input_values;
};

/* Row `to` uses what row `from` wrote. */
struct lw_trace_edge {
    int64_t to, from;
};

/* A count of the file, by the name that its format gives it: a number, or a list of numbers. */
struct lw_trace_count {
    const char *key;
    int64_t value;      /* -1 = the file holds no such table */
    int64_t n;          /* of values */
    int64_t *values;    /* NULL: a number */
};

enum { LW_DEVICE_STREAMS = 1000000 };

struct lw_trace {
    const char *format; /* the importer's name; a constant */
    struct traces_strings strings;
    int64_t n, cap[9];     /* rows; capacities of the columns */
    int64_t *start_ns;     /* since base_ns */
    int64_t *dur_ns;       /* >= 0 */
    int64_t *link; /* device and launch: correlation; host op: autograd sequence number; -1 */
    int32_t *name;         /* string number */
    int32_t *track;        /* host: string number of its thread; device: stream, -1 = unknown;
                            * sync: stream that waits, -1 = the host. Streams of the k-th further
                            * device of a file are LW_DEVICE_STREAMS * k higher */
    int32_t *detail;       /* index into details, -1 = none */
    uint8_t *class;        /* enum lw_row_class */
    int32_t *record;       /* host: its Record function id, which an execution trace calls rf_id;
                            * where the file has none minus its External id; 0 = neither */
    struct lw_row_detail *details;
    int64_t n_details;
    /* Of an execution trace of the same run (traces/et): which host rows of collectives use what
     * other host rows wrote, ascending; and what it is and added, for people. */
    int64_t n_edges;
    struct lw_trace_edge *edges;
    int32_t joined; /* string number; -1 = none */

    int64_t n_events;      /* entries of the file, kept or not */
    int64_t n_negative;    /* durations below zero in the file, taken as 0 */
    int64_t n_repaired;    /* bytes of names that were not JSON and were mended */
    int64_t n_timeless;    /* events with ts 0 beside others of today, set aside */
    int64_t base_ns;       /* what the file counts its times from */
    int32_t n_devices;     /* whose ops the file holds, by their number where it is recorded */
    int32_t device_id[64]; /* the k-th device */
    int32_t rank, world_size; /* -1 = the file does not say */
    int32_t device, backend;  /* string numbers: device kind, communication backend; -1 */
    int32_t damage;           /* string number: where and why reading stopped before the end of a
                               * broken file that was salvaged; -1 = read whole */
    /* Rows that the importer found to be iterations, once the rows are sorted; n_steps 0: names of
     * ranges tell (traces/steps). */
    int64_t n_steps, *step_rows;
    const char *steps_by;     /* what marked them, for people */
    int64_t n_counts;
    struct lw_trace_count *counts;
    struct lw_arena arena;    /* owns them */
    bool copies_hide_comm;    /* exposed communication is that beside neither compute nor copies:
                               * in files that `lapwing export` wrote */
};

/* How a trace is read; zeroed = strictly, silently and whole. */
struct lw_trace_reading {
    bool salvage;  /* a broken text is read up to its first broken event; damage says so */
    bool shapes;   /* sizes of the inputs of all operators are kept, for their work */
    bool alone;    /* the only file: on all cores, a part of its text on each */
    bool unhashed; /* without the hash of the file */
    bool mapped;   /* the text is a file that is mapped: pages given back are read again */
    int part;      /* of a file that holds several ranks: 1, 2, ...; 0 = it holds one */
    const struct lw_progress *progress;
};

struct lw_row { /* one row to add */
    enum lw_row_class class;
    int64_t start_ns, dur_ns, link;
    int32_t name, track, record;
};

void lw_trace_init(struct lw_trace *t);
void lw_trace_free(struct lw_trace *t); /* may be called on a zeroed one */

/* detail may be NULL. LW_ENOMEM leaves the rows as they were. */
enum lw_status lw_trace_add(struct lw_trace *t, const struct lw_row *row,
                            const struct lw_row_detail *detail, struct lw_err *err);
/* Gives a row a detail, or replaces the one that it has. */
enum lw_status lw_trace_set_detail(struct lw_trace *t, int64_t row,
                                   const struct lw_row_detail *detail, struct lw_err *err);
/* Row `from` becomes row `to`; for rows that are dropped. */
void lw_trace_move(struct lw_trace *t, int64_t to, int64_t from);
/* All rows must fit into a quarter of the 106 days of a picosecond clock, so that sums do too.
 * LW_EFORMAT, with the file's name: they do not. */
enum lw_status lw_trace_check_span(const char *name, const struct lw_trace *t, struct lw_err *err);
/* Bring the rows into the order above: once, after the last row was added. */
enum lw_status lw_trace_sort(struct lw_trace *t, struct lw_err *err);

/* What is asked of each row, in place. */

/* "" for -1 */
static inline const char *lw_trace_text(const struct lw_trace *t, int32_t string)
{
    return string >= 0 && string < t->strings.n ? t->strings.text[string] : "";
}

static inline const char *lw_trace_name(const struct lw_trace *t, int64_t row)
{
    return lw_trace_text(t, t->name[row]);
}

static inline bool lw_trace_name_begins(const struct lw_trace *t, int64_t row, const char *prefix)
{
    const char *name = lw_trace_name(t, row);

    while (*prefix && *name == *prefix) { /* most names differ in the first letters */
        name++;
        prefix++;
    }
    return *prefix == 0;
}

static inline int64_t lw_trace_end_ns(const struct lw_trace *t, int64_t row)
{
    return t->start_ns[row] + t->dur_ns[row];
}

/* Kernel, copy or set. */
static inline bool lw_trace_on_device(const struct lw_trace *t, int64_t row)
{
    return t->class[row] == LW_ROW_KERNEL || t->class[row] == LW_ROW_MEM;
}

/* Op or user range. */
static inline bool lw_trace_on_host(const struct lw_trace *t, int64_t row)
{
    return t->class[row] == LW_ROW_HOST || t->class[row] == LW_ROW_USER;
}

/* The element type that a string names: a collective's ("Float"), ours ("f32"), or that of an
 * input's C++ element ("long int", "c10::Half"). False: absent, or not a type of Lapwing. */
bool lw_trace_dtype(const struct lw_trace *t, int32_t string, enum lw_dtype *dtype);
bool lw_trace_dtype_named(const char *name, enum lw_dtype *dtype);
/* The detail of a row, or one in which everything is absent. */
const struct lw_row_detail *lw_trace_detail(const struct lw_trace *t, int64_t row);
/* Bytes of the first input, and its element type; -1 = not recorded, or no type of ours. */
int64_t lw_trace_shape_bytes(const struct lw_trace *t, int64_t row, enum lw_dtype *dtype);
/* Those of rows [from, to) that `is` is true of. Memory is the arena's. */
enum lw_status lw_trace_pick(const struct lw_trace *t, int64_t from, int64_t to,
                             bool (*is)(const struct lw_trace *t, int64_t row),
                             struct lw_arena *arena, int64_t **rows, int64_t *n,
                             struct lw_err *err);
/* The first row that starts at or after `ns`; n when none does. */
int64_t lw_trace_row_at(const struct lw_trace *t, int64_t ns);
/* How many of the rows, which are in start order, start at or before `ns`. */
int64_t lw_trace_rows_upto(const struct lw_trace *t, const int64_t *rows, int64_t n, int64_t ns);
/* How many of n structs, which ascend by the int64_t that each begins with, have at most `x` there.
 */
int64_t lw_items_upto(const void *items, int64_t n, size_t size, int64_t x);
/* How many of the values, which ascend, are at most `x`, and less than it. */
int64_t lw_values_upto(const int64_t *v, int64_t n, int64_t x);
int64_t lw_values_below(const int64_t *v, int64_t n, int64_t x);
