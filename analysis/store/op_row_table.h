#pragma once

struct sqlite3;

/* Makes the table op_rows (plan, op, micro_batch, alike) known to a connection: every op of a plan,
 * as the view op_row of its file has them, also of a file of schema version 14 or 15. Queries name
 * the plan; its ops are read once in a query, and then found by their number. Returns SQLite's
 * result. */
int op_row_table_register(struct sqlite3 *db);
