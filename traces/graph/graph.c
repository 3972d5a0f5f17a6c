/* Nodes of one rank, and the order of them. Ids are any 64-bit numbers: they are found in a sorted
 * list. The order is Kahn's, with a heap of the nodes that may come next. */
#include "traces/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/dtype.h"
#include "shared/numbers/order.h"

void traces_graph_init(struct traces_graph *g, const char *file)
{
    *g = (struct traces_graph){.file = file, .schema = -1, .rank = -1, .world = -1};
}

void traces_graph_free(struct traces_graph *g)
{
    traces_strings_free(&g->strings);
    lw_free(g->nodes);
    lw_free(g->deps);
    lw_free(g->products);
    lw_free(g->groups);
    lw_free(g->group_ranks);
    lw_free(g->order);
    *g = (struct traces_graph){0};
}

struct traces_node traces_node_blank(void)
{
    return (struct traces_node){.time = -1,
                                .start = -1,
                                .bytes = -1,
                                .whole = -1,
                                .flops = -1,
                                .moved = -1,
                                .track = -1,
                                .name = -1,
                                .group = -1,
                                .stream = -1,
                                .module = -1,
                                .peer = -1,
                                .tag = -1,
                                .call = -1,
                                .product = -1,
                                .dtype = LW_U8};
}

enum lw_status traces_graph_dep(struct traces_graph *g, uint64_t id, struct lw_err *err)
{
    if (g->n_deps == INT32_MAX)
        return lw_fail_at(err, LW_ENOTSUP, g->file, 0, "more than %d dependencies", INT32_MAX);
    LW_ROOM(g->deps, g->deps_cap, g->n_deps + 1, err);
    g->deps[g->n_deps++] = id;
    return LW_OK;
}

enum lw_status traces_graph_node(struct traces_graph *g, const struct traces_node *n,
                                 struct lw_err *err)
{
    if (g->n == INT32_MAX)
        return lw_fail_at(err, LW_ENOTSUP, g->file, 0, "more than %d nodes", INT32_MAX);
    LW_ROOM(g->nodes, g->nodes_cap, g->n + 1, err);
    int32_t first = g->n > 0 ? g->nodes[g->n - 1].first_dep + g->nodes[g->n - 1].n_deps : 0;
    struct traces_node *x = &g->nodes[g->n++];
    *x = *n;
    x->first_dep = first;
    x->n_deps = g->n_deps - first;
    return LW_OK;
}

enum lw_status traces_graph_text(struct traces_graph *g, const char *text, size_t len,
                                 int32_t *string, struct lw_err *err)
{
    int32_t s = traces_strings_add(&g->strings, text, len);

    if (s < 0)
        return lw_fail_nomem(err);
    *string = s;
    return LW_OK;
}

enum lw_status traces_graph_group(struct traces_graph *g, const char *name, const int32_t *ranks,
                                  int32_t n, struct lw_err *err)
{
    struct traces_group x = {-1, g->n_group_ranks, n};

    LW_TRY(traces_graph_text(g, name, strlen(name), &x.name, err));
    for (int32_t i = 0; i < g->n_groups; i++)
        if (g->groups[i].name == x.name)
            return LW_OK; /* said before */
    LW_ROOM(g->groups, g->groups_cap, g->n_groups + 1, err);
    LW_ROOM(g->group_ranks, g->group_ranks_cap, g->n_group_ranks + n, err);
    if (n > 0)
        memcpy(g->group_ranks + g->n_group_ranks, ranks, (size_t)n * sizeof *ranks);
    g->n_group_ranks += n;
    g->groups[g->n_groups++] = x;
    return LW_OK;
}

const char *traces_graph_string(const struct traces_graph *g, int32_t string)
{
    return string >= 0 ? g->strings.text[string] : "";
}

const char *traces_node_type_name(int type)
{
    static const char *const names[] = {"INVALID", "METADATA", "MEM_LOAD", "MEM_STORE",
                                        "COMP",    "SEND",     "RECV",     "COLL",
                                        "STORAGE", "BATCH",    "CHECKPOINT"};

    return type >= 0 && type < TRACES_N_NODE_TYPES ? names[type] : NULL;
}

/* ---- which node an id is ---- */

struct place {
    uint64_t id;
    int32_t node;
};

LW_COMPARATOR(by_id, struct place, a->id, b->id, a->node, b->node)

static int32_t find(const struct place *v, int32_t n, uint64_t id)
{
    int32_t low = 0, high = n;

    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (v[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && v[low].id == id ? v[low].node : -1;
}

static enum lw_status list_places(const struct traces_graph *g, struct place *v, struct lw_err *err)
{
    bool sorted = true;

    for (int32_t i = 0; i < g->n; i++) {
        v[i] = (struct place){g->nodes[i].id, i};
        sorted = sorted && (i == 0 || v[i - 1].id < v[i].id);
    }
    if (sorted)
        return LW_OK;
    lw_sort(v, g->n, by_id);
    for (int32_t i = 1; i < g->n; i++)
        if (v[i].id == v[i - 1].id)
            return lw_fail_at(err, LW_EFORMAT, g->file, 0,
                              "nodes '%.60s' and '%.60s' both have id %llu: ids must differ",
                              traces_graph_string(g, g->nodes[v[i - 1].node].name),
                              traces_graph_string(g, g->nodes[v[i].node].name),
                              (unsigned long long)v[i].id);
    return LW_OK;
}

/* Indexes in place of ids; what names no other node of the file goes. */
static void resolve(struct traces_graph *g, const struct place *v)
{
    int32_t kept = 0;

    for (int32_t i = 0; i < g->n; i++) {
        struct traces_node *x = &g->nodes[i];
        int32_t first = kept;
        for (int32_t k = 0; k < x->n_deps; k++) {
            int32_t to = find(v, g->n, g->deps[x->first_dep + k]);
            bool again = false;
            for (int32_t d = first; d < kept && !again && kept - first < 64; d++)
                again = g->deps[d] == (uint64_t)to;
            if (to < 0)
                g->n_dangling++;
            else if (!again)
                g->deps[kept++] = (uint64_t)to;
        }
        x->first_dep = first;
        x->n_deps = kept - first;
    }
    g->n_deps = kept;
}

/* ---- the order ---- */

struct sorter {
    const struct traces_graph *g;
    int32_t *waits;               /* [n] dependencies that are not done */
    int32_t *first_after, *after; /* nodes that wait for node i: after[first_after[i] ..) */
    int32_t *heap, n_heap;
};

static bool earlier(const struct sorter *s, int32_t a, int32_t b)
{
    lw_ps x = s->g->nodes[a].start, y = s->g->nodes[b].start;

    return x != y ? x < y : a < b;
}

static void push(struct sorter *s, int32_t node)
{
    int32_t i = s->n_heap++;

    while (i > 0 && earlier(s, node, s->heap[(i - 1) / 2])) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = node;
}

static int32_t pop(struct sorter *s)
{
    int32_t top = s->heap[0], last = s->heap[--s->n_heap], i = 0;

    for (;;) {
        int32_t child = 2 * i + 1;
        if (child >= s->n_heap)
            break;
        if (child + 1 < s->n_heap && earlier(s, s->heap[child + 1], s->heap[child]))
            child++;
        if (!earlier(s, s->heap[child], last))
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

static enum lw_status prepare(struct sorter *s, struct lw_arena *arena, struct lw_err *err)
{
    const struct traces_graph *g = s->g;
    int32_t *at;

    LW_TAKE(arena, s->waits, g->n + 1, err);
    LW_TAKE(arena, s->first_after, g->n + 1, err);
    LW_TAKE(arena, s->after, g->n_deps + 1, err);
    LW_TAKE(arena, s->heap, g->n + 1, err);
    LW_TAKE(arena, at, g->n + 1, err);
    for (int32_t i = 0; i < g->n_deps; i++)
        s->first_after[g->deps[i] + 1]++;
    for (int32_t i = 0; i < g->n; i++)
        s->first_after[i + 1] += s->first_after[i];
    for (int32_t i = 0; i < g->n; i++) {
        const struct traces_node *x = &g->nodes[i];
        s->waits[i] = x->n_deps;
        for (int32_t k = 0; k < x->n_deps; k++) {
            uint64_t before = g->deps[x->first_dep + k];
            s->after[s->first_after[before] + at[before]++] = i;
        }
    }
    return LW_OK;
}

/* From any node that waits for ever along what it waits for: a node met twice is on a cycle. */
static enum lw_status name_cycle(const struct sorter *s, struct lw_err *err)
{
    const struct traces_graph *g = s->g;
    char list[300] = "", word[96];
    int32_t i = 0, slow, n = 0;

    while (s->waits[i] == 0)
        i++;
    for (int32_t k = 0; k <= g->n; k++) {
        const struct traces_node *x = &g->nodes[i];
        for (int32_t d = 0; d < x->n_deps; d++)
            if (s->waits[g->deps[x->first_dep + d]] > 0) {
                i = (int32_t)g->deps[x->first_dep + d];
                break;
            }
    }
    slow = i;
    do {
        const struct traces_node *x = &g->nodes[i];
        snprintf(word, sizeof word, "%llu '%.40s'", (unsigned long long)x->id,
                 traces_graph_string(g, x->name));
        lw_err_word(list, sizeof list, word);
        n++;
        for (int32_t d = 0; d < x->n_deps; d++)
            if (s->waits[g->deps[x->first_dep + d]] > 0) {
                i = (int32_t)g->deps[x->first_dep + d];
                break;
            }
    } while (i != slow);
    return lw_fail_at(err, LW_EFORMAT, g->file, 0,
                      "dependencies form a cycle of %d node%s, each waits for the next: %s", n,
                      lw_plural(n), list);
}

static enum lw_status sort(struct traces_graph *g, struct lw_arena *arena, struct lw_err *err)
{
    struct sorter s = {.g = g};
    int32_t n = 0;

    LW_TRY(prepare(&s, arena, err));
    LW_NEW(g->order, g->n + 1, err);
    for (int32_t i = 0; i < g->n; i++)
        if (s.waits[i] == 0)
            push(&s, i);
    while (s.n_heap > 0) {
        int32_t i = pop(&s);
        g->order[n++] = i;
        for (int32_t k = s.first_after[i]; k < s.first_after[i + 1]; k++)
            if (--s.waits[s.after[k]] == 0)
                push(&s, s.after[k]);
    }
    return n == g->n ? LW_OK : name_cycle(&s, err);
}

enum lw_status traces_graph_check(struct traces_graph *g, struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct place *v = lw_arena_alloc(&scratch, g->n + 1, sizeof *v);
    enum lw_status status = v ? list_places(g, v, err) : lw_fail_nomem(err);

    if (status == LW_OK) {
        resolve(g, v);
        status = sort(g, &scratch, err);
    }
    lw_arena_free(&scratch);
    return status;
}
