#ifndef LW_TRACES_IMPORT_FILE_FORMAT_H
#define LW_TRACES_IMPORT_FILE_FORMAT_H

#include "shared/base/err.h"

/* What a file is, by its contents. */
enum traces_format {
    TRACES_KINETO,
    TRACES_MEASURED,   /* measured-run JSON, lapwing-groundtruth */
    TRACES_NCCL_TESTS, /* collectives: text of nccl-tests, or a table as CSV */
    TRACES_PIPEDREAM,  /* profiled graph */
    TRACES_CALLS,      /* calls of NCCL or MPI, by a preloaded recorder */
    TRACES_PIPEDREAM_NODES, TRACES_PIPEDREAM_EDGES, /* the same as two CSV files */
    TRACES_N_FORMATS,
};
const char *traces_format_name(enum traces_format f); /* "kineto", "nccl-tests", ... */

struct lw_input;

/* LW_EFORMAT: none of these; says what it looks like, where that is known, and what is read. */
enum lw_status traces_format_of(const struct lw_input *in, enum traces_format *out,
                                struct lw_err *err);

#endif
