/* GOAL schedules: sends, receives and calculations of every rank in one file. */
#include <stdio.h>

#include "shared/io/input.h"
#include "shared/json/jsonout.h"
#include "shared/numbers/quantity.h"
#include "shared/numbers/units.h"
#include "shared/text/wrap.h"
#include "traces/goal/goal.h"
#include "traces/import/convert.h"

static bool is(const struct lw_input *in, const char *text, size_t len)
{
    return traces_goal_is(in->text, in->len) || traces_goal_is(text, len);
}

/* The parameters: those that were given, else the file's, else LogGOPSim's. */
static enum lw_status choose_network(const struct traces_goal *g, const char *loggops,
                                     struct goal_network *n, struct lw_err *err)
{
    *n = g->has_network ? g->network : traces_goal_network_default();
    return loggops ? lw_err_context(err, traces_goal_network_parse(loggops, n, err), "--loggops")
                   : LW_OK;
}

static enum lw_status plan(const struct traces_file *f, int n,
                           const struct traces_plan_wanted *want, struct lw_plan *out,
                           struct lw_err *err)
{
    struct traces_goal g;
    struct goal_network network;

    if (n > 1)
        return lw_fail(err, LW_EINVAL, "%s: one GOAL schedule at a time: it holds all ranks",
                       f[1].file);
    if (want->rule)
        return lw_fail(
            err, LW_EINVAL,
            "%s: LogGOPS parameters time the messages of a GOAL schedule: give --loggops "
            "instead of -c, --ranks and --device",
            f[0].file);
    LW_TRY(traces_goal_read(&f[0].in, &g, err));
    enum lw_status status = choose_network(&g, want->loggops, &network, err);
    if (status == LW_OK)
        status = traces_goal_plan(&g, &network, out, err);
    traces_goal_free(&g);
    return status;
}

struct goal_facts {
    struct traces_goal g;
    struct goal_network network;
    lw_ps step; /* -1: it has none */
    char why[160];
};

/* A schedule that cannot run to its end still has counts. */
static enum lw_status look(const struct lw_input *in, const struct traces_bench_hint *hint,
                           void *facts, struct lw_err *err)
{
    struct goal_facts *x = facts;
    struct lw_err stuck = {0};

    LW_TRY(traces_goal_read(in, &x->g, err));
    enum lw_status status = choose_network(&x->g, hint->loggops, &x->network, err);
    if (status == LW_OK) {
        status = traces_goal_step(&x->g, &x->network, &x->step, &stuck);
        if (status == LW_EFORMAT || status == LW_EINVAL) {
            x->step = -1;
            snprintf(x->why, sizeof x->why, "%.159s", stuck.msg);
            status = LW_OK;
        } else if (status != LW_OK) {
            *err = stuck;
        }
    }
    x->g.file = NULL; /* the input goes */
    if (status != LW_OK)
        traces_goal_free(&x->g);
    return status;
}

static void forget(void *facts)
{
    traces_goal_free(&((struct goal_facts *)facts)->g);
}

static int64_t sent(const struct traces_goal *g)
{
    int64_t bytes = 0;

    for (int64_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].type == GOAL_SEND && bytes <= INT64_MAX - g->ops[i].size)
            bytes += g->ops[i].size;
    return bytes;
}

static enum lw_status json(const void *facts, struct lw_jsonout *o, struct lw_err *err)
{
    const struct goal_facts *x = facts;
    const struct traces_goal *g = &x->g;

    (void)err;
    LW_JSON(o, "form", g->binary ? "binary" : "text", "num_ranks", g->n_ranks, "send", g->n_sends,
            "recv", g->n_recvs, "calc", g->n_calcs, "requires", g->n_requires);
    LW_JSON(o, "irequires", g->n_irequires, "cpus", g->n_cpus, "nics", g->n_nics, "bytes_sent",
            sent(g));
    lw_jsonout_maybe(o, "step_ps", lw_known(x->step));
    LW_JSON(o, "step_ns", lw_known(x->step >= 0 ? lw_ps_to_ns(x->step) : -1), "network",
            x->network.source);
    return LW_OK;
}

static enum lw_status text(const void *facts, const char *name, FILE *f, struct lw_err *err)
{
    const struct goal_facts *x = facts;
    const struct traces_goal *g = &x->g;
    char buf[32];

    (void)err;
    fprintf(f, "%s: GOAL schedule (%s), %d ranks\n", name, g->binary ? "binary" : "text",
            g->n_ranks);
    fprintf(f, "  %lld sends (%s in all), %lld receives, %lld calculations\n",
            (long long)g->n_sends, lw_format_bytes(buf, sent(g)), (long long)g->n_recvs,
            (long long)g->n_calcs);
    fprintf(f, "  %lld requires, %lld irequires; cpus 0 to %d, nics 0 to %d\n",
            (long long)g->n_requires, (long long)g->n_irequires, g->n_cpus - 1, g->n_nics - 1);
    if (x->step >= 0)
        fprintf(f, "  step %s under LogGOPS (%s)\n", lw_format_ps(buf, x->step),
                x->network.source);
    else
        lw_printf_paragraph(f, "  no step: %s", x->why);
    return LW_OK;
}

const struct lw_importer lw_importer_goal = {
    .name = "goal",
    .reads = "GOAL schedules",
    .marks = "begin with num_ranks",
    .import_help = "A GOAL schedule (text or binary) gives a plan under LogGOPS parameters.",
    .inspect_help = "GOAL schedules: sends, receives, calculations, dependencies, the step under "
                    "LogGOPS (no plan is made: millions of messages a second).",
    .gives = LW_GIVES_PLAN,
    .instead = "-o writes the plan",
    .one_file = true,
    .buffered = true,
    .is = is,
    .convert = traces_convert_plan,
    .plan = plan,
    .facts_size = sizeof(struct goal_facts),
    .look = look,
    .text = text,
    .json = json,
    .free = forget,
};
