/* A prediction as one row. */
#include "sim/predict/sim_result.h"

#include <math.h>
#include <stddef.h>

#include "shared/timeline/period_figures.h"
#include "shared/workload/workload.h"
#include "sim/predict/sim_head.h"

const char *lw_sim_fits_word(int fits)
{
    return fits < 0 ? "" : fits ? "yes" : "no";
}

#define AT(field) offsetof(struct lw_sim_result, field)
const struct lw_column lw_sim_result_columns[LW_N_SIM_RESULT_COLUMNS] = {
    {"run", NULL, LW_COLUMN_INT, AT(run), .lacking = ""},
    {"plan", NULL, LW_COLUMN_TEXT, AT(plan)},
    {"plan_hash", NULL, LW_COLUMN_TEXT, AT(plan_hash)},
    {"workload", NULL, LW_COLUMN_TEXT, AT(workload)},
    {"cluster", NULL, LW_COLUMN_TEXT, AT(cluster)},
    {"framework", NULL, LW_COLUMN_TEXT, AT(framework)},
    {"n_ranks", NULL, LW_COLUMN_INT32, AT(n_ranks)},
    {"step_ns", NULL, LW_COLUMN_PS, AT(step), .lacking = ""},
    {"p10_ns", NULL, LW_COLUMN_PS, AT(p10), .lacking = ""},
    {"p90_ns", NULL, LW_COLUMN_PS, AT(p90), .lacking = ""},
    {"interval_of", NULL, LW_COLUMN_TEXT, AT(interval_of)},
    {"tokens_per_s", NULL, LW_COLUMN_EXACT, AT(tokens_per_s), 1, .lacking = ""},
    {"tokens_per_s_per_device", NULL, LW_COLUMN_EXACT, AT(tokens_per_s_per_device), 2,
     .lacking = ""},
    {"samples_per_s", NULL, LW_COLUMN_EXACT, AT(samples_per_s), 4, .lacking = ""},
    {"mfu_pct", NULL, LW_COLUMN_EXACT, AT(mfu_pct), 3, .lacking = ""},
    {"overlap_pct", NULL, LW_COLUMN_EXACT, AT(overlap_pct), 3, .lacking = ""},
    {"exposed_comm_ns", NULL, LW_COLUMN_PS, AT(exposed_comm), .lacking = ""},
    {"memory_bytes", NULL, LW_COLUMN_BYTES, AT(memory_bytes), .lacking = ""},
    {"device_memory_bytes", NULL, LW_COLUMN_BYTES, AT(device_memory_bytes), .lacking = ""},
    {"fits", NULL, LW_COLUMN_KNOWN, AT(fits)},
    {"price_per_device_hour", NULL, LW_COLUMN_EXACT, AT(price_per_device_hour), 6, .lacking = ""},
    {"cost_per_trillion_tokens", NULL, LW_COLUMN_EXACT, AT(cost_per_trillion_tokens), 2,
     .lacking = ""},
    {"days", NULL, LW_COLUMN_EXACT, AT(days), 4, .lacking = ""},
    {"days_p10", NULL, LW_COLUMN_EXACT, AT(days_p10), 4, .lacking = ""},
    {"days_p90", NULL, LW_COLUMN_EXACT, AT(days_p90), 4, .lacking = ""},
    {"device_hours", NULL, LW_COLUMN_EXACT, AT(device_hours), 2, .lacking = ""},
    {"cost", NULL, LW_COLUMN_EXACT, AT(cost), 2, .lacking = ""},
    {"cost_p10", NULL, LW_COLUMN_EXACT, AT(cost_p10), 2, .lacking = ""},
    {"cost_p90", NULL, LW_COLUMN_EXACT, AT(cost_p90), 2, .lacking = ""},
};
#undef AT

struct lw_throughput lw_sim_throughput(const struct lw_sim_report *r)
{
    struct lw_throughput t = lw_throughput_of(r->plan, r->cluster, r->summary->step);

    if (r->budget.price > 0)
        t.price_per_million_tokens = r->budget.price * t.n_devices / 3600 / t.tokens_per_s * 1e6;
    return t;
}

struct lw_budget lw_sim_budget(const struct lw_sim_report *r)
{
    struct lw_throughput t = lw_throughput_of(r->plan, r->cluster, r->summary->step);
    bool known = r->alike.of != NULL;

    return lw_budget_of(&t, r->cluster, &r->budget, r->summary->step, known ? r->alike.p10 : -1,
                        known ? r->alike.p90 : -1);
}

static void put_memory(const struct lw_sim_report *r, struct lw_sim_result *x)
{
    const struct lw_figure has = r->cluster->device.memory_bytes;
    int64_t missing = lw_sim_missing_bytes(r);

    x->memory_bytes =
        r->memory && r->memory->peak_bytes >= 0 ? lw_memory_device_bytes(r->memory) : -1;
    x->device_memory_bytes = lw_figure_is_set(has) ? (int64_t)has.value : -1;
    x->fits = missing < 0 ? -1 : missing == 0;
}

static void put_budget(const struct lw_budget *b, struct lw_sim_result *x)
{
    x->price_per_device_hour = b->price;
    x->cost_per_trillion_tokens = b->cost_per_trillion;
    x->days = b->days;
    x->days_p10 = b->days_p10;
    x->days_p90 = b->days_p90;
    x->device_hours = b->device_hours;
    x->cost = b->cost;
    x->cost_p10 = b->cost_p10;
    x->cost_p90 = b->cost_p90;
}

static enum lw_status put_texts(const struct lw_sim_report *r, struct lw_arena *a,
                                struct lw_sim_result *x, struct lw_err *err)
{
    const struct {
        const char **to, *from;
    } text[] = {
        {&x->plan, r->plan->name},
        {&x->plan_hash, r->plan->hash},
        {&x->workload, r->workload ? r->workload->name : ""},
        {&x->cluster, r->cluster->name},
        {&x->framework, r->framework ? r->framework->name : ""},
        {&x->interval_of, r->alike.of ? r->alike.of : ""},
    };

    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        if (!(*text[i].to = lw_arena_strdup(a, text[i].from ? text[i].from : "")))
            return lw_fail_nomem(err);
    return LW_OK;
}

enum lw_status lw_sim_result_of(const struct lw_sim_report *r, struct lw_arena *a,
                                struct lw_sim_result *out, struct lw_err *err)
{
    const struct lw_measure *m = &r->summary->ranks[r->summary->worst];
    struct lw_period_row row = lw_period_row_of(m);
    struct lw_throughput t = lw_sim_throughput(r);
    struct lw_budget b = lw_sim_budget(r);
    bool known = r->alike.of != NULL;
    struct lw_sim_result x = {
        .run = r->run, .n_ranks = r->plan->n_ranks, .step = r->summary->step,
        .p10 = known ? r->alike.p10 : -1, .p90 = known ? r->alike.p90 : -1,
        .exposed_comm = lw_ns_to_ps(row.figure[LW_FIGURE_EXPOSED_COMM]),
        .tokens_per_s = t.tokens_per_s,
        .tokens_per_s_per_device = t.tokens_per_s / t.n_devices,
        .samples_per_s = t.samples_per_s, .mfu_pct = 100 * t.mfu,
        .overlap_pct = lw_sim_overlap_pct(m)};

    put_memory(r, &x);
    put_budget(&b, &x);
    LW_TRY(put_texts(r, a, &x, err));
    *out = x;
    return LW_OK;
}
