/* From the sizes of a step's inputs to its work.
 *
 * Operators call each other: aten::linear calls aten::addmm, which calls aten::expand. The
 * innermost that does work counts, so an operator counts unless one inside it does; products,
 * convolutions and fused attention count as a whole, whatever they call. What only makes another
 * view of a tensor moves nothing. An operator that is none of these reads its inputs and writes an
 * output of the size of the largest. */
#include "traces/workload/recorded_ops.h"

#include <stdlib.h>
#include <string.h>

#include "shared/numbers/checked.h"

enum { MAX_DIMS = 8, MAX_INPUTS = 24, MAX_NESTED = 64 };

/* --- inputs ----------------------------------------------------------------------------------- */

struct input {
    int64_t dim[MAX_DIMS], numel; /* numel 0: no tensor */
    int n_dims;
    bool typed; /* of a type of ours */
    enum lw_dtype dtype;
};

struct inputs {
    int n;
    struct input of[MAX_INPUTS];
};

/* The item at *text, which ends with ';', and to the next. */
static const char *item(const char **text, size_t *len)
{
    const char *at = *text, *end = strchr(at, ';');

    *len = end ? (size_t)(end - at) : strlen(at);
    *text = end ? end + 1 : at + *len;
    return at;
}

static bool is_type(const char *text, size_t len, struct input *x)
{
    static const char *const none[] = {"", "Scalar", "ScalarList", "None"};
    char name[64];

    if (len >= sizeof name)
        return false;
    memcpy(name, text, len);
    name[len] = '\0';
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (strcmp(name, none[i]) == 0)
            return false;
    x->typed = lw_trace_dtype_named(name, &x->dtype);
    return x->typed || strcmp(name, "TensorList") == 0 || strcmp(name, "GenericList") == 0;
}

/* "4,64", "*768" of a list. Digits only: the reader wrote them. */
static void read_sizes(const char *text, size_t len, struct input *x)
{
    const char *end = text + len;

    x->numel = 1;
    if (len > 0 && *text == '*') {
        x->numel = strtoll(text + 1, NULL, 10);
        return;
    }
    while (text < end) {
        char *next;
        int64_t n = strtoll(text, &next, 10);
        x->numel = lw_mul_sat(x->numel, n);
        if (x->n_dims < MAX_DIMS)
            x->dim[x->n_dims] = n;
        x->n_dims++;
        text = next < end ? next + 1 : end;
    }
}

/* False: their sizes are not recorded. */
static bool inputs_of(const struct lw_trace *t, int64_t row, struct inputs *out)
{
    const struct lw_row_detail *d = lw_trace_detail(t, row);

    if (d->input_sizes == 0 || d->input_types == 0)
        return false;
    const char *sizes = lw_trace_text(t, d->input_sizes - 1);
    const char *types = lw_trace_text(t, d->input_types - 1);
    for (out->n = 0; *sizes && *types && out->n < MAX_INPUTS; out->n++) {
        struct input *x = &out->of[out->n];
        size_t size_len, type_len;
        const char *size = item(&sizes, &size_len), *type = item(&types, &type_len);
        *x = (struct input){.dtype = LW_F32};
        if (is_type(type, type_len, x))
            read_sizes(size, size_len, x);
    }
    return true;
}

/* The k-th value, where it is "True". */
static bool is_true(const struct lw_trace *t, int64_t row, int k)
{
    const struct lw_row_detail *d = lw_trace_detail(t, row);
    const char *text = d->input_values > 0 ? lw_trace_text(t, d->input_values - 1) : "";
    size_t len = 0;

    for (int i = 0; *text && i < k; i++)
        item(&text, &len);
    return strncmp(text, "True;", 5) == 0;
}

/* --- kinds of operators ----------------------------------------------------------------------- */

enum what { OTHER, VIEW, PRODUCT, LINEAR, CONV, CONV_BACKWARD, ATTENTION, WRITE, READ, COPY, GATHER,
            SCATTER };

struct kind {
    const char *name;
    enum what what;
    int first;  /* PRODUCT: the first operand; ATTENTION: queries */
    int causal; /* ATTENTION: the value that says so */
    bool backward;
};

/* After "aten::". */
static const struct kind kinds[] = {
    {"mm", PRODUCT}, {"bmm", PRODUCT}, {"addmm", PRODUCT, 1}, {"baddbmm", PRODUCT, 1},
    {"_addmm_activation", PRODUCT, 1}, {"_scaled_mm", PRODUCT}, {"linear", LINEAR},
    {"mkldnn_linear", LINEAR},
    {"convolution", CONV}, {"convolution_backward", CONV_BACKWARD},
    {"_scaled_dot_product_flash_attention", ATTENTION, 0, 4},
    {"_scaled_dot_product_flash_attention_for_cpu", ATTENTION, 0, 4},
    {"_scaled_dot_product_efficient_attention", ATTENTION, 0, 6},
    {"_scaled_dot_product_cudnn_attention", ATTENTION, 0, 6},
    {"_scaled_dot_product_flash_attention_backward", ATTENTION, 1, 11, true},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", ATTENTION, 1, 7, true},
    {"_scaled_dot_product_efficient_attention_backward", ATTENTION, 1, 11, true},
    {"_scaled_dot_product_cudnn_attention_backward", ATTENTION, 1, 14, true},
    {"fill_", WRITE}, {"zero_", WRITE}, {"random_", WRITE}, {"uniform_", WRITE},
    {"normal_", WRITE}, {"bernoulli_", WRITE},
    {"sum", READ}, {"mean", READ}, {"norm", READ}, {"linalg_vector_norm", READ}, {"argmax", READ},
    {"max", READ}, {"min", READ}, {"any", READ}, {"all", READ}, {"nll_loss_forward", READ},
    {"copy_", COPY}, {"embedding", GATHER}, {"index_select", GATHER},
    {"embedding_dense_backward", SCATTER},
};

static const char *const views[] = {
    "view", "_unsafe_view", "_reshape_alias", "view_as", "reshape", "reshape_as", "t", "transpose",
    "transpose_", "permute", "as_strided", "as_strided_", "expand", "expand_as", "broadcast_to",
    "slice", "narrow", "select", "split", "split_with_sizes", "chunk", "unbind", "squeeze",
    "squeeze_", "unsqueeze", "unsqueeze_", "detach", "detach_", "alias", "flatten", "unflatten",
    "resolve_conj", "resolve_neg", "empty", "empty_like", "empty_strided", "new_empty",
    "new_empty_strided", "resize_", "resize_as_", "set_", "to", "_to_copy", "contiguous", "type_as",
    "lift_fresh", "movedim", "moveaxis", "swapaxes", "swapdims", "diagonal", "unfold", "numpy_T",
    "mT", "adjoint", "item", "_local_scalar_dense", "is_nonzero", "result_type", "size", "stride",
    "numel", "record_stream", "zeros", "ones", "zeros_like", "ones_like", "full", "full_like",
    "new_zeros", "new_ones", "clone", "pin_memory", "is_pinned", "_nested_tensor_size",
    "can_cast", "broadcast_tensors", "real", "view_as_real", "view_as_complex",
};

static const struct kind *kind_of(const char *name)
{
    static const struct kind other = {"", OTHER}, view = {"", VIEW};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (strcmp(views[i], name) == 0)
            return &view;
    return &other;
}

/* --- one operator ----------------------------------------------------------------------------- */

struct kept {
    struct lw_recorded_op op;
    int32_t module;
    int64_t largest; /* elements of its largest input */
};

struct conv_shape { /* of a backward: what the forward's output is */
    struct input output, input, weight;
};

struct nested {
    int64_t row, end_ns, n_kept; /* kept before it */
};

struct counter {
    const struct lw_trace *t;
    const struct lw_step *s;
    const struct traces_segments *g;
    struct lw_workload *w;
    struct traces_op_counts *counts;
    bool parallel, backward;
    struct kept *kept;
    int64_t n_kept, kept_capacity;
    struct conv_shape *convs;
    int64_t n_convs, convs_capacity;
    struct nested stack[MAX_NESTED];
    int depth;
    int64_t node, gradient; /* the last that began before now; -1 = none */
    bool no_memory;
};

static int64_t bytes_of(const struct input *x)
{
    return lw_mul_sat(x->numel, lw_dtype_size(x->dtype));
}

/* FLOPs of the output's elements, each a sum over a filter. A transposed convolution's output has
 * not the weights' first size as its channels: the roles of input and output are exchanged. */
static int64_t conv_flops(const struct input *in, const struct input *weight,
                          const struct input *out)
{
    if (weight->n_dims < 2 || weight->dim[0] < 1 || out->n_dims < 2)
        return INT64_MAX;
    const struct input *sums = out->dim[1] == weight->dim[0] ? out : in;
    return lw_mul_sat(lw_mul_sat(2, sums->numel), weight->numel / weight->dim[0]);
}

static bool same_sizes(const struct input *a, const struct input *b)
{
    return a->n_dims == b->n_dims && a->numel == b->numel &&
           memcmp(a->dim, b->dim, sizeof a->dim) == 0;
}

/* With one input alone two kinds of the same sizes are told apart by nothing: the first counts. */
static const struct input *conv_output(struct counter *c, const struct input *in,
                                       const struct input *weight)
{
    for (int64_t i = 0; i < c->n_convs; i++)
        if (same_sizes(&c->convs[i].input, in) && same_sizes(&c->convs[i].weight, weight))
            return &c->convs[i].output;
    c->counts->n_conv_guessed++;
    return in;
}

static struct lw_recorded_op counted(const struct input *x, uint8_t kind, int64_t flops,
                                     int64_t bytes)
{
    return (struct lw_recorded_op){.kind = kind, .dtype = (uint8_t)x->dtype, .flops = flops,
                                   .bytes = bytes};
}

static bool make_conv(struct counter *c, const struct inputs *x, struct lw_recorded_op *op)
{
    if (x->n < 2 || x->of[0].numel == 0 || x->of[1].numel == 0)
        return false;
    const struct input *in = &x->of[0], *weight = &x->of[1], *out = conv_output(c, in, weight);
    struct input guess = *out;
    if (out == in && weight->n_dims > 1 && in->n_dims > 1 && in->dim[1] > 0) {
        guess.numel = lw_mul_sat(in->numel / in->dim[1], weight->dim[0]);
        guess.dim[1] = weight->dim[0];
    }
    *op = counted(in, LW_KERNEL_COUNTED, conv_flops(in, weight, &guess),
                  lw_add_sat(lw_add_sat(bytes_of(in), bytes_of(weight)), bytes_of(&guess)));
    return true;
}

/* As many products of the forward's size as there are gradients of the two: the mask of values. */
static bool make_conv_backward(const struct counter *c, int64_t row, const struct inputs *x,
                               struct lw_recorded_op *op)
{
    const struct lw_row_detail *d = lw_trace_detail(c->t, row);
    const char *values = d->input_values > 0 ? lw_trace_text(c->t, d->input_values - 1) : "";
    int64_t n = strstr(values, "[False, True") || strstr(values, "[True, False") ? 1 : 2;

    if (x->n < 3 || x->of[0].numel == 0 || x->of[1].numel == 0 || x->of[2].numel == 0)
        return false;
    int64_t flops = conv_flops(&x->of[1], &x->of[2], &x->of[0]);
    int64_t bytes = lw_add_sat(lw_add_sat(bytes_of(&x->of[0]), bytes_of(&x->of[1])),
                               bytes_of(&x->of[2]));
    *op = counted(&x->of[1], LW_KERNEL_COUNTED, lw_mul_sat(n, flops), lw_mul_sat(n, bytes));
    return true;
}

static bool make_product(const struct input *a, const struct input *b, struct lw_recorded_op *op)
{
    int d = a->n_dims;

    if ((d != 2 && d != 3) || b->n_dims != d || a->dim[d - 1] != b->dim[d - 2] ||
        (d == 3 && a->dim[0] != b->dim[0]))
        return false;
    *op = (struct lw_recorded_op){.kind = LW_KERNEL_GEMM, .dtype = (uint8_t)a->dtype,
                                  .batch = d == 3 ? a->dim[0] : 1, .m = a->dim[d - 2],
                                  .n = b->dim[d - 1], .k = a->dim[d - 1]};
    return true;
}

static bool make_linear(const struct input *x, const struct input *weight,
                        struct lw_recorded_op *op)
{
    if (weight->n_dims != 2 || weight->dim[1] < 1 || x->numel % weight->dim[1] != 0)
        return false;
    *op = (struct lw_recorded_op){.kind = LW_KERNEL_GEMM, .dtype = (uint8_t)x->dtype, .batch = 1,
                                  .m = x->numel / weight->dim[1], .n = weight->dim[0],
                                  .k = weight->dim[1]};
    return true;
}

/* Of batch x heads x tokens x width. Queries and keys of different length have no kernel by shape:
 * FLOPs and bytes. */
static bool make_attention(const struct lw_trace *t, int64_t row, const struct kind *k,
                           const struct inputs *x, struct lw_recorded_op *op)
{
    if (x->n < k->first + 3)
        return false;
    const struct input *q = &x->of[k->first], *keys = q + 1, *v = q + 2;
    if (q->n_dims != 4 || keys->n_dims != 4 || v->n_dims != 4)
        return false;
    bool causal = is_true(t, row, k->causal);
    *op = (struct lw_recorded_op){.kind = LW_KERNEL_ATTENTION, .dtype = (uint8_t)q->dtype,
                                  .batch = q->dim[0], .m = q->dim[2], .heads = q->dim[1],
                                  .kv_heads = keys->dim[1], .qk_width = q->dim[3],
                                  .v_width = v->dim[3], .causal = causal, .backward = k->backward};
    if (q->dim[2] == keys->dim[2])
        return true;
    int64_t scores = lw_mul_sat(lw_mul_sat(q->numel / (q->dim[3] > 0 ? q->dim[3] : 1),
                                           keys->dim[2]),
                                lw_add_sat(q->dim[3], v->dim[3]));
    int64_t bytes = lw_add_sat(lw_mul_sat(2, bytes_of(q)), lw_add_sat(bytes_of(keys),
                                                                      bytes_of(v)));
    *op = counted(q, LW_KERNEL_COUNTED, lw_mul_sat(k->backward ? 5 : 2, scores),
                  lw_mul_sat(k->backward ? 2 : 1, bytes));
    return true;
}

static const struct input *largest_of(const struct inputs *x)
{
    const struct input *most = NULL;

    for (int i = 0; i < x->n; i++)
        if (x->of[i].numel > 0 && (!most || bytes_of(&x->of[i]) > bytes_of(most)))
            most = &x->of[i];
    return most;
}

/* Rows of a table by their numbers: read and written, with the numbers. */
static int64_t gather_bytes(const struct inputs *x)
{
    const struct input *table = &x->of[0], *rows = NULL;

    for (int i = 1; i < x->n; i++)
        if (x->of[i].numel > 0)
            rows = &x->of[i];
    if (!rows || table->n_dims < 1 || table->dim[0] < 1)
        return -1;
    return lw_add_sat(bytes_of(rows),
                      lw_mul_sat(2, lw_mul_sat(rows->numel, bytes_of(table) / table->dim[0])));
}

static bool make_traffic(const struct kind *k, const struct inputs *x, struct lw_recorded_op *op)
{
    const struct input *most = largest_of(x);
    int64_t bytes = 0;

    if (!most)
        return false;
    for (int i = 0; i < x->n; i++)
        bytes = lw_add_sat(bytes, bytes_of(&x->of[i]));
    if (k->what == WRITE)
        bytes = bytes_of(&x->of[0]);
    else if (k->what == GATHER)
        bytes = gather_bytes(x);
    else if (k->what != READ && k->what != COPY)
        bytes = lw_add_sat(bytes, bytes_of(most));
    if (bytes <= 0)
        return false;
    *op = counted(most, LW_KERNEL_TRAFFIC, 0, bytes);
    return true;
}

static bool make_op(struct counter *c, int64_t row, const struct kind *k, const struct inputs *x,
                    struct lw_recorded_op *op)
{
    switch (k->what) {
    case PRODUCT:
        return x->n > k->first + 1 && make_product(&x->of[k->first], &x->of[k->first + 1], op);
    case LINEAR:
        return x->n > 1 && make_linear(&x->of[0], &x->of[1], op);
    case CONV:
        return make_conv(c, x, op);
    case CONV_BACKWARD:
        return make_conv_backward(c, row, x, op);
    case ATTENTION:
        return make_attention(c->t, row, k, x, op);
    default:
        return make_traffic(k, x, op);
    }
}

/* --- a thread of a phase ---------------------------------------------------------------------- */

static bool is_whole(enum what what)
{
    return what == PRODUCT || what == CONV || what == CONV_BACKWARD || what == ATTENTION ||
           what == GATHER;
}

static int32_t module_of(const struct counter *c, int64_t row)
{
    if (!c->backward) {
        int32_t n = (int32_t)lw_values_upto(c->g->start_ns, c->g->n, c->t->start_ns[row]);
        return n > 0 ? n - 1 : 0;
    }
    return c->node >= 0 ? c->g->of_node[c->node] : c->g->n - 1;
}

static void keep(struct counter *c, int64_t row, const struct kind *k)
{
    struct inputs x;
    struct kept *to;

    if (!inputs_of(c->t, row, &x))
        return;
    const struct input *most = largest_of(&x);
    if (lw_reserve(&c->kept, &c->kept_capacity, c->n_kept + 1, sizeof *c->kept) != 0) {
        c->no_memory = true;
        return;
    }
    to = &c->kept[c->n_kept];
    *to = (struct kept){.module = module_of(c, row), .largest = most ? most->numel : 0};
    if (!most || !make_op(c, row, k, &x, &to->op)) {
        c->counts->n_left += is_whole(k->what);
        return;
    }
    to->op.backward = c->backward;
    if (lw_recorded_op_check(&to->op, 0, NULL) != LW_OK) {
        c->counts->n_left++;
        return;
    }
    c->n_kept++;
}

/* Elements of the largest that counts inside an operator. */
static int64_t largest_inside(const struct counter *c, int64_t from)
{
    int64_t most = 0;

    for (int64_t i = from; i < c->n_kept; i++)
        most = c->kept[i].largest > most ? c->kept[i].largest : most;
    return most;
}

/* An operator has ended. Numbers that are made tensors inside it (one element) are no work. */
static void end_op(struct counter *c, const struct nested *e)
{
    const struct kind *k = kind_of(lw_trace_name(c->t, e->row) + strlen("aten::"));
    int64_t inside = largest_inside(c, e->n_kept), n = c->n_kept;

    if (k->what == VIEW)
        return;
    if (is_whole(k->what) || inside <= 1)
        c->n_kept = e->n_kept;
    else if (k->what != SCATTER)
        return;
    int64_t before = c->n_kept;
    keep(c, e->row, k);
    if (c->n_kept == before)
        c->n_kept = n; /* it cannot be told what it does: what is inside counts */
}

static void end_until(struct counter *c, int64_t ns)
{
    while (c->depth > 0 && c->stack[c->depth - 1].end_ns <= ns)
        end_op(c, &c->stack[--c->depth]);
}

/* Inside the engine's node of a gradient, after it was accumulated: a wrapper's hooks. */
static bool is_of_hook(struct counter *c, int64_t ns)
{
    const struct lw_gradient *g = c->s->gradients;

    while (c->gradient + 1 < c->s->n_gradients && g[c->gradient + 1].node_start_ns <= ns)
        c->gradient++;
    return c->gradient >= 0 && ns < g[c->gradient].node_end_ns &&
           ns >= lw_trace_end_ns(c->t, g[c->gradient].row);
}

static bool is_left_out(struct counter *c, int64_t ns)
{
    if (!c->parallel)
        return false;
    return c->backward ? is_of_hook(c, ns) : c->g->n > 0 && ns < c->g->start_ns[0];
}

static void note_conv(struct counter *c, int64_t row)
{
    struct inputs x;

    if (strcmp(lw_trace_name(c->t, row), "aten::convolution_backward") != 0 ||
        !inputs_of(c->t, row, &x) || x.n < 3)
        return;
    c->no_memory |= lw_reserve(&c->convs, &c->convs_capacity, c->n_convs + 1,
                               sizeof *c->convs) != 0;
    if (!c->no_memory)
        c->convs[c->n_convs++] = (struct conv_shape){x.of[0], x.of[1], x.of[2]};
}

static bool is_of(const struct counter *c, int64_t row, int32_t thread)
{
    return c->t->class[row] == LW_ROW_HOST && c->t->track[row] == thread &&
           lw_trace_name_begins(c->t, row, "aten::");
}

static void count_phase(struct counter *c, int64_t from_ns, int64_t to_ns, int32_t thread)
{
    int64_t to = lw_trace_row_at(c->t, to_ns);

    c->depth = 0;
    c->node = c->gradient = -1;
    for (int64_t i = lw_trace_row_at(c->t, from_ns); i < to && !c->no_memory; i++) {
        int64_t ns = c->t->start_ns[i];
        if (!is_of(c, i, thread))
            continue;
        end_until(c, ns);
        while (c->backward && c->node + 1 < c->s->n_nodes &&
               c->t->start_ns[c->s->nodes[c->node + 1]] <= ns)
            c->node++;
        if (is_left_out(c, ns))
            continue;
        c->counts->n_sized += lw_trace_detail(c->t, i)->input_sizes > 0;
        if (c->depth < MAX_NESTED)
            c->stack[c->depth++] = (struct nested){i, lw_trace_end_ns(c->t, i), c->n_kept};
    }
    end_until(c, INT64_MAX);
}

/* --- the workload's lists --------------------------------------------------------------------- */

static int32_t index_of(struct lw_workload *w, const struct lw_recorded_op *op)
{
    for (int32_t i = 0; i < w->n_ops; i++)
        if (memcmp(&w->ops[i], op, sizeof *op) == 0)
            return i;
    w->ops[w->n_ops] = *op;
    return w->n_ops++;
}

/* Kept are of the forward first, then of the backward: it goes from the last to the first. */
static enum lw_status list_ops(struct counter *c, int64_t n_forward, struct lw_err *err)
{
    struct lw_workload *w = c->w;

    LW_TAKE(&w->arena, w->ops, c->n_kept, err);
    for (int64_t i = 0; i < c->n_kept; i++)
        w->modules[c->kept[i].module].n_ops++;
    for (int32_t m = 0; m < w->n_modules; m++) {
        LW_TAKE(&w->arena, w->modules[m].ops, w->modules[m].n_ops, err);
        w->modules[m].n_ops = 0;
    }
    for (int64_t i = 0; i < c->n_kept; i++) {
        const struct kept *x =
            &c->kept[i < n_forward ? i : c->n_kept - 1 - (i - n_forward)];
        struct lw_module *m = &w->modules[x->module];
        m->ops[m->n_ops++] = index_of(w, &x->op);
    }
    c->counts->n_counted = c->n_kept;
    return LW_OK;
}

enum lw_status traces_ops_count(const struct lw_trace *t, const struct lw_step *s,
                                const struct traces_segments *segments, bool parallel,
                                struct lw_workload *w, struct traces_op_counts *counts,
                                struct lw_err *err)
{
    const struct lw_phase_span *f = &s->phase[LW_PHASE_FORWARD], *b = &s->phase[LW_PHASE_BACKWARD];
    struct counter c = {.t = t, .s = s, .g = segments, .w = w, .counts = counts,
                        .parallel = parallel};

    *counts = (struct traces_op_counts){0};
    if (segments->cut == TRACES_CUT_GRADIENTS || s->n_compiled > 0 || !f->found || !b->found)
        return LW_OK;
    for (int64_t i = lw_trace_row_at(t, b->start_ns), n = lw_trace_row_at(t, b->end_ns); i < n; i++)
        note_conv(&c, i);
    count_phase(&c, f->start_ns, f->end_ns < b->start_ns ? f->end_ns : b->start_ns, s->thread);
    int64_t n_forward = c.n_kept;
    c.backward = true;
    count_phase(&c, b->start_ns, b->end_ns, s->backward_thread);
    enum lw_status status = c.no_memory ? lw_fail_nomem(err) : LW_OK;
    if (status == LW_OK && c.n_kept > 0)
        status = list_ops(&c, n_forward, err);
    lw_free(c.kept);
    lw_free(c.convs);
    return status;
}
