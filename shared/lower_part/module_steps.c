/* The steps of a part's modules. In a backward that is not split, stretches (which end where
 * gradients are ready) are cut where a step comes inside them; a step at the end of one is after
 * it. Invariant: stretches tile the backward as before. */
#include "shared/lower_part/lower_part.h"

#include <string.h>

void lw_step_add(struct lw_step_list *l, struct lw_step step)
{
    l->no_memory = l->no_memory || lw_reserve(&l->v, &l->capacity, l->n + 1, sizeof *l->v);
    if (!l->no_memory)
        l->v[l->n++] = step;
}

int32_t lw_steps_works(struct lw_steps s)
{
    int32_t n = 0;

    for (int32_t i = 0; i < s.n; i++)
        n += s.v[i].kind == LW_STEP_WORK;
    return n;
}

bool lw_part_gathers_keys(const struct lw_part *d, const struct lw_module *m)
{
    return d->s->cp > 1 && m->kv_bytes > 0 && d->s->cp_comm != LW_CP_P2P;
}

/* --- one list for each module ----------------------------------------------------------------- */

typedef void make_fn(const struct lw_part *d, int32_t module, struct lw_step_list *l);

static bool has_groups(const struct lw_part *d)
{
    return d->s->tp > 1 || d->s->cp > 1 || d->s->ep > 1;
}

static bool has_kernels(const struct lw_part *d, int32_t module)
{
    return lw_has_kernels(d->w, lw_module_at(d->w, module));
}

static void forward_of(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    (has_kernels(d, module) ? lw_kernel_forward : lw_measured_forward)(d, module, l);
}

static void input_of(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    (has_kernels(d, module) ? lw_kernel_input : lw_measured_input)(d, module, l);
}

static void weight_of(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    (has_kernels(d, module) ? lw_kernel_weight : lw_measured_weight)(d, module, l);
}

static void marks_of(const struct lw_part *d, int32_t module, struct lw_step_list *l)
{
    (has_kernels(d, module) ? lw_kernel_marks : lw_measured_marks)(d, module, l);
}

static enum lw_status keep(struct lw_part *d, const struct lw_step_list *l, struct lw_steps *out,
                           struct lw_err *err)
{
    struct lw_step *v;

    if (l->no_memory)
        return lw_fail_nomem(err);
    LW_TAKE(&d->arena, v, l->n, err);
    if (l->n > 0) /* without steps there is no list */
        memcpy(v, l->v, (size_t)l->n * sizeof *v);
    *out = (struct lw_steps){v, l->n};
    return LW_OK;
}

static enum lw_status make_all(struct lw_part *d, make_fn *make, struct lw_steps **out,
                               struct lw_step_list *l, struct lw_err *err)
{
    static const struct lw_step whole = {.kind = LW_STEP_WORK, .share = {0, 1, 1}};
    struct lw_steps *of;

    LW_TAKE(&d->arena, of, d->w->n_modules, err);
    for (int32_t m = 0; m < d->w->n_modules; m++) {
        of[m] = (struct lw_steps){&whole, 1};
        if (!has_groups(d))
            continue;
        l->n = 0;
        make(d, m, l);
        LW_TRY(keep(d, l, &of[m], err));
    }
    *out = of;
    return LW_OK;
}

/* --- a forward that stops early --------------------------------------------------------------- */

/* Up to the end of the work that reaches `stop`. */
static void stop_at(const struct lw_steps *all, lw_ps stop, lw_ps forward, struct lw_step_list *l)
{
    for (int32_t i = 0; i < all->n; i++) {
        struct lw_step step = all->v[i];
        if (step.kind == LW_STEP_WORK && step.share.of == 1)
            step.share = (struct lw_share){0, forward, forward};
        bool reaches = step.kind == LW_STEP_WORK && step.share.to >= stop;
        step.share.to = reaches ? stop : step.share.to;
        lw_step_add(l, step);
        if (reaches)
            return;
    }
}

static enum lw_status make_again(struct lw_part *d, struct lw_step_list *l, struct lw_err *err)
{
    LW_TAKE(&d->arena, d->work.again_steps, d->w->n_modules, err);
    for (int32_t m = 0; m < d->w->n_modules; m++) {
        const struct lw_module *x = lw_module_at(d->w, m);
        lw_ps left_out = lw_unrepeated_ps(d->s, x);
        d->work.again_steps[m] = d->work.forward_steps[m];
        if (left_out == 0)
            continue;
        l->n = 0;
        stop_at(&d->work.forward_steps[m], x->forward_ps - left_out, x->forward_ps, l);
        LW_TRY(keep(d, l, &d->work.again_steps[m], err));
    }
    return LW_OK;
}

/* --- a whole backward ------------------------------------------------------------------------- */

struct cutter {
    struct lw_part *d;
    struct lw_step_list marks; /* of the module at hand */
    int32_t n_before, done;    /* of them are before its first op, are placed */
    struct lw_step_list steps; /* of all */
    struct lw_stretch *out;
    int32_t *first;            /* into steps: [2 * n] before a stretch, [2 * n + 1] after it */
    int64_t out_capacity, first_capacity;
    int32_t n;
    bool away, no_memory; /* away: gradients of tokens are with the experts */
};

static void place(struct cutter *c, int32_t mark)
{
    struct lw_step step = c->marks.v[mark];

    if (step.kind != LW_STEP_RING) /* it cuts; the ring's own times say which step begins */
        lw_step_add(&c->steps, step);
}

/* Tokens' gradients come back after the stretch that a sum follows, or the module's last one. */
static void bring_back(struct cutter *c, int32_t from, bool last)
{
    bool sums = last;

    for (int32_t i = from; i < c->steps.n; i++)
        sums = sums || c->steps.v[i].kind == LW_STEP_SUM;
    if (!c->away || !sums)
        return;
    lw_step_add(&c->steps, (struct lw_step){.kind = LW_STEP_SENT});
    if (c->steps.no_memory)
        return;
    const struct lw_step sent = c->steps.v[c->steps.n - 1];
    memmove(c->steps.v + from + 1, c->steps.v + from,
            (size_t)(c->steps.n - 1 - from) * sizeof sent);
    c->steps.v[from] = sent;
    c->away = false;
}

/* What is after the stretch added last is there. */
static void close_stretch(struct cutter *c, bool last)
{
    const struct lw_part *d = c->d;

    if (c->no_memory || c->n == 0 || has_kernels(d, c->out[c->n - 1].module))
        return;
    const struct lw_module *m = lw_module_at(d->w, c->out[c->n - 1].module);
    bring_back(c, c->first[2 * c->n - 1], last);
    if (last && lw_part_gathers_keys(d, m))
        lw_step_add(&c->steps, (struct lw_step){.kind = LW_STEP_KEY_GRADS});
}

static void put(struct cutter *c, struct lw_stretch s, bool first)
{
    c->no_memory = c->no_memory ||
                   lw_reserve(&c->out, &c->out_capacity, c->n + 1, sizeof *c->out) ||
                   lw_reserve(&c->first, &c->first_capacity, 2L * c->n + 3, sizeof *c->first);
    if (c->no_memory)
        return;
    if (!first)
        close_stretch(c, false);
    c->first[2 * c->n] = c->steps.n;
    if (first && !has_kernels(c->d, s.module))
        lw_measured_enter(c->d, s.module, &c->steps);
    for (int32_t i = 0; first && i < c->n_before; i++)
        place(c, i);
    c->away = c->away || first;
    c->out[c->n++] = s;
    c->first[2 * c->n - 1] = c->steps.n;
}

/* One stretch of a module whose window begins at `window`. */
static void cut_stretch(struct cutter *c, const struct lw_stretch *s, lw_ps window, bool first,
                        bool last)
{
    struct lw_stretch rest = *s;
    int32_t held = c->done; /* marks from here on are at its end */

    for (; held < c->marks.n && (last || window + c->marks.v[held].share.from <= s->end); held++) {
        lw_ps when = window + c->marks.v[held].share.from;
        bool any = held > c->done, inside = !any && when > rest.start && when < rest.end;
        if (inside) {
            put(c, (struct lw_stretch){s->module, rest.start, when, s->first_ready, 0}, first);
            first = false;
            rest.start = when;
        }
        if (inside || (!any && when == rest.start && when > s->start))
            place(c, c->done++);
    }
    put(c, rest, first);
    while (c->done < held)
        place(c, c->done++);
}

static void cut_all(struct cutter *c)
{
    const struct lw_backward *back = &c->d->back;
    lw_ps window = 0;

    for (int32_t i = 0; i < back->n_stretches; i++) {
        const struct lw_stretch *s = &back->stretches[i];
        bool first = i == 0 || s[-1].module != s->module;
        bool last = i + 1 == back->n_stretches || s[1].module != s->module;
        if (first) {
            window = s->start;
            c->marks.n = c->n_before = 0;
            marks_of(c->d, s->module, &c->marks);
            while (has_kernels(c->d, s->module) && c->n_before < c->marks.n &&
                   c->marks.v[c->n_before].share.from == 0)
                c->n_before++;
            c->done = c->n_before;
        }
        if (!c->marks.no_memory)
            cut_stretch(c, s, window, first, last);
        if (last)
            close_stretch(c, true);
    }
}

static enum lw_status take_cut(struct cutter *c, struct lw_err *err)
{
    struct lw_part *d = c->d;
    struct lw_steps steps = {0};

    if (c->no_memory || c->marks.no_memory)
        return lw_fail_nomem(err);
    c->first[2 * c->n] = c->steps.n;
    LW_TRY(keep(d, &c->steps, &steps, err));
    LW_TAKE(&d->back.arena, d->back.stretches, c->n, err);
    LW_TAKE(&d->arena, d->work.first_step, 2L * c->n + 1, err);
    memcpy(d->back.stretches, c->out, (size_t)c->n * sizeof *c->out);
    memcpy(d->work.first_step, c->first, (2 * (size_t)c->n + 1) * sizeof *c->first);
    d->back.n_stretches = c->n;
    d->work.steps = steps.v;
    return LW_OK;
}

enum lw_status lw_part_make_steps(struct lw_part *d, struct lw_err *err)
{
    struct lw_step_list l = {0};
    struct cutter c = {.d = d};
    enum lw_status s = make_all(d, forward_of, &d->work.forward_steps, &l, err);

    if (s == LW_OK)
        s = make_again(d, &l, err);
    if (s == LW_OK && d->work.splits)
        s = make_all(d, input_of, &d->work.input_steps, &l, err);
    if (s == LW_OK && d->work.splits)
        s = make_all(d, weight_of, &d->work.weight_steps, &l, err);
    lw_free(l.v);
    if (s != LW_OK || !has_groups(d) || d->back.n_stretches == 0)
        return s;
    cut_all(&c);
    s = take_cut(&c, err);
    lw_free(c.marks.v);
    lw_free(c.steps.v);
    lw_free(c.out);
    lw_free(c.first);
    return s;
}
