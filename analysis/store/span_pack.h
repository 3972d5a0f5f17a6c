#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The spans of one rank in one pass as text, in blocks of at most SPAN_BLOCK rows. A row is what
 * the database keeps of a span beside (run, step, pass, rank). Numbers are those of the file, which
 * may be a stranger's: any int64 comes back. docs/formats/schema.md has the text. */
enum span_value {
    SPAN_OP, SPAN_KIND, SPAN_STREAM, SPAN_COMM, SPAN_START, SPAN_READY, SPAN_ISSUE, SPAN_ALL_IN,
    SPAN_END, SPAN_N_VALUES,
};
/* A row: values of at most 20 characters, each with a comma or bracket; a bracket; a separator. */
enum { SPAN_BLOCK = 8192, SPAN_MOST_TEXT = SPAN_BLOCK * (SPAN_N_VALUES * 21 + 2) + 2 };

/* to[SPAN_MOST_TEXT]; returns the bytes written. Ops and starts count from those of the first row,
 * the other times from their row's start. */
size_t span_write(const int64_t (*rows)[SPAN_N_VALUES], int64_t n, char *to);
/* rows[n] of the text, with ops from `op` and starts from `start` on. false: it is not what
 * span_write writes. */
bool span_read(const char *text, size_t len, int64_t op, int64_t start,
               int64_t (*rows)[SPAN_N_VALUES], int64_t n);
