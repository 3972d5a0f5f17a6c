/* A run of several ranks as what each does between its collectives. A collective starts on a rank
 * some time after the one before it ended there, or after that started, where the two overlap: this
 * is the rank's own time. It moves data once its last member is there, for the shortest time that
 * any member recorded. Like the median: every own time is the median of those that the members of
 * the same collective have before it. Collectives that could not be matched belong to the own time.
 * Not modelled: how much of the compute that hides a collective waits for it. */
#include "traces/report/alike_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "shared/numbers/median.h"

struct step { /* a matched collective on one rank */
    int32_t class;
    int64_t k;
    bool overlaps;    /* it started before the one before it ended */
    int64_t own_ns, alike_ns;
};

struct rank_steps {
    int64_t n;
    struct step *v;
    int64_t tail_ns, alike_tail_ns; /* after the last one */
};

struct study {
    const struct traces_cross_rank *cross;
    int32_t n;
    struct rank_steps *ranks;
    int64_t **all_in;   /* by class: [n ops] latest start, while it is simulated */
    int32_t **arrived;  /* by class: [n ops] members that are there */
};

static bool is_matched(const struct traces_cross_rank *cross, const struct traces_comm_item *x)
{
    return x->class >= 0 && x->class < cross->n_classes && cross->classes[x->class].matched &&
           x->k < cross->classes[x->class].n;
}

static enum lw_status split_rank(struct study *s, const struct traces_comm_list *l,
                                 struct rank_steps *r, int64_t start, int64_t end,
                                 struct lw_arena *arena, struct lw_err *err)
{
    int64_t last_start = start, last_end = start;

    LW_TAKE(arena, r->v, l->n, err);
    for (int64_t i = 0; i < l->n; i++) {
        const struct traces_comm_item *x = &l->items[i];
        if (!is_matched(s->cross, x))
            continue;
        struct step *p = &r->v[r->n++];
        p->class = x->class;
        p->k = x->k;
        p->overlaps = x->start_ns < last_end;
        p->own_ns = x->start_ns - (p->overlaps ? last_start : last_end);
        last_start = x->start_ns;
        last_end = x->start_ns + x->dur_ns;
    }
    r->tail_ns = end > last_end ? end - last_end : 0;
    return LW_OK;
}

/* The median over the ranks of the own time before each collective. */
static enum lw_status set_medians(struct study *s, struct lw_arena *arena, struct lw_err *err)
{
    int64_t *v, n = 0;

    LW_TAKE(arena, v, s->n, err);
    for (int32_t r = 0; r < s->n; r++)
        for (int64_t i = 0; i < s->ranks[r].n; i++) {
            struct step *p = &s->ranks[r].v[i];
            n = 0;
            for (int32_t o = 0; o < s->n; o++) /* ranks of one run mostly do the same in order */
                if (i < s->ranks[o].n && s->ranks[o].v[i].class == p->class &&
                    s->ranks[o].v[i].k == p->k)
                    v[n++] = s->ranks[o].v[i].own_ns;
            p->alike_ns = lw_median(v, n);
        }
    for (int32_t r = 0; r < s->n; r++)
        v[r] = s->ranks[r].tail_ns;
    int64_t tail = lw_median(v, s->n);
    for (int32_t r = 0; r < s->n; r++)
        s->ranks[r].alike_tail_ns = tail;
    return LW_OK;
}

/* as_recorded: this rank as recorded, the others alike; -1 = all alike, n = all as recorded.
 * *ns -1: the ranks' orders contradict each other. */
static enum lw_status simulate(struct study *s, int32_t as_recorded, int64_t *ns,
                               struct lw_err *err)
{
    struct {
        int64_t i, start, end;
        bool waits;
    } *at;
    int64_t last = 0;
    bool moved = true;

    LW_NEW(at, s->n, err);
    for (int32_t c = 0; c < s->cross->n_classes; c++)
        if (s->cross->classes[c].matched) {
            memset(s->arrived[c], 0, (size_t)s->cross->classes[c].n * sizeof **s->arrived);
            memset(s->all_in[c], 0, (size_t)s->cross->classes[c].n * sizeof **s->all_in);
        }
    while (moved) {
        moved = false;
        for (int32_t r = 0; r < s->n; r++) {
            struct rank_steps *k = &s->ranks[r];
            bool own = as_recorded == s->n || as_recorded == r;
            while (at[r].i < k->n) {
                const struct step *p = &k->v[at[r].i];
                const struct traces_comm_class *c = &s->cross->classes[p->class];
                if (!at[r].waits) {
                    int64_t before = p->overlaps ? at[r].start : at[r].end;
                    at[r].start = before + (own ? p->own_ns : p->alike_ns);
                    at[r].waits = true;
                    s->arrived[p->class][p->k]++;
                    if (at[r].start > s->all_in[p->class][p->k])
                        s->all_in[p->class][p->k] = at[r].start;
                    moved = true;
                }
                if (s->arrived[p->class][p->k] < c->n_members)
                    break;
                at[r].end = s->all_in[p->class][p->k] + c->ops[p->k].transfer_ns;
                at[r].waits = false;
                at[r].i++;
                moved = true;
            }
        }
    }
    *ns = 0;
    for (int32_t r = 0; r < s->n; r++) {
        bool own = as_recorded == s->n || as_recorded == r;
        last = at[r].end + (own ? s->ranks[r].tail_ns : s->ranks[r].alike_tail_ns);
        *ns = at[r].i < s->ranks[r].n ? -1 : *ns < 0 ? -1 : last > *ns ? last : *ns;
    }
    lw_free(at);
    return LW_OK;
}

static enum lw_status blame(struct study *s, const struct traces_comm_list *lists,
                            struct traces_alike *out, struct lw_err *err)
{
    LW_TRY(simulate(s, s->n, &out->simulated_ns, err));
    LW_TRY(simulate(s, -1, &out->alike_ns, err));
    out->known = out->simulated_ns > 0 && out->alike_ns > 0;
    for (int32_t r = 0; r < s->n && out->known; r++) {
        struct traces_alike_rank *x = &out->v[r];
        int64_t ns;
        LW_TRY(simulate(s, r, &ns, err));
        x->rank = lists[r].t->rank;
        x->own_ns = s->ranks[r].tail_ns;
        for (int64_t i = 0; i < s->ranks[r].n; i++)
            x->own_ns += s->ranks[r].v[i].own_ns;
        x->slowdown = (double)ns / (double)out->alike_ns;
        out->worst = x->slowdown > out->v[out->worst].slowdown ? r : out->worst;
    }
    return LW_OK;
}

enum lw_status traces_alike_find(const struct traces_comm_list *lists, int32_t n,
                                 const struct traces_cross_rank *cross, const int64_t *starts_ns,
                                 const int64_t *ends_ns, struct lw_arena *arena,
                                 struct traces_alike *out, struct lw_err *err)
{
    struct traces_alike result = {.n = n};
    struct study s = {.cross = cross, .n = n};
    int64_t n_matched = 0;

    LW_TAKE(arena, result.v, n, err);
    LW_TAKE(arena, s.ranks, n, err);
    LW_TAKE(arena, s.all_in, cross->n_classes, err);
    LW_TAKE(arena, s.arrived, cross->n_classes, err);
    for (int32_t c = 0; c < cross->n_classes; c++)
        if (cross->classes[c].matched) {
            LW_TAKE(arena, s.all_in[c], cross->classes[c].n, err);
            LW_TAKE(arena, s.arrived[c], cross->classes[c].n, err);
        }
    for (int32_t r = 0; r < n; r++) {
        LW_TRY(split_rank(&s, &lists[r], &s.ranks[r], starts_ns[r], ends_ns[r], arena, err));
        n_matched += s.ranks[r].n;
        if (ends_ns[r] - starts_ns[r] > result.recorded_ns)
            result.recorded_ns = ends_ns[r] - starts_ns[r];
    }
    if (n_matched > 0) {
        LW_TRY(set_medians(&s, arena, err));
        LW_TRY(blame(&s, lists, &result, err));
    }
    *out = result;
    return LW_OK;
}
