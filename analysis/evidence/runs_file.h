#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/cli/plan_source.h"
#include "shared/io/csv_rows.h"

/* A file of measured training runs, one run a row (docs/formats/runs.md). A row's configuration is
 * options of `lapwing sim`; every cell is checked when the file is read. */

/* Columns that are no options. */
enum lw_runs_cell {
    LW_RUN_ID,
    LW_RUN_TABLE,
    LW_RUN_WHY,
    LW_RUN_SOURCE,
    LW_RUN_ASSUMED,
    LW_RUN_NOTE,
    /* measured: */
    LW_RUN_STEP,
    LW_RUN_TOKENS,
    LW_RUN_SAMPLES,
    LW_RUN_TFLOPS,
    LW_RUN_MFU,
    LW_RUN_MEMORY_GIB,
    LW_RUN_MEMORY_GB,
    LW_RUN_OUTCOME,
    /* what is meant by it: */
    LW_RUN_FLOPS,
    LW_RUN_MFU_PEAK,
    LW_RUN_MEMORY_KIND,
    LW_RUN_MEMORY_RANK,
    LW_N_RUN_CELLS,
};

/* A cell that is wrong, or cells of a row that contradict each other. */
struct lw_runs_fault {
    int32_t line;
    const char *column; /* "" = of the row as a whole */
    const char *text;   /* "FILE:LINE: COLUMN: what was found, what is expected" */
};

struct lw_runs {
    struct lw_rows rows;
    struct lw_arena arena;
    const char *folder; /* of the file, with the last '/'; "" = the current one */
    int32_t *option;    /* [n_columns] index among options of a plan source; -1 = no option */
    int32_t at[LW_N_RUN_CELLS]; /* column of each cell; -1 = the file has none */
    bool *is_bad;               /* [n_rows] */
    int32_t n_faults;
    struct lw_runs_fault *faults;
};

/* Whether `model` is a title. */
bool lw_runs_are(const struct lw_input *in);

/* Reads and checks. Faults of cells are no failure: they are in the result, and a fault of a title
 * makes every row bad. LW_EFORMAT: no CSV. */
enum lw_status lw_runs_read(const struct lw_input *in, lw_model_maker *make_model,
                            struct lw_runs *out, struct lw_err *err);
void lw_runs_free(struct lw_runs *r);

/* "" = the file has no such column. */
const char *lw_runs_cell(const struct lw_runs *r, int32_t row, enum lw_runs_cell cell);
/* The number in it, or 0. */
double lw_runs_number(const struct lw_runs *r, int32_t row, enum lw_runs_cell cell);

/* The row's options, into a source that lw_plan_source_init cleared and that does not move. Texts
 * lie in the arena. LW_EINVAL: *column is the wrong cell's. */
enum lw_status lw_runs_source(const struct lw_runs *r, int32_t row, struct lw_arena *arena,
                              struct lw_plan_source *source, int32_t *column, struct lw_err *err);
/* The command that a user types: in the arena. */
enum lw_status lw_runs_command(const struct lw_runs *r, int32_t row, struct lw_arena *arena,
                               const char **out, struct lw_err *err);
