#pragma once

#include "shared/text/records.h"
#include "traces/inspect/inspect_print.h"

/* What `inspect` shows of a file, one row each: a row of CSV, of one of the tables of text, or an
 * object of JSON. */
enum inspect_kind {
    INSPECT_WHOLE,      /* first device start to last device end */
    INSPECT_BY_TIME,    /* device work that runs inside the step named `in` */
    INSPECT_BY_LAUNCH,  /* device work launched inside it; the window is its span */
    INSPECT_COMM,       /* a communication kernel of by_launch */
    INSPECT_STEP,       /* a step as the host ran it */
    INSPECT_COLLECTIVE, /* a collective that the host itself ran */
    INSPECT_MEASURED,   /* a size of a table of collectives */
};

/* Texts are borrowed; numbers -1 and texts NULL are what such a row does not have. */
struct inspect_row {
    enum inspect_kind kind;
    const char *file, *format, *in;
    int32_t rank;
    struct lw_busy busy; /* of a step its window alone */
    int64_t n_gpu_ops, n_comm;
    struct lw_comm_op comm;
    const char *shown; /* text: the op, or else the kernel */
    int64_t numel, phase_ns[LW_N_PHASES], n_gradients, in_place_ns;
};

struct inspect_rows {
    struct inspect_row *v;
    int64_t n, capacity;
};

/* The rows of one file after those that are there; lw_free(rows->v) frees them. LW_ENOMEM. */
enum lw_status inspect_rows_add(struct inspect_rows *rows, const struct traces_report_file *f,
                                struct lw_err *err);
enum lw_status inspect_rows_csv(const struct inspect_rows *rows, FILE *f, struct lw_err *err);
/* The tables of a file with a timeline: device, communication, host steps, host collectives. */
enum lw_status inspect_rows_text(const struct inspect_rows *rows, bool all, FILE *f,
                                 struct lw_err *err);

/* Of a long table of collectives those that take longest are shown, and a line says so. */
enum { INSPECT_SHOWN = 10, INSPECT_STEPS_SHOWN = 20 };
void inspect_left_out(const struct lw_records *r, const char *what, FILE *f); /* "collectives" */

/* Members of an object: a window and its parts (or the parts that are busy alone), a communication
 * kernel, the phases of a host step; and a host collective as an object of one line. */
void inspect_json_busy(struct lw_jsonout *o, const struct lw_busy *b, bool with_window);
void inspect_json_comm(struct lw_jsonout *o, const struct lw_comm_op *c);
void inspect_json_step(struct lw_jsonout *o, const struct lw_step *s);
void inspect_json_collective(struct lw_jsonout *o, const struct lw_trace *t,
                             const struct lw_step *s, int64_t row);
