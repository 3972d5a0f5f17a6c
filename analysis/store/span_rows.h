#pragma once

struct sqlite3;

/* Makes the table span_rows known to a connection: every span of the blocks in its file, with the
 * columns of the view span. It unpacks the blocks of one run (and step, and rank) where these are
 * given: `FROM run JOIN span_rows AS span ON span.run = run.id WHERE run.id = ?`. Returns SQLite's
 * result. */
int span_rows_register(struct sqlite3 *db);
