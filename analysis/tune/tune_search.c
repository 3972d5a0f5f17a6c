/* Two passes. The first finds the valid strategies and a bound of their steps (tune_list.c). The
 * second takes them in the order of these bounds, computes a better one and that of memory, drops
 * what cannot fit, and simulates the rest in the order of the better bounds, ROUND at a time on all
 * cores; it ends where the next bound is above the N-th best step. What a round does depends on
 * complete rounds alone, so threads change nothing.
 *
 * Order of strategies: by step, with noise by p90, then by what they need of a device, then by
 * place in the space, so that the best N are one set. */
#include "analysis/tune/tune_search.h"

#include <stdio.h>
#include <string.h>

#include "analysis/study/prediction.h"
#include "analysis/tune/tune_front.h"
#include "analysis/tune/tune_list.h"
#include "analysis/tune/tune_memo.h"
#include "analysis/tune/tune_reasons.h"
#include "analysis/tune/tune_row.h"
#include "analysis/tune_bound/tune_same.h"
#include "shared/base/clock.h"
#include "shared/base/parallel.h"
#include "sim/cost/cost_model.h"

enum { ROUND = 8 };

struct search {
    const struct lw_tune_task *t;
    struct lw_tune_result *r;
    struct lw_tune_context **contexts;
    struct lw_tune_candidate *v;
    int64_t n, rows_capacity;
    int64_t at; /* of v: those before have been looked at */
    struct lw_tune_candidate *queue; /* [n_queue] a heap of those that were: least bound first */
    int64_t n_queue, queue_capacity;
    int64_t *first; /* [n_parts + 1] numbers of combinations before */
    struct lw_tune_same *same;
    struct lw_tune_candidate *held; /* [n_held] of the queue, until the round is over */
    int64_t n_held, held_capacity;
    struct lw_tune_limit *met; /* [n_best] for the others */
    struct lw_tune_limit of_all; /* what they said last */
    bool has_of_all;
};

static const struct lw_tune_part *part_of(const struct search *s, int64_t number, int *part,
                                          int64_t *k)
{
    int p = 0;

    while (number >= s->first[p + 1])
        p++;
    *part = p;
    *k = number - s->first[p];
    return &s->t->parts[p];
}

/* --- one simulation --- */

struct job {
    struct lw_tune_candidate of;
    struct lw_tune_row row;
    struct lw_err why;
    enum { UNKNOWN, UNFIT, REFUSED, SLOWER, SIMULATED } what; /* SLOWER: its samples exclude it */
    int64_t family;
    struct lw_arena arena; /* texts of the row */
};

struct round {
    struct search *s;
    struct job job[ROUND];
    int n;
    lw_ps most; /* what is ranked after it is not among the best */
};

/* What a device has for tensors; -1 = not known. */
static int64_t room_of(const struct lw_device *d, int64_t own_bytes)
{
    return lw_figure_is_set(d->memory_bytes) ? (int64_t)d->memory_bytes.value - own_bytes : -1;
}

static void begin_row(struct job *j, int part, int64_t k, lw_ps bound, int64_t needed)
{
    j->row.part = part;
    j->row.combination = k;
    j->row.bound = bound;
    j->row.needed_bound = needed;
    j->row.same_as = "";
}

static enum lw_status look(const struct search *s, struct job *j, struct lw_err *err)
{
    struct lw_strategy strategy;
    struct lw_tune_given given;
    struct lw_tune_case c;
    int part;
    int64_t k;
    const struct lw_tune_part *p = part_of(s, j->of.number, &part, &k);

    lw_tune_strategy(&p->space, k, &strategy, &given, NULL);
    LW_TRY(lw_tune_case_of(s->contexts[part], &strategy, true, NULL, &c, err));
    const int64_t room = room_of(&p->request.cluster->device, c.own_bytes);
    begin_row(j, part, k, lw_tune_bound_of(p, &c), c.needed_bytes);
    LW_TRY(lw_tune_row_texts(p, &given, &j->arena, &j->row, err));
    j->what = room >= 0 && c.needed_bytes > room ? UNFIT : UNKNOWN;
    if (j->what == UNFIT)
        j->row.missing_bytes = c.needed_bytes - room;
    return LW_OK;
}

static enum lw_status look_one(void *ctx, int i, const struct lw_progress *p, struct lw_err *err)
{
    struct round *r = ctx;

    (void)p;
    return look(r->s, &r->job[i], err);
}

/* Figures that are known come to what those of samples that are drawn come to. */
static bool is_slower(const struct lw_tune_part *part, const struct lw_tune_row *x, lw_ps most)
{
    return part->noise.on && x->fits && (x->step_p90 < 0 || x->step_p90 > most);
}

/* A strategy that cannot be planned, though nothing before said so, is not valid. */
static enum lw_status run_one(void *ctx, int i, const struct lw_progress *p, struct lw_err *err)
{
    struct round *r = ctx;
    struct job *j = &r->job[i];
    struct lw_strategy strategy;
    struct lw_tune_given given;
    int part;
    int64_t k;
    const struct lw_tune_part *of = part_of(r->s, j->of.number, &part, &k);

    (void)p;
    if (lw_progress_stopped(r->s->t->progress))
        return LW_OK;
    lw_tune_strategy(&of->space, k, &strategy, &given, NULL);
    const struct lw_searched *known = lw_tune_memo_find(r->s->t->memo, j->of.number);
    begin_row(j, part, k, j->of.bound, j->of.needed > 0 ? j->of.needed : 0);
    LW_TRY(lw_tune_row_texts(of, &given, &j->arena, &j->row, err));
    int64_t same = lw_tune_same_find(r->s->same, j->family, strategy.bucket_cap_bytes);
    enum lw_status st =
        same >= 0 ? lw_tune_row_share(&r->s->r->rows[same], known, &j->arena, &j->row, &j->why)
        : known   ? lw_tune_row_recall(known, &j->arena, &j->row, &j->why)
                  : lw_tune_row_predict(of, &given, r->most, r->s->t->progress, &j->arena, &j->row,
                                        &j->why);
    if (st == LW_ENOMEM)
        return lw_fail_nomem(err);
    if (st == LW_OK)
        lw_tune_put_budget(of->tokens, &j->row);
    j->what = st == LW_EFAILED && lw_progress_stopped(r->s->t->progress) ? UNKNOWN
              : st != LW_OK                                              ? REFUSED
              : is_slower(of, &j->row, r->most)                          ? SLOWER
                                                                         : SIMULATED;
    return LW_OK;
}

/* --- the second pass --- */

static bool is_better(const struct search *s, const struct lw_tune_row *a,
                      const struct lw_tune_row *b)
{
    int64_t at_a = s->first[a->part] + a->combination, at_b = s->first[b->part] + b->combination;

    if (lw_tune_rank_by(a) != lw_tune_rank_by(b))
        return lw_tune_rank_by(a) < lw_tune_rank_by(b);
    if (a->needed_bytes != b->needed_bytes)
        return a->needed_bytes < b->needed_bytes;
    return at_a < at_b;
}

static void put_best(struct search *s, const struct lw_tune_row *x)
{
    const struct lw_tune_row **best = s->r->best;
    int64_t n = s->r->n_best, i = n;

    for (; i > 0 && is_better(s, x, best[i - 1]); i--)
        if (i < s->t->n_best)
            best[i] = best[i - 1];
    if (i < s->t->n_best) {
        best[i] = x;
        s->r->n_best += n < s->t->n_best;
    }
}

static enum lw_status keep_row(struct search *s, struct job *j, struct lw_err *err)
{
    struct lw_tune_row *x = lw_arena_alloc(&s->r->arena, 1, sizeof *x);
    const char *strategy = lw_arena_strdup(&s->r->arena, j->row.strategy);
    const char *command = lw_arena_strdup(&s->r->arena, j->row.command);

    if (!x || !strategy || !command)
        return lw_fail_nomem(err);
    *x = j->row;
    x->strategy = strategy;
    x->command = command;
    x->interval_of = "";
    if (j->what == SIMULATED)
        LW_TRY(lw_tune_row_key(&j->row.key, j->row.framework, &s->r->arena, x, err));
    if (!x->fits || j->what == UNFIT) {
        if (!s->r->has_closest || x->missing_bytes < s->r->closest.missing_bytes)
            s->r->closest = *x;
        s->r->has_closest = true;
    }
    if (j->what == UNFIT)
        return LW_OK;
    if (lw_reserve(&s->r->rows, &s->rows_capacity, s->r->n_rows + 1, sizeof *s->r->rows) != 0)
        return lw_fail_nomem(err);
    s->r->rows[s->r->n_rows++] = *x;
    if (x->fits)
        put_best(s, x);
    return LW_OK;
}

static enum lw_status remember(const struct search *s, const struct job *j, struct lw_err *err)
{
    static const enum lw_searched_outcome of[] = {[UNFIT] = LW_SEARCHED_NO_ROOM,
                                                  [REFUSED] = LW_SEARCHED_INVALID,
                                                  [SIMULATED] = LW_SEARCHED_SIMULATED};

    return j->what == UNKNOWN || j->what == SLOWER
               ? LW_OK
               : lw_tune_memo_keep(s->t->memo, j->of.number, of[j->what], &j->row,
                                                  j->why.msg, err);
}

/* The least of what is ranked after the best. */
static void note_pruned(struct search *s, lw_ps bound)
{
    if (s->r->least_pruned < 0 || bound < s->r->least_pruned)
        s->r->least_pruned = bound;
}

/* All that is known of its p90 is that it exceeds `most`. */
static enum lw_status lose(struct search *s, const struct job *j, lw_ps most, struct lw_err *err)
{
    lw_ps bound = j->row.bound > most ? j->row.bound : most + 1;

    s->r->n_bounded_step++;
    note_pruned(s, bound);
    return lw_tune_memo_lost(s->t->memo, j->of.number, bound, err);
}

/* st: of running it; where it failed, what the jobs hold is freed all the same. */
static enum lw_status take_round(struct search *s, struct round *r, enum lw_status st,
                                 struct lw_err *err)
{
    for (int i = 0; i < r->n; i++) {
        struct job *j = &r->job[i];
        s->r->n_simulated += j->what == SIMULATED;
        s->r->n_unfit += j->what == SIMULATED && !j->row.fits;
        if (st == LW_OK && j->what == REFUSED) {
            s->r->n_valid--;
            st = lw_tune_reason_count(s->r, j->why.msg, LW_TUNE_BY_PLAN, 1, err);
        }
        if (st == LW_OK && j->what == SLOWER)
            st = lose(s, j, r->most, err);
        if (st == LW_OK && j->what == SIMULATED)
            st = keep_row(s, j, err);
        if (st == LW_OK && j->what == SIMULATED && !j->row.same_as[0] && j->row.next_cap > 0)
            st = lw_tune_same_put(s->same, j->family, j->row.least_cap, j->row.next_cap,
                                  s->r->n_rows - 1, err);
        if (st == LW_OK)
            st = remember(s, j, err);
        lw_arena_free(&j->arena);
    }
    return st;
}

static struct lw_tune_limit limit_of(const struct search *s, const struct lw_tune_row *x)
{
    return (struct lw_tune_limit){lw_tune_rank_by(x), x->needed_bytes,
                                  s->first[x->part] + x->combination};
}

static bool is_before(const struct lw_tune_limit *a, const struct lw_tune_limit *b)
{
    if (a->step != b->step)
        return a->step < b->step;
    return a->needed != b->needed ? a->needed < b->needed : a->number < b->number;
}

/* The N-th of the best, here or of all processes, which others have to precede; false: there is
 * none yet. */
static bool find_limit(const struct search *s, struct lw_tune_limit *out)
{
    bool own = s->r->n_best == s->t->n_best;

    if (s->t->no_bounds || (!own && !s->has_of_all))
        return false;
    *out = own ? limit_of(s, s->r->best[s->t->n_best - 1]) : s->of_all;
    if (s->has_of_all && is_before(&s->of_all, out))
        *out = s->of_all;
    return true;
}

/* It cannot be among the best N: its step is at least its bound, and so is its memory. */
static bool is_pruned(const struct search *s, const struct lw_tune_candidate *c)
{
    const struct lw_tune_limit least = {c->bound, c->needed, c->number};
    struct lw_tune_limit limit;

    return find_limit(s, &limit) && is_before(&limit, &least);
}

static bool precedes(const struct lw_tune_candidate *a, const struct lw_tune_candidate *b)
{
    if (a->bound != b->bound)
        return a->bound < b->bound;
    return a->needed != b->needed ? a->needed < b->needed : a->number < b->number;
}

static enum lw_status push(struct search *s, struct lw_tune_candidate x, struct lw_err *err)
{
    int64_t i = s->n_queue;

    if (lw_reserve(&s->queue, &s->queue_capacity, i + 1, sizeof *s->queue) != 0)
        return lw_fail_nomem(err);
    s->n_queue++;
    for (; i > 0 && precedes(&x, &s->queue[(i - 1) / 2]); i = (i - 1) / 2)
        s->queue[i] = s->queue[(i - 1) / 2];
    s->queue[i] = x;
    return LW_OK;
}

static struct lw_tune_candidate pop(struct search *s)
{
    struct lw_tune_candidate top = s->queue[0], x = s->queue[--s->n_queue];
    int64_t i = 0;

    for (int64_t k; (k = 2 * i + 1) < s->n_queue; i = k) {
        k += k + 1 < s->n_queue && precedes(&s->queue[k + 1], &s->queue[k]);
        if (!precedes(&s->queue[k], &x))
            break;
        s->queue[i] = s->queue[k];
    }
    s->queue[i] = x;
    return top;
}

/* Whether the next of v may come before all that wait in the queue. */
static bool looks_on(const struct search *s)
{
    return s->at < s->n && !is_pruned(s, &s->v[s->at]) &&
           (s->n_queue == 0 || precedes(&s->v[s->at], &s->queue[0]));
}

/* The better bound of the next ones of v, which go into the queue if they may fit. */
static enum lw_status look_on(struct search *s, struct lw_err *err)
{
    struct round r = {.s = s};

    while (r.n < ROUND && looks_on(s))
        r.job[r.n++].of = s->v[s->at++];
    enum lw_status st = lw_parallel(
        &(struct lw_parallel_work){.one = look_one, .ctx = &r, .n = r.n,
                                   .n_threads = s->t->n_threads}, err);
    for (int i = 0; i < r.n; i++) {
        struct job *j = &r.job[i];
        int64_t needed = j->row.needed_bound > 0 ? j->row.needed_bound : -1; /* 0: not known */
        const struct lw_tune_candidate x = {j->row.bound, j->of.number, needed};
        if (st == LW_OK)
            st = j->what == UNFIT ? keep_row(s, j, err) : push(s, x, err);
        if (st == LW_OK)
            st = remember(s, j, err);
        s->r->n_bounded_memory += j->what == UNFIT;
        lw_arena_free(&j->arena);
    }
    return st;
}

static int64_t family_of(const struct search *s, int64_t number)
{
    int part;
    int64_t k;
    const struct lw_tune_part *p = part_of(s, number, &part, &k);

    return s->first[part] + lw_tune_family(&p->space, k);
}

static bool has_family(const struct round *r, int64_t family)
{
    for (int i = 0; i < r->n; i++)
        if (r->job[i].family == family)
            return true;
    return false;
}

/* A strategy whose plan may be that of one in the round waits for the next round. */
static enum lw_status hold(struct search *s, struct lw_tune_candidate x, struct lw_err *err)
{
    LW_ROOM(s->held, s->held_capacity, s->n_held + 1, err);
    s->held[s->n_held++] = x;
    return LW_OK;
}

static enum lw_status give_back_held(struct search *s, struct lw_err *err)
{
    while (s->n_held > 0)
        LW_TRY(push(s, s->held[--s->n_held], err));
    return LW_OK;
}

/* The next ROUND strategies by their better bounds, at most one of a family. */
static enum lw_status fill_round(struct search *s, struct round *r, struct lw_err *err)
{
    r->n = 0;
    while (r->n < ROUND) {
        while (looks_on(s))
            LW_TRY(look_on(s, err));
        if (s->n_queue == 0 || is_pruned(s, &s->queue[0]))
            break;
        const struct lw_tune_candidate x = pop(s);
        int64_t family = family_of(s, x.number);
        if (has_family(r, family)) {
            LW_TRY(hold(s, x, err));
            continue;
        }
        struct job *j = &r->job[r->n++];
        memset(j, 0, sizeof *j);
        j->of = x;
        j->family = family;
    }
    return give_back_held(s, err);
}

/* How far: strategies below the N-th best step. */
static void tell(const struct search *s)
{
    int64_t end = s->n, low = s->at, at = s->at - s->n_queue;
    char what[64];

    while (low < end) { /* the first pruned one; bounds ascend */
        int64_t mid = low + (end - low) / 2;
        if (is_pruned(s, &s->v[mid]))
            end = mid;
        else
            low = mid + 1;
    }
    snprintf(what, sizeof what, "%lld of %lld strategies", (long long)at, (long long)low);
    lw_progress_report(s->t->progress, what, low > 0 ? (double)at / (double)low : 1);
}

/* Those that bounds exclude, the least bound first. */
static enum lw_status keep_lost(struct search *s, struct lw_err *err)
{
    while (s->t->memo && (s->n_queue > 0 || s->at < s->n)) {
        bool next = s->at < s->n && (s->n_queue == 0 || precedes(&s->v[s->at], &s->queue[0]));
        const struct lw_tune_candidate x = next ? s->v[s->at++] : pop(s);
        LW_TRY(lw_tune_memo_lost(s->t->memo, x.number, x.bound, err));
    }
    return LW_OK;
}

static enum lw_status run_round(struct search *s, struct round *r, struct lw_err *err)
{
    struct lw_tune_limit limit;

    r->most = find_limit(s, &limit) ? limit.step : INT64_MAX;
    enum lw_status st = lw_parallel(
        &(struct lw_parallel_work){.one = run_one, .ctx = r, .n = r->n,
                                   .n_threads = s->t->n_threads}, err);
    LW_TRY(take_round(s, r, st, err));
    tell(s);
    return LW_OK;
}

/* *over: nothing is left, here and in the searches beside this one. */
static enum lw_status meet(struct search *s, bool done, bool *stop, bool *over, struct lw_err *err)
{
    const struct lw_tune_beside *b = s->t->beside;

    *stop = lw_progress_stopped(s->t->progress);
    *over = done;
    if (!b)
        return LW_OK;
    for (int64_t i = 0; i < s->r->n_best; i++)
        s->met[i] = limit_of(s, s->r->best[i]);
    return b->meet(b->context, s->met, s->r->n_best, done, stop, &s->of_all, &s->has_of_all, over,
                   err);
}

static enum lw_status simulate_all(struct search *s, struct lw_err *err)
{
    struct round r = {.s = s};
    bool done = false, over = false;

    for (;;) {
        LW_TRY(meet(s, done, &s->r->interrupted, &over, err));
        if (s->r->interrupted) { /* what was not reached is not excluded */
            s->r->least_pruned = -1;
            return LW_OK;
        }
        if (over)
            break;
        if (!done)
            LW_TRY(fill_round(s, &r, err));
        done = done || r.n == 0;
        if (done && !s->t->beside)
            break;
        if (!done)
            LW_TRY(run_round(s, &r, err));
    }
    s->r->n_bounded_step += s->n - s->at + s->n_queue;
    if (s->at < s->n)
        note_pruned(s, s->v[s->at].bound);
    if (s->n_queue > 0)
        note_pruned(s, s->queue[0].bound);
    return keep_lost(s, err);
}

/* --- checks of the plans of the best --- */

static enum lw_status prove(const struct lw_tune_part *part, const struct lw_tune_given *g,
                            struct lw_err *err)
{
    struct lw_plan_source source;
    struct lw_cluster cluster = {0};
    struct lw_plan plan = {0};
    enum lw_status st = lw_tune_source(&part->request, g, &source, err);

    if (st == LW_OK)
        st = lw_plan_source_cluster(&source, &cluster, err);
    if (st == LW_OK) {
        const struct lw_cost cost = lw_sim_cost(&cluster);
        st = lw_plan_source_load(&source, NULL, &cost, &cluster, &plan, err);
    }
    lw_plan_free(&plan);
    lw_cluster_free(&cluster);
    lw_plan_source_free(&source);
    return st;
}

static enum lw_status prove_one(void *ctx, int i, const struct lw_progress *p, struct lw_err *err)
{
    const struct search *s = ctx;
    const struct lw_tune_row *x = s->r->best[i];
    struct lw_strategy strategy;
    struct lw_tune_given given;

    (void)p;
    lw_tune_strategy(&s->t->parts[x->part].space, x->combination, &strategy, &given, NULL);
    return prove(&s->t->parts[x->part], &given, err);
}

static enum lw_status prove_best(struct search *s, struct lw_err *err)
{
    return lw_parallel(&(struct lw_parallel_work){.one = prove_one, .ctx = s,
                                                  .n = (int)s->r->n_best,
                                                  .n_threads = s->t->n_threads}, err);
}

/* --- all of it --- */

static enum lw_status begin(struct search *s, struct lw_err *err)
{
    struct lw_tune_result *r = s->r;

    LW_TAKE(&r->arena, s->first, s->t->n_parts + 1, err);
    LW_TAKE(&r->arena, s->contexts, s->t->n_parts, err);
    LW_TRY(lw_tune_same_new(&r->arena, &s->same, err));
    LW_TAKE(&r->arena, r->best, s->t->n_best + 1, err);
    LW_TAKE(&r->arena, s->met, s->t->n_best + 1, err);
    for (int p = 0; p < s->t->n_parts; p++) {
        s->first[p + 1] = s->first[p] + s->t->parts[p].space.n;
        LW_TRY(lw_tune_context_new(&s->t->parts[p].request, &s->contexts[p], err));
    }
    return LW_OK;
}

enum lw_status lw_tune(const struct lw_tune_task *t, struct lw_tune_result *out,
                       struct lw_err *err)
{
    struct search s = {.t = t, .r = out};
    double began = lw_now_s();

    *out = (struct lw_tune_result){.least_pruned = -1,
                                   .has_noise = t->n_parts > 0 && t->parts[0].noise.on};
    enum lw_status st = begin(&s, err);
    if (st == LW_OK)
        st = lw_tune_list(&(struct lw_tune_space_of){t, s.contexts, s.first}, out, &s.v, &s.n, err);
    if (st == LW_OK)
        st = simulate_all(&s, err);
    if (st == LW_OK && !t->beside)
        st = prove_best(&s, err);
    if (st == LW_OK && !t->beside)
        st = lw_tune_front(out, err);
    lw_tune_reasons_sort(out);
    for (int p = 0; s.contexts && p < t->n_parts; p++)
        lw_tune_context_free(s.contexts[p]);
    lw_free(s.v);
    lw_free(s.queue);
    lw_free(s.held);
    out->wall_s = lw_now_s() - began;
    return st;
}

void lw_tune_free(struct lw_tune_result *r)
{
    lw_free(r->rows);
    lw_free(r->reasons);
    lw_arena_free(&r->arena);
    *r = (struct lw_tune_result){0};
}
