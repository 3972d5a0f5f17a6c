#pragma once

#include <stdbool.h>

#include "shared/base/err.h"
#include "shared/io/input.h"
#include "shared/base/progress.h"
#include "traces/import/importer.h"
#include "traces/workload/to_workload.h"

/* The files of one command line, each found by its contents and read on as many cores as there are.
 * Traces are read whole; of other formats the text is kept, for their own readers. */
struct traces_file {
    const char *file; /* as the user wrote it */
    const struct lw_importer *importer;
    struct lw_input in;          /* of other formats; text NULL for a trace */
    struct traces_source source; /* of a trace */
};

struct traces_reading {
    const char *sidecar; /* NULL: the one beside each trace */
    bool salvage;        /* broken traces up to the damage; other formats are never salvaged */
    const struct lw_progress *progress;
    bool shapes;         /* keep what the work of operators follows from */
};

/* Opens a file: its bytes, up to the damage where salvage is requested and the format has a
 * timeline, its importer, and which part of it the name means (traces_name_part). Free `in`. */
enum lw_status traces_file_open(const char *name, struct lw_trace_reading *reading,
                                struct lw_input *in, struct lw_err *damage,
                                const struct lw_importer **importer, struct lw_err *err);

/* out[*n]; the error is that of the first file that has one. PyTorch execution traces beside the
 * profiler's traces of the same run go into these (traces/import/join_traces.h): *n is then
 * less. */
enum lw_status traces_files_read(const struct traces_reading *r, char **names, int *n,
                                 struct traces_file *out, struct lw_err *err);
void traces_files_free(struct traces_file *f, int n);
