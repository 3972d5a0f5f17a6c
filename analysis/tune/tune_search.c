/* Two passes. The first finds the valid strategies and a bound of each one's step. The second
 * takes them in the order of these bounds, computes a better one and that of memory, drops what
 * cannot fit, and simulates the rest in the order of the better bounds, ROUND at a time on all
 * cores; it ends where the next bound is above the N-th best step. What a round does depends on
 * complete rounds alone, so threads change nothing.
 *
 * Order of strategies: by step, then by what they need of a device, then by place in the space, so
 * that the best N are one set. */
#include "analysis/tune/tune_search.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/study/prediction.h"
#include "analysis/tune/tune_memo.h"
#include "analysis/tune/tune_same.h"
#include "shared/base/clock.h"
#include "shared/base/parallel.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/timeline/throughput.h"
#include "sim/cost/cost_model.h"

enum { ROUND = 8 };

struct candidate {
    lw_ps bound;
    int64_t number; /* of all combinations of all parts */
    int64_t needed; /* bound of its memory, once it is known; -1 */
};

struct search {
    const struct lw_tune_task *t;
    struct lw_tune_result *r;
    struct lw_tune_context **contexts;
    struct candidate *v;
    int64_t n, capacity, rows_capacity, reasons_capacity;
    int64_t at;              /* of v: those before have been looked at */
    struct candidate *queue; /* [n_queue] a heap of those that were: the least bound first */
    int64_t n_queue, queue_capacity;
    int64_t *first; /* [n_parts + 1] numbers of combinations before */
    struct lw_tune_same *same;
    struct candidate *held; /* [n_held] of the queue, until the round is over */
    int64_t n_held, held_capacity;
};

LW_COMPARATOR(by_bound, struct candidate, a->bound, b->bound, a->number, b->number)

/* --- the first pass --- */

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

/* The message with its numbers left out. */
static void without_numbers(const char *msg, char *out, size_t size)
{
    size_t n = 0;

    for (; *msg && n + 1 < size; msg++) {
        bool digit = isdigit((unsigned char)*msg) != 0;
        if (digit && n > 0 && out[n - 1] == '#')
            continue;
        out[n++] = digit ? '#' : *msg;
    }
    out[n] = '\0';
}

/* NULL: no strategy has it so far. */
static struct lw_tune_reason *reason_of(const struct search *s, const char *msg)
{
    char text[256];

    without_numbers(msg, text, sizeof text);
    for (int64_t i = 0; i < s->r->n_reasons; i++)
        if (strcmp(s->r->reasons[i].text, text) == 0)
            return &s->r->reasons[i];
    return NULL;
}

static enum lw_status count_reason(struct search *s, const char *msg, enum lw_tune_found by,
                                   int64_t n, struct lw_err *err)
{
    struct lw_tune_reason *known = reason_of(s, msg);
    char text[256];

    s->r->n_invalid += n;
    if (known) {
        known->n += n;
        known->by = by > known->by ? by : known->by;
        return LW_OK;
    }
    without_numbers(msg, text, sizeof text);
    if (lw_reserve(&s->r->reasons, &s->reasons_capacity, s->r->n_reasons + 1,
                   sizeof *s->r->reasons) != 0)
        return lw_fail_nomem(err);
    struct lw_tune_reason x = {lw_arena_strdup(&s->r->arena, text),
                               lw_arena_strdup(&s->r->arena, msg), n, by};
    s->r->reasons[s->r->n_reasons++] = x;
    return x.text && x.example ? LW_OK : lw_fail_nomem(err);
}

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
    struct search *s;
    struct stretch stretch[STRETCHES];
    int n;
};

/* Of what strategies are ranked by. */
static lw_ps bound_of(const struct search *s, int part, const struct lw_tune_case *c)
{
    const struct lw_tune_part *p = &s->t->parts[part];

    return lw_tune_noise_bound(&p->noise, p->request.cluster, c->bound, c->most_ops);
}

/* The k-th combination of a part, and those after it that are alike. */
static enum lw_status list_one(const struct search *s, struct stretch *x, struct lw_tune_walk *w,
                               int64_t k, struct lw_err *err)
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
        out->bound = bound_of(s, x->part, &c);
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
    for (int64_t k = x->begin; k < x->end && !lw_progress_stopped(l->s->t->progress);
         k = x->v[x->n - 1].k + x->v[x->n - 1].n)
        LW_TRY(list_one(l->s, x, &walk, k, err));
    return LW_OK;
}

static enum lw_status take_listed(struct search *s, int part, const struct listed *x,
                                  struct lw_err *err)
{
    int64_t mine = lw_tune_shard_count(&s->t->shard, s->first[part] + x->k, x->n);

    s->r->n_combinations += mine;
    if (x->kind == REPEATED)
        s->r->n_repeated += mine;
    if (mine == 0 || x->kind == REPEATED)
        return LW_OK;
    if (x->kind == INVALID)
        return count_reason(s, x->why, x->by, mine, err);
    if (lw_reserve(&s->v, &s->capacity, s->n + 1, sizeof *s->v) != 0)
        return lw_fail_nomem(err);
    s->v[s->n++] = (struct candidate){x->bound, s->first[part] + x->k, -1};
    return LW_OK;
}

/* In the order of combinations, whichever thread listed them. st: of listing them; what they hold
 * is freed in any case. */
static enum lw_status take_listing(struct listing *l, enum lw_status st, struct lw_err *err)
{
    for (int i = 0; i < l->n; i++) {
        struct stretch *x = &l->stretch[i];
        for (int64_t k = 0; st == LW_OK && k < x->n; k++)
            st = take_listed(l->s, x->part, &x->v[k], err);
        lw_free(x->v);
        lw_arena_free(&x->arena);
    }
    l->n = 0;
    return st;
}

/* The next stretches from the k-th combination of a part on, which move on. */
static void fill_listing(struct listing *l, int *part, int64_t *k)
{
    while (l->n < STRETCHES && *part < l->s->t->n_parts) {
        int64_t n = l->s->t->parts[*part].space.n, end = *k + STRETCH < n ? *k + STRETCH : n;
        if (*k < end)
            l->stretch[l->n++] = (struct stretch){.part = *part, .begin = *k, .end = end};
        *k = end;
        if (end == n) {
            ++*part;
            *k = 0;
        }
    }
}

static void sort_reasons(struct lw_tune_result *r)
{
    for (int64_t i = 1; i < r->n_reasons; i++) {
        struct lw_tune_reason x = r->reasons[i];
        int64_t at = i;
        for (; at > 0 && r->reasons[at - 1].n < x.n; at--)
            r->reasons[at] = r->reasons[at - 1];
        r->reasons[at] = x;
    }
}

static enum lw_status list_all(struct search *s, struct lw_err *err)
{
    struct listing l = {.s = s};
    int64_t all = s->first[s->t->n_parts], k = 0;

    for (int part = 0; part < s->t->n_parts;) {
        lw_progress_report(s->t->progress, "bounds of strategies",
                           (double)(s->first[part] + k) / (double)all);
        fill_listing(&l, &part, &k);
        enum lw_status st = lw_parallel(
            &(struct lw_parallel_work){.one = list_stretch, .ctx = &l, .n = l.n,
                                       .n_threads = s->t->n_threads}, err);
        LW_TRY(take_listing(&l, st, err));
        s->r->n_valid = s->n;
        if (lw_progress_stopped(s->t->progress))
            return LW_OK;
    }
    s->r->n_valid = s->n;
    lw_sort(s->v, s->n, by_bound);
    sort_reasons(s->r);
    return s->t->listed ? s->t->listed(s->r, err) : LW_OK;
}

/* --- one simulation --- */

struct job {
    struct candidate of;
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

static enum lw_status put_texts(const struct lw_tune_part *p, const struct lw_tune_given *g,
                                struct job *j, struct lw_err *err)
{
    char text[2048];
    size_t n = 0;

    LW_PRINT(&j->arena, j->row.strategy, err, "%s", p->outer);
    for (int i = 0; i < g->n && n < sizeof text; i++) {
        LW_PRINT(&j->arena, j->row.strategy, err, "%s%s%s=%s", j->row.strategy,
                 j->row.strategy[0] ? " " : "", g->name[i], g->value[i]);
        n += (size_t)snprintf(text + n, sizeof text - n, " --%s %s", g->name[i], g->value[i]);
    }
    LW_PRINT(&j->arena, j->row.command, err, "%s%s%s", p->command, text, p->budget);
    return LW_OK;
}

static void take_figures(const struct lw_tune_part *part, const struct lw_prediction *p,
                         struct lw_tune_row *x)
{
    struct lw_throughput t = lw_throughput_of(&p->plan, &p->cluster, p->summary.step);
    const struct lw_figure price = p->cluster.price_per_device_hour;
    double each = part->price > 0 ? part->price : lw_figure_is_set(price) ? price.value : NAN;

    x->step = p->summary.step;
    x->step_p90 = x->p10 = x->p90 = x->run = -1;
    x->n_devices = p->plan.n_ranks;
    x->peak_memory_bytes = p->memory.peak_bytes;
    x->device_bytes = p->memory.peak_bytes < 0 ? -1 : lw_memory_device_bytes(&p->memory);
    x->missing_bytes = lw_memory_missing_bytes(&p->memory, &p->cluster.device);
    x->needed_bytes = p->memory.peak_bytes < 0 ? -1 : (int64_t)p->memory.needed;
    x->fits = x->missing_bytes <= 0;
    x->tokens_per_s = t.tokens_per_s;
    x->samples_per_s = t.samples_per_s;
    x->cost_per_trillion_tokens =
        each * (double)x->n_devices / 3600 / t.tokens_per_s * 1e12;
}

void lw_tune_put_budget(double tokens, struct lw_tune_row *x)
{
    double all = tokens > 0 ? tokens : NAN;

    x->days = all / x->tokens_per_s / 86400;
    x->cost = x->cost_per_trillion_tokens * all / 1e12;
}

static enum lw_status keep_key(struct lw_arena *a, const struct lw_alike_key *from,
                               const char *framework, struct lw_tune_row *x, struct lw_err *err)
{
    x->framework = lw_arena_strdup(a, framework);
    x->key = *from;
    bool kept = x->framework != NULL;
    for (int k = 0; k < LW_ALIKE_PARTS; k++) {
        x->key.part[k] = lw_arena_strdup(a, from->part[k] ? from->part[k] : "");
        kept &= x->key.part[k] != NULL;
    }
    return kept ? LW_OK : lw_fail_nomem(err);
}

/* As an earlier search of the space left it. Whether another one has its plan is of this search. */
static enum lw_status recall(const struct lw_searched *known, struct job *j, struct lw_err *err)
{
    LW_TRY(lw_tune_memo_take(known, &j->row, err));
    return lw_tune_alike_set(&j->arena, known->alike, &j->row, err);
}

/* The figures of a strategy whose plan is the same; its run is its own, where it is known. */
static enum lw_status share(const struct lw_tune_row *of, const struct lw_searched *known,
                            struct job *j, struct lw_err *err)
{
    struct lw_tune_row *x = &j->row, own = *x;

    *x = *of;
    x->part = own.part;
    x->combination = own.combination;
    x->strategy = own.strategy;
    x->command = own.command;
    x->bound = own.bound;
    x->needed_bound = own.needed_bound;
    x->same_as = of->same_as[0] ? of->same_as : of->strategy;
    x->run = known && known->run > 0 ? known->run : -1;
    return keep_key(&j->arena, &of->key, of->framework, x, err);
}

/* Buffers of DeepSpeed have the size of the cap, whatever the buckets are. */
static void note_caps(const struct lw_plan *p, struct lw_tune_row *x)
{
    bool sized = p->strategy->bucket_policy == LW_BUCKET_DEEPSPEED;

    x->least_cap = p->least_cap;
    x->next_cap = sized ? 0 : p->next_cap;
}

/* Of what does not fit no samples are drawn. */
static enum lw_status sample(const struct lw_tune_part *part, const struct lw_prediction *p,
                             lw_ps most, const struct lw_progress *stop, struct lw_tune_row *x,
                             struct lw_err *err)
{
    return part->noise.on && x->fits
               ? lw_tune_noise_p90(&part->noise, p, most, stop, &x->step_p90, err)
               : LW_OK;
}

/* The function of `lapwing sim`, from the same options; the plan is checked if it is shown. most,
 * stop: of its samples. */
static enum lw_status predict(const struct lw_tune_part *part, const struct lw_tune_given *g,
                              lw_ps most, const struct lw_progress *stop, struct job *j,
                              struct lw_err *err)
{
    struct lw_prediction p = {.options = lw_sim_options_default(), .seed = -1, .row.id = -1,
                              .no_db = true, .quiet = true};
    enum lw_status st = lw_tune_source(&part->request, g, &p.source, err);

    p.source.unproven = true;
    lw_tune_noise_set(&part->noise, &p);
    if (st == LW_OK)
        st = lw_predict(&p, err);
    if (st == LW_OK) {
        take_figures(part, &p, &j->row);
        st = sample(part, &p, most, stop, &j->row, err);
    }
    if (st == LW_OK) {
        const struct lw_alike_key key = lw_prediction_key(&p);
        st = keep_key(&j->arena, &key, p.source.framework.name, &j->row, err);
        note_caps(&p.plan, &j->row);
    }
    lw_prediction_free(&p);
    return st;
}

/* What a device has for tensors; -1 = not known. */
static int64_t room_of(const struct lw_device *d)
{
    return lw_figure_is_set(d->memory_bytes)
               ? (int64_t)d->memory_bytes.value - lw_device_framework_bytes(d)
               : -1;
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
    int64_t room = room_of(&p->request.cluster->device);

    lw_tune_strategy(&p->space, k, &strategy, &given, NULL);
    LW_TRY(lw_tune_case_of(s->contexts[part], &strategy, true, NULL, &c, err));
    begin_row(j, part, k, bound_of(s, part, &c), c.needed_bytes);
    LW_TRY(put_texts(p, &given, j, err));
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
    LW_TRY(put_texts(of, &given, j, err));
    int64_t same = lw_tune_same_find(r->s->same, j->family, strategy.bucket_cap_bytes);
    enum lw_status st = same >= 0 ? share(&r->s->r->rows[same], known, j, &j->why)
                        : known   ? recall(known, j, &j->why)
                                    : predict(of, &given, r->most, r->s->t->progress, j, &j->why);
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
        LW_TRY(keep_key(&s->r->arena, &j->row.key, j->row.framework, x, err));
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
            st = count_reason(s, j->why.msg, LW_TUNE_BY_PLAN, 1, err);
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

/* The N-th of the best, which others have to precede; NULL: there is none yet. */
static const struct lw_tune_row *last_of_best(const struct search *s)
{
    return s->t->no_bounds || s->r->n_best < s->t->n_best ? NULL : s->r->best[s->t->n_best - 1];
}

/* It cannot be among the best N: its step is at least its bound, and so is its memory. */
static bool is_pruned(const struct search *s, const struct candidate *c)
{
    const struct lw_tune_row *last = last_of_best(s);
    int64_t at;

    if (!last)
        return false;
    at = s->first[last->part] + last->combination;
    if (c->bound != lw_tune_rank_by(last))
        return c->bound > lw_tune_rank_by(last);
    return c->needed != last->needed_bytes ? c->needed > last->needed_bytes : c->number > at;
}

static bool precedes(const struct candidate *a, const struct candidate *b)
{
    if (a->bound != b->bound)
        return a->bound < b->bound;
    return a->needed != b->needed ? a->needed < b->needed : a->number < b->number;
}

static enum lw_status push(struct search *s, struct candidate x, struct lw_err *err)
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

static struct candidate pop(struct search *s)
{
    struct candidate top = s->queue[0], x = s->queue[--s->n_queue];
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
        const struct candidate x = {j->row.bound, j->of.number, needed};
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
static enum lw_status hold(struct search *s, struct candidate x, struct lw_err *err)
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
        const struct candidate x = pop(s);
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
        const struct candidate x = next ? s->v[s->at++] : pop(s);
        LW_TRY(lw_tune_memo_lost(s->t->memo, x.number, x.bound, err));
    }
    return LW_OK;
}

static enum lw_status simulate_all(struct search *s, struct lw_err *err)
{
    struct round r = {.s = s};

    for (;;) {
        s->r->interrupted = lw_progress_stopped(s->t->progress);
        if (s->r->interrupted) { /* what was not reached is not excluded */
            s->r->least_pruned = -1;
            return LW_OK;
        }
        LW_TRY(fill_round(s, &r, err));
        if (r.n == 0)
            break;
        r.most = last_of_best(s) ? lw_tune_rank_by(last_of_best(s)) : INT64_MAX;
        enum lw_status st = lw_parallel(
            &(struct lw_parallel_work){.one = run_one, .ctx = &r, .n = r.n,
                                       .n_threads = s->t->n_threads}, err);
        LW_TRY(take_round(s, &r, st, err));
        tell(s);
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

/* --- the front --- */

/* In steps as long as what strategies are ranked by. */
static double rate(const struct lw_tune_row *x)
{
    return x->step_p90 < 0 ? x->samples_per_s
                           : x->samples_per_s * ((double)x->step / (double)x->step_p90);
}

static bool is_dominated(const struct lw_tune_row *x, const struct lw_tune_row *by)
{
    bool no_worse = rate(by) >= rate(x) &&
                    by->peak_memory_bytes <= x->peak_memory_bytes &&
                    by->n_devices <= x->n_devices &&
                    !(by->cost_per_trillion_tokens > x->cost_per_trillion_tokens);
    bool better = rate(by) > rate(x) ||
                  by->peak_memory_bytes < x->peak_memory_bytes ||
                  by->n_devices < x->n_devices ||
                  by->cost_per_trillion_tokens < x->cost_per_trillion_tokens;

    return no_worse && (better || by < x);
}

static int by_memory(const struct lw_tune_row *a, const struct lw_tune_row *b)
{
    return a->peak_memory_bytes != b->peak_memory_bytes
               ? (a->peak_memory_bytes > b->peak_memory_bytes ? 1 : -1)
               : (lw_tune_rank_by(a) > lw_tune_rank_by(b)) -
                     (lw_tune_rank_by(a) < lw_tune_rank_by(b));
}

static enum lw_status find_front(struct lw_tune_result *r, struct lw_err *err)
{
    LW_TAKE(&r->arena, r->front, r->n_rows + 1, err);
    for (int64_t i = 0; i < r->n_rows; i++) {
        const struct lw_tune_row *x = &r->rows[i];
        bool out = !x->fits;
        for (int64_t k = 0; !out && k < r->n_rows; k++)
            out = k != i && r->rows[k].fits && is_dominated(x, &r->rows[k]);
        if (out)
            continue;
        int64_t at = r->n_front++;
        for (; at > 0 && by_memory(r->front[at - 1], x) > 0; at--)
            r->front[at] = r->front[at - 1];
        r->front[at] = x;
    }
    return LW_OK;
}

/* --- intervals --- */

static enum lw_status put_interval(struct lw_arena *a, struct lw_tune_row *x, struct lw_err *err)
{
    struct lw_alike_step alike = {0};

    LW_TRY(lw_alike_step_of(&x->key, x->framework, &alike, err));
    lw_alike_step_interval(&alike, x->step, &x->p10, &x->p90);
    x->interval_of = lw_arena_strdup(a, alike.of);
    return x->interval_of ? LW_OK : lw_fail_nomem(err);
}

/* Of the rows that are shown. */
static enum lw_status put_intervals(struct lw_tune_result *r, struct lw_err *err)
{
    for (int64_t i = 0; i < r->n_best; i++)
        LW_TRY(put_interval(&r->arena, (struct lw_tune_row *)r->best[i], err));
    for (int64_t i = 0; i < r->n_front; i++)
        LW_TRY(put_interval(&r->arena, (struct lw_tune_row *)r->front[i], err));
    return LW_OK;
}

static void tell_from(const struct lw_tune_row *first, double within, struct lw_tune_row *x)
{
    x->told_apart = (double)lw_tune_rank_by(x) > within * (double)lw_tune_rank_by(first);
}

/* A recording has no runs like it: nothing is known of its differences. */
static enum lw_status tell_apart(struct lw_tune_result *r, struct lw_err *err)
{
    r->pairs.within = NAN;
    if (r->n_best == 0)
        return LW_OK;
    LW_TRY(lw_alike_pairs_of(&r->best[0]->key, &r->pairs, err));
    for (int64_t i = 0; i < r->n_best; i++)
        tell_from(r->best[0], r->pairs.within, (struct lw_tune_row *)r->best[i]);
    for (int64_t i = 0; i < r->n_rows; i++)
        tell_from(r->best[0], r->pairs.within, &r->rows[i]);
    return LW_OK;
}

/* The rows of the best have what is known of the best. */
static void share_best(struct lw_tune_result *r)
{
    for (int64_t i = 0; i < r->n_best; i++)
        for (int64_t k = 0; k < r->n_rows; k++)
            if (r->rows[k].part == r->best[i]->part &&
                r->rows[k].combination == r->best[i]->combination)
                r->rows[k] = *r->best[i];
}

/* --- all of it --- */

static enum lw_status begin(struct search *s, struct lw_err *err)
{
    struct lw_tune_result *r = s->r;

    LW_TAKE(&r->arena, s->first, s->t->n_parts + 1, err);
    LW_TAKE(&r->arena, s->contexts, s->t->n_parts, err);
    LW_TRY(lw_tune_same_new(&r->arena, &s->same, err));
    LW_TAKE(&r->arena, r->best, s->t->n_best + 1, err);
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
        st = list_all(&s, err);
    if (st == LW_OK)
        st = simulate_all(&s, err);
    if (st == LW_OK)
        st = prove_best(&s, err);
    if (st == LW_OK)
        st = find_front(out, err);
    if (st == LW_OK)
        st = put_intervals(out, err);
    if (st == LW_OK)
        st = tell_apart(out, err);
    share_best(out);
    sort_reasons(out);
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
