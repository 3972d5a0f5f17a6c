#pragma once

#include <stdbool.h>

#include "shared/base/err.h"

/* Which files an output may replace without --force: none at that path, an empty one, or one of the
 * output's own kind that is still as this program wrote it. A file that is written ends with the
 * hash of what stands before it (its content_hash), so an edit is seen.
 *
 *   kind  "plan", "cluster", ... as in the "kind" of Lapwing's own JSON files; of others "report",
 *         "trace events", "spans", "SVG", "PNG", "gnuplot", "curves", "GOAL schedule", "Chakra
 *         trace", "process groups" */

/* LW_EINVAL: the file at `path` may not be replaced; the message calls it `shown`. *only_same: the
 * kind has no hash (spans, curves), so it may be replaced by the same bytes alone. */
enum lw_status lw_may_replace(const char *shown, const char *path, const char *kind,
                              bool *only_same, struct lw_err *err);

/* The file has a content_hash at its end, and is not as it was written with it: it was edited, or
 * written again by another program. */
bool lw_is_edited(const char *path, const char *kind);

/* The complete file of this kind, open for reading and writing, gets its content_hash. 0, or -1 and
 * errno. A kind without one, or a text that does not end as the kind does, stays. */
int lw_put_content_hash(int fd, const char *kind);

/* The two hold the same bytes. False where one cannot be read. */
bool lw_same_bytes(int fd, const char *path);

/* A database holds runs that nothing else has: no output replaces one, nor a file that SQLite keeps
 * beside it (NAME-wal, NAME-shm, NAME-journal), which may hold its last runs. */
bool lw_is_database(const char *path);
bool lw_belongs_to_database(const char *path);
/* What --force sets: any file but a database may be replaced. */
bool *lw_force_option(void);
