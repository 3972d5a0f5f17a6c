/* Chakra execution traces as protobuf: messages after their lengths, the first about the file, the
 * others nodes. Each message is unpacked, taken and given back, so the file and its nodes are all
 * that is held. Files that PyTorch's traces were converted to carry their schema; in these the
 * control dependencies are the stack of calls, which need not be an order (in schema 1.0.1 it
 * has cycles), and the converter repeats what orders the nodes as data dependencies. */
#include "traces/chakra/read_chakra.h"

#include <string.h>

#include "shared/io/input.h"
#include "shared/numbers/checked.h"
#include "traces/chakra/chakra_messages.h"
#include "traces/chakra/chakra_node.h"
#include "traces/chakra/et.pb-c.h"

/* ---- which files ---- */

bool traces_chakra_is(const char *text, size_t len)
{
    const uint8_t *p = (const uint8_t *)text, *end = p + len;
    uint64_t n;

    if (chakra_fixed_lengths(p, len) || chakra_first_message(p, len) != CHAKRA_FIRST_NONE)
        return true;
    if (!chakra_varint_at(&p, end, &n) || n < 2 || p == end || n <= (uint64_t)(end - p))
        return false;
    /* cut within the first message: binary, and as one begins */
    return memchr(text, '\0', len) && (p[0] == 10 || p[0] == 18) && end - p > 2 && p[1] <= n;
}

/* ---- memory of messages ---- */

struct memory {
    bool failed;
};

static void *take(void *ctx, size_t size)
{
    struct memory *m = ctx;
    void *p = lw_alloc(size > 0 ? size : 1);

    m->failed = m->failed || !p;
    return p;
}

static void give(void *ctx, void *p)
{
    (void)ctx;
    lw_free(p);
}

/* ---- messages ---- */

struct reader {
    struct traces_graph *g;
    const uint8_t *text;
    struct memory memory;
    ProtobufCAllocator allocator;
    struct lw_err *err;
};

static enum lw_status damaged(struct reader *r, const uint8_t *at, const char *what)
{
    return r->memory.failed ? lw_fail_nomem(r->err)
                            : lw_fail_at(r->err, LW_EFORMAT, r->g->file, 0, "byte %lld: %s",
                                         (long long)(at - r->text), what);
}

static struct chakra_value value_of(const LwEt__Attribute *a)
{
    struct chakra_value v = {0};

    switch (a->value_case) {
    case LW_ET__ATTRIBUTE__VALUE_DOUBLE_VAL:
        v.number = a->double_val >= -9e18 && a->double_val <= 9e18 ? (int64_t)a->double_val : -1;
        break;
    case LW_ET__ATTRIBUTE__VALUE_FLOAT_VAL:
        v.number = a->float_val >= -9e18F && a->float_val <= 9e18F ? (int64_t)a->float_val : -1;
        break;
    case LW_ET__ATTRIBUTE__VALUE_INT32_VAL:
        v.number = a->int32_val;
        break;
    case LW_ET__ATTRIBUTE__VALUE_INT64_VAL:
        v.number = a->int64_val;
        break;
    case LW_ET__ATTRIBUTE__VALUE_UINT32_VAL:
        v.number = a->uint32_val;
        break;
    case LW_ET__ATTRIBUTE__VALUE_UINT64_VAL:
        v.number = (int64_t)a->uint64_val;
        break;
    case LW_ET__ATTRIBUTE__VALUE_SINT32_VAL:
        v.number = a->sint32_val;
        break;
    case LW_ET__ATTRIBUTE__VALUE_SINT64_VAL:
        v.number = a->sint64_val;
        break;
    case LW_ET__ATTRIBUTE__VALUE_FIXED32_VAL:
        v.number = a->fixed32_val;
        break;
    case LW_ET__ATTRIBUTE__VALUE_FIXED64_VAL:
        v.number = (int64_t)a->fixed64_val;
        break;
    case LW_ET__ATTRIBUTE__VALUE_SFIXED32_VAL:
        v.number = a->sfixed32_val;
        break;
    case LW_ET__ATTRIBUTE__VALUE_SFIXED64_VAL:
        v.number = a->sfixed64_val;
        break;
    case LW_ET__ATTRIBUTE__VALUE_BOOL_VAL:
        v.number = a->bool_val;
        break;
    case LW_ET__ATTRIBUTE__VALUE_STRING_VAL:
        v.text = a->string_val;
        v.len = strlen(a->string_val);
        break;
    default:
        break; /* lists and bytes say nothing that is used */
    }
    return v;
}

/* An attribute of the file. */
static enum lw_status take_fact(struct traces_graph *g, const LwEt__Attribute *a,
                                struct lw_err *err)
{
    struct chakra_value v = value_of(a);
    const char *name = a->name ? a->name : "";

    if (strcmp(name, "schema") == 0 && v.text) {
        g->by_data = true;
        return traces_graph_text(g, v.text, v.len, &g->schema, err);
    }
    if (strcmp(name, "rank") == 0 && v.number >= 0 && v.number <= INT32_MAX)
        g->rank = (int32_t)v.number;
    else if (strcmp(name, "world_size") == 0 && v.number > 0 && v.number <= INT32_MAX)
        g->world = (int32_t)v.number;
    return LW_OK;
}

static enum lw_status take_metadata(struct reader *r, const uint8_t *p, size_t len)
{
    struct traces_graph *g = r->g;
    LwEt__Metadata *m = lw_et__metadata__unpack(&r->allocator, len, p);
    enum lw_status status = LW_OK;

    if (!m)
        return damaged(r, p, "the first message is not a Chakra GlobalMetadata");
    if (m->version && *m->version)
        status = traces_graph_text(g, m->version, strlen(m->version), &g->schema, r->err);
    for (size_t i = 0; status == LW_OK && i < m->n_attr; i++)
        status = take_fact(g, m->attr[i], r->err);
    lw_et__metadata__free_unpacked(m, &r->allocator);
    return status;
}

/* Of the schema of October 2023, before it had a version. */
static enum lw_status take_older_metadata(struct reader *r, const uint8_t *p, size_t len)
{
    LwEt__OlderMetadata *m = lw_et__older_metadata__unpack(&r->allocator, len, p);
    enum lw_status status = LW_OK;

    if (!m)
        return damaged(r, p, "the first message is not a Chakra GlobalMetadata");
    for (size_t i = 0; status == LW_OK && i < m->n_attr; i++)
        status = take_fact(r->g, m->attr[i], r->err);
    lw_et__older_metadata__free_unpacked(m, &r->allocator);
    return status;
}

static lw_ps from_micros(uint64_t us)
{
    return us > (uint64_t)INT64_MAX ? -1 : lw_mul_sat((int64_t)us, LW_PS_PER_US);
}

static enum lw_status add_node(struct reader *r, const LwEt__Node *m)
{
    struct traces_graph *g = r->g;
    struct traces_node n = traces_node_blank();

    n.id = m->id;
    n.type = m->type < TRACES_N_NODE_TYPES ? (uint8_t)m->type : TRACES_NODE_INVALID;
    n.time = m->duration_micros > 0 ? from_micros(m->duration_micros) : -1;
    n.start = m->start_time_micros > 0 ? from_micros(m->start_time_micros) : -1;
    LW_TRY(traces_graph_text(g, m->name ? m->name : "", m->name ? strlen(m->name) : 0, &n.name,
                             r->err));
    for (size_t i = 0; i < m->n_attr; i++) {
        const LwEt__Attribute *a = m->attr[i];
        struct chakra_value v = value_of(a);
        if (a->name && a->value_case != LW_ET__ATTRIBUTE__VALUE__NOT_SET)
            LW_TRY(chakra_attribute(g, &n, a->name, strlen(a->name), &v, r->err));
    }
    LW_TRY(chakra_settle(g, &n, m->type, r->err));
    for (size_t i = 0; i < m->n_data_deps; i++)
        LW_TRY(traces_graph_dep(g, m->data_deps[i], r->err));
    for (size_t i = 0; !g->by_data && i < m->n_ctrl_deps; i++)
        LW_TRY(traces_graph_dep(g, m->ctrl_deps[i], r->err));
    if (m->name && strstr(m->name, "process_group:init") && m->inputs && m->inputs->values)
        LW_TRY(chakra_groups(g, m->inputs->values, strlen(m->inputs->values), r->err));
    return traces_graph_node(g, &n, r->err);
}

static enum lw_status take_node(struct reader *r, const uint8_t *p, size_t len)
{
    if (chakra_is_old_node(p, p + len))
        return damaged(r, p,
                       "a node of Chakra's schema before 0.0.4 (October 2023), expected 0.0.4 or "
                       "later: convert the trace again with a newer Chakra");
    LwEt__Node *m = lw_et__node__unpack(&r->allocator, len, p);

    if (!m)
        return damaged(r, p, "the message is not a Chakra node");
    enum lw_status status = add_node(r, m);
    lw_et__node__free_unpacked(m, &r->allocator);
    return status;
}

static enum lw_status take_first(struct reader *r, const uint8_t *p, size_t len,
                                 enum chakra_first kind)
{
    return kind == CHAKRA_FIRST_NODE    ? take_node(r, p, len)
           : kind == CHAKRA_FIRST_OLDER ? take_older_metadata(r, p, len)
                                        : take_metadata(r, p, len);
}

static enum lw_status read(struct reader *r, const uint8_t *end)
{
    const uint8_t *p = r->text;
    enum chakra_first kind = chakra_first_message(p, (size_t)(end - p));

    for (bool first = true; p < end; first = false) {
        const uint8_t *at = p;
        uint64_t n;
        if (!chakra_varint_at(&p, end, &n))
            return damaged(r, at, "the file ends within the length of a message: it is cut");
        if (n > (uint64_t)(end - p))
            return lw_fail_at(r->err, LW_EFORMAT, r->g->file, 0,
                              "byte %lld: a message of %llu bytes where %lld are left: the file is "
                              "cut or damaged after %d nodes",
                              (long long)(at - r->text), (unsigned long long)n,
                              (long long)(end - p), r->g->n);
        if (n == 0 && !first)
            return damaged(r, at, "an empty message, expected a node");
        LW_TRY(first ? take_first(r, p, n, kind) : take_node(r, p, n));
        p += n;
    }
    return LW_OK;
}

enum lw_status traces_chakra_read(const struct lw_input *in, struct traces_graph *out,
                                  struct lw_err *err)
{
    struct traces_graph g;
    struct reader r = {.g = &g, .text = (const uint8_t *)in->text, .err = err};
    const char *fixed = chakra_fixed_lengths((const uint8_t *)in->text, in->len);

    if (fixed)
        return lw_fail_at(err, LW_EFORMAT, in->name, 0,
                          "lengths of messages are %s numbers of 4 bytes, expected varints: write "
                          "it with Chakra's protolib",
                          fixed);
    traces_graph_init(&g, in->name);
    g.n_bytes = (int64_t)in->len;
    r.allocator = (ProtobufCAllocator){take, give, &r.memory};
    enum lw_status status = read(&r, r.text + in->len);
    if (status == LW_OK)
        status = traces_graph_check(&g, err);
    LW_GIVE(status, out, g, traces_graph_free(&g));
}
