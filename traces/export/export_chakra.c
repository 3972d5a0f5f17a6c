/* A rank's nodes as a Chakra trace: metadata, then a message per node, each after its length. What
 * Chakra's fields cannot say (picoseconds, streams, group calls) is in attributes whose names begin
 * with lw_; other readers skip them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/json/jsonout.h"
#include "traces/chakra/et.pb-c.h"
#include "traces/export/export_graph.h"

enum { COMP = 4, SEND, RECV, COLL, MOST_ATTRIBUTES = 15 };

struct writer {
    const struct lw_export_graph *g;
    FILE *f;
    struct lw_err *err;
    uint8_t *buffer;
    int64_t buffer_cap;
    uint64_t *deps;
    int64_t deps_cap;
    LwEt__Attribute attr[MOST_ATTRIBUTES], *list[MOST_ATTRIBUTES];
    size_t n;
};

static LwEt__Attribute *add(struct writer *w, const char *name)
{
    LwEt__Attribute *a = w->list[w->n] = &w->attr[w->n];

    w->n++;
    lw_et__attribute__init(a);
    a->name = (char *)name;
    return a;
}

static void add_int(struct writer *w, const char *name, int64_t v)
{
    LwEt__Attribute *a = add(w, name);

    a->value_case = LW_ET__ATTRIBUTE__VALUE_INT64_VAL;
    a->int64_val = v;
}

/* As many bytes whatever the number is: outputs are known by their beginning. */
static void add_fixed(struct writer *w, const char *name, int64_t v)
{
    LwEt__Attribute *a = add(w, name);

    a->value_case = LW_ET__ATTRIBUTE__VALUE_SFIXED64_VAL;
    a->sfixed64_val = v;
}

static void add_bool(struct writer *w, const char *name, bool v)
{
    LwEt__Attribute *a = add(w, name);

    a->value_case = LW_ET__ATTRIBUTE__VALUE_BOOL_VAL;
    a->bool_val = v;
}

static void add_text(struct writer *w, const char *name, const char *text)
{
    LwEt__Attribute *a = add(w, name);

    a->value_case = LW_ET__ATTRIBUTE__VALUE_STRING_VAL;
    a->string_val = (char *)text;
}

static enum lw_status write_message(struct writer *w, const ProtobufCMessage *m)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t length[10];
    int k = 0;

    LW_ROOM(w->buffer, w->buffer_cap, (int64_t)n + 1, w->err);
    protobuf_c_message_pack(m, w->buffer);
    for (size_t v = n;; v >>= 7) {
        length[k++] = (uint8_t)((v & 0x7f) | (v >= 0x80 ? 0x80 : 0));
        if (v < 0x80)
            break;
    }
    fwrite(length, 1, (size_t)k, w->f);
    fwrite(w->buffer, 1, n, w->f);
    return LW_OK;
}

static enum lw_status write_metadata(struct writer *w, int32_t rank)
{
    LwEt__Metadata m = LW_ET__METADATA__INIT;

    w->n = 0;
    add_text(w, "made_by", "lapwing export"); /* the first: an output is known by it */
    add_fixed(w, "rank", rank);
    add_fixed(w, "world_size", w->g->n_ranks);
    m.version = "0.0.4";
    m.n_attr = w->n;
    m.attr = w->list;
    return write_message(w, &m.base);
}

static int32_t collective(enum lw_op_kind kind)
{
    switch (kind) {
    case LW_OP_ALL_REDUCE:
        return 0;
    case LW_OP_REDUCE:
        return 1;
    case LW_OP_ALL_GATHER:
        return 2;
    case LW_OP_BROADCAST:
        return 5;
    case LW_OP_REDUCE_SCATTER:
        return 7;
    case LW_OP_BARRIER:
        return 9;
    default:
        return 6; /* all-to-all */
    }
}

/* A process group's name is a number, as PyTorch's are, and ASTRA-sim takes nothing else. It is 1
 * or more: ASTRA-sim takes group 0 for all ranks (astra-sim/astra-sim, Workload.cc, 518bd513). */
static void group_name(const struct lw_plan *p, int32_t comm, int32_t rank, char text[24])
{
    int64_t group = lw_plan_group_of(p, comm, rank);

    snprintf(text, 24, "%" PRId64, 1 + (int64_t)comm * p->n_groups + group);
}

/* What the op is for a reader of our own: buckets and modules stay behind, so nothing is left that
 * would refer to them. */
static enum lw_op_kind plain_kind(const struct lw_op *op, bool comm)
{
    switch (lw_op_class(op->kind)) {
    case LW_CLASS_COMPUTE:
        return LW_OP_KERNEL;
    case LW_CLASS_COPY:
        return LW_OP_COPY;
    case LW_CLASS_COLLECTIVE:
    case LW_CLASS_P2P:
        return comm ? (enum lw_op_kind)op->kind : LW_OP_KERNEL;
    default:
        return LW_OP_HOST;
    }
}

/* comm_size is what a rank gives: of an all-gather its part, as Chakra's converter sums the inputs
 * (mlcommons/chakra, src/converter/pytorch_node.py, 21585d8f). Parts that differ are told as a
 * whole. */
static void add_size(struct writer *w, const struct lw_op *op, int32_t rank, int64_t bytes)
{
    const struct lw_plan *p = w->g->plan;
    int32_t n = 1;

    if (op->kind == LW_OP_ALL_GATHER)
        n = lw_plan_group(p, op->comm, rank)->n_members;
    add_int(w, "comm_size", (bytes + n - 1) / n);
    if (bytes % n != 0)
        add_int(w, "lw_bytes", bytes);
}

static void add_communication(struct writer *w, const struct lw_op *op, int32_t rank,
                              char group[24])
{
    const struct lw_plan *p = w->g->plan;
    struct lw_operand o = lw_plan_operand(p, op, rank);

    if (op->kind == LW_OP_SEND || op->kind == LW_OP_RECV) {
        bool sent = op->kind == LW_OP_SEND;
        add_int(w, "comm_src", sent ? rank : o.peer);
        add_int(w, "comm_dst", sent ? o.peer : rank);
        add_int(w, "comm_tag", op->comm);
        if (op->call >= 0)
            add_int(w, "lw_call", op->call);
    } else {
        add_int(w, "comm_type", collective(op->kind));
    }
    add_size(w, op, rank, o.bytes);
    group_name(p, op->comm, rank, group);
    add_text(w, "pg_name", group);
    add_text(w, "pg_desc", p->comms[op->comm].name);
    add_text(w, "lw_dtype", lw_dtype_name(op->dtype));
}

static void name_of(const struct lw_plan *p, const struct lw_op *op, char *text, size_t size)
{
    if (op->name && *op->name)
        snprintf(text, size, "%s", op->name);
    else if (op->bucket >= 0)
        snprintf(text, size, "%s bucket %d", lw_op_name(op->kind), op->bucket);
    else if (op->module >= 0)
        snprintf(text, size, "%s module %d", lw_op_name(op->kind), op->module);
    else
        snprintf(text, size, "%s", lw_op_name(op->kind));
    (void)p;
}

static enum lw_status write_node(struct writer *w, int32_t rank, int64_t i)
{
    const struct lw_plan *p = w->g->plan;
    const struct lw_export_node *x = &w->g->nodes[i];
    const struct lw_op *op = LW_OP(p, x->op);
    const struct lw_stream *stream = &p->streams[op->stream];
    LwEt__Node m = LW_ET__NODE__INIT;
    char name[256], group[24], stream_name[96];
    bool comm = x->meeting >= 0;
    lw_ps time = comm ? w->g->meetings[x->meeting].time : x->time;

    w->n = 0;
    name_of(p, op, name, sizeof name);
    m.id = (uint64_t)(i - w->g->first[rank]);
    m.name = name;
    m.type = !comm ? COMP : op->kind == LW_OP_SEND ? SEND : op->kind == LW_OP_RECV ? RECV : COLL;
    m.duration_micros = time > 0 ? (uint64_t)((time + LW_PS_PER_US / 2) / LW_PS_PER_US) : 0;
    m.start_time_micros = x->start > 0 ? (uint64_t)(x->start / LW_PS_PER_US) : 0;
    LW_ROOM(w->deps, w->deps_cap, x->n_deps + 1, w->err);
    for (int32_t k = 0; k < x->n_deps; k++)
        w->deps[k] = (uint64_t)w->g->deps[x->first_dep + k];
    m.data_deps = w->deps;
    m.n_data_deps = (size_t)x->n_deps;
    enum lw_op_class c = lw_op_class(op->kind);
    add_bool(w, "is_cpu_op", c == LW_CLASS_HOST || c == LW_CLASS_MEMORY);
    if (comm)
        add_communication(w, op, rank, group);
    if (op->work >= 0 && lw_work_at(p, op->work)->flops > 0)
        add_int(w, "num_ops", lw_work_at(p, op->work)->flops);
    if (op->work >= 0 && lw_work_at(p, op->work)->bytes > 0)
        add_int(w, "tensor_size", lw_work_at(p, op->work)->bytes);
    snprintf(stream_name, sizeof stream_name, "%s %.80s", lw_stream_class_word(stream->class_),
             stream->name);
    add_text(w, "lw_stream", stream_name);
    add_text(w, "lw_op", lw_op_name(plain_kind(op, comm)));
    if (time >= 0)
        add_int(w, "lw_time_ps", time);
    m.n_attr = w->n;
    m.attr = w->list;
    return write_message(w, &m.base);
}

enum lw_status lw_export_chakra(const struct lw_export_graph *g, int32_t rank, FILE *f,
                                struct lw_err *err)
{
    struct writer w = {.g = g, .f = f, .err = err};
    enum lw_status status = write_metadata(&w, rank);

    for (int64_t i = g->first[rank]; status == LW_OK && i < g->first[rank + 1]; i++)
        status = write_node(&w, rank, i);
    lw_free(w.buffer);
    lw_free(w.deps);
    return status;
}

enum lw_status lw_export_chakra_groups(const struct lw_export_graph *g, FILE *f, struct lw_err *err)
{
    const struct lw_plan *p = g->plan;
    struct lw_jsonout o = {.file = f};
    char name[24];

    (void)err;
    lw_jsonout_object(&o, NULL);
    for (int32_t c = 0; c < p->n_comms; c++)
        for (int32_t k = 0; k < p->n_groups; k++) {
            const struct lw_group *x = &p->groups[k];
            int32_t first = x->n_members > 0 ? lw_plan_member_at(p, x->first_member) : 0;
            if (x->n_members == 0 || lw_plan_group_of(p, c, first) != k)
                continue;
            group_name(p, c, first, name);
            lw_jsonout_array(&o, name);
            for (int32_t i = 0; i < x->n_members; i++)
                lw_jsonout_int(&o, NULL, lw_plan_member_at(p, x->first_member + i));
            lw_jsonout_end(&o);
        }
    lw_jsonout_end(&o);
    return LW_OK;
}
