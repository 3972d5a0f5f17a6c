/* Attributes of nodes. Versions of the schema and of the converters differ in the type of an
 * attribute (is_cpu_op: bool or int32) and in its name (pg_id, pg_name); what they mean does not.
 */
#include "traces/chakra/chakra_node.h"

#include <stdio.h>
#include <string.h>

#include "shared/json/json.h"
#include "shared/numbers/dtype.h"

void chakra_loose(const char *name, size_t len, char *loose, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < len && n + 1 < size; i++)
        if (name[i] != '_')
            loose[n++] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
    loose[n] = '\0';
}

enum attribute {
    IS_CPU_OP,
    COMM_TYPE,
    COMM_SIZE,
    GROUP,
    SRC,
    DST,
    TAG,
    THREAD,
    NUM_OPS,
    TENSOR_SIZE, /* Chakra */
    OP,
    TIME,
    STREAM,
    CALL,
    DTYPE,
    MODULE,
    WHOLE, /* of lapwing export */
};

static const struct {
    const char *name;
    enum attribute is;
} known[] = {
    {"iscpuop", IS_CPU_OP}, {"commtype", COMM_TYPE}, {"commsize", COMM_SIZE},
    {"pgid", GROUP},        {"pgname", GROUP},       {"commgroup", GROUP},
    {"commsrc", SRC},       {"commdst", DST},        {"commtag", TAG},
    {"tid", THREAD},        {"numops", NUM_OPS},     {"tensorsize", TENSOR_SIZE},
    {"lwop", OP},           {"lwtimeps", TIME},      {"lwstream", STREAM},
    {"lwcall", CALL},       {"lwdtype", DTYPE},      {"lwmodule", MODULE},
    {"lwbytes", WHOLE},
};

/* The schema's numbers and names of collectives. */
static const struct {
    const char *name;
    enum lw_op_kind op;
} collectives[] = {
    {"allreduce", LW_OP_ALL_REDUCE},
    {"reduce", LW_OP_REDUCE},
    {"allgather", LW_OP_ALL_GATHER},
    {"gather", LW_OP_ALL_TO_ALL},
    {"scatter", LW_OP_ALL_TO_ALL},
    {"broadcast", LW_OP_BROADCAST},
    {"alltoall", LW_OP_ALL_TO_ALL},
    {"reducescatter", LW_OP_REDUCE_SCATTER},
    {"reducescatterblock", LW_OP_REDUCE_SCATTER},
    {"barrier", LW_OP_BARRIER},
};

enum { N_COLLECTIVES = sizeof collectives / sizeof *collectives };

static enum lw_status fail_node(const struct traces_graph *g, const struct traces_node *n,
                                struct lw_err *err, const char *what, int64_t found,
                                const char *expected)
{
    return lw_fail_at(err, LW_EFORMAT, g->file, 0, "node %llu '%.60s': %s %lld, expected %s",
                      (unsigned long long)n->id, traces_graph_string(g, n->name), what,
                      (long long)found, expected);
}

static enum lw_status take_collective(const struct traces_graph *g, struct traces_node *n,
                                      const struct chakra_value *v, struct lw_err *err)
{
    char loose[32];
    int64_t i = v->number;

    if (v->text) {
        chakra_loose(v->text, v->len, loose, sizeof loose);
        for (i = 0; i < N_COLLECTIVES && strcmp(loose, collectives[i].name) != 0;)
            i++;
    }
    if (i < 0 || i >= N_COLLECTIVES)
        return fail_node(g, n, err, "comm_type", i, "0 to 9");
    n->op = (uint8_t)collectives[i].op;
    n->comm = true;
    return LW_OK;
}

static enum lw_status take_group(struct traces_graph *g, struct traces_node *n,
                                 const struct chakra_value *v, struct lw_err *err)
{
    char text[24];

    if (v->text)
        return v->len > 0 ? traces_graph_text(g, v->text, v->len, &n->group, err) : LW_OK;
    snprintf(text, sizeof text, "%lld", (long long)v->number);
    return traces_graph_text(g, text, strlen(text), &n->group, err);
}

static enum lw_status take_rank(const struct traces_graph *g, const struct traces_node *n,
                                const char *what, const struct chakra_value *v, int32_t *rank,
                                struct lw_err *err)
{
    if (v->text || v->number < 0 || v->number > INT32_MAX)
        return fail_node(g, n, err, what, v->number, "a rank");
    *rank = (int32_t)v->number;
    return LW_OK;
}

static enum lw_status take_op(const struct traces_graph *g, struct traces_node *n,
                              const struct chakra_value *v, struct lw_err *err)
{
    char word[32];
    enum lw_op_kind op;

    snprintf(word, sizeof word, "%.*s", (int)v->len, v->text ? v->text : "");
    LW_TRY(lw_err_context(err, lw_op_parse(word, &op, err), "%s: node %llu: lw_op", g->file,
                          (unsigned long long)n->id));
    n->op = (uint8_t)op;
    n->ours = true;
    return LW_OK;
}

static enum lw_status take_dtype(struct traces_node *n, const struct chakra_value *v,
                                 struct lw_err *err)
{
    char word[16];
    enum lw_dtype dtype;

    snprintf(word, sizeof word, "%.*s", (int)v->len, v->text ? v->text : "");
    LW_TRY(lw_dtype_parse(word, &dtype, err));
    n->dtype = (uint8_t)dtype;
    return LW_OK;
}

enum lw_status chakra_attribute(struct traces_graph *g, struct traces_node *n, const char *name,
                                size_t len, const struct chakra_value *v, struct lw_err *err)
{
    char loose[24];
    size_t i = 0;

    chakra_loose(name, len, loose, sizeof loose);
    while (i < sizeof known / sizeof *known &&
           (loose[0] != known[i].name[0] || strcmp(loose, known[i].name) != 0))
        i++;
    if (i == sizeof known / sizeof *known)
        return LW_OK;
    bool text =
        known[i].is == STREAM || known[i].is == MODULE || known[i].is == OP || known[i].is == DTYPE;
    if (text && !v->text)
        return fail_node(g, n, err, known[i].name, v->number, "a text");
    switch (known[i].is) {
    case IS_CPU_OP:
        n->host = v->number != 0;
        return LW_OK;
    case COMM_TYPE:
        return take_collective(g, n, v, err);
    case COMM_SIZE:
        if (v->text || v->number < 0)
            return fail_node(g, n, err, "comm_size", v->number, "bytes");
        n->bytes = v->number;
        return LW_OK;
    case WHOLE:
        if (v->text || v->number < 0)
            return fail_node(g, n, err, "lw_bytes", v->number, "bytes");
        n->whole = v->number;
        return LW_OK;
    case GROUP:
        return take_group(g, n, v, err);
    case SRC:
        return n->type == TRACES_NODE_RECV ? take_rank(g, n, "comm_src", v, &n->peer, err) : LW_OK;
    case DST:
        return n->type == TRACES_NODE_SEND ? take_rank(g, n, "comm_dst", v, &n->peer, err) : LW_OK;
    case TAG:
        n->tag = (int32_t)v->number;
        return LW_OK;
    case THREAD:
        n->track = v->number;
        return LW_OK;
    case NUM_OPS:
        n->flops = v->number;
        return LW_OK;
    case TENSOR_SIZE:
        n->moved = v->number;
        return LW_OK;
    case TIME:
        n->time = v->number;
        return LW_OK;
    case CALL:
        n->call = (int32_t)v->number;
        return LW_OK;
    case OP:
        return take_op(g, n, v, err);
    case DTYPE:
        return take_dtype(n, v, err);
    case STREAM:
        return traces_graph_text(g, v->text, v->len, &n->stream, err);
    case MODULE:
        return traces_graph_text(g, v->text, v->len, &n->module, err);
    }
    return LW_OK;
}

enum lw_status chakra_settle(struct traces_graph *g, struct traces_node *n, int64_t type,
                             struct lw_err *err)
{
    if (type < 0 || type >= TRACES_N_NODE_TYPES)
        return fail_node(g, n, err, "type", type, "0 to 10");
    n->type = (uint8_t)type;
    g->ours = g->ours || n->ours;
    n->start = n->ours ? -1 : n->start; /* the nodes of our exports are in order */
    if (n->type == TRACES_NODE_SEND || n->type == TRACES_NODE_RECV) {
        n->comm = !n->host;
        n->op = n->type == TRACES_NODE_SEND ? LW_OP_SEND : LW_OP_RECV;
        if (n->comm && n->peer < 0)
            return fail_node(g, n, err, "peer", n->peer,
                             "comm_dst of a send and comm_src of a receive");
        n->bytes = n->bytes < 0 ? 0 : n->bytes;
        return LW_OK;
    }
    /* The host's part of a collective has no comm_type. */
    n->comm = n->comm && n->type == TRACES_NODE_COLL && !n->host;
    return LW_OK;
}

/* ---- process groups ---- */

struct group {
    char name[64];
    int32_t ranks[1024];
    int32_t n;
    bool cut; /* not all ranks are listed */
};

/* A group that lists no ranks is of all; its size tells how many they are. */
static void read_group(struct lw_json *j, struct group *x)
{
    int64_t size = 0;

    while (lw_json_next(j)) {
        size_t len;
        if (lw_json_key_is(j, "pg_name")) {
            const char *name = lw_json_view(j, &len);
            snprintf(x->name, sizeof x->name, "%.*s", (int)len, name);
        } else if (lw_json_key_is(j, "ranks") && lw_json_type(j) == LW_JSON_ARRAY &&
                   lw_json_enter(j, LW_JSON_ARRAY)) {
            while (lw_json_next(j)) {
                int64_t rank = lw_json_int64(j);
                x->cut = x->cut || x->n == 1024 || rank < 0 || rank > INT32_MAX;
                if (!x->cut)
                    x->ranks[x->n++] = (int32_t)rank;
            }
        } else if (lw_json_key_is(j, "group_size") && lw_json_type(j) == LW_JSON_NUMBER) {
            size = lw_json_int64(j);
        }
    }
    for (bool all = x->n == 0 && !x->cut && size <= 1024; all && x->n < size; x->n++)
        x->ranks[x->n] = x->n;
}

static enum lw_status read_groups(struct traces_graph *g, struct lw_json *j, struct group *x,
                                  struct lw_err *err)
{
    if (!lw_json_enter(j, LW_JSON_ARRAY))
        return LW_OK;
    while (lw_json_next(j)) {
        *x = (struct group){0};
        if (lw_json_type(j) != LW_JSON_OBJECT || !lw_json_enter(j, LW_JSON_OBJECT))
            continue;
        read_group(j, x);
        if (x->name[0] && !x->cut && !lw_json_failed(j))
            LW_TRY(traces_graph_group(g, x->name, x->ranks, x->n, err));
    }
    return LW_OK;
}

/* Python writes the JSON text as the one element of a list: ['[{"pg_name": ...}]']. What cannot be
 * read (cut texts) leaves groups that are known by their names alone. */
enum lw_status chakra_groups(struct traces_graph *g, const char *text, size_t len,
                             struct lw_err *err)
{
    const char *first = memmem(text, len, "[{", 2);
    const char *last = first ? memrchr(text, '}', len) : NULL;
    struct lw_err unused = {0};
    struct lw_json *j;
    struct group *x;

    if (!first || !last || last < first)
        return LW_OK;
    size_t n = (size_t)(last - first) + 2; /* with the ']' */
    char *copy = lw_calloc(n + LW_JSON_PADDING, 1);
    if (!copy)
        return lw_fail_nomem(err);
    memcpy(copy, first, n - 1);
    copy[n - 1] = ']';
    enum lw_status status = (x = lw_calloc(1, sizeof *x)) ? LW_OK : lw_fail_nomem(err);
    if (status == LW_OK && lw_json_open(g->file, copy, n, &j, &unused) == LW_OK) {
        status = read_groups(g, j, x, err);
        lw_json_close(j);
    }
    lw_free(x);
    lw_free(copy);
    return status;
}
