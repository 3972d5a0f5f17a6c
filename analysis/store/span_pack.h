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
/* A row as its distance from the rows before it, so that work that repeats has equal codes. Bit k
 * of unknown: v[k] is null, and 0 here. v[SPAN_HELD] is null where SPAN_READY is not, and the other
 * way round. */
enum { SPAN_HELD = SPAN_N_VALUES, SPAN_N_CODED };
struct span_code {
    int64_t v[SPAN_N_CODED], unknown;
};
/* Codes that texts of a run name by their number. Borrowed. */
struct span_codes {
    const struct span_code *v;
    int64_t n;
};

/* A code: values of at most 20 characters, each with a comma or bracket; a bracket; a separator. */
enum { SPAN_BLOCK = 8192, SPAN_MOST_TEXT = SPAN_BLOCK * (SPAN_N_CODED * 21 + 2) + 2 };

/* codes[n]: ops and starts are less those of the row before, of the first row those of itself; the
 * other times less the row's start, or the other way round. holds (NULL: none): rows whose ready
 * time is given by the time that is held, which changes with them; only one before the start is. */
void span_encode(const int64_t (*rows)[SPAN_N_VALUES], int64_t n, const bool *holds,
                 struct span_code *codes);
/* to[SPAN_MOST_TEXT]; returns the bytes written. numbers (NULL: none): of the codes that are
 * written as their number, -1 of others. */
size_t span_write(const struct span_code *codes, int64_t n, const int64_t *numbers, char *to);
/* rows[n] of the text, with ops from `op` and starts from `start` on. false: it is not what
 * span_write writes, or it names a code that is not one of `known`. */
bool span_read(const char *text, size_t len, struct span_codes known, int64_t op, int64_t start,
               int64_t (*rows)[SPAN_N_VALUES], int64_t n);
