/* Rewrites a stored plan as older programs stored it: its rows are in the tables that plan_file
 * replaced, and it has no file. */
#include "tests/lib/commands/old_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "shared/plan/plan.h"
#include "tests/lib/files/sql_file.h"

static void put_ranks(FILE *f, int64_t id, const struct lw_plan *p)
{
    for (int32_t c = 0; c < p->n_comms; c++)
        for (int32_t r = 0; r < p->n_ranks; r++)
            if (p->comm_group[c * p->n_ranks + r] >= 0)
                fprintf(f, "INSERT INTO comm_rank VALUES (%" PRId64 ", %d, %d, %d);", id, c, r,
                        p->comm_group[c * p->n_ranks + r]);
    for (int32_t i = 0; i < p->n_passes; i++)
        fprintf(f, "INSERT INTO pass VALUES (%" PRId64 ", %d, %d);", id, i, p->pass_variant[i]);
}

static void put_ops(FILE *f, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_ops; i++) {
        for (int32_t k = 0; k < p->ops[i].n_deps; k++)
            fprintf(f, "INSERT INTO dep VALUES (%" PRId64 ", %d, %d);", id, i,
                    p->deps[p->ops[i].first_dep + k]);
        for (int32_t k = 0; k < p->ops[i].n_ready; k++)
            fprintf(f, "INSERT INTO ready VALUES (%" PRId64 ", %d, %d);", id, i,
                    p->ready[p->ops[i].first_ready + k]);
    }
    for (int32_t row = 0; row < p->n_operand_rows; row++) {
        for (int32_t i = 0; i < lw_operand_row_length(p, row); i++) {
            struct lw_operand d = lw_operand_at(p, row, i);
            fprintf(f,
                    "INSERT INTO operand VALUES (%" PRId64 ", %d, %d, %" PRId64 ", %" PRId64
                    ", %d);",
                    id, row, i, d.bytes, d.offset, d.peer);
        }
    }
}

void make_plan_old(const char *db, int64_t id, const struct lw_plan *p)
{
    char *sql = NULL;
    size_t n;
    FILE *f = open_memstream(&sql, &n);

    fprintf(f, "BEGIN; DELETE FROM plan_file WHERE plan = %" PRId64 ";", id);
    put_ranks(f, id, p);
    put_ops(f, id, p);
    fprintf(f, "COMMIT;");
    fclose(f);
    sql_do(db, sql);
    free(sql);
}

void make_clusters_old(const char *file)
{
    if (sql_ask(file, "PRAGMA user_version") >= 17)
        sql_do(file, "ALTER TABLE run DROP COLUMN cluster_file; DROP TABLE cluster_file;"
                     "PRAGMA user_version = 16");
}

void make_pieces_old(const char *file)
{
    make_clusters_old(file);
    if (sql_ask(file, "PRAGMA user_version") < 16)
        return;
    sql_do(file,
           "CREATE TABLE ops AS SELECT plan, op, micro_batch, alike FROM op_row;"
           "CREATE TABLE changes AS SELECT * FROM memory;"
           "DROP VIEW run_span; DROP VIEW op; DROP VIEW op_row; DROP VIEW memory;"
           "DROP TABLE op_piece; DROP TABLE op_order; DROP TABLE memory_piece;"
           "DROP TABLE memory_order;"
           "CREATE TABLE op_row (plan INTEGER NOT NULL REFERENCES plan(id), op INTEGER NOT NULL,"
           " micro_batch INTEGER NOT NULL, alike INTEGER NOT NULL, PRIMARY KEY (plan, op))"
           " STRICT, WITHOUT ROWID;"
           "INSERT INTO op_row SELECT * FROM ops; DROP TABLE ops;"
           "CREATE TABLE memory (run INTEGER NOT NULL, change INTEGER NOT NULL,"
           " rank INTEGER NOT NULL, at_ps INTEGER NOT NULL, category TEXT NOT NULL,"
           " bytes INTEGER NOT NULL, PRIMARY KEY (run, change)) STRICT, WITHOUT ROWID;"
           "INSERT INTO memory SELECT * FROM changes; DROP TABLE changes;"
           "CREATE VIEW op AS SELECT r.plan, r.op, a.kind, a.class, a.dtype, a.stream, a.comm,"
           " a.call, a.bytes, a.work_ps, a.peer, a.operand, a.module, a.stage, r.micro_batch,"
           " a.bucket, a.name, a.bound, a.time_source, a.compute_ps, a.memory_ps, a.launch_ps,"
           " a.host_ps FROM op_row AS r JOIN op_alike AS a"
           " ON a.plan = r.plan AND a.alike = r.alike;"
           "CREATE VIEW run_span AS SELECT 1; PRAGMA user_version = 15");
}

void make_spans_old(const char *file)
{
    make_pieces_old(file);
    sql_do(file,
           "CREATE TABLE unpacked AS SELECT * FROM span ORDER BY id, run;"
           "CREATE TABLE ops AS SELECT plan, op, kind, class, dtype, stream, comm, call, bytes,"
           " work_ps, peer, operand, module, stage, micro_batch, bucket, name, bound, time_source,"
           " compute_ps, memory_ps, launch_ps, host_ps FROM op ORDER BY plan, op;"
           "DROP VIEW run_span; DROP VIEW op; DROP TABLE op_row; DROP TABLE op_alike;"
           "ALTER TABLE ops RENAME TO op;"
           "DROP VIEW span; DROP TABLE span_block; DROP TABLE span_data;"
           "DROP TABLE span_alike;"
           "CREATE TABLE span (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, step INTEGER NOT NULL,"
           " pass INTEGER NOT NULL, rank INTEGER NOT NULL, op INTEGER NOT NULL,"
           " kind INTEGER NOT NULL, stream INTEGER NOT NULL, comm INTEGER NOT NULL,"
           " ready_ps INTEGER NOT NULL, issue_ps INTEGER NOT NULL, start_ps INTEGER NOT NULL,"
           " all_in_ps INTEGER NOT NULL, end_ps INTEGER NOT NULL) STRICT;"
           "INSERT INTO span SELECT NULL, run, step, pass, rank, op, kind, stream, comm, ready_ps,"
           " issue_ps, start_ps, all_in_ps, end_ps FROM unpacked; DROP TABLE unpacked;"
           "UPDATE run SET first_span = (SELECT min(id) FROM span WHERE span.run = run.id),"
           " last_span = (SELECT max(id) FROM span WHERE span.run = run.id);"
           "CREATE VIEW run_span AS SELECT 1;"
           "ALTER TABLE searched DROP COLUMN samples_p90_ps;"
           "ALTER TABLE searched DROP COLUMN least_cap_bytes;"
           "ALTER TABLE searched DROP COLUMN next_cap_bytes; PRAGMA user_version = 11");
}
