#pragma once

#include <stddef.h>
#include <stdio.h>

#include "shared/base/err.h"

/* A stream whose text is packed while it is written: gzip members that follow each other, each of
 * 4 MiB of the text. Of the text no more than that is held. */
struct lw_gzip_out {
    FILE *file;   /* write to it; lw_gzip_out_end closes it */
    char *text;   /* what is not packed yet */
    size_t n_text;
    char *packed; /* members so far */
    size_t n_packed;
    int64_t room;
};

enum lw_status lw_gzip_out_begin(struct lw_gzip_out *g, struct lw_err *err);
/* *packed with lw_free; not set on failure. g is empty then. */
enum lw_status lw_gzip_out_end(struct lw_gzip_out *g, char **packed, size_t *n, struct lw_err *err);
