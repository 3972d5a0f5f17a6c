/* lapwing runs: what the results database holds. */
#include <stdio.h>
#include <time.h>

#include "analysis/store/store.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/base/jsonout.h"
#include "shared/base/table.h"

static void put_json(const struct lw_run *runs, int32_t n)
{
    struct lw_jsonout o = {.file = stdout};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_array(&o, "runs");
    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *r = &runs[i];
        lw_jsonout_object(&o, NULL);
        lw_jsonout_int(&o, "id", r->id);
        lw_jsonout_string(&o, "kind", lw_run_kind_name(r->kind));
        lw_jsonout_string(&o, "status", lw_run_status_name(r->status));
        lw_jsonout_string(&o, "message", r->message);
        lw_jsonout_string(&o, "plan_hash", r->plan_hash[0] ? r->plan_hash : NULL);
        if (r->step >= 0)
            lw_jsonout_ns(&o, "step_ns", r->step);
        else
            lw_jsonout_null(&o, "step_ns");
        if (r->exposed_comm >= 0)
            lw_jsonout_ns(&o, "exposed_comm_ns", r->exposed_comm);
        else
            lw_jsonout_null(&o, "exposed_comm_ns");
        lw_jsonout_int(&o, "n_ranks", r->n_ranks);
        lw_jsonout_int(&o, "n_buckets", r->n_buckets);
        lw_jsonout_int(&o, "bucket_cap_bytes", r->bucket_cap_bytes);
        lw_jsonout_string(&o, "workload", r->workload_name);
        lw_jsonout_string(&o, "cluster", r->cluster_name);
        lw_jsonout_string(&o, "backend", r->backend);
        lw_jsonout_string(&o, "honesty", r->honesty);
        lw_jsonout_int(&o, "n_spans", r->n_spans);
        lw_jsonout_int(&o, "started_at_s", r->started_at);
        lw_jsonout_string(&o, "command", r->command);
        lw_jsonout_end(&o);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

static void time_cell(struct lw_table *t, lw_ps value, bool csv)
{
    char buf[32];

    if (value < 0)
        lw_table_cell(t, "%s", csv ? "" : "-");
    else if (csv)
        lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(value));
    else
        lw_table_cell(t, "%s", lw_format_ps(buf, value));
}

static enum lw_status put_table(const struct lw_run *runs, int32_t n, bool csv, struct lw_err *err)
{
    static const char *const for_people[] = {">run", "kind", "status", "plan", ">bucket cap",
        ">ranks", ">step", ">exposed comm", "workload", "cluster", "started (UTC)"};
    static const char *const for_programs[] = {"run", "kind", "status", "plan_hash",
        "bucket_cap_bytes", "n_ranks", "step_ns", "exposed_comm_ns", "workload", "cluster",
        "started_at"};
    struct lw_table *t = lw_table_new(11, csv ? for_programs : for_people);
    char buf[32];

    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *r = &runs[i];
        time_t at = (time_t)r->started_at;
        lw_table_cell(t, "%lld", (long long)r->id);
        lw_table_cell(t, "%s%s%s", lw_run_kind_name(r->kind), r->backend[0] && !csv ? " " : "",
                      csv ? "" : r->backend);
        lw_table_cell(t, "%s", lw_run_status_name(r->status));
        lw_table_cell(t, csv ? "%s" : "%.8s", r->plan_hash);
        if (csv)
            lw_table_cell(t, "%lld", (long long)r->bucket_cap_bytes);
        else
            lw_table_cell(t, "%s", r->plan < 0 ? "-" : r->bucket_cap_bytes < 0 ? "default"
                                       : lw_format_bytes(buf, r->bucket_cap_bytes));
        lw_table_cell(t, "%d", r->n_ranks);
        time_cell(t, r->step, csv);
        time_cell(t, r->exposed_comm, csv);
        lw_table_cell(t, "%s", r->workload_name);
        lw_table_cell(t, "%s", r->cluster_name);
        strftime(buf, sizeof buf, "%Y-%m-%d %H:%M:%S", gmtime(&at));
        lw_table_cell(t, "%s", buf);
    }
    enum lw_status st = csv ? lw_table_print_csv(t, stdout, err)
                            : lw_table_print(t, stdout, 0, err);
    lw_table_free(t);
    return st;
}

int cmd_runs(int argc, char **argv)
{
    const char *db = "lapwing.db";
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt options[] = {
        LW_OPTION_DB(&db),
        LW_OPTION_FORMAT(&format),
        {0},
    };
    const struct lw_usage usage = {"runs", "[options]",
                                   "List the runs of the results database.", 0, 0};
    struct lw_err err = {0};
    struct lw_store *store = NULL;
    struct lw_arena arena = {0};
    struct lw_run *runs;
    int32_t n;
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    enum lw_status st = lw_store_open(db, LW_STORE_READ, &store, &err);
    if (st == LW_OK)
        st = lw_store_runs(store, &arena, &runs, &n, &err);
    if (st == LW_OK && format == LW_FORMAT_JSON)
        put_json(runs, n);
    else if (st == LW_OK)
        st = put_table(runs, n, format == LW_FORMAT_CSV, &err);
    lw_store_close(store);
    lw_arena_free(&arena);
    return lw_cli_end("runs", st, &err);
}
