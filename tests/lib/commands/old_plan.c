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

void make_spans_old(const char *file)
{
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
