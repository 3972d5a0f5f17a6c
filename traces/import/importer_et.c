/* PyTorch execution traces: shapes and storages of a rank's ops, without times. */
#include <stdio.h>

#include "shared/base/parallel.h"
#include "shared/io/input.h"
#include "shared/json/jsonout.h"
#include "shared/numbers/checked.h"
#include "traces/et/read_et.h"
#include "traces/graph/graph_plan.h"
#include "traces/import/convert.h"

static bool is(const struct lw_input *in, const char *text, size_t len)
{
    (void)in;
    return traces_et_is(text, len);
}

struct job {
    const struct traces_file *f;
    struct traces_et *e;
};

static enum lw_status read_one(void *ctx, int i, const struct lw_progress *p, struct lw_err *err)
{
    const struct job *job = ctx;

    (void)p;
    return traces_et_read(&job->f[i].in, &job->e[i], err);
}

static enum lw_status plan(const struct traces_file *f, int n,
                           const struct traces_plan_wanted *want, struct lw_plan *out,
                           struct lw_err *err)
{
    struct job job = {.f = f};
    struct lw_parallel_work work = {read_one, &job, n, "reading", NULL, 0};
    struct traces_graph *g = lw_alloc((size_t)n * sizeof *g); /* views: freed with the traces */

    job.e = lw_calloc((size_t)n, sizeof *job.e);
    enum lw_status status = g && job.e ? lw_parallel(&work, err) : lw_fail_nomem(err);
    for (int i = 0; status == LW_OK && i < n; i++)
        g[i] = job.e[i].graph;
    if (status == LW_OK)
        status = traces_graphs_plan(g, n, want->rule, out, err);
    for (int i = 0; job.e && i < n; i++)
        traces_et_free(&job.e[i]);
    lw_free(job.e);
    lw_free(g);
    return status;
}

static enum lw_status look(const struct lw_input *in, const struct traces_bench_hint *hint,
                           void *facts, struct lw_err *err)
{
    struct traces_et *e = facts;

    (void)hint;
    LW_TRY(traces_et_read(in, e, err));
    e->graph.file = NULL; /* the input goes */
    return LW_OK;
}

static void forget(void *facts)
{
    traces_et_free(facts);
}

struct counted {
    int64_t n_compute, n_products, n_comm, flops, moved, bytes;
};

/* b: -1 = unknown. */
static int64_t sum(int64_t a, int64_t b)
{
    return lw_add_sat(a, b > 0 ? b : 0);
}

static struct counted count(const struct traces_graph *g)
{
    struct counted c = {0};

    for (int32_t i = 0; i < g->n; i++) {
        const struct traces_node *x = &g->nodes[i];
        c.n_comm += x->comm;
        c.n_compute += !x->comm;
        c.n_products += x->product >= 0;
        c.flops = sum(c.flops, x->flops);
        c.moved = sum(c.moved, x->moved);
        c.bytes = sum(c.bytes, x->comm ? x->bytes : 0);
    }
    return c;
}

static enum lw_status json(const void *facts, struct lw_jsonout *o, struct lw_err *err)
{
    const struct traces_et *e = facts;
    const struct traces_graph *g = &e->graph;
    struct counted c = count(g);

    (void)err;
    LW_JSON(o, "schema", g->schema >= 0 ? traces_graph_string(g, g->schema) : NULL, "nodes",
            e->n_nodes, "record_param_comms", e->n_comm_records, "nccl_named", e->n_nccl,
            "device_ops", c.n_compute, "views", e->n_views);
    LW_JSON(o, "matrix_products", c.n_products, "flops", c.flops, "tensor_bytes", c.moved,
            "collectives", c.n_comm, "collective_bytes", c.bytes, "data_edges", g->n_deps,
            "process_groups", g->n_groups);
    return LW_OK;
}

static enum lw_status text(const void *facts, const char *name, FILE *f, struct lw_err *err)
{
    const struct traces_et *e = facts;
    const struct traces_graph *g = &e->graph;
    struct counted c = count(g);
    char buf[32];

    (void)err;
    fprintf(f, "%s: PyTorch execution trace", name);
    if (g->schema >= 0)
        fprintf(f, ", schema %s", traces_graph_string(g, g->schema));
    fprintf(f, ", %d nodes, %d process groups\n", e->n_nodes, g->n_groups);
    fprintf(f,
            "  %lld ops on the device, %lld of them matrix products, %.4g GFLOP, %s of "
            "tensors\n",
            (long long)c.n_compute, (long long)c.n_products, (double)c.flops / 1e9,
            lw_format_bytes(buf, c.moved));
    fprintf(f, "  %lld collectives, %s; %d data edges\n", (long long)c.n_comm,
            lw_format_bytes(buf, c.bytes), g->n_deps);
    return LW_OK;
}

const struct lw_importer lw_importer_et = {
    .name = "pytorch-et",
    .reads = "PyTorch execution traces",
    .marks = "hold \"schema\" and \"nodes\"",
    .import_help = "PyTorch execution traces hold no times: sim --replay -c CLUSTER times them.",
    .inspect_help = "PyTorch execution traces: ops of the device, products, collectives, bytes.",
    .gives = LW_GIVES_PLAN,
    .instead = "-o writes the plan",
    .untimed = true,
    .is = is,
    .convert = traces_convert_plan,
    .plan = plan,
    .facts_size = sizeof(struct traces_et),
    .look = look,
    .text = text,
    .json = json,
    .free = forget,
};
