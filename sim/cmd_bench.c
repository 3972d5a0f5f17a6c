/* lapwing bench: how fast planning and the simulator are, on loads whose answer is known. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "shared/cli.h"
#include "shared/command.h"
#include "shared/jsonout.h"
#include "shared/program.h"
#include "shared/table.h"
#include "sim/bench_others.h"
#include "sim/bench_plan.h"
#include "sim/queue.h"
#include "sim/sim.h"

static const struct lw_usage usage = {
    .command = "bench",
    .synopsis = "[plan|queue|w-ar|w-ddp|streams] [--ranks N] [--method events|recurrence|collective] "
                "[--no-fold]",
    .about = "Measures planning (plan: build, check and hash one of --params parameters for "
             "--ranks ranks) and the simulator: the event queue alone (hold model), one ring all-reduce of 64 "
             "MiB (w-ar), a step of ten of them under compute (w-ddp), a pipeline with messages on "
             "their own streams (streams). Without a name, a table of all. Times are of this "
             "machine; simulated times are the same everywhere.",
    .min_operands = 0,
    .max_operands = 1,
};

struct result {
    const char *name, *method;
    int64_t ranks, n_simulated, simulated_ps, n_events, n_messages, peak_rss_bytes;
    double wall_s;
};

struct choice {
    int64_t ranks, params, jitter_ns, start_skew_ns, seed;
    bool no_fold;
};

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int64_t peak_rss(void)
{
    struct rusage u;

    return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : -1;
}

/* ranks = events pending; an event = one pop and one push. */
static enum lw_status bench_queue(int64_t pending, struct result *r, struct lw_err *err)
{
    int64_t n = 4000000 + pending;
    double began = seconds(), filled;

    if (sim_queue_hold(pending, 0, 1 << 30, 1) < 0)
        return lw_fail_nomem(err);
    filled = seconds() - began;
    began = seconds();
    if (sim_queue_hold(pending, n, 1 << 30, 1) < 0)
        return lw_fail_nomem(err);
    *r = (struct result){"queue", "hold", pending, 0, 0, n, 0, peak_rss(),
                         seconds() - began - filled};
    return LW_OK;
}

static enum lw_status bench_plan(enum sim_bench which, const char *name, const char *method,
                                 const struct choice *c, struct result *r, struct lw_err *err)
{
    struct lw_sim_options o = {.n_steps = 1, .seed = (uint64_t)c->seed,
                               .start_skew_ps = c->start_skew_ns * LW_PS_PER_NS,
                               .no_fold = c->no_fold};
    struct lw_plan plan = {0};
    struct lw_cluster cluster = {0};
    struct lw_sim_stats s = {0};

    if (strcmp(method, "collective") != 0) {
        o.detail = LW_SIM_CHUNK;
        o.ring = strcmp(method, "events") == 0 ? LW_SIM_RING_EVENTS : LW_SIM_RING_RECURRENCE;
        o.jitter_ps = c->jitter_ns * LW_PS_PER_NS;
    }
    enum lw_status status = sim_bench_plan(which, (int32_t)c->ranks, &plan, err);
    if (status == LW_OK)
        status = sim_bench_cluster((int32_t)c->ranks, &cluster, err);
    double began = seconds();
    if (status == LW_OK)
        status = lw_sim_run(&plan, &cluster, &o, NULL, &s, err);
    *r = (struct result){name, method, c->ranks, s.n_simulated, s.end, s.n_events, s.n_messages,
                         peak_rss(), seconds() - began};
    lw_plan_free(&plan);
    lw_cluster_free(&cluster);
    return status;
}

/* Build, check and hash a data-parallel plan in memory; events = its ops. */
static enum lw_status bench_planning(const struct choice *c, struct result *r, struct lw_err *err)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_workload w = {0};
    struct lw_plan plan = {0};

    s.dp = c->ranks;
    enum lw_status status = sim_bench_workload((int32_t)c->params, &w, err);
    double began = seconds();
    if (status == LW_OK)
        status = lw_plan_build(&w, &s, NULL, &plan, err);
    *r = (struct result){"plan", "c10d-2", c->ranks, 0, 0, plan.n_ops, 0, peak_rss(),
                         seconds() - began};
    lw_plan_free(&plan);
    lw_workload_free(&w);
    return status;
}

static const struct {
    const char *name;
    enum sim_bench which;
} plans[] = {{"w-ar", SIM_BENCH_W_AR}, {"w-ddp", SIM_BENCH_W_DDP}, {"streams", SIM_BENCH_STREAMS}};

static enum lw_status bench(const char *name, const char *method, const struct choice *c,
                            struct result *r, struct lw_err *err)
{
    if (strcmp(name, "queue") == 0)
        return bench_queue(c->ranks, r, err);
    if (strcmp(name, "plan") == 0)
        return bench_planning(c, r, err);
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        if (strcmp(name, plans[i].name) == 0)
            return bench_plan(plans[i].which, plans[i].name, method, c, r, err);
    return lw_fail(err, LW_EINVAL, "no benchmark '%s' (queue, plan, w-ar, w-ddp, streams)", name);
}

static void print_json(const struct result *r)
{
    struct lw_jsonout o = {.file = stdout};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_string(&o, "name", r->name);
    lw_jsonout_int(&o, "ranks", r->ranks);
    lw_jsonout_int(&o, "n_simulated_ranks", r->n_simulated);
    lw_jsonout_string(&o, "method", r->method);
    lw_jsonout_int(&o, "simulated_ps", r->simulated_ps);
    lw_jsonout_ns(&o, "simulated_ns", r->simulated_ps);
    lw_jsonout_int(&o, "n_events", r->n_events);
    lw_jsonout_int(&o, "n_messages", r->n_messages);
    lw_jsonout_fixed(&o, "wall_s", r->wall_s, 6);
    lw_jsonout_int(&o, "peak_rss_bytes", r->peak_rss_bytes);
    lw_jsonout_end(&o);
}

static void add_row(struct lw_table *t, const struct result *r)
{
    char buf[32];

    lw_table_cell(t, "%s", r->name);
    lw_table_cell(t, "%s", r->method);
    lw_table_cell(t, "%lld", (long long)r->ranks);
    lw_table_cell(t, "%lld", (long long)r->n_simulated);
    lw_table_cell(t, "%s", lw_format_ps(buf, r->simulated_ps));
    lw_table_cell(t, "%lld", (long long)r->n_events);
    lw_table_cell(t, "%lld", (long long)r->n_messages);
    lw_table_cell(t, "%.3f", r->wall_s);
    lw_table_cell(t, "%.2f", r->wall_s > 0 ? (double)r->n_events / r->wall_s / 1e6 : 0);
    lw_table_cell(t, "%s", lw_format_bytes(buf, r->peak_rss_bytes));
}

static enum lw_status bench_all(const struct choice *c, struct lw_table *t, struct lw_err *err)
{
    static const struct {
        const char *name, *method;
        int64_t ranks;
        bool no_fold;
    } rows[] = {
        {"plan", "", 4096, false},
        {"w-ar", "recurrence", 4096, false},   {"w-ar", "recurrence", 4096, true},
        {"w-ar", "events", 4096, true},        {"w-ddp", "recurrence", 4096, false},
        {"w-ddp", "recurrence", 4096, true},   {"streams", "collective", 512, true},
        {"queue", "", 64, true},               {"queue", "", 16384, true},
        {"queue", "", 4194304, true},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct choice one = *c;
        struct result r;
        one.ranks = c->ranks > 0 ? c->ranks : rows[i].ranks;
        one.no_fold = c->no_fold || rows[i].no_fold;
        LW_TRY(bench(rows[i].name, rows[i].method, &one, &r, err));
        add_row(t, &r);
    }
    return LW_OK;
}

int cmd_bench(int argc, char **argv)
{
    static const char *const titles[] = {"name", "method", ">ranks", ">simulated ranks",
                                         ">simulated time", ">events",
                                         ">messages", ">wall s", ">M events/s", ">peak memory"};
    struct choice c = {.seed = 1, .params = 1000000};
    const char *method = "recurrence";
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt table[] = {
        {"ranks", 0, LW_OPT_INT, &c.ranks, "N", "ranks, or events pending (4096)", 1, 1 << 24},
        {"params", 0, LW_OPT_INT, &c.params, "N", "plan: parameters (1000000)", 1, 100000000},
        {"method", 0, LW_OPT_STRING, &method, "HOW", "events|recurrence|collective (recurrence)", 0, 0},
        {"jitter-ns", 0, LW_OPT_INT, &c.jitter_ns, "NS", "up to this much more for each message (0)",
         0, 1000000000},
        {"start-skew-ns", 0, LW_OPT_INT, &c.start_skew_ns, "NS",
         "each rank enters up to this much later (0)", 0, 1000000000},
        {"no-fold", 0, LW_OPT_FLAG, &c.no_fold, NULL,
         "simulate every rank, also those that are alike", 0, 0},
        {"seed", 0, LW_OPT_INT, &c.seed, "N", "of jitter and skew (1)", 0, INT64_MAX},
        {"format", 0, LW_OPT_FORMAT, &format, "text|json|csv", "how to print (text)", 0, 0},
        {0},
    };
    struct result r = {0};
    struct lw_err err = {0};
    int n, rc = lw_cli_begin(&usage, table, argc, argv, &n);

    if (rc >= 0)
        return rc;
    if (strcmp(method, "events") != 0 && strcmp(method, "recurrence") != 0 &&
        strcmp(method, "collective") != 0)
        return lw_cli_usage("bench", "--method '%s': events, recurrence or collective", method);
    if (n == 0 && format == LW_FORMAT_JSON)
        return lw_cli_usage("bench", "--format json shows one benchmark: name it");
    struct lw_table *t = lw_table_new(10, titles);
    enum lw_status status = t ? LW_OK : lw_fail_nomem(&err);
    if (status == LW_OK && n == 0) {
        status = bench_all(&c, t, &err);
    } else if (status == LW_OK) {
        c.ranks = c.ranks > 0 ? c.ranks : 4096;
        status = bench(argv[1], method, &c, &r, &err);
        if (status == LW_OK)
            add_row(t, &r);
    }
    if (status == LW_OK && format == LW_FORMAT_JSON)
        print_json(&r);
    else if (status == LW_OK)
        status = format == LW_FORMAT_CSV ? lw_table_print_csv(t, stdout, &err)
                                         : lw_table_print(t, stdout, 0, &err);
    if (status == LW_OK && n == 0 && format == LW_FORMAT_TEXT)
        status = sim_bench_others_print(stdout, &err);
    lw_table_free(t);
    return lw_cli_end("bench", status, &err);
}
