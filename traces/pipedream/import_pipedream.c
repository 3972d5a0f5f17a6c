/* Profiles of PipeDream (graph/graph.py of msr-fiddle/pipedream @ 11c40c0, Node and Graph as text):
 *
 *   node7 -- LSTM(2048, 1024) -- forward_compute_time=3.190, backward_compute_time=5.348,
 *       activation_size=[6291456.0; 131072.0], parameter_size=50364416.000 -- stage_id=0
 *   <tab>node6 -- node7
 *
 * (one line each; times in ms, sizes in bytes; a list of activations counts as its sum; the stage
 * is not read). As a workload: a node computes in its place of a topological order, the earliest
 * first-mentioned node first. Input nodes are left out: their time is that of loading data. What a
 * chain of modules cannot say is noted: skip edges carry their bytes past other modules. Not in a
 * profile: parameters one by one, their names, the optimizer, FLOPs, the batch. */
#include "traces/pipedream/import_pipedream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/io/input.h"
#include "shared/base/shown_text.h"

enum { MOST_NODES = 1 << 14 };

static const double MOST_MS = 2e9, MOST_BYTES = 1e13; /* 23 days in all; 10 TB a node */

static const char FIRST_FIELD[] = " -- forward_compute_time=";

bool traces_pipedream_is(const char *text, size_t len)
{
    const char *newline = memchr(text, '\n', len);

    return memmem(text, newline ? (size_t)(newline - text) : len, FIRST_FIELD,
                  strlen(FIRST_FIELD)) != NULL;
}

/* ---- text ---- */

struct text { /* one that is read */
    const char *name;
    int64_t line;
    struct lw_profile_graph *g;
    struct lw_err *err;
};

static enum lw_status number(struct text *t, const char *from, const char *end, double *v)
{
    char buf[64], *stop;
    size_t len = (size_t)(end - from);

    snprintf(buf, sizeof buf, "%.*s", (int)(len < 63 ? len : 63), from);
    *v = strtod(buf, &stop);
    if (len == 0 || len > 63 || *stop || !(*v >= 0) || *v > 1e15)
        return lw_fail_at(t->err, LW_EFORMAT, t->name, t->line,
                          "'%s' is not a number from 0 to 1e15", buf);
    return LW_OK;
}

/* "3.5", or the sum of "[3.5; 1; 2]". */
static enum lw_status value(struct text *t, const char *from, const char *end, double *v)
{
    double part;

    if (from == end || *from != '[')
        return number(t, from, end, v);
    *v = 0;
    if (end[-1] != ']')
        return lw_fail_at(t->err, LW_EFORMAT, t->name, t->line, "a list without ']'");
    for (from++, end--; from < end;) {
        const char *stop = memchr(from, ';', (size_t)(end - from));
        stop = stop ? stop : end;
        LW_TRY(number(t, from, stop, &part));
        *v += part;
        from = stop + 1 < end ? stop + 1 : end;
        while (from < end && *from == ' ')
            from++;
    }
    return LW_OK;
}

/* "key=VALUE" at *at, which moves after it and the ", " that follows. */
static enum lw_status field(struct text *t, const char **at, const char *end, const char *key,
                            double *v)
{
    size_t n = strlen(key);

    if ((size_t)(end - *at) <= n || memcmp(*at, key, n) != 0 || (*at)[n] != '=')
        return lw_fail_at(t->err, LW_EFORMAT, t->name, t->line, "expected %s=", key);
    const char *from = *at + n + 1, *stop = memchr(from, ',', (size_t)(end - from));
    stop = stop ? stop : end;
    LW_TRY(value(t, from, stop, v));
    *at = stop + 2 < end ? stop + 2 : end;
    return LW_OK;
}

static enum lw_status take_node(struct text *t, char *line, char *end)
{
    struct lw_profile_graph *g = t->g;
    struct lw_profile_node *n = &g->nodes[g->n_nodes];
    char *fields = memmem(line, (size_t)(end - line), FIRST_FIELD, strlen(FIRST_FIELD));
    char *dash = memmem(line, (size_t)(end - line), " -- ", 4);

    if (!fields || !dash || dash == fields)
        return lw_fail_at(t->err, LW_EFORMAT, t->name, t->line,
                          "expected 'NODE -- WHAT -- forward_compute_time=..., ...' or "
                          "'<tab>NODE -- NODE'");
    const char *at = fields + 4;
    char *stage = memmem(at, (size_t)(end - at), " -- ", 4);
    end = stage ? stage : end;
    LW_TRY(field(t, &at, end, "forward_compute_time", &n->forward_ms));
    LW_TRY(field(t, &at, end, "backward_compute_time", &n->backward_ms));
    LW_TRY(field(t, &at, end, "activation_size", &n->activation_bytes));
    LW_TRY(field(t, &at, end, "parameter_size", &n->parameter_bytes));
    *dash = *fields = '\0';
    n->name = line;
    n->op = dash + 4;
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (strcmp(g->nodes[i].name, n->name) == 0)
            return lw_fail_at(t->err, LW_EFORMAT, t->name, t->line, "node '%s' is given twice",
                              n->name);
    g->n_nodes++;
    return LW_OK;
}

static enum lw_status find_node(struct text *t, const char *name, int32_t *node)
{
    for (*node = 0; *node < t->g->n_nodes; ++*node)
        if (strcmp(t->g->nodes[*node].name, name) == 0)
            return LW_OK;
    return lw_fail_at(t->err, LW_EFORMAT, t->name, t->line, "no node '%.60s'", name);
}

static enum lw_status take_edge(struct text *t, char *line, char *end)
{
    char *dash = memmem(line, (size_t)(end - line), " -- ", 4);
    int32_t *edge = t->g->edges[t->g->n_edges];

    if (!dash)
        return lw_fail_at(t->err, LW_EFORMAT, t->name, t->line, "expected '<tab>NODE -- NODE'");
    *dash = '\0';
    LW_TRY(find_node(t, line, &edge[0]));
    LW_TRY(find_node(t, dash + 4, &edge[1]));
    t->g->n_edges++;
    return LW_OK;
}

static enum lw_status take_lines(struct text *t, char *text, size_t len)
{
    for (char *p = text, *end = text + len, *next; p < end; p = next, t->line++) {
        char *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        next = stop + 1;
        while (stop > p && (stop[-1] == '\r' || stop[-1] == ' '))
            stop--;
        if (stop == p)
            continue;
        *stop = '\0';
        LW_TRY(*p == '\t' ? take_edge(t, p + 1, stop) : take_node(t, p, stop));
    }
    return LW_OK;
}

enum lw_status traces_pipedream_read(const struct lw_input *in, struct lw_profile_graph *out,
                                     struct lw_err *err)
{
    struct lw_profile_graph g = {0};
    struct text t = {in->name, 1, &g, err};
    char *text = lw_arena_strndup(&g.arena, in->text, in->len);
    int64_t n_lines = 1;

    for (size_t i = 0; i < in->len; i++)
        n_lines += in->text[i] == '\n';
    enum lw_status status = LW_OK;
    if (n_lines > MOST_NODES)
        status = lw_fail(err, LW_EFORMAT, "%s: more than %d lines", in->name, MOST_NODES);
    else if (strlen(in->text) != in->len)
        status = lw_fail(err, LW_EFORMAT, "%s: a zero byte in a text", in->name);
    if (status == LW_OK) {
        g.nodes = lw_arena_alloc(&g.arena, n_lines, sizeof *g.nodes);
        g.edges = lw_arena_alloc(&g.arena, n_lines, sizeof *g.edges);
        status = text && g.nodes && g.edges ? take_lines(&t, text, in->len) : lw_fail_nomem(err);
    }
    if (status == LW_OK && g.n_nodes == 0)
        status = lw_fail(err, LW_EFORMAT, "%s: no node", in->name);
    LW_GIVE(status, out, g, lw_profile_graph_free(&g));
}

/* ---- the workload ---- */

struct build {
    const struct lw_profile_graph *g;
    struct lw_workload *w;
    int32_t *order, *waits; /* [n_nodes] */
    int32_t n;
    double sum_ms;
    struct lw_err *err;
};

/* Kahn's algorithm; of the nodes that may come next the one mentioned first. O(n^2 + n e). */
static enum lw_status sort_nodes(struct build *b)
{
    const struct lw_profile_graph *g = b->g;

    for (int32_t e = 0; e < g->n_edges; e++)
        b->waits[g->edges[e][1]]++;
    while (b->n < g->n_nodes) {
        int32_t next = 0;
        while (next < g->n_nodes && b->waits[next] != 0)
            next++;
        if (next == g->n_nodes)
            return lw_fail(b->err, LW_EFORMAT, "the profile's edges form a cycle");
        b->waits[next] = -1;
        b->order[b->n++] = next;
        for (int32_t e = 0; e < g->n_edges; e++)
            if (g->edges[e][0] == next)
                b->waits[g->edges[e][1]]--;
    }
    return LW_OK;
}

static bool is_input(const struct lw_profile_node *n)
{
    return strncmp(n->op, "Input", 5) == 0;
}

static lw_ps ps_of_ms(double ms)
{
    return (lw_ps)floor(ms * 1e9 + 0.5);
}

static const char *keep(struct build *b, const char *text, enum lw_status *status)
{
    const char *copy = lw_arena_strdup(&b->w->arena, text);

    if (!copy)
        *status = lw_fail_nomem(b->err);
    return copy;
}

static enum lw_status fill_module(struct build *b, const struct lw_profile_node *n)
{
    struct lw_workload *w = b->w;
    enum lw_status status = LW_OK;
    int32_t module = w->n_modules++;
    char name[256];

    b->sum_ms += n->forward_ms + n->backward_ms;
    if (!(b->sum_ms <= MOST_MS) || !(n->activation_bytes <= MOST_BYTES) ||
        !(n->parameter_bytes <= MOST_BYTES))
        return lw_fail(b->err, LW_EFORMAT,
                       "node '%.60s': %g ms up to here, %g and %g bytes; allowed: %g ms, %g bytes",
                       n->name, b->sum_ms, n->activation_bytes, n->parameter_bytes, MOST_MS,
                       MOST_BYTES);
    snprintf(name, sizeof name, "%.60s %.*s", n->name, (int)strcspn(n->op, "( "), n->op);
    w->modules[module] = (struct lw_module){
        .name = keep(b, name, &status), .forward_ps = ps_of_ms(n->forward_ms),
        .backward_input_ps = ps_of_ms(n->backward_ms), .forward_flops = -1, .forward_bytes = -1,
        .output_bytes = (int64_t)n->activation_bytes, .kept_bytes = {-1, -1, -1}};
    if (n->parameter_bytes >= 4) {
        snprintf(name, sizeof name, "%.60s.parameters", n->name);
        w->params[w->n_params++] = (struct lw_param){
            .name = keep(b, name, &status), .numel = (int64_t)(n->parameter_bytes / 4),
            .dtype = LW_F32, .module = module, .tied = -1, .trainable = true, .used = true,
            .ready_ps = -1};
    }
    return status;
}

/* A gradient is ready when its node's backward ends. */
static void fill_ready(struct lw_workload *w)
{
    lw_ps at = 0;

    for (int32_t m = w->n_modules - 1, p = w->n_params - 1; m >= 0; m--) {
        at += w->modules[m].backward_input_ps;
        for (; p >= 0 && w->params[p].module == m; p--) {
            w->params[p].ready_ps = at;
            w->ready_order[w->n_ready++] = p;
        }
    }
}

static enum lw_status fill_notes(struct build *b)
{
    static const char *const notes[] = {
        "times of PipeDream's profiler: forward and backward of each node alone, in ms",
        "one parameter per node, as the profile gives bytes only: float32 assumed",
        "the backward is not divided: all of it counts as input gradient; a gradient is ready when "
        "its node's backward ends",
        "no optimizer and no gaps in the profile: both 0; input nodes (loading data) are left out",
        "nodes run one after the other in topological order; what skip edges carry past a module "
        "is "
        "not part of its output bytes",
    };
    struct lw_workload *w = b->w;

    w->n_notes = sizeof notes / sizeof *notes;
    LW_TAKE(&w->arena, w->notes, w->n_notes, b->err);
    memcpy(w->notes, notes, sizeof notes);
    return LW_OK;
}

static enum lw_status fill_from(struct build *b, const char *file, const char *hash)
{
    struct lw_workload *w = b->w;
    enum lw_status status = LW_OK;
    const char *base = lw_base_name(file);
    char name[128];

    w->name = keep(b, lw_file_stem(name, sizeof name, file), &status);
    w->from = (struct lw_provenance){
        .format = "pipedream", .file = keep(b, base, &status), .hash = keep(b, hash, &status),
        .device = "", .producer = "PipeDream profiler", .rank = -1, .step = -1};
    w->recorded.step_ps = w->recorded.step_spread_ps = -1;
    return status;
}

static enum lw_status build(struct build *b, const char *file, const char *hash)
{
    struct lw_workload *w = b->w;
    int32_t n = b->g->n_nodes;

    LW_TAKE(&w->arena, b->order, n, b->err);
    LW_TAKE(&w->arena, b->waits, n, b->err);
    LW_TAKE(&w->arena, w->modules, n, b->err);
    LW_TAKE(&w->arena, w->params, n, b->err);
    LW_TAKE(&w->arena, w->ready_order, n, b->err);
    LW_TRY(lw_err_context(b->err, sort_nodes(b), "%s", file));
    for (int32_t i = 0; i < n; i++)
        if (!is_input(&b->g->nodes[b->order[i]]))
            LW_TRY(fill_module(b, &b->g->nodes[b->order[i]]));
    if (w->n_modules == 0)
        return lw_fail(b->err, LW_EFORMAT, "%s: no node but inputs", file);
    fill_ready(w);
    LW_TRY(fill_notes(b));
    LW_TRY(fill_from(b, file, hash));
    return lw_workload_check(w, b->err);
}

enum lw_status lw_workload_from_pipedream(const struct lw_profile_graph *g, const char *file,
                                          const char *hash, struct lw_workload *out,
                                          struct lw_err *err)
{
    struct lw_workload w = {0};
    struct build b = {.g = g, .w = &w, .err = err};
    enum lw_status status = build(&b, file, hash);

    LW_GIVE(status, out, w, lw_arena_free(&w.arena));
}
