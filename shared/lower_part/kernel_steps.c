/* The steps of a module with kernels: it is cut where they end, so what is exchanged stands at the
 * kernel that needs it. Only the order of kernels decides; times say how long each work is.
 *
 * A module may last longer than its kernels (the host launches them): every kernel then does, by
 * the same factor. In backward kernels run from the last to the first, each with its input's
 * gradient before its weights'. With --tp-overlap the products that read what was gathered make all
 * gradients of their input first, and the sum of these runs beside the gradients of their weights
 * (Megatron-LM has one product there); their gathers, and the sum after a row product, are in
 * pieces as docs/design/lower_overlap.md says. */
#include "shared/lower_part/lower_part.h"

#include "shared/plan/op_bound.h"

enum { FORWARD = 1 << LW_PRODUCTS_FORWARD, INPUT = 1 << LW_PRODUCTS_INPUT,
       WEIGHT = 1 << LW_PRODUCTS_WEIGHT, BACKWARD = INPUT | WEIGHT };

bool lw_has_kernels(const struct lw_workload *w, const struct lw_module *m)
{
    return w->by_kernels && m->n_kernels > 0 && !m->measured;
}

/* --- where kernels begin and end -------------------------------------------------------------- */

struct spans {
    const struct lw_module *m;
    const struct lw_kernel *k;
    const struct lw_kernel_times *t;
    int32_t n;
};

static struct spans spans_of(const struct lw_workload *w, const struct lw_module *m)
{
    return (struct spans){m, w->kernels + m->first_kernel, w->kernel_times + m->first_kernel,
                          m->n_kernels};
}

/* Of the first n kernels. */
static lw_ps upto(const struct spans *s, int32_t n, int phase)
{
    return n < s->n ? s->t[n].before[phase] : s->t[n - 1].before[phase] + s->t[n - 1].ps[phase];
}

/* Of kernels from..to - 1. */
static lw_ps sum_of(const struct spans *s, int32_t from, int32_t to, unsigned phases)
{
    lw_ps sum = 0;

    for (int f = 0; f < LW_N_PRODUCT_PHASES; f++)
        sum += phases >> f & 1 ? upto(s, to, f) - upto(s, from, f) : 0;
    return sum;
}

static lw_ps window_of(const struct spans *s, unsigned phases)
{
    return phases == FORWARD ? s->m->forward_ps
                             : (phases & INPUT ? s->m->backward_input_ps : 0) +
                                   (phases & WEIGHT ? s->m->backward_weight_ps : 0);
}

/* When kernels have taken so long together. */
static lw_ps moment(const struct spans *s, lw_ps taken, unsigned phases)
{
    lw_ps all = sum_of(s, 0, s->n, phases);

    return all > 0 ? (lw_ps)((__int128)window_of(s, phases) * taken / all) : 0;
}

/* Kernel k begins. */
static lw_ps forward_at(const struct spans *s, int32_t k)
{
    return moment(s, sum_of(s, 0, k, FORWARD), FORWARD);
}

/* Backward of kernel k has ended: that of kernel k - 1 begins. */
static lw_ps back_at(const struct spans *s, int32_t k, unsigned phases)
{
    return moment(s, sum_of(s, k, s->n, phases), phases);
}

static bool is_dense(const struct lw_kernel *k)
{
    return k->kind == LW_KERNEL_GEMM && k->experts == 0 && !k->both;
}

static bool is_column(const struct lw_kernel *k)
{
    return is_dense(k) && (k->split == LW_SPLIT_COLUMN || k->split == LW_SPLIT_VOCAB);
}

static bool is_row(const struct lw_kernel *k)
{
    return is_dense(k) && k->split == LW_SPLIT_ROW;
}

/* Kernels from k on that read what is gathered before it: the end of them. */
static int32_t readers_end(const struct spans *s, int32_t k)
{
    int32_t end = k + 1;

    while (is_dense(&s->k[k]) && end < s->n && is_column(&s->k[end]) && s->k[end].gathered == 0)
        end++;
    return end;
}

/* The first kernel of those that kernel k reads with, where gradients of weights come last; -1 =
 * its own gradients are together. */
static int32_t readers_of(const struct spans *s, const struct lw_strategy *of, int32_t k)
{
    int32_t head = k;

    if (of->tp == 1 || of->tp_overlap == LW_TP_OVERLAP_OFF)
        return -1;
    while (head > 0 && s->k[head].gathered == 0)
        head--;
    return s->k[head].gathered > 0 && is_dense(&s->k[head]) && k < readers_end(s, head) ? head : -1;
}

/* When the gradients of weights begin of readers head..end - 1. */
static lw_ps taken_by_inputs(const struct spans *s, int32_t head)
{
    int32_t end = readers_end(s, head);

    return sum_of(s, head, s->n, BACKWARD) - sum_of(s, head, end, WEIGHT);
}

/* What the backward has taken when both gradients of kernel k are there. */
static lw_ps taken_by_weights(const struct spans *s, const struct lw_strategy *of, int32_t k)
{
    int32_t head = readers_of(s, of, k);

    return head < 0 ? sum_of(s, k, s->n, BACKWARD)
                    : taken_by_inputs(s, head) + sum_of(s, k, readers_end(s, head), WEIGHT);
}

lw_ps lw_kernel_ready(const struct lw_workload *w, const struct lw_strategy *of,
                      const struct lw_module *m, int32_t kernel)
{
    const struct spans s = spans_of(w, m);

    return moment(&s, taken_by_weights(&s, of, kernel), BACKWARD);
}

lw_ps lw_kernel_start(const struct lw_workload *w, const struct lw_module *m, int32_t kernel)
{
    const struct spans s = spans_of(w, m);

    return forward_at(&s, kernel);
}

void lw_kernel_module_times(const struct lw_workload *w, struct lw_module *m)
{
    const struct spans s = spans_of(w, m);
    int32_t first = 0, end;

    m->forward_ps = sum_of(&s, 0, s.n, FORWARD) + m->bound_ps[0][LW_BOUND_HOST];
    m->backward_input_ps = sum_of(&s, 0, s.n, INPUT) + m->bound_ps[1][LW_BOUND_HOST];
    m->backward_weight_ps = sum_of(&s, 0, s.n, WEIGHT);
    m->selective_ps = 0;
    for (int32_t k = 0; k < s.n; k++)
        m->selective_ps += s.k[k].again ? s.t[k].ps[LW_PRODUCTS_FORWARD] : 0;
    for (end = s.n; end > 0 && s.k[end - 1].unrepeated;)
        end--;
    m->unrepeated_ps = m->forward_ps - (end < s.n ? forward_at(&s, end) : m->forward_ps);
    while (first < s.n && !s.k[first].attention)
        first++;
    for (end = first; end < s.n && s.k[end].attention; end++)
        continue;
    m->attention_start_ps = first < end ? forward_at(&s, first) : 0;
    m->attention_ps = first < end ? forward_at(&s, end) - m->attention_start_ps : 0;
    m->attention_backward_start_ps = first < end ? back_at(&s, end, BACKWARD) : 0;
    m->attention_backward_ps =
        first < end ? back_at(&s, first, BACKWARD) - m->attention_backward_start_ps : 0;
}

/* --- steps ------------------------------------------------------------------------------------ */

struct maker {
    struct spans s;
    const struct lw_part *d;
    struct lw_step_list *l;
    lw_ps last, length; /* works so far end here, of all */
    bool marks;         /* in place of works, each step has its time */
};

static struct maker maker_of(const struct lw_part *d, int32_t module, struct lw_step_list *l,
                             unsigned phases)
{
    const struct spans s = spans_of(d->w, lw_module_at(d->w, module));

    return (struct maker){.s = s, .d = d, .l = l, .length = window_of(&s, phases)};
}

static void work_to(struct maker *k, lw_ps to)
{
    if (k->marks || to <= k->last)
        return;
    lw_step_add(k->l, (struct lw_step){.kind = LW_STEP_WORK, .share = {k->last, to, k->length}});
    k->last = to;
}

/* A module that takes no time has an op too. */
static void end_works(struct maker *k)
{
    work_to(k, k->length);
    if (k->last == 0)
        lw_step_add(k->l, (struct lw_step){.kind = LW_STEP_WORK, .share = {0, 1, 1}});
}

static void add(struct maker *k, lw_ps at, enum lw_step_kind kind, int64_t bytes)
{
    work_to(k, at);
    lw_step_add(k->l, (struct lw_step){.kind = kind, .bytes = bytes, .share = {at, at, k->length}});
}

/* A context group divides the tokens. */
static int64_t bytes_of(const struct maker *k, int64_t all)
{
    return (all + k->d->s->cp - 1) / k->d->s->cp;
}

/* Of a gather of the kernel's input, which may be of operands. */
static int64_t gathered_of(const struct maker *k, const struct lw_kernel *x)
{
    return bytes_of(k, x->gathered_operand > 0 ? x->gathered_operand : x->gathered);
}

/* Of a gather of its result's gradient, which may be of operands too. */
static int64_t gradient_of(const struct maker *k, const struct lw_kernel *x)
{
    return bytes_of(k, x->summed_operand > 0 ? x->summed_operand : x->summed);
}

static bool scatters(const struct maker *k)
{
    return k->d->s->tp > 1 && k->d->s->sequence_parallel;
}

static bool in_pieces(const struct maker *k, lw_ps length)
{
    return lw_overlaps_pieces(k->d->s) && length >= LW_TENSOR_PIECES;
}

static bool begins_attention(const struct spans *s, int32_t k)
{
    return s->k[k].attention && (k == 0 || !s->k[k - 1].attention);
}

static bool ends_attention(const struct spans *s, int32_t k)
{
    return s->k[k].attention && (k + 1 == s->n || !s->k[k + 1].attention);
}

/* --- forward ---------------------------------------------------------------------------------- */

static void gather(struct maker *k, int32_t i)
{
    lw_ps begin = forward_at(&k->s, i), end = forward_at(&k->s, readers_end(&k->s, i));
    int64_t bytes = gathered_of(k, &k->s.k[i]);

    if (!is_column(&k->s.k[i]) || !in_pieces(k, end - begin)) {
        add(k, begin, LW_STEP_GATHER, bytes);
        return;
    }
    add(k, begin, LW_STEP_GATHERS, bytes);
    for (int64_t p = 1; p < LW_TENSOR_PIECES; p++)
        add(k, begin + (end - begin) * p / LW_TENSOR_PIECES, LW_STEP_GATHERED, 0);
    work_to(k, end);
}

static void sum(struct maker *k, int32_t i)
{
    const int64_t n = LW_TENSOR_PIECES, bytes = bytes_of(k, k->s.k[i].summed);
    lw_ps begin = forward_at(&k->s, i), end = forward_at(&k->s, i + 1);

    if (!is_row(&k->s.k[i]) || !in_pieces(k, end - begin)) {
        add(k, end, LW_STEP_SUM, bytes);
        return;
    }
    work_to(k, begin);
    for (int64_t p = 0; p < n; p++) {
        if (p > 0)
            add(k, k->last, LW_STEP_BESIDE, 0);
        add(k, begin + (end - begin) * (p + 1) / n, LW_STEP_SUM,
            bytes * (p + 1) / n - bytes * p / n);
    }
}

static void attend(struct maker *k, int32_t i)
{
    const struct lw_ring ring = lw_ring_of(k->d->s, k->s.m);

    if (lw_part_gathers_keys(k->d, k->s.m))
        add(k, forward_at(&k->s, i), LW_STEP_KEYS, 0);
    for (int32_t step = 0; step < ring.n_steps; step++) {
        work_to(k, lw_ring_end(&ring, step));
        lw_step_add(k->l, (struct lw_step){.kind = LW_STEP_RING, .which = step});
    }
    work_to(k, ring.n_steps > 0 ? lw_ring_end(&ring, ring.n_steps) : 0);
}

void lw_kernel_forward(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    struct maker k = maker_of(d, module, l, FORWARD);

    for (int32_t i = 0; i < k.s.n; i++) {
        const struct lw_kernel *x = &k.s.k[i];
        if (x->tokens == LW_TOKENS_SENT_BEFORE && d->s->ep > 1)
            add(&k, forward_at(&k.s, i), LW_STEP_SENT, 0);
        if (x->gathered > 0 && scatters(&k))
            gather(&k, i);
        if (begins_attention(&k.s, i))
            attend(&k, i);
        if (x->summed > 0 && d->s->tp > 1)
            sum(&k, i);
        if (x->tokens == LW_TOKENS_BACK_AFTER && d->s->ep > 1)
            add(&k, forward_at(&k.s, i + 1), LW_STEP_BACK, 0);
    }
    end_works(&k);
}

/* --- backward --------------------------------------------------------------------------------- */

static bool is_whole(unsigned phases)
{
    return phases == BACKWARD;
}

/* Before the backward of kernel i. */
static void enter(struct maker *k, int32_t i, unsigned phases)
{
    const struct lw_kernel *x = &k->s.k[i];
    const lw_ps begin = back_at(&k->s, i + 1, phases);
    const lw_ps input = moment(&k->s, k->s.t[i].ps[LW_PRODUCTS_INPUT], phases);
    bool pieces = is_whole(phases) && is_row(x) && in_pieces(k, input);
    int32_t head = i;

    if (x->tokens == LW_TOKENS_BACK_AFTER && k->d->s->ep > 1)
        add(k, begin, LW_STEP_BACK, 0);
    if (x->summed > 0 && scatters(k))
        add(k, begin, pieces ? LW_STEP_GATHERS : LW_STEP_GATHER, gradient_of(k, x));
    for (int64_t p = 1; x->summed > 0 && scatters(k) && pieces && p < LW_TENSOR_PIECES; p++)
        add(k, begin + input * p / LW_TENSOR_PIECES, LW_STEP_GATHERED, 0);
    while (head > 0 && k->s.k[head].gathered == 0)
        head--;
    if (is_whole(phases) && scatters(k) && k->s.k[head].gathered > 0 &&
        readers_end(&k->s, head) == i + 1)
        add(k, begin, LW_STEP_SAVED, gathered_of(k, &k->s.k[head]));
    if (ends_attention(&k->s, i) && lw_part_gathers_keys(k->d, k->s.m))
        add(k, begin, LW_STEP_KEYS, 0);
}

/* After it. */
static void leave(struct maker *k, int32_t i, unsigned phases)
{
    const struct lw_kernel *x = &k->s.k[i];
    const lw_ps end = back_at(&k->s, i, phases);
    bool beside = is_whole(phases) && readers_of(&k->s, k->d->s, i) == i;

    if (begins_attention(&k->s, i) && lw_part_gathers_keys(k->d, k->s.m))
        add(k, end, LW_STEP_KEY_GRADS, 0);
    if (x->gathered > 0 && k->d->s->tp > 1) {
        lw_ps at = beside ? moment(&k->s, taken_by_inputs(&k->s, i), phases) : end;
        add(k, at, LW_STEP_SUM, bytes_of(k, x->gathered));
        if (beside) {
            add(k, at, LW_STEP_BESIDE, 0);
            add(k, end, LW_STEP_SUMMED, 0);
        }
    }
    if (x->tokens == LW_TOKENS_SENT_BEFORE && k->d->s->ep > 1)
        add(k, end, LW_STEP_SENT, 0);
}

static void add_ring(struct maker *k)
{
    const struct lw_ring ring = lw_ring_of(k->d->s, k->s.m);

    for (int32_t i = 0; ring.n_steps > 0 && i <= ring.n_steps; i++)
        add(k, lw_ring_backward_end(&ring, i), LW_STEP_RING, 0);
}

static void all_backward(struct maker *k, unsigned phases)
{
    for (int32_t i = k->s.n - 1; i >= 0; i--) {
        enter(k, i, phases);
        if (is_whole(phases) && ends_attention(&k->s, i))
            add_ring(k);
        leave(k, i, phases);
    }
}

void lw_kernel_input(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    struct maker k = maker_of(d, module, l, INPUT);

    all_backward(&k, INPUT);
    end_works(&k);
}

void lw_kernel_weight(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    struct maker k = maker_of(d, module, l, WEIGHT);

    for (int32_t i = k.s.n - 1; i >= 0; i--)
        if (k.s.k[i].gathered > 0 && scatters(&k))
            add(&k, 0, LW_STEP_GATHER, gathered_of(&k, &k.s.k[i]));
    end_works(&k);
}

void lw_kernel_marks(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    struct maker k = maker_of(d, module, l, BACKWARD);

    k.marks = true;
    all_backward(&k, BACKWARD);
}

/* --- products --------------------------------------------------------------------------------- */

/* What a direction of such phases has taken when a phase of kernel k begins. */
static lw_ps taken_before(const struct spans *s, const struct lw_strategy *of, int32_t k, int phase,
                          unsigned phases)
{
    int32_t head = phases == BACKWARD ? readers_of(s, of, k) : -1;

    if (phases == FORWARD)
        return sum_of(s, 0, k, FORWARD);
    if (phases != BACKWARD)
        return sum_of(s, k + 1, s->n, phases);
    lw_ps end = taken_by_weights(s, of, k);
    if (phase == LW_PRODUCTS_WEIGHT)
        return end - s->t[k].ps[phase];
    if (head >= 0)
        end = taken_by_inputs(s, head) - sum_of(s, head, k, INPUT);
    else
        end -= s->t[k].ps[LW_PRODUCTS_WEIGHT];
    return end - s->t[k].ps[phase];
}

/* Middle of a kernel's phase, in a direction of such phases. */
static lw_ps middle(const struct spans *s, const struct lw_strategy *of, int32_t k, int phase,
                    unsigned phases)
{
    lw_ps half = s->t[k].ps[phase] / 2;

    return moment(s, taken_before(s, of, k, phase, phases) + half, phases);
}

/* The last share is closed: a kernel that takes no time may be at the end of the window. */
static bool is_in(struct lw_share x, lw_ps at)
{
    return x.of == 1 || (at >= x.from && (at < x.to || (x.from < x.to && x.to == x.of)));
}

void lw_kernel_products(const struct lw_part *d, struct lw_builder *b, int32_t module,
                        unsigned phases, struct lw_share share)
{
    const struct spans s = spans_of(d->w, lw_module_at(d->w, module));
    int32_t done[LW_N_PRODUCT_PHASES] = {0};
    bool forward = phases == FORWARD;

    for (int32_t i = 0; i < s.n; i++) {
        int32_t k = forward ? i : s.n - 1 - i;
        for (int f = 0; f < LW_N_PRODUCT_PHASES; f++) {
            bool here = phases >> f & 1 && is_in(share, middle(&s, d->s, k, f, phases));
            for (int32_t p = 0; p < s.t[k].n_products[f]; p++, done[f]++)
                if (here)
                    lw_builder_work_product(
                        b, s.m->products[f][forward ? done[f]
                                                    : s.m->n_products[f] - 1 - done[f]]);
        }
    }
}

/* --- bounds ----------------------------------------------------------------------------------- */

static lw_ps place_in(lw_ps window, int64_t at, int64_t of)
{
    return of > 0 ? (lw_ps)((__int128)window * at / of) : 0;
}

/* Of a range of the window, what a host that waits for kernels adds is the host's: kernels were
 * stretched over it. */
static void take_out_host(const struct spans *s, unsigned phases, lw_ps range,
                          lw_ps weights[LW_N_BOUNDS])
{
    lw_ps added = s->m->bound_ps[phases != FORWARD][LW_BOUND_HOST], window = window_of(s, phases);

    if (added <= 0 || added > window || phases == WEIGHT) /* it is the input half's */
        return;
    for (int k = 0; k < LW_N_BOUNDS; k++)
        range -= weights[k] = place_in(window - added, weights[k], window);
    weights[LW_BOUND_HOST] = range;
}

enum lw_time_source lw_kernel_bounds(const struct lw_part *d, int32_t module, unsigned phases,
                                     struct lw_share share, lw_ps weights[LW_N_BOUNDS])
{
    const struct spans s = spans_of(d->w, lw_module_at(d->w, module));
    lw_ps from = place_in(window_of(&s, phases), share.from, share.of);
    lw_ps to = place_in(window_of(&s, phases), share.to, share.of), longest = 0;
    lw_ps by_source[LW_N_TIME_SOURCES] = {0}, by[LW_N_BOUNDS];
    enum lw_time_source source = LW_TIME_GIVEN;

    for (int32_t k = 0; k < s.n; k++)
        for (int f = 0; f < LW_N_PRODUCT_PHASES; f++) {
            if (!(phases >> f & 1) || s.t[k].ps[f] == 0)
                continue;
            lw_ps taken = taken_before(&s, d->s, k, f, phases);
            lw_ps begin = moment(&s, taken, phases);
            lw_ps end = moment(&s, taken + s.t[k].ps[f], phases);
            begin = begin > from ? begin : from;
            end = end < to ? end : to;
            if (begin >= end)
                continue;
            lw_apportion(end - begin, s.t[k].by[f], LW_N_BOUNDS, by);
            for (int b = 0; b < LW_N_BOUNDS; b++)
                weights[b] += by[b];
            by_source[s.t[k].source] += end - begin;
        }
    for (int x = 0; x < LW_N_TIME_SOURCES; x++)
        if (by_source[x] > longest) {
            longest = by_source[x];
            source = (enum lw_time_source)x;
        }
    take_out_host(&s, phases, to - from, weights);
    return source;
}
