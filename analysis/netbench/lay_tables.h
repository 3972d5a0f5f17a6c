#pragma once

#include <stdio.h>

#include "shared/base/err.h"
#include "traces/import/convert.h"

/* `lapwing import --onto NAME`: the converted tables on the cluster of that name or file, which
 * becomes c->cluster. Doubts are written to notes, a line each that begins with `who`. */
enum lw_status lw_tables_lay_onto(const char *name, struct traces_converted *c, FILE *notes,
                                  const char *who, struct lw_err *err);
