/* Chakra as JSON: {"workload_graph": [{"Id": 1, "Name": ..., "NodeType": 4, "runtime": us,
 * "data_deps": [...], attributes}, ...]}. Keys are compared without case and '_'. */
#include "traces/chakra/read_chakra.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/io/input.h"
#include "shared/json/json.h"
#include "traces/chakra/chakra_node.h"

enum { LOOKED_AT = 4096 };

bool traces_chakra_is_json(const char *text, size_t len)
{
    char head[LOOKED_AT + 1];

    if (len == 0 || *text != '{')
        return false;
    size_t n = len < LOOKED_AT ? len : LOOKED_AT;
    memcpy(head, text, n);
    head[n] = '\0';
    return strcasestr(head, "\"workload_graph\"") != NULL;
}

/* A number, or a string that holds one; true and false are 1 and 0. */
static int64_t number(struct lw_json *j)
{
    char text[32] = "", *end;
    size_t len;

    if (lw_json_type(j) == LW_JSON_BOOL)
        return lw_json_bool(j);
    const char *p = lw_json_number_text(j, &len);
    if (len == 0 || len >= sizeof text)
        return -1;
    memcpy(text, p, len);
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (*end || errno == ERANGE) {
        double d = strtod(text, &end);
        v = *end || !(d > -9e18 && d < 9e18) ? -1 : (long long)d;
    }
    return v;
}

static bool is_word(struct lw_json *j, struct chakra_value *v)
{
    if (lw_json_type(j) != LW_JSON_STRING)
        return false;
    v->text = lw_json_string(j, &v->len);
    char *end;
    long long x = strtoll(v->text, &end, 10);
    if (v->len > 0 && !*end)
        *v = (struct chakra_value){.number = x};
    return true;
}

/* -1: a word that is none. */
static int64_t node_type(struct lw_json *j)
{
    static const char *const names[] = {"invalid", "metadata", "memload", "memstore",
                                        "comp",    "send",     "recv",    "coll",
                                        "storage", "batch",    "checkpoint"};
    struct chakra_value v = {0};
    char loose[32];

    if (!is_word(j, &v))
        return number(j);
    if (!v.text)
        return v.number;
    chakra_loose(v.text, v.len, loose, sizeof loose); /* "COMM_COLL_NODE" */
    for (int64_t i = 0; i < TRACES_N_NODE_TYPES; i++)
        if (strstr(loose, names[i]))
            return i;
    return -1;
}

static enum lw_status read_deps(struct traces_graph *g, struct lw_json *j, struct lw_err *err)
{
    if (lw_json_type(j) != LW_JSON_ARRAY || !lw_json_enter(j, LW_JSON_ARRAY))
        return LW_OK;
    while (lw_json_next(j))
        LW_TRY(traces_graph_dep(g, (uint64_t)number(j), err));
    return LW_OK;
}

static lw_ps micros(struct lw_json *j)
{
    double us = lw_json_double(j);

    return us > 0 && us < 9e12 ? (lw_ps)(us * (double)LW_PS_PER_US + 0.5) : -1;
}

/* An attribute as the node's own field; texts that need the node's type wait. */
static enum lw_status read_attribute(struct traces_graph *g, struct traces_node *n,
                                     struct lw_json *j, const char *key, size_t len,
                                     struct lw_err *err)
{
    struct chakra_value v = {0};
    enum lw_json_type type = lw_json_type(j);

    if (type != LW_JSON_STRING && type != LW_JSON_NUMBER && type != LW_JSON_BOOL)
        return LW_OK;
    if (!is_word(j, &v))
        v.number = number(j);
    if (v.text && v.len == 0)
        return LW_OK;
    return chakra_attribute(g, n, key, len, &v, err);
}

static enum lw_status read_node(struct traces_graph *g, struct lw_json *j, struct lw_err *err)
{
    struct traces_node n = traces_node_blank();
    struct traces_node src = traces_node_blank(), dst = src;
    bool has_id = false;
    int64_t kind = TRACES_NODE_INVALID;
    char key[24];

    src.type = TRACES_NODE_RECV;
    dst.type = TRACES_NODE_SEND;
    while (lw_json_next(j)) {
        size_t len;
        const char *name = lw_json_key(j, &len);
        chakra_loose(name, len, key, sizeof key);
        if (strcmp(key, "id") == 0) {
            n.id = (uint64_t)number(j);
            has_id = true;
        } else if (strcmp(key, "name") == 0) {
            const char *text = lw_json_view(j, &len);
            LW_TRY(traces_graph_text(g, text, len, &n.name, err));
        } else if (strcmp(key, "nodetype") == 0 || strcmp(key, "type") == 0) {
            kind = node_type(j);
        } else if (strcmp(key, "runtime") == 0 || strcmp(key, "durationmicros") == 0) {
            n.time = micros(j);
        } else if (strcmp(key, "starttimemicros") == 0) {
            n.start = micros(j);
        } else if (strcmp(key, "datadeps") == 0 || strcmp(key, "ctrldeps") == 0) {
            LW_TRY(read_deps(g, j, err));
        } else if (strcmp(key, "commsrc") == 0) {
            LW_TRY(read_attribute(g, &src, j, key, strlen(key), err));
        } else if (strcmp(key, "commdst") == 0) {
            LW_TRY(read_attribute(g, &dst, j, key, strlen(key), err));
        } else {
            LW_TRY(read_attribute(g, &n, j, key, strlen(key), err));
        }
    }
    if (!has_id && !lw_json_failed(j))
        lw_json_fail(j, "a node without \"Id\"");
    if (lw_json_failed(j))
        return LW_OK; /* lw_json_done says it */
    n.peer = kind == TRACES_NODE_RECV ? src.peer : kind == TRACES_NODE_SEND ? dst.peer : -1;
    LW_TRY(chakra_settle(g, &n, kind, err));
    return traces_graph_node(g, &n, err);
}

static enum lw_status read(struct traces_graph *g, struct lw_json *j, struct lw_err *err)
{
    char key[24];

    if (!lw_json_enter(j, LW_JSON_OBJECT))
        return LW_OK;
    while (lw_json_next(j)) {
        size_t len;
        const char *name = lw_json_key(j, &len);
        chakra_loose(name, len, key, sizeof key);
        if (strcmp(key, "workloadgraph") != 0 || !lw_json_enter(j, LW_JSON_ARRAY))
            continue;
        while (lw_json_next(j))
            if (lw_json_enter(j, LW_JSON_OBJECT))
                LW_TRY(read_node(g, j, err));
    }
    return LW_OK;
}

enum lw_status traces_chakra_read_json(const struct lw_input *in, struct traces_graph *out,
                                       struct lw_err *err)
{
    struct traces_graph g;
    struct lw_json *j;

    traces_graph_init(&g, in->name);
    g.n_bytes = (int64_t)in->len;
    enum lw_status status = lw_json_open(in->name, in->text, in->len, &j, err);
    if (status == LW_OK) {
        status = read(&g, j, err);
        if (status == LW_OK)
            status = lw_json_done(j, err);
        lw_json_close(j);
    }
    if (status == LW_OK)
        status = traces_graph_check(&g, err);
    LW_GIVE(status, out, g, traces_graph_free(&g));
}
