#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* How fast a trace is imported: read (and unpacked), parsed, sorted. */
struct traces_import_speed {
    int64_t json_bytes, file_bytes; /* file_bytes: as stored, packed or not */
    int64_t n_events, n_rows;
    int64_t peak_rss_bytes;         /* of a process that does nothing else */
    /* processor time, whatever else the machine does; unpacking is in read_s, sorting in parse_s */
    double read_s, parse_s;
    double wall_s; /* of the same on all cores, a part of the text on each, as a command reads it */
    int n_cores;
};

/* The events of `file` repeated until its JSON has `bytes` bytes or more, stored in memory (packed:
 * as gzip, one member) and imported three times, each by a process of its own; the run of median
 * time is reported. LW_EFORMAT: no trace. */
enum lw_status traces_bench_import(const char *file, int64_t bytes, bool packed,
                                   struct traces_import_speed *out, struct lw_err *err);
