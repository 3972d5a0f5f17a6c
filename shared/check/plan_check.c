/* The proof of a plan, part by part. */
#include "shared/check/plan_check.h"

#include "shared/check/repeats.h"
#include "shared/numbers/checked.h"

static enum lw_status check_program(struct lw_uses *uses, int64_t program, struct lw_terms *terms,
                                    struct lw_hazards *hazards, struct lw_err *err)
{
    int32_t n_roles = uses->p->n_roles;

    LW_TRY(lw_uses_program(uses, (int32_t)(program / n_roles), (int32_t)(program % n_roles), err));
    if (terms)
        LW_TRY(lw_check_terms(terms, err));
    return lw_check_hazards(hazards, err);
}

static enum lw_status check_programs(const struct lw_plan *p, bool terms, bool skip_alike,
                                     struct lw_err *err)
{
    struct lw_uses uses;
    struct lw_terms *t = NULL;
    struct lw_hazards *h = NULL;
    enum lw_status s = lw_uses_init(&uses, p, err);

    if (s == LW_OK && skip_alike)
        s = lw_uses_skip_alike(&uses, err);
    if (s == LW_OK && terms)
        s = lw_check_terms_init(&t, &uses, err);
    if (s == LW_OK)
        s = lw_check_hazards_init(&h, &uses, err);
    for (int64_t i = 0; s == LW_OK && i < (int64_t)p->n_variants * p->n_roles; i++)
        s = check_program(&uses, i, t, h, err);
    lw_check_hazards_free(h);
    lw_check_terms_free(t);
    lw_uses_free(&uses);
    return s;
}

/* A fault is found again without leaving anything out: its message names the first gradient that
 * it is about. */
enum lw_status lw_check_programs(const struct lw_plan *p, bool terms, struct lw_err *err)
{
    enum lw_status s = check_programs(p, terms, true, err);

    return s == LW_EPLAN ? check_programs(p, terms, false, err) : s;
}

/* Of which what bounds it is known. */
static lw_ps bound_of(const struct lw_work *w)
{
    lw_ps sum = 0;

    for (int k = 0; k < LW_N_BOUNDS; k++)
        sum = lw_add_sat(sum, w->bound_ps[k]);
    return sum;
}

static enum lw_status check_bounds(const struct lw_plan *p, struct lw_err *err)
{
    char sum[32], time[32];

    for (int32_t i = 0; i < p->n_works; i++) {
        const struct lw_work *w = lw_work_at(p, i);
        lw_ps all = w->ps > 0 ? w->ps : 0;
        if (bound_of(w) > all)
            return lw_fail(err, LW_EPLAN,
                           "works[%d]: compute_ns, memory_ns, launch_ns and host_ns sum to %s, "
                           "which is more than its time (ns), %s: expected parts of it; a plan "
                           "whose times were edited can leave them out",
                           i, lw_format_ps(sum, bound_of(w)), lw_format_ps(time, all));
    }
    return LW_OK;
}

/* exec can find out how long a work takes; a prediction must know. A plan without any times is
 * whole: what predicts asks for them. */
static enum lw_status check_works(const struct lw_plan *p, struct lw_err *err)
{
    for (int32_t i = 0; lw_plan_has_times(p) && i < p->n_works; i++)
        if (lw_work_at(p, i)->ps < 0)
            return lw_fail(err, LW_EPLAN, "work %d lasts %lld ps", i,
                           (long long)lw_work_at(p, i)->ps);
    return check_bounds(p, err);
}

/* What a plan with fewer repeats is proven to be, this one is: then nothing of it is left to be
 * proven op by op. A fault is looked for in the plan itself, which has the numbers for it. */
static enum lw_status check_shorter(const struct lw_plan *p, bool *proven, struct lw_err *err)
{
    struct lw_plan shorter;
    enum lw_status s = lw_plan_shorten(p, &shorter, proven, err);

    if (s == LW_OK && *proven)
        s = lw_check_programs(&shorter, true, err);
    if (s == LW_OK && *proven)
        s = lw_check_comm(&shorter, err);
    lw_arena_free(&shorter.arena);
    *proven = *proven && s == LW_OK;
    return s == LW_EPLAN ? LW_OK : s;
}

static enum lw_status check_others(const struct lw_plan *p, bool shorten, struct lw_err *err)
{
    bool proven = false;

    LW_TRY(check_works(p, err));
    if (shorten)
        LW_TRY(check_shorter(p, &proven, err));
    if (!proven)
        LW_TRY(lw_check_programs(p, true, err));
    LW_TRY(lw_check_shards(p, err));
    LW_TRY(lw_check_norm(p, err));
    return proven ? LW_OK : lw_check_comm(p, err);
}

/* Rules of a grid that do not hold show nothing: then the tables are proved alone. */
static enum lw_status check(const struct lw_plan *p, bool shorten, struct lw_err *err)
{
    struct lw_plan alone = *p;
    bool grid;

    LW_TRY(lw_check_tables(p, &grid, err));
    alone.grid = NULL;
    return check_others(grid ? p : &alone, shorten, err);
}

enum lw_status lw_plan_check(const struct lw_plan *p, struct lw_err *err)
{
    return check(p, true, err);
}

enum lw_status lw_plan_check_each(const struct lw_plan *p, struct lw_err *err)
{
    return check(p, false, err);
}
