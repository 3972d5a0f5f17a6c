/* Combinations are listed on all cores, in stretches that are put together in order. */
#include "analysis/tune/tune_list.h"

#include "analysis/tune/tune_reasons.h"
#include "shared/base/parallel.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

LW_COMPARATOR(by_bound, struct lw_tune_candidate, a->bound, b->bound, a->number, b->number)

/* A run of combinations from one on that came to the same. */
struct listed {
    int64_t k, n;
    lw_ps bound;
    enum { REPEATED, INVALID, VALID } kind;
    const char *why; /* of what is not valid; in the arena of its stretch */
    enum lw_tune_found by;
};

/* Combinations that one thread lists, all of one part. */
struct stretch {
    int part;
    int64_t begin, end;
    struct listed *v;
    int64_t n, capacity;
    struct lw_tune_last last[2]; /* without and with --overlap-param-gather, which follows sizes */
    struct lw_arena arena;
};

enum { STRETCH = 1024, STRETCHES = 64 };

struct listing {
    const struct lw_tune_space_of *of;
    struct lw_tune_result *r;
    struct lw_tune_candidate *v;
    int64_t n_valid, capacity;
    struct stretch stretch[STRETCHES];
    int n;
};

lw_ps lw_tune_bound_of(const struct lw_tune_part *p, const struct lw_tune_case *c)
{
    return lw_tune_noise_bound(&p->noise, p->request.cluster, c->bound, c->most_ops);
}

/* The k-th combination of a part, and those after it that are alike. */
static enum lw_status list_one(const struct lw_tune_space_of *s, struct stretch *x,
                               struct lw_tune_walk *w, int64_t k, struct lw_err *err)
{
    const struct lw_tune_space *space = &s->t->parts[x->part].space;
    const struct lw_strategy *strategy = &w->set[space->n_dims];
    struct lw_tune_case c = {0};
    struct lw_err why = {0};
    enum lw_tune_kind kind = lw_tune_walk(space, w, k, &why);
    int64_t n = w->given.n_alike < x->end - k ? w->given.n_alike : x->end - k;
    bool mine = lw_tune_shard_count(&s->t->shard, s->first[x->part] + k, n) > 0;
    enum lw_status st = kind == LW_TUNE_INVALID ? LW_EINVAL : LW_OK;

    enum lw_tune_found by = kind == LW_TUNE_INVALID ? LW_TUNE_BY_GROUPS : LW_TUNE_BY_BOUND;
    if (kind == LW_TUNE_STRATEGY && mine)
        st = lw_tune_case_of(s->contexts[x->part], strategy, false,
                             &x->last[strategy->overlap_param_gather], &c, &why);
    if (st == LW_OK && c.selects_nothing && lw_tune_space_has(space, "recompute", "none"))
        kind = LW_TUNE_REPEATED;
    if (st == LW_ENOMEM ||
        lw_reserve(&x->v, &x->capacity, x->n + 1, sizeof *x->v) != 0)
        return lw_fail_nomem(err);
    struct listed *out = &x->v[x->n++];
    *out = (struct listed){k, n, c.bound,
                           kind == LW_TUNE_REPEATED ? REPEATED : st != LW_OK ? INVALID : VALID, "",
                           by};
    if (out->kind == VALID)
        out->bound = lw_tune_bound_of(&s->t->parts[x->part], &c);
    if (out->kind == INVALID)
        out->why = lw_arena_strdup(&x->arena, why.msg);
    return out->why ? LW_OK : lw_fail_nomem(err);
}

static enum lw_status list_stretch(void *ctx, int i, const struct lw_progress *p,
                                   struct lw_err *err)
{
    struct listing *l = ctx;
    struct stretch *x = &l->stretch[i];
    struct lw_tune_walk walk;

    (void)p;
    walk.begun = false;
    for (int64_t k = x->begin; k < x->end && !lw_progress_stopped(l->of->t->progress);
         k = x->v[x->n - 1].k + x->v[x->n - 1].n)
        LW_TRY(list_one(l->of, x, &walk, k, err));
    return LW_OK;
}

static enum lw_status take_listed(struct listing *l, int part, const struct listed *x,
                                  struct lw_err *err)
{
    int64_t number = l->of->first[part] + x->k;
    int64_t mine = lw_tune_shard_count(&l->of->t->shard, number, x->n);

    l->r->n_combinations += mine;
    if (x->kind == REPEATED)
        l->r->n_repeated += mine;
    if (mine == 0 || x->kind == REPEATED)
        return LW_OK;
    if (x->kind == INVALID)
        return lw_tune_reason_count(l->r, x->why, x->by, mine, err);
    LW_ROOM(l->v, l->capacity, l->n_valid + 1, err);
    l->v[l->n_valid++] = (struct lw_tune_candidate){x->bound, number, -1};
    return LW_OK;
}

/* In the order of combinations, whichever thread listed them. st: of listing them; what they hold
 * is freed in any case. */
static enum lw_status take_listing(struct listing *l, enum lw_status st, struct lw_err *err)
{
    for (int i = 0; i < l->n; i++) {
        struct stretch *x = &l->stretch[i];
        for (int64_t k = 0; st == LW_OK && k < x->n; k++)
            st = take_listed(l, x->part, &x->v[k], err);
        lw_free(x->v);
        lw_arena_free(&x->arena);
    }
    l->n = 0;
    return st;
}

/* The next stretches from the k-th combination of a part on, which move on. */
static void fill_listing(struct listing *l, int *part, int64_t *k)
{
    while (l->n < STRETCHES && *part < l->of->t->n_parts) {
        int64_t n = l->of->t->parts[*part].space.n, end = *k + STRETCH < n ? *k + STRETCH : n;
        if (*k < end)
            l->stretch[l->n++] = (struct stretch){.part = *part, .begin = *k, .end = end};
        *k = end;
        if (end == n) {
            ++*part;
            *k = 0;
        }
    }
}

static enum lw_status list_all(struct listing *l, struct lw_err *err)
{
    const struct lw_tune_space_of *s = l->of;
    int64_t all = s->first[s->t->n_parts], k = 0;

    for (int part = 0; part < s->t->n_parts;) {
        lw_progress_report(s->t->progress, "bounds of strategies",
                           (double)(s->first[part] + k) / (double)all);
        fill_listing(l, &part, &k);
        enum lw_status st = lw_parallel(
            &(struct lw_parallel_work){.one = list_stretch, .ctx = l, .n = l->n,
                                       .n_threads = s->t->n_threads}, err);
        LW_TRY(take_listing(l, st, err));
        l->r->n_valid = l->n_valid;
        if (lw_progress_stopped(s->t->progress))
            return LW_OK;
    }
    lw_sort(l->v, l->n_valid, by_bound);
    lw_tune_reasons_sort(l->r);
    return s->t->listed ? s->t->listed(l->r, err) : LW_OK;
}

enum lw_status lw_tune_list(const struct lw_tune_space_of *of, struct lw_tune_result *r,
                            struct lw_tune_candidate **v, int64_t *n, struct lw_err *err)
{
    struct listing l = {.of = of, .r = r};
    enum lw_status st = list_all(&l, err);

    *v = l.v;
    *n = l.n_valid;
    return st;
}
