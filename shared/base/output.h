#ifndef LW_SHARED_BASE_OUTPUT_H
#define LW_SHARED_BASE_OUTPUT_H

#include <stdio.h>

#include "shared/base/err.h"

/* An output file that exists whole or not at all: written under a temporary name beside it, synced
 * and renamed by lw_output_commit. "-" is standard output. */
struct lw_output {
    FILE *file;
    char *path, *temp; /* NULL for standard output */
};

enum lw_status lw_output_open(const char *path, struct lw_output *out, struct lw_err *err);
/* Flush, check every earlier write, rename. On failure the temporary file is gone. */
enum lw_status lw_output_commit(struct lw_output *out, struct lw_err *err);
/* Give up: remove the temporary file. Fine on a zeroed or committed output. */
void lw_output_abort(struct lw_output *out);

/* Flush standard output and check it: the last act of every command. */
enum lw_status lw_stdout_close(struct lw_err *err);

#endif
