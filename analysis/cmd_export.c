/* lapwing export: a stored run as a file that other programs open. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/store/store.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/base/nearest.h"
#include "shared/files/files.h"
#include "shared/io/output.h"
#include "shared/text/wrap.h"
#include "traces/export/export_chrome.h"
#include "sim/predict/sim.h"
#include "traces/export/export_graph.h"

/* What one call was asked to do. */
struct request {
    const char *db, *file, *run, *cluster;
    enum { UNSET = -1, CHROME, CSV, CHAKRA, GOAL, PLAN } format;
    int64_t rank; /* -1 = the run's worst */
};

/* A run's worst rank in its shown step, as its measures are. */
static int32_t worst_rank(const struct lw_timeline *t, const struct lw_plan *p,
                          const struct lw_run *run)
{
    struct lw_summary s = {0};
    struct lw_err unused;
    int32_t rank = 0;

    if (lw_timeline_summarize(t, NULL, run->n_warmup, &s, &unused) == LW_OK)
        rank = s.ranks[s.worst].rank;
    lw_summary_free(&s);
    return rank < p->n_ranks ? rank : 0;
}

static enum lw_status write_file(const struct request *q, const struct lw_run *run,
                                 const struct lw_timeline *t, const struct lw_plan *p,
                                 struct lw_err *err)
{
    char id[24], title[96];
    const struct lw_export_note notes[] = {
        {"made by", "lapwing export"}, {"lapwing version", run->version}, {"run", id},
        {"kind", lw_run_kind_name(run->kind)}, {"status", lw_run_status_name(run->status)},
        {"backend", run->backend}, {"compute source", run->compute_source},
        {"network", run->network}, {"honesty", run->honesty}, {"plan", run->plan_name},
        {"plan hash", run->plan_hash}, {"workload", run->workload_name},
        {"workload hash", run->workload_hash}, {"recorded by", run->workload_from},
        {"cluster", run->cluster_name}, {"cluster hash", run->cluster_hash},
        {"command", run->command},
    };
    const char *who = run->kind == LW_RUN_SIM ? "predicted" : run->kind == LW_RUN_EXEC ? "measured"
                                                                                       : "imported";
    struct lw_output out;

    snprintf(id, sizeof id, "%lld", (long long)run->id);
    snprintf(title, sizeof title, "%s (run %lld)", who, (long long)run->id);
    struct lw_export e = {.timeline = t, .plan = p, .title = title, .notes = notes,
                          .n_notes = sizeof notes / sizeof notes[0],
                          .rank = q->rank >= 0 ? (int32_t)q->rank : worst_rank(t, p, run)};
    LW_TRY(lw_output_open(q->file, q->format == CSV ? "spans" : "trace events", &out, err));
    enum lw_status st =
        q->format == CSV ? lw_export_csv(&e, out.file, err) : lw_export_chrome(&e, out.file, err);
    if (st == LW_OK)
        st = lw_output_commit(&out, err);
    lw_output_abort(&out);
    if (st == LW_OK && strcmp(q->file, "-") != 0)
        printf("wrote %s: %lld spans of run %lld%s\n", q->file, (long long)t->n, (long long)run->id,
               q->format == CSV ? "" : "; open it at ui.perfetto.dev");
    return st;
}

/* ---- graphs for other simulators ---- */

static enum lw_status write_one(const struct lw_export_graph *g, const struct request *q,
                                int32_t rank, const char *file, struct lw_err *err)
{
    struct lw_output out;

    LW_TRY(lw_output_open(file,
                          q->format == GOAL ? "GOAL schedule"
                          : rank < 0        ? "process groups"
                                            : "Chakra trace",
                          &out, err));
    enum lw_status st = q->format == GOAL ? lw_export_goal(g, out.file, err)
                        : rank < 0        ? lw_export_chakra_groups(g, out.file, err)
                                          : lw_export_chakra(g, rank, out.file, err);
    if (st == LW_OK)
        st = lw_output_commit(&out, err);
    lw_output_abort(&out);
    return st;
}

/* FILE.0.et, FILE.1.et, ... and FILE.groups.json. */
static enum lw_status write_chakra(const struct lw_export_graph *g, const struct request *q,
                                   struct lw_err *err)
{
    char file[1024];

    if (strcmp(q->file, "-") == 0)
        return lw_fail(err, LW_EINVAL,
                       "-o -: Chakra traces are a file for each rank: give the "
                       "beginning of their names");
    for (int32_t rank = -1; rank < g->n_ranks; rank++) {
        int n = rank < 0 ? snprintf(file, sizeof file, "%s.groups.json", q->file)
                         : snprintf(file, sizeof file, "%s.%d.et", q->file, rank);
        if (n >= (int)sizeof file)
            return lw_fail(err, LW_EINVAL, "-o %.60s...: the name is too long", q->file);
        LW_TRY(write_one(g, q, rank, file, err));
    }
    return LW_OK;
}

static enum lw_status write_graph(const struct request *q, const struct lw_plan *p,
                                  const struct lw_timeline *t, int32_t n_warmup, struct lw_err *err)
{
    struct lw_export_graph g;

    LW_TRY(lw_export_graph_make(p, t, n_warmup, &g, err));
    enum lw_status st =
        q->format == GOAL ? write_one(&g, q, 0, q->file, err) : write_chakra(&g, q, err);
    if (st == LW_OK && q->format == GOAL && strcmp(q->file, "-") != 0)
        printf("wrote %s: one step of %d ranks, %lld ops; LogGOPSim: -L 0 -o 0 -g 0 -G 0 -O 0 -S "
               "1000000, times in ps\n",
               q->file, g.n_ranks, (long long)g.first[g.n_ranks]);
    else if (st == LW_OK && q->format == CHAKRA)
        printf("wrote %s.0.et to %s.%d.et and %s.groups.json: one step, %lld nodes\n", q->file,
               q->file, g.n_ranks - 1, q->file, (long long)g.first[g.n_ranks]);
    lw_export_graph_free(&g);
    return st;
}

static bool is_plan_file(const char *name, struct lw_err *err)
{
    char kind[16];

    return access(name, R_OK) == 0 && lw_file_kind(name, kind, err) == LW_OK &&
           strcmp(kind, "plan") == 0;
}

static bool is_run(const char *name)
{
    return strcmp(name, "last") == 0 || name[strspn(name, "0123456789")] == '\0';
}

/* The step that a cluster predicts: its collectives and messages have times too. */
static enum lw_status write_predicted(const struct request *q, const struct lw_plan *plan,
                                      struct lw_err *err)
{
    struct lw_sim_options o = lw_sim_options_default();
    int32_t n_warmup = lw_sim_warmup_steps(plan);
    struct lw_sim_stats stats;
    struct lw_timeline t = {0};
    struct lw_cluster c;

    o.n_steps = n_warmup + 1;
    LW_TRY(lw_cluster_find(q->cluster, &c, err));
    enum lw_status st = lw_sim_run(plan, &c, &o, &t, &stats, err);
    if (st == LW_OK)
        st = write_graph(q, plan, &t, n_warmup, err);
    lw_timeline_free(&t);
    lw_cluster_free(&c);
    return st;
}

static enum lw_status export_plan(const struct request *q, struct lw_err *err)
{
    struct lw_plan plan;

    if (q->format != CHAKRA && q->format != GOAL)
        return lw_fail(err, LW_EINVAL,
                       "%s: a plan has no timeline: --format chakra and goal write "
                       "it; others need a run (lapwing sim %s)",
                       q->run, q->run);
    LW_TRY(lw_plan_read(q->run, false, &plan, err));
    enum lw_status st = lw_plan_need_times(&plan, q->run, err);
    if (st == LW_OK)
        st = q->cluster ? write_predicted(q, &plan, err) : write_graph(q, &plan, NULL, 0, err);
    lw_plan_free(&plan);
    return st;
}

static enum lw_status write_plan(const struct request *q, const struct lw_run *run,
                                 const struct lw_plan *p, struct lw_err *err)
{
    LW_TRY(lw_plan_write(p, q->file, err));
    if (strcmp(q->file, "-") != 0)
        printf("wrote %s: the plan of run %lld\n", q->file, (long long)run->id);
    return LW_OK;
}

/* Neither format has sends that go ahead of their receives. */
static void say_buffered(const struct lw_run *run)
{
    if (strstr(run->command, " --buffered"))
        lw_printf_paragraph(stderr, "note: run %lld has --buffered: in what was written a send "
                            "waits for its receive, so its step may differ from the run's",
                            (long long)run->id);
}

static enum lw_status export_run(const struct request *q, struct lw_err *err)
{
    struct lw_store *store = NULL;
    struct lw_arena arena = {0};
    struct lw_timeline t = {0};
    struct lw_plan plan = {0};
    struct lw_run run;

    enum lw_status st = lw_store_open(q->db, LW_STORE_READ, &store, err);
    if (st == LW_OK)
        st = lw_store_find_run(store, q->run, &arena, &run, err);
    if (st == LW_OK)
        st = lw_store_load_plan(store, &run, &plan, err);
    if (st == LW_OK && q->format != PLAN)
        st = lw_store_load_timeline(store, &run, &t, err);
    lw_store_close(store);
    if (st == LW_OK && q->format == PLAN)
        st = write_plan(q, &run, &plan, err);
    else if (st == LW_OK && (q->format == CHAKRA || q->format == GOAL))
        st = write_graph(q, &plan, &t, run.n_warmup, err);
    else if (st == LW_OK)
        st = write_file(q, &run, &t, &plan, err);
    if (st == LW_OK && (q->format == CHAKRA || q->format == GOAL))
        say_buffered(&run);
    lw_timeline_free(&t);
    lw_plan_free(&plan);
    lw_arena_free(&arena);
    return st;
}

static enum lw_status set_format(void *ctx, const char *name, const char *value,
                                 struct lw_err *err)
{
    struct request *q = ctx;

    static const char *const words[] = {"chrome", "csv", "chakra", "goal", "plan", NULL};

    (void)name;
    for (int i = 0; words[i]; i++)
        if (strcmp(value, words[i]) == 0) {
            q->format = i;
            return LW_OK;
        }
    return lw_fail_word(err, NULL, value, words);
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

int cmd_export(int argc, char **argv)
{
    struct request q = {.db = "lapwing.db", .rank = -1, .format = UNSET};
    struct lw_opt_call format = {set_format, &q};
    const struct lw_opt options[] = {
        {"format", 0, LW_OPT_CALL, &format, "chrome|csv|chakra|goal|plan",
         "trace events for Perfetto, one line a span, a Chakra trace for each rank, a GOAL "
         "schedule, or the run's plan file (csv and goal for -o names that end so, else chrome)"},
        {"output", 'o', LW_OPT_STRING, &q.file, "FILE",
         "file to write, of chakra the beginning of names; - = "
         "stdout (needed)"},
        LW_OPTION_FORCE,
        {"rank", 0, LW_OPT_INT, &q.rank, "N",
         "chrome: whose recording it is for readers of one rank (the rank with the longest period)",
         0, INT32_MAX},
        {"cluster", 'c', LW_OPT_STRING, &q.cluster, "NAME|FILE",
         "of a plan file: the known cluster or cluster file whose network times its collectives "
         "and messages (left to the reader)"},
        LW_OPTION_DB(&q.db),
        {0},
    };
    const struct lw_usage usage = {
        "export", "[RUN|PLAN.json] -o FILE [options]",
        "Write a stored run as a file for other programs: all ranks as processes with their "
        "streams, "
        "flows from gradient to bucket to collective, and counters, for Perfetto (ui.perfetto.dev) "
        "or chrome://tracing; `lapwing inspect` reads it back. As Chakra or GOAL its first "
        "measured "
        "step for other simulators (docs/guide/peers.md). RUN is a number (the last run); for "
        "Chakra "
        "and GOAL also a plan file.",
        0, 1};
    struct lw_err err = {0};
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    if (!q.file)
        return lw_cli_usage("export", "needs -o FILE");
    if (q.format == UNSET)
        q.format = ends_in(q.file, ".csv") ? CSV : ends_in(q.file, ".goal") ? GOAL : CHROME;
    if (q.rank >= 0 && q.format != CHROME)
        return lw_cli_usage("export", "--rank is for --format chrome: other formats have no rank "
                                      "of their own");
    q.run = n_operands == 1 ? argv[1] : "last";
    bool plan = n_operands == 1 && (is_plan_file(q.run, &err) || (q.cluster && !is_run(q.run)));
    if (q.cluster && !plan)
        return lw_cli_usage("export", "-c times the ops of a plan file; a run has its times");
    return lw_cli_end("export", plan ? export_plan(&q, &err) : export_run(&q, &err), &err);
}
