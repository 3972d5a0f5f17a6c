/* Chakra execution traces, as protobuf or JSON: graphs of nodes, one file per rank. */
#include <stdio.h>

#include "shared/base/parallel.h"
#include "shared/io/input.h"
#include "shared/json/jsonout.h"
#include "shared/text/table.h"
#include "traces/chakra/read_chakra.h"
#include "traces/graph/graph_plan.h"
#include "traces/import/convert.h"

static bool is(const struct lw_input *in, const char *text, size_t len)
{
    return traces_chakra_is_json(text, len) || traces_chakra_is(in->text, in->len);
}

static enum lw_status read_graph(const struct lw_input *in, struct traces_graph *g,
                                 struct lw_err *err)
{
    return traces_chakra_is(in->text, in->len) ? traces_chakra_read(in, g, err)
                                               : traces_chakra_read_json(in, g, err);
}

struct job {
    const struct traces_file *f;
    struct traces_graph *g;
};

static enum lw_status read_one(void *ctx, int i, const struct lw_progress *p, struct lw_err *err)
{
    const struct job *job = ctx;

    (void)p;
    return read_graph(&job->f[i].in, &job->g[i], err);
}

static enum lw_status plan(const struct traces_file *f, int n,
                           const struct traces_plan_wanted *want, struct lw_plan *out,
                           struct lw_err *err)
{
    struct job job = {.f = f};
    struct lw_parallel_work work = {read_one, &job, n, "reading", NULL, 0};

    LW_NEW(job.g, n, err);
    enum lw_status status = lw_parallel(&work, err);
    if (status == LW_OK)
        status = traces_graphs_plan(job.g, n, want->rule, out, err);
    for (int i = 0; i < n; i++)
        traces_graph_free(&job.g[i]);
    lw_free(job.g);
    return status;
}

/* ---- inspect ---- */

static enum lw_status look(const struct lw_input *in, const struct traces_bench_hint *hint,
                           void *facts, struct lw_err *err)
{
    struct traces_graph *g = facts;

    (void)hint;
    LW_TRY(read_graph(in, g, err));
    g->file = NULL; /* the input goes */
    return LW_OK;
}

static void forget(void *facts)
{
    traces_graph_free(facts);
}

struct counted {
    int64_t n, n_timed, n_host, bytes;
    lw_ps time;
};

static void count(const struct traces_graph *g, struct counted by_type[TRACES_N_NODE_TYPES])
{
    for (int32_t i = 0; i < g->n; i++) {
        const struct traces_node *x = &g->nodes[i];
        struct counted *c = &by_type[x->type];
        c->n++;
        c->n_host += x->host;
        c->n_timed += x->time >= 0;
        if (x->time > 0 && x->time <= INT64_MAX - c->time)
            c->time += x->time;
        if (x->bytes > 0 && x->bytes <= INT64_MAX - c->bytes)
            c->bytes += x->bytes;
    }
}

static enum lw_status json(const void *facts, struct lw_jsonout *o, struct lw_err *err)
{
    const struct traces_graph *g = facts;
    struct counted c[TRACES_N_NODE_TYPES] = {0};
    int64_t n_comm = 0;
    char key[8];

    (void)err;
    count(g, c);
    for (int32_t i = 0; i < g->n; i++)
        n_comm += g->nodes[i].comm;
    LW_JSON(o, "schema", g->schema >= 0 ? traces_graph_string(g, g->schema) : NULL,
            "bytes_unpacked", g->n_bytes, "nodes", g->n);
    lw_jsonout_object(o, "node_type_counts");
    for (int t = 0; t < TRACES_N_NODE_TYPES; t++)
        if (c[t].n > 0) {
            snprintf(key, sizeof key, "%d", t);
            lw_jsonout_int(o, key, c[t].n);
        }
    lw_jsonout_end(o);
    LW_JSON(o, "device_collectives_and_messages", n_comm, "dependencies", g->n_deps,
            "dependencies_on_absent_nodes", g->n_dangling, "process_groups", g->n_groups);
    lw_jsonout_array(o, "node_types");
    for (int t = 0; t < TRACES_N_NODE_TYPES; t++)
        if (c[t].n > 0)
            LW_JSON_ROW(o, NULL, "type", traces_node_type_name(t), "nodes", c[t].n, "on_host",
                        c[t].n_host, "with_duration", c[t].n_timed, "duration_ns",
                        lw_ps_to_ns(c[t].time), "message_bytes", c[t].bytes);
    lw_jsonout_end(o);
    return LW_OK;
}

static enum lw_status text(const void *facts, const char *name, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {
        "type", ">nodes", ">on the host", ">with a duration", ">durations", ">bytes of messages"};
    const struct traces_graph *g = facts;
    struct counted c[TRACES_N_NODE_TYPES] = {0};
    struct lw_table *t = lw_table_new(6, titles);

    count(g, c);
    fprintf(f, "%s: Chakra execution trace", name);
    if (g->schema >= 0)
        fprintf(f, ", schema %s", traces_graph_string(g, g->schema));
    fprintf(f, ", %d nodes, %d dependencies, %d process groups\n", g->n, g->n_deps, g->n_groups);
    if (g->n_dangling > 0)
        fprintf(f, "  note: %d dependencies name nodes that the file does not hold\n",
                g->n_dangling);
    for (int i = 0; i < TRACES_N_NODE_TYPES; i++)
        if (c[i].n > 0)
            LW_CELLS(t, traces_node_type_name(i), c[i].n, c[i].n_host, c[i].n_timed,
                     LW_PS(c[i].time), LW_BYTES(c[i].bytes));
    return lw_table_end(t, f, 2, err);
}

const struct lw_importer lw_importer_chakra = {
    .name = "chakra",
    .reads = "Chakra execution traces",
    .marks = "hold Chakra nodes, or begin with \"workload_graph\"",
    .import_help = "Chakra execution traces (protobuf or JSON), one per rank, give a plan: nodes "
                   "with durations and dependencies, collectives matched between ranks.",
    .inspect_help = "Chakra execution traces: nodes by type, with durations and bytes.",
    .gives = LW_GIVES_PLAN,
    .instead = "-o writes the plan",
    .is = is,
    .convert = traces_convert_plan,
    .plan = plan,
    .facts_size = sizeof(struct traces_graph),
    .look = look,
    .text = text,
    .json = json,
    .free = forget,
};
