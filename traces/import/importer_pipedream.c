/* PipeDream profiles: graph.txt, or its nodes and edges as two CSV files. */
#include <ctype.h>
#include <string.h>

#include "shared/io/input.h"
#include "shared/json/jsonout.h"
#include "shared/numbers/units.h"
#include "traces/import/convert.h"
#include "traces/pipedream/import_pipedream.h"

enum part { NONE, GRAPH, NODES, EDGES };

static enum part part_of_text(const char *text, size_t len)
{
    static const char nodes[] = "node,op,fwd_ms,", edges[] = "src,dst";

    if (len == 0 || *text == '{' || *text == '[') /* JSON of any length on one line */
        return NONE;
    if (traces_pipedream_is(text, len))
        return GRAPH;
    if (len >= strlen(nodes) && memcmp(text, nodes, strlen(nodes)) == 0)
        return NODES;
    return len >= strlen(edges) && memcmp(text, edges, strlen(edges)) == 0 ? EDGES : NONE;
}

static enum part part_of(const struct lw_input *in)
{
    const char *p = in->text, *end = in->text + in->len;

    if (in->len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    while (p < end && isspace((unsigned char)*p))
        p++;
    return part_of_text(p, (size_t)(end - p));
}

static bool is(const struct lw_input *in, const char *text, size_t len)
{
    (void)in;
    return part_of_text(text, len) != NONE;
}

static enum lw_status read_graph(const struct traces_file *f, int n, struct lw_profile_graph *g,
                                 struct lw_err *err)
{
    const struct traces_file *nodes = &f[0], *edges = &f[n - 1];

    if (n == 1 && part_of(&f[0].in) == GRAPH)
        return traces_pipedream_read(&f[0].in, g, err);
    if (n == 2 && part_of(&f[0].in) == EDGES) {
        nodes = &f[1];
        edges = &f[0];
    }
    if (n != 2 || part_of(&nodes->in) != NODES || part_of(&edges->in) != EDGES)
        return lw_fail(err, LW_EINVAL,
                       "%s: a profiled graph is one graph.txt, or two CSV files (nodes, edges)",
                       f->file);
    return lw_profile_graph_parse(nodes->file, nodes->in.text, edges->file, edges->in.text, g, err);
}

static enum lw_status convert(const struct traces_file *f, int n, const struct traces_wanted *want,
                              struct traces_converted *out, struct lw_err *err)
{
    const struct traces_file *main = n > 1 && part_of(&f[0].in) == EDGES ? &f[1] : &f[0];
    struct lw_profile_graph g;

    (void)want;
    LW_TRY(read_graph(f, n, &g, err));
    enum lw_status status =
        lw_workload_from_pipedream(&g, main->file, main->in.hash, &out->workload, err);
    lw_profile_graph_free(&g);
    out->has_workload = status == LW_OK;
    if (status == LW_OK)
        traces_cover_all(out);
    return status;
}

static enum lw_status look(const struct lw_input *in, const struct traces_bench_hint *hint,
                           void *facts, struct lw_err *err)
{
    enum part part = part_of(in);

    (void)hint;
    if (part == GRAPH)
        return traces_pipedream_read(in, facts, err);
    if (part == NODES)
        return lw_profile_graph_parse(in->name, in->text, "edges", "src,dst\n", facts, err);
    return lw_fail(err, LW_EFORMAT, "%s: the edges of a profiled graph alone: inspect its nodes",
                   in->name);
}

static void forget(void *facts)
{
    lw_profile_graph_free(facts);
}

struct graph_sums {
    double forward_ms, backward_ms, parameter_bytes;
};

static struct graph_sums sum_graph(const struct lw_profile_graph *g)
{
    struct graph_sums s = {0};

    for (int32_t i = 0; i < g->n_nodes; i++) {
        if (strncmp(g->nodes[i].op, "Input", 5) == 0)
            continue;
        s.forward_ms += g->nodes[i].forward_ms;
        s.backward_ms += g->nodes[i].backward_ms;
        s.parameter_bytes += g->nodes[i].parameter_bytes;
    }
    return s;
}

static enum lw_status json(const void *facts, struct lw_jsonout *o, struct lw_err *err)
{
    const struct lw_profile_graph *g = facts;
    struct graph_sums s = sum_graph(g);

    (void)err;
    LW_JSON(o, "n_nodes", g->n_nodes, "n_edges", g->n_edges,
            "forward_ns", lw_decimals(s.forward_ms * 1e6, 0),
            "backward_ns", lw_decimals(s.backward_ms * 1e6, 0),
            "parameter_bytes", lw_decimals(s.parameter_bytes, 0));
    return LW_OK;
}

static enum lw_status text(const void *facts, const char *name, FILE *f, struct lw_err *err)
{
    const struct lw_profile_graph *g = facts;
    struct graph_sums s = sum_graph(g);
    char buf[32];

    (void)err;
    fprintf(f,
            "%s: PipeDream profile, %d nodes, %d edges; without inputs forward %.3f ms, backward "
            "%.3f ms, parameters %s\n",
            name, g->n_nodes, g->n_edges, s.forward_ms, s.backward_ms,
            lw_format_bytes(buf, (int64_t)(s.parameter_bytes < 9e18 ? s.parameter_bytes : 9e18)));
    return LW_OK;
}

const struct lw_importer lw_importer_pipedream = {
    .name = "pipedream",
    .reads = "PipeDream profiles",
    .marks = "hold forward_compute_time=, or begin with their columns",
    .import_help = "A PipeDream profile (graph.txt, or its nodes and edges as CSV) gives a "
                   "workload.",
    .inspect_help = "PipeDream profiles: sums.",
    .gives = LW_GIVES_WORKLOAD,
    .is = is,
    .convert = convert,
    .facts_size = sizeof(struct lw_profile_graph),
    .look = look,
    .text = text,
    .json = json,
    .free = forget,
};
