/* From an execution trace to the graph of what its device does.
 *
 * Nodes of the file are calls on the host, parents and children alike. What runs on a device are
 * the leaves: a call that calls nothing more, on tensors of a device. A leaf that only returns
 * another view of its input (its schema says Tensor(a), and nothing is written) runs nothing. A
 * collective is the call nccl:*, or where that is missing record_param_comms; its parent names the
 * process group. Calls are ordered by rf_id, which counts them as they begin. Data edges follow
 * storages: an op waits for the last that wrote what it reads, and for all that read what it
 * writes. */
#include "traces/et/read_et.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/io/input.h"
#include "shared/json/json.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"
#include "traces/chakra/chakra_node.h"
#include "traces/et/et_ops.h"
#include "traces/trace/comm_facts.h"

enum { LOOKED_AT = 4096, DEEPEST = 8 };

static const char *const tensor_keys[] = {"values", "shapes", "types"};
static const char *const attribute_keys[] = {"name", "value"};
/* Those of read_field, and the name. */
static const char *const node_keys[] = {
    "name", "id", "in_msg_nelems", "inputs", "input_shapes", "input_types", "outputs",
    "out_msg_nelems", "output_shapes", "op_schema", "parent", "pg_size", "pg_name", "dtype",
    "ctrl_deps", "collective_name", "rf_id", "tid", "attrs",
};

struct reader {
    struct lw_json_keys of_tensors, of_attribute, of_node;
    struct traces_et *e;
    struct lw_json *j;
    struct lw_err *err;
    int64_t n_calls, calls_cap, n_tensors, tensors_cap, n_products, products_cap;
    struct traces_et_call *calls;
    struct traces_et_tensor *tensors;
    struct lw_product *products;
    /* of the node that is read */
    struct et_shape in[ET_INPUTS], out[ET_INPUTS];
    char types[ET_INPUTS][32];
    bool writes, returns_view, has_schema;
};

bool traces_et_is(const char *text, size_t len)
{
    char head[LOOKED_AT + 1];
    size_t n = len < LOOKED_AT ? len : LOOKED_AT;

    if (len == 0 || *text != '{')
        return false;
    memcpy(head, text, n);
    head[n] = '\0';
    return strstr(head, "\"schema\"") && strstr(head, "\"nodes\"") && strstr(head, "\"pid\"") &&
           !strstr(head, "\"traceEvents\"");
}

void traces_et_free(struct traces_et *e)
{
    traces_graph_free(&e->graph);
    lw_free(e->calls);
    lw_free(e->tensors);
    *e = (struct traces_et){0};
}

/* ---- values ---- */

static void copy_text(char *to, size_t size, const char *from, size_t len)
{
    len = len < size ? len : size - 1;
    memcpy(to, from, len);
    to[len] = '\0';
}

static enum lw_status text_of(struct reader *r, int32_t *string)
{
    size_t len;
    const char *text = lw_json_view(r->j, &len);

    return traces_graph_text(&r->e->graph, text, len, string, r->err);
}

/* A text that is not empty; else nothing changes. */
static enum lw_status read_word(struct reader *r, int32_t *string)
{
    size_t len;

    if (lw_json_type(r->j) != LW_JSON_STRING)
        return LW_OK;
    const char *text = lw_json_view(r->j, &len);
    return len > 0 && len < 256 ? traces_graph_text(&r->e->graph, text, len, string, r->err)
                                : LW_OK;
}

static enum lw_status add_tensor(struct reader *r, struct traces_et_call *c, const int64_t v[5],
                                 const char *device, bool written)
{
    struct traces_et_tensor t = {.storage = v[1], .written = written};

    if (strncmp(device, "meta", 4) == 0)
        return LW_OK;
    t.device = strncmp(device, "cpu", 3) != 0;
    c->device |= t.device;
    t.elements = v[3] > 0 ? v[3] : 0;
    t.bytes = v[3] > 0 && v[4] > 0 ? lw_mul_sat(v[3], v[4]) : 0;
    LW_ROOM(r->tensors, r->tensors_cap, r->n_tensors + 1, r->err);
    r->tensors[r->n_tensors++] = t;
    c->n_tensors++;
    return LW_OK;
}

/* A tensor is [id, storage, offset, elements, bytes of one, device]; lists of tensors nest. */
static enum lw_status read_value(struct reader *r, struct traces_et_call *c, bool written,
                                 int depth)
{
    int64_t v[5];
    int n = 0, n_texts = 0;
    char last[16];

    if (lw_json_type(r->j) == LW_JSON_STRING && depth == 1 && !written) {
        size_t len;
        const char *text = lw_json_view(r->j, &len);
        if (len > 2 && memmem(text, len, "pg_name", 7)) {
            text = lw_json_string(r->j, &len);
            return chakra_groups(&r->e->graph, text, len, r->err);
        }
        return c->record && len > 0 && len < 32 ? text_of(r, &c->collective) : LW_OK;
    }
    if (lw_json_type(r->j) != LW_JSON_ARRAY || depth > DEEPEST)
        return LW_OK;
    if (!lw_json_enter(r->j, LW_JSON_ARRAY))
        return LW_OK;
    while (lw_json_next(r->j)) {
        enum lw_json_type type = lw_json_type(r->j);
        if (type == LW_JSON_ARRAY) {
            LW_TRY(read_value(r, c, written, depth + 1));
        } else if (type == LW_JSON_NUMBER && n < 5) {
            double x;
            if (!lw_json_decimal(r->j, 0, &v[n])) {
                x = lw_json_double(r->j);
                v[n] = x > -9e18 && x < 9e18 ? (int64_t)x : 0;
            }
            n++;
        } else if (type == LW_JSON_STRING) {
            size_t len;
            const char *text = lw_json_view(r->j, &len);
            copy_text(last, sizeof last, text, len);
            if (c->record && n == 0 && n_texts == 0 && c->group < 0 && len > 0)
                LW_TRY(text_of(r, &c->group)); /* ["13", "undefined"] */
            n_texts++;
        }
    }
    return n == 5 && n_texts == 1 ? add_tensor(r, c, v, last, written) : LW_OK;
}

static enum lw_status read_values(struct reader *r, struct traces_et_call *c, bool written)
{
    if (lw_json_type(r->j) != LW_JSON_ARRAY || !lw_json_enter(r->j, LW_JSON_ARRAY))
        return LW_OK;
    for (int i = 0; lw_json_next(r->j); i++) {
        int32_t n = c->n_tensors;
        LW_TRY(read_value(r, c, written, 1));
        for (int32_t k = n; !written && i == 0 && k < c->n_tensors; k++)
            c->first_elements = lw_add_sat(c->first_elements < 0 ? 0 : c->first_elements,
                                           r->tensors[c->first_tensor + k].elements);
    }
    return LW_OK;
}

static void read_shapes(struct reader *r, struct et_shape *s)
{
    for (int i = 0; i < ET_INPUTS; i++)
        s[i].n = -1;
    if (lw_json_type(r->j) != LW_JSON_ARRAY || !lw_json_enter(r->j, LW_JSON_ARRAY))
        return;
    for (int i = 0; lw_json_next(r->j); i++) {
        int32_t n = 0;
        if (i >= ET_INPUTS || lw_json_type(r->j) != LW_JSON_ARRAY ||
            !lw_json_enter(r->j, LW_JSON_ARRAY))
            continue;
        while (lw_json_next(r->j)) {
            if (lw_json_type(r->j) != LW_JSON_NUMBER || n < 0 || n >= ET_DIMS) {
                n = -1;
                continue;
            }
            double x = lw_json_double(r->j);
            s[i].dim[n++] = x >= 0 && x < 9e15 ? (int64_t)x : 0;
        }
        s[i].n = n;
    }
}

static void read_types(struct reader *r)
{
    for (int i = 0; i < ET_INPUTS; i++)
        r->types[i][0] = '\0';
    if (lw_json_type(r->j) != LW_JSON_ARRAY || !lw_json_enter(r->j, LW_JSON_ARRAY))
        return;
    for (int i = 0; lw_json_next(r->j); i++) {
        size_t len;
        if (i >= ET_INPUTS || lw_json_type(r->j) != LW_JSON_STRING)
            continue;
        const char *text = lw_json_view(r->j, &len);
        copy_text(r->types[i], sizeof r->types[i], text, len);
    }
}

/* "Tensor(c10::Half)" -> f16 */
static enum lw_dtype dtype_of(const struct reader *r, bool *found)
{
    *found = false;
    for (int i = 0; i < ET_INPUTS; i++) {
        char word[32];
        enum lw_dtype t;
        const char *at = strstr(r->types[i], "Tensor(");
        if (!at)
            continue;
        at += strlen("Tensor(");
        copy_text(word, sizeof word, at, strcspn(at, ")"));
        if (lw_trace_dtype_named(word, &t)) {
            *found = true;
            return t;
        }
    }
    return LW_F32;
}

static int64_t number(struct lw_json *j)
{
    int64_t v;

    if (lw_json_decimal(j, 0, &v))
        return v >= -1 && v < 9000000000000000 ? v : -1;
    if (lw_json_type(j) != LW_JSON_NUMBER)
        return -1;
    double x = lw_json_double(j);
    return x >= -1 && x < 9e15 ? (int64_t)x : -1;
}

/* ---- nodes ---- */

static void read_schema(struct reader *r)
{
    size_t len;
    const char *text = lw_json_view(r->j, &len);
    const char *arrow = memmem(text, len, "->", 2);

    r->has_schema = len > 0;
    r->writes = memmem(text, len, "(a!)", 4) != NULL;
    r->returns_view = arrow && memmem(arrow, len - (size_t)(arrow - text), "(a)", 3) != NULL;
}

static enum lw_status read_field(struct reader *r, struct traces_et_call *c, const char *key);

static enum lw_status read_attributes(struct reader *r, struct traces_et_call *c)
{
    if (lw_json_type(r->j) != LW_JSON_ARRAY || !lw_json_enter(r->j, LW_JSON_ARRAY))
        return LW_OK;
    while (lw_json_next(r->j)) {
        char name[24] = "";
        if (!lw_json_enter(r->j, LW_JSON_OBJECT))
            return LW_OK;
        for (int k; (k = lw_json_next_of(r->j, &r->of_attribute)) >= 0;) {
            size_t len;
            if (k == 0 && lw_json_type(r->j) == LW_JSON_STRING) {
                const char *text = lw_json_view(r->j, &len);
                copy_text(name, sizeof name, text, len);
            } else if (k == 1) {
                LW_TRY(read_field(r, c, name));
            }
        }
    }
    return LW_OK;
}

static enum lw_status read_tensors(struct reader *r, struct traces_et_call *c, bool outputs)
{
    if (lw_json_type(r->j) == LW_JSON_ARRAY)
        return read_values(r, c, outputs);
    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return LW_OK;
    for (int k; (k = lw_json_next_of(r->j, &r->of_tensors)) >= 0;) {
        if (k == 0)
            LW_TRY(read_values(r, c, outputs));
        else if (k == 1)
            read_shapes(r, outputs ? r->out : r->in);
        else if (!outputs)
            read_types(r);
    }
    return LW_OK;
}

static int32_t size_of(int64_t n)
{
    return n > 0 && n <= INT32_MAX ? (int32_t)n : 0;
}

static enum lw_status read_field(struct reader *r, struct traces_et_call *c, const char *key)
{
    switch (key[0]) {
    case 'i':
        if (strcmp(key, "id") == 0)
            c->id = number(r->j);
        else if (strcmp(key, "in_msg_nelems") == 0)
            c->in_elements = number(r->j);
        else if (strcmp(key, "inputs") == 0)
            return read_tensors(r, c, false);
        else if (strcmp(key, "input_shapes") == 0)
            read_shapes(r, r->in);
        else if (strcmp(key, "input_types") == 0)
            read_types(r);
        break;
    case 'o':
        if (strcmp(key, "outputs") == 0)
            return read_tensors(r, c, true);
        if (strcmp(key, "out_msg_nelems") == 0)
            c->out_elements = number(r->j);
        else if (strcmp(key, "output_shapes") == 0)
            read_shapes(r, r->out);
        else if (strcmp(key, "op_schema") == 0 && lw_json_type(r->j) == LW_JSON_STRING)
            read_schema(r);
        break;
    case 'p':
        if (strcmp(key, "parent") == 0)
            c->parent = number(r->j);
        else if (strcmp(key, "pg_size") == 0)
            c->group_size = size_of(number(r->j));
        else if (strcmp(key, "pg_name") == 0)
            return read_word(r, &c->group);
        break;
    case 'd':
        if (strcmp(key, "dtype") == 0)
            return read_word(r, &c->type);
        break;
    case 'c':
        if (strcmp(key, "ctrl_deps") == 0)
            c->parent = number(r->j);
        else if (strcmp(key, "collective_name") == 0)
            return read_word(r, &c->collective);
        break;
    case 'r':
        if (strcmp(key, "rf_id") == 0)
            c->order = number(r->j);
        break;
    case 't':
        if (strcmp(key, "tid") == 0)
            c->thread = number(r->j);
        break;
    case 'a':
        if (strcmp(key, "attrs") == 0)
            return read_attributes(r, c);
        break;
    default:
        break;
    }
    return LW_OK;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static enum lw_status settle(struct reader *r, struct traces_et_call *c)
{
    const char *name = traces_graph_string(&r->e->graph, c->name);
    struct lw_product p;

    c->dtype = (uint8_t)dtype_of(r, &c->typed);
    c->view = !r->writes && ((r->has_schema && r->returns_view) || begins(name, "aten::empty") ||
                             begins(name, "aten::_reshape_alias") || begins(name, "detach"));
    if (et_product(name, r->in, r->out, (enum lw_dtype)c->dtype, &p, &c->times)) {
        LW_ROOM(r->products, r->products_cap, r->n_products + 1, r->err);
        c->product = (int32_t)r->n_products;
        r->products[r->n_products++] = p;
    }
    for (int32_t i = 0; r->writes && i < c->n_tensors; i++) /* what is written, among the inputs */
        r->tensors[c->first_tensor + i].written |= i == 0;
    return LW_OK;
}

static enum lw_status read_node(struct reader *r)
{
    struct traces_et *e = r->e;
    struct traces_et_call c = {.id = -1,
                     .parent = -1,
                     .order = -1,
                     .name = -1,
                     .group = -1,
                     .product = -1,
                     .collective = -1,
                     .type = -1,
                     .thread = -1,
                     .in_elements = -1,
                     .out_elements = -1,
                     .first_elements = -1,
                     .leaf = true,
                     .first_tensor = (int32_t)r->n_tensors};

    bool nccl = false;

    r->writes = r->returns_view = r->has_schema = false;
    for (int i = 0; i < ET_INPUTS; i++)
        r->in[i].n = r->out[i].n = -1;
    for (int i = 0; i < ET_INPUTS; i++)
        r->types[i][0] = '\0';
    for (int k; (k = lw_json_next_of(r->j, &r->of_node)) >= 0;) {
        const char *key = node_keys[k];
        if (k == 0 && lw_json_type(r->j) == LW_JSON_STRING) {
            LW_TRY(text_of(r, &c.name));
            const char *name = traces_graph_string(&e->graph, c.name);
            c.record = strcmp(name, "record_param_comms") == 0;
            nccl = begins(name, "nccl:");
            c.comm = nccl || begins(name, "gloo:");
        } else {
            LW_TRY(read_field(r, &c, key));
        }
    }
    if (lw_json_failed(r->j))
        return LW_OK; /* lw_json_done says it */
    if (e->n_nodes == INT32_MAX / 4 || r->n_tensors > INT32_MAX / 4)
        return lw_fail_at(r->err, LW_ENOTSUP, e->graph.file, 0, "more than %d nodes",
                          INT32_MAX / 4);
    e->n_nodes++;
    e->n_comm_records += c.record;
    e->n_nccl += nccl;
    LW_TRY(settle(r, &c));
    LW_ROOM(r->calls, r->calls_cap, r->n_calls + 1, r->err);
    r->calls[r->n_calls++] = c;
    return LW_OK;
}

static enum lw_status read_file(struct reader *r)
{
    bool nodes = false;

    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return LW_OK;
    while (lw_json_next(r->j)) {
        if (lw_json_key_is(r->j, "schema") && lw_json_type(r->j) == LW_JSON_STRING) {
            LW_TRY(text_of(r, &r->e->graph.schema));
        } else if (lw_json_key_is(r->j, "pid")) {
            r->e->pid = number(r->j);
        } else if (lw_json_key_is(r->j, "nodes") && lw_json_enter(r->j, LW_JSON_ARRAY)) {
            nodes = true;
            while (lw_json_next(r->j))
                if (lw_json_enter(r->j, LW_JSON_OBJECT))
                    LW_TRY(read_node(r));
        }
    }
    return nodes || lw_json_failed(r->j)
               ? LW_OK
               : lw_fail_at(r->err, LW_EFORMAT, r->e->graph.file, 0, "no \"nodes\"");
}

const char *traces_et_collective(const struct traces_et *e, const struct traces_et_call *c)
{
    const char *name = traces_graph_string(&e->graph, c->name);

    if (c->comm)
        return name + strlen("nccl:"); /* "gloo:" is as long */
    if (!c->record || !c->leaf || c->collective < 0)
        return NULL;
    name = traces_graph_string(&e->graph, c->collective);
    return strcmp(name, "wait") == 0 || strcmp(name, "init") == 0 ? NULL : name;
}

/* ---- the graph ---- */

LW_COMPARATOR(by_id, struct traces_et_call, a->id, b->id, a->order, b->order)
LW_COMPARATOR(by_order, struct traces_et_call, a->order, b->order, a->id, b->id)

static struct traces_et_call *find_call(const struct reader *r, int64_t id)
{
    int64_t low = 0, high = r->n_calls;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (r->calls[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->n_calls && r->calls[low].id == id ? &r->calls[low] : NULL;
}

static void take_tensors_of(struct traces_et_call *c, const struct traces_et_call *from)
{
    /* A collective's own node has its inputs; its record has inputs and outputs. */
    if (from->n_tensors > c->n_tensors) {
        c->first_tensor = from->first_tensor;
        c->n_tensors = from->n_tensors;
    }
}

/* Parents are no leaves; a collective has the group and the tensors of its record. */
static void link_parents(struct reader *r)
{
    lw_sort(r->calls, r->n_calls, by_id);
    for (int64_t i = 0; i < r->n_calls; i++) {
        struct traces_et_call *c = &r->calls[i], *parent = find_call(r, c->parent);
        if (!parent || parent == c)
            continue;
        parent->leaf = false;
        if (c->comm && parent->record) {
            c->group = parent->group;
            c->in_elements = parent->in_elements;
            c->out_elements = parent->out_elements;
            c->group_size = parent->group_size;
            c->type = parent->type;
            take_tensors_of(c, parent);
        }
    }
    lw_sort(r->calls, r->n_calls, by_order);
}

struct storage {
    int64_t id;
    int32_t writer, reader[2]; /* nodes + 1; the last readers of the compute and of the comm
                                * stream */
};

struct edges {
    struct reader *r;
    struct storage *slots;
    int64_t n_slots;
};

static struct storage *storage_of(struct edges *x, int64_t id)
{
    uint64_t i = ((uint64_t)id * 0x9e3779b97f4a7c15U >> 17) & (uint64_t)(x->n_slots - 1);

    while (x->slots[i].writer + x->slots[i].reader[0] + x->slots[i].reader[1] > 0 &&
           x->slots[i].id != id)
        i = (i + 1) & (uint64_t)(x->n_slots - 1);
    x->slots[i].id = id;
    return &x->slots[i];
}

static enum lw_status wait_for(struct edges *x, int32_t node)
{
    return node > 0 ? traces_graph_dep(&x->r->e->graph, (uint64_t)node - 1, x->r->err) : LW_OK;
}

static enum lw_status add_edges(struct edges *x, const struct traces_et_call *c, bool comm)
{
    struct reader *r = x->r;
    int32_t me = r->e->graph.n + 1;

    for (int32_t i = 0; i < c->n_tensors; i++) {
        const struct traces_et_tensor *t = &r->tensors[c->first_tensor + i];
        struct storage *s = storage_of(x, t->storage);
        if (!t->device)
            continue;
        LW_TRY(wait_for(x, s->writer != me ? s->writer : 0));
        if (t->written || comm) {
            for (int k = 0; k < 2; k++)
                LW_TRY(wait_for(x, s->reader[k] != me ? s->reader[k] : 0));
            s->writer = me;
            s->reader[0] = s->reader[1] = 0;
        } else {
            s->reader[comm] = me;
        }
    }
    return LW_OK;
}

static void sum_bytes(const struct reader *r, const struct traces_et_call *c, int64_t *in,
                      int64_t *out)
{
    *in = *out = 0;
    for (int32_t i = 0; i < c->n_tensors; i++) {
        const struct traces_et_tensor *t = &r->tensors[c->first_tensor + i];
        if (t->device)
            *(t->written ? out : in) = lw_add_sat(*(t->written ? out : in), t->bytes);
    }
}

static enum lw_status add_node(struct edges *x, const struct traces_et_call *c)
{
    struct reader *r = x->r;
    struct traces_node n = traces_node_blank();
    const char *collective = traces_et_collective(r->e, c);
    int64_t in, out;

    n.id = (uint64_t)r->e->graph.n;
    n.name = c->name;
    n.dtype = c->dtype;
    n.type = collective ? TRACES_NODE_COLL : TRACES_NODE_COMP;
    sum_bytes(r, c, &in, &out);
    if (collective) {
        n.comm = true;
        n.op = (uint8_t)traces_comm_kind(collective);
        n.bytes = n.whole = in > out ? in : out;
        n.group = c->group;
    } else {
        n.moved = lw_add_sat(in, out);
        n.product = c->product;
        if (c->product >= 0)
            n.flops = lw_mul_sat(lw_product_flops(&r->products[c->product]), c->times);
    }
    LW_TRY(add_edges(x, c, collective != NULL));
    return traces_graph_node(&r->e->graph, &n, r->err);
}

static enum lw_status make_graph(struct reader *r)
{
    struct edges x = {.r = r, .n_slots = 64};
    enum lw_status status = LW_OK;

    link_parents(r);
    while (x.n_slots < 2 * r->n_tensors + 2)
        x.n_slots *= 2;
    LW_NEW(x.slots, x.n_slots, r->err);
    for (int64_t i = 0; status == LW_OK && i < r->n_calls; i++) {
        const struct traces_et_call *c = &r->calls[i];
        bool comm = traces_et_collective(r->e, c) != NULL;
        /* collectives of the host's tensors are the host's */
        if (comm ? c->comm && !c->device && c->n_tensors > 0 : !c->leaf || !c->device || c->record)
            continue;
        r->e->n_views += !comm && c->view;
        if (comm || !c->view)
            status = add_node(&x, c);
    }
    lw_free(x.slots);
    return status;
}

static enum lw_status read_whole(const struct lw_input *in, bool keep, struct traces_et *out,
                                 struct lw_err *err)
{
    struct traces_et e = {.pid = -1};
    struct reader r = {.e = &e, .err = err};

    traces_graph_init(&e.graph, in->name);
    e.graph.n_bytes = (int64_t)in->len;
    lw_json_keys_init(&r.of_tensors, tensor_keys, 3);
    lw_json_keys_init(&r.of_attribute, attribute_keys, 2);
    lw_json_keys_init(&r.of_node, node_keys, (int)(sizeof node_keys / sizeof *node_keys));
    enum lw_status status = lw_json_open(in->name, in->text, in->len, &r.j, err);
    if (status == LW_OK) {
        status = read_file(&r);
        if (status == LW_OK)
            status = lw_json_done(r.j, err);
        lw_json_close(r.j);
    }
    if (status == LW_OK)
        status = make_graph(&r);
    if (status == LW_OK)
        status = traces_graph_check(&e.graph, err);
    e.graph.products = r.products;
    if (keep) {
        e.calls = r.calls;
        e.n_calls = r.n_calls;
        e.tensors = r.tensors;
        e.n_tensors = r.n_tensors;
    } else {
        lw_free(r.calls);
        lw_free(r.tensors);
    }
    LW_GIVE(status, out, e, traces_et_free(&e));
}

enum lw_status traces_et_read(const struct lw_input *in, struct traces_et *out, struct lw_err *err)
{
    return read_whole(in, false, out, err);
}

enum lw_status traces_et_read_calls(const struct lw_input *in, struct traces_et *out,
                                    struct lw_err *err)
{
    return read_whole(in, true, out, err);
}
