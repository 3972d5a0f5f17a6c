/* The memory of a search. A search is found again by its space: a text of all that a strategy's
 * figures depend on. What was simulated is stored within FLUSH_S, in one transaction each time, so
 * a process that is killed loses at most the strategies since. A search that goes on runs all of
 * its passes again and takes known strategies from here in place of simulating them, so that its
 * output is that of a search that nothing interrupted. Without a database it knows what it is told,
 * and hands over what it finds. */
#include "analysis/tune/tune_memo.h"

#include <math.h>
#include <string.h>

#include "analysis/store/store.h"
#include "analysis/study/prediction.h"
#include "analysis/tune/tune_identity.h"
#include "analysis/tune/tune_search.h"
#include "shared/base/clock.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "sim/predict/sim_print.h"

#define FLUSH_S 0.5
enum { MOST_KEPT = 2000 }; /* rows that wait to be stored */

struct lw_tune_memo {
    struct lw_tune_memo_request r;
    struct lw_store *store;
    struct lw_arena arena; /* of what was known, and the space */
    struct lw_searched *known, *learned; /* learned: [n_learned] not among the known yet */
    int64_t n_known, n_learned, learned_capacity, n_lost, n_nth;
    int64_t *first;        /* [n_parts + 1] numbers of combinations before */
    struct lw_search search;
    struct lw_arena waiting_texts;
    struct lw_searched waiting[MOST_KEPT];
    int64_t n_waiting;
    double flushed_s;
};

/* --- opening --- */

static enum lw_status refuse(const struct lw_tune_memo *m, const struct lw_search *last,
                             struct lw_err *err)
{
    char one[64], other[64];

    if (!last)
        return lw_fail_at(err, LW_EINVAL, m->r.db, 0, "--resume: it holds no search to go on with; "
                                                      "leave out --resume to begin one");
    lw_tune_differing(last->space, m->search.space, one, other);
    return lw_fail_at(err, LW_EINVAL, m->r.db, 0,
                      "--resume: no search of this space; the last one, search %lld, has '%s' "
                      "where this one has '%s': give its options, or leave out --resume",
                      (long long)last->id, one, other);
}

/* The search to go on with: the last of this space and shard; a new one where there are others of
 * the space alone, as those of shards. */
static enum lw_status find_own(struct lw_tune_memo *m, struct lw_err *err)
{
    struct lw_search *v;
    int64_t n;
    bool any = false;

    LW_TRY(lw_store_searches(m->store, &m->arena, &v, &n, err));
    for (int64_t i = 0; i < n; i++) {
        bool of_space = strcmp(v[i].hash, m->search.hash) == 0;
        any |= of_space;
        if (of_space && v[i].shard == m->search.shard && v[i].n_shards == m->search.n_shards)
            m->search.id = v[i].id;
    }
    return any ? LW_OK : refuse(m, n > 0 ? &v[n - 1] : NULL, err);
}

/* To go on with a search is refused before an older database is brought up to date for it. */
static enum lw_status look(struct lw_tune_memo *m, struct lw_err *err)
{
    struct lw_err unused;

    if (lw_store_open(m->r.db, LW_STORE_READ, &m->store, &unused) != LW_OK)
        return LW_OK; /* too old to be read, or what fails below */
    enum lw_status st = find_own(m, err);
    lw_store_close(m->store);
    m->store = NULL;
    return st;
}

static enum lw_status begin_row(struct lw_tune_memo *m, struct lw_err *err)
{
    return m->search.id > 0 ? lw_store_continue_search(m->store, &m->search, err)
                            : lw_store_begin_search(m->store, &m->search, &m->search.id, err);
}

/* The search's row, when there is something to store: a database of an older version is brought up
 * to date then. */
static enum lw_status open_store(struct lw_tune_memo *m, struct lw_err *err)
{
    if (m->store || !m->r.db)
        return LW_OK;
    LW_TRY(lw_store_open(m->r.db, LW_STORE_WRITE, &m->store, err));
    return begin_row(m, err);
}

static enum lw_status begin(struct lw_tune_memo *m, struct lw_err *err)
{
    const struct lw_tune_memo_request *r = &m->r;

    LW_TAKE(&m->arena, m->first, r->n_parts + 1, err);
    for (int p = 0; p < r->n_parts; p++)
        m->first[p + 1] = m->first[p] + r->parts[p].space.n;
    if (!r->db)
        return LW_OK;
    LW_TRY(lw_tune_identity(r->parts, r->n_parts, &m->arena, &m->search.space, &m->search.hash,
                            err));
    if (!r->resume)
        return LW_OK;
    LW_TRY(look(m, err));
    LW_TRY(lw_store_open(r->db, LW_STORE_WRITE, &m->store, err));
    LW_TRY(find_own(m, err));
    LW_TRY(lw_store_searched_of_space(m->store, m->search.hash, &m->arena, &m->known, &m->n_known,
                                      err));
    return begin_row(m, err);
}

enum lw_status lw_tune_memo_open(const struct lw_tune_memo_request *r, struct lw_tune_memo **out,
                                 struct lw_err *err)
{
    struct lw_tune_memo *m;

    LW_NEW(m, 1, err);
    m->r = *r;
    m->flushed_s = lw_now_s();
    m->search = (struct lw_search){.shard = r->shard.n > 0 ? r->shard.i : 1,
                                   .n_shards = r->shard.n > 0 ? r->shard.n : 1, .model = r->model,
                                   .cluster = r->cluster, .framework = r->framework,
                                   .command = r->command, .global_batch = r->global_batch,
                                   .n_best = r->n_best};
    enum lw_status st = begin(m, err);
    if (st != LW_OK) {
        lw_tune_memo_close(m);
        return st;
    }
    *out = m;
    return LW_OK;
}

void lw_tune_memo_close(struct lw_tune_memo *m)
{
    if (!m)
        return;
    lw_store_close(m->store);
    lw_free(m->learned);
    lw_arena_free(&m->waiting_texts);
    lw_arena_free(&m->arena);
    lw_free(m);
}

/* --- what is known --- */

const struct lw_searched *lw_tune_memo_find(const struct lw_tune_memo *m, int64_t number)
{
    int64_t low = 0, end = m ? m->n_known : 0;

    while (low < end) {
        int64_t mid = low + (end - low) / 2;
        if (m->known[mid].combination == number)
            return &m->known[mid];
        if (m->known[mid].combination < number)
            low = mid + 1;
        else
            end = mid;
    }
    return NULL;
}

char *lw_tune_alike_text(struct lw_arena *a, const struct lw_tune_row *x)
{
    char *text = lw_arena_printf(a, "%s\n%d", x->framework ? x->framework : "",
                                 x->key.is_foreign);

    for (int k = 0; text && k < LW_ALIKE_PARTS; k++)
        text = lw_arena_printf(a, "%s\n%d %s", text, x->key.other_figures[k],
                               x->key.part[k] ? x->key.part[k] : "");
    return text;
}

static const char *next_line(const char **at)
{
    const char *line = *at;

    *at += strcspn(*at, "\n");
    *at += **at == '\n';
    return line;
}

enum lw_status lw_tune_alike_set(struct lw_arena *a, const char *text, struct lw_tune_row *x,
                                 struct lw_err *err)
{
    const char *at = text, *line = next_line(&at);
    bool kept = true;

    kept &= (x->framework = lw_arena_strndup(a, line, strcspn(line, "\n"))) != NULL;
    x->key.is_foreign = *next_line(&at) == '1';
    for (int k = 0; k < LW_ALIKE_PARTS; k++) {
        line = next_line(&at);
        x->key.other_figures[k] = *line == '1';
        line += strcspn(line, " \n");
        line += *line == ' ';
        kept &= (x->key.part[k] = lw_arena_strndup(a, line, strcspn(line, "\n"))) != NULL;
    }
    return kept ? LW_OK : lw_fail_nomem(err);
}

enum lw_status lw_tune_memo_take(const struct lw_searched *x, struct lw_tune_row *row,
                                 struct lw_err *err)
{
    if (x->outcome == LW_SEARCHED_INVALID)
        return lw_fail(err, LW_EINVAL, "%s", x->why);
    row->step = x->step;
    row->step_p90 = x->step_p90;
    row->p10 = row->p90 = -1;
    row->n_devices = x->n_devices;
    row->peak_memory_bytes = x->peak_memory_bytes;
    row->device_bytes = x->memory_bytes;
    row->missing_bytes = x->missing_bytes;
    row->needed_bytes = x->needed_bytes;
    row->fits = x->missing_bytes <= 0;
    row->tokens_per_s = x->tokens_per_s;
    row->samples_per_s = x->samples_per_s;
    row->cost_per_trillion_tokens = x->cost_per_trillion_tokens;
    row->run = x->run > 0 ? x->run : -1;
    row->least_cap = x->least_cap;
    row->next_cap = x->next_cap;
    return LW_OK;
}

/* --- what is found --- */

static enum lw_status flush(struct lw_tune_memo *m, struct lw_err *err)
{
    enum lw_status st = m->n_waiting > 0 ? open_store(m, err) : LW_OK;

    if (st == LW_OK && m->n_waiting > 0 && m->store)
        st = lw_store_put_searched(m->store, m->search.id, m->waiting, m->n_waiting, err);
    m->n_waiting = 0;
    lw_arena_free(&m->waiting_texts);
    m->waiting_texts = (struct lw_arena){0};
    m->flushed_s = lw_now_s();
    return st;
}

static bool has_texts(const struct lw_searched *x)
{
    return x->strategy && x->command && x->why && x->interval_of && x->alike;
}

static const char *copy(struct lw_arena *a, const char *text)
{
    return lw_arena_strdup(a, text ? text : "");
}

/* Texts are in the arena. Of a strategy that was not simulated few figures are known. */
static struct lw_searched searched_of(struct lw_arena *a, int64_t number,
                                      enum lw_searched_outcome outcome,
                                      const struct lw_tune_row *x, const char *why)
{
    bool simulated = outcome == LW_SEARCHED_SIMULATED;
    double none = NAN;

    return (struct lw_searched){
        .combination = number,
        .outcome = outcome,
        .nth = -1,
        .run = x->run > 0 ? x->run : 0,
        .strategy = copy(a, x->strategy),
        .command = copy(a, x->command),
        .why = copy(a, outcome == LW_SEARCHED_INVALID ? why : simulated ? x->same_as : ""),
        .interval_of = copy(a, x->interval_of),
        .alike = simulated ? lw_tune_alike_text(a, x) : copy(a, ""),
        .bound = x->bound,
        .step = simulated ? x->step : -1,
        .step_p90 = simulated ? x->step_p90 : -1,
        .p10 = simulated ? x->p10 : -1,
        .p90 = simulated ? x->p90 : -1,
        .told_apart = x->told_apart,
        .least_cap = simulated ? x->least_cap : 0,
        .next_cap = simulated ? x->next_cap : 0,
        .n_devices = simulated ? x->n_devices : -1,
        .peak_memory_bytes = simulated ? x->peak_memory_bytes : -1,
        .memory_bytes = simulated ? x->device_bytes : -1,
        .missing_bytes = outcome == LW_SEARCHED_INVALID ? -1 : x->missing_bytes,
        .needed_bytes = simulated ? x->needed_bytes : -1,
        .needed_bound = x->needed_bound,
        .tokens_per_s = simulated ? x->tokens_per_s : none,
        .samples_per_s = simulated ? x->samples_per_s : none,
        .cost_per_trillion_tokens = simulated ? x->cost_per_trillion_tokens : none,
    };
}

/* The row that waits last, the next one's place. */
static enum lw_status end_row(struct lw_tune_memo *m, struct lw_err *err)
{
    m->n_waiting++;
    return m->n_waiting == MOST_KEPT || lw_now_s() - m->flushed_s > FLUSH_S ? flush(m, err)
                                                                            : LW_OK;
}

static enum lw_status give(struct lw_tune_memo *m, const struct lw_searched *x, struct lw_err *err)
{
    bool simulated = x->outcome == LW_SEARCHED_SIMULATED || x->outcome == LW_SEARCHED_INVALID;

    return m->r.take && simulated && !lw_tune_memo_find(m, x->combination)
               ? m->r.take(m->r.context, x, err)
               : LW_OK;
}

enum lw_status lw_tune_memo_keep(struct lw_tune_memo *m, int64_t number,
                                 enum lw_searched_outcome outcome, const struct lw_tune_row *row,
                                 const char *why, struct lw_err *err)
{
    if (!m)
        return LW_OK;
    struct lw_searched *x = &m->waiting[m->n_waiting];
    *x = searched_of(&m->waiting_texts, number, outcome, row, why);
    if (!has_texts(x))
        return lw_fail_nomem(err);
    if (outcome == LW_SEARCHED_SIMULATED)
        x->nth = m->n_nth++;
    LW_TRY(give(m, x, err));
    return end_row(m, err);
}

/* One that another search of the space had to simulate: its figures stay. The texts are the
 * memo's. */
static enum lw_status keep_known(struct lw_tune_memo *m, const struct lw_searched *known,
                                 struct lw_err *err)
{
    struct lw_searched *x = &m->waiting[m->n_waiting];

    *x = *known;
    x->place = x->front = 0;
    x->nth = -1;
    return end_row(m, err);
}

/* --- what others found --- */

LW_COMPARATOR(by_combination, struct lw_searched, a->combination, b->combination)

enum lw_status lw_tune_memo_learn(struct lw_tune_memo *m, const struct lw_searched *x,
                                  struct lw_err *err)
{
    LW_ROOM(m->learned, m->learned_capacity, m->n_learned + 1, err);
    struct lw_searched *y = &m->learned[m->n_learned];
    *y = *x;
    y->strategy = copy(&m->arena, x->strategy);
    y->command = copy(&m->arena, x->command);
    y->why = copy(&m->arena, x->why);
    y->interval_of = copy(&m->arena, x->interval_of);
    y->alike = copy(&m->arena, x->alike);
    if (!has_texts(y))
        return lw_fail_nomem(err);
    m->n_learned++;
    return keep_known(m, y, err);
}

enum lw_status lw_tune_memo_learned(struct lw_tune_memo *m, struct lw_err *err)
{
    struct lw_searched *all;
    int64_t n = 0;

    LW_TRY(flush(m, err));
    LW_TAKE(&m->arena, all, m->n_known + m->n_learned + 1, err);
    for (int64_t i = 0; i < m->n_known; i++)
        all[n++] = m->known[i];
    for (int64_t i = 0; i < m->n_learned; i++)
        if (!lw_tune_memo_find(m, m->learned[i].combination))
            all[n++] = m->learned[i];
    lw_sort(all, n, by_combination);
    m->known = all;
    m->n_known = n;
    m->n_learned = 0;
    return LW_OK;
}

const struct lw_searched *lw_tune_memo_all(const struct lw_tune_memo *m, int64_t *n)
{
    *n = m->n_known;
    return m->known;
}

/* The options of a combination, as a row has them. */
static enum lw_status name(const struct lw_tune_memo *m, int64_t number, struct lw_arena *a,
                           const char **out, struct lw_err *err)
{
    struct lw_strategy strategy;
    struct lw_tune_given given;
    int p = 0;

    while (number >= m->first[p + 1])
        p++;
    lw_tune_strategy(&m->r.parts[p].space, number - m->first[p], &strategy, &given, NULL);
    LW_PRINT(a, *out, err, "%s", m->r.parts[p].outer);
    for (int i = 0; i < given.n; i++)
        LW_PRINT(a, *out, err, "%s%s%s=%s", *out, **out ? " " : "", given.name[i],
                 given.value[i]);
    return LW_OK;
}

enum lw_status lw_tune_memo_lost(struct lw_tune_memo *m, int64_t number, lw_ps bound,
                                 struct lw_err *err)
{
    struct lw_tune_row row = {.bound = bound, .missing_bytes = -1, .needed_bound = -1};

    if (!m || !m->r.db || m->n_lost++ >= LW_TUNE_LOST)
        return LW_OK;
    const struct lw_searched *known = lw_tune_memo_find(m, number);
    if (known)
        return keep_known(m, known, err);
    LW_TRY(name(m, number, &m->waiting_texts, &row.strategy, err));
    return lw_tune_memo_keep(m, number, LW_SEARCHED_BOUNDED, &row, "", err);
}

/* --- the answer --- */

static int64_t number_of(const struct lw_tune_memo *m, const struct lw_tune_row *x)
{
    return m->first[x->part] + x->combination;
}

static int64_t place_of(const struct lw_tune_row *const *v, int64_t n, const struct lw_tune_row *x)
{
    for (int64_t i = 0; i < n; i++)
        if (v[i]->part == x->part && v[i]->combination == x->combination)
            return i + 1;
    return 0;
}

/* The best, and those of the front that are not among them. */
static enum lw_status answer_of(const struct lw_tune_memo *m, const struct lw_tune_result *r,
                                struct lw_arena *a, struct lw_searched **out, int64_t *n,
                                struct lw_err *err)
{
    *n = 0;
    LW_TAKE(a, *out, r->n_best + r->n_front + 1, err);
    for (int64_t i = 0; i < r->n_best + r->n_front; i++) {
        const struct lw_tune_row *x = i < r->n_best ? r->best[i] : r->front[i - r->n_best];
        int64_t place = place_of(r->best, r->n_best, x);
        if (i >= r->n_best && place > 0)
            continue;
        struct lw_searched *v = &(*out)[(*n)++];
        *v = searched_of(a, number_of(m, x), LW_SEARCHED_SIMULATED, x, "");
        v->place = place;
        v->front = place_of(r->front, r->n_front, x);
        if (!has_texts(v))
            return lw_fail_nomem(err);
        for (v->nth = 0; v->nth < r->n_rows; v->nth++)
            if (r->rows[v->nth].part == x->part && r->rows[v->nth].combination == x->combination)
                break;
    }
    return LW_OK;
}

enum lw_status lw_tune_memo_finish(struct lw_tune_memo *m, const struct lw_tune_result *r,
                                   struct lw_err *err)
{
    struct lw_arena a = {0};
    struct lw_searched *v;
    struct lw_search_reason *reasons;
    int64_t n;

    if (!m || !m->r.db)
        return LW_OK;
    LW_TRY(open_store(m, err));
    LW_TRY(flush(m, err));
    struct lw_search x = m->search;
    x.status = r->interrupted ? LW_SEARCH_INTERRUPTED : LW_SEARCH_OK;
    x.wall_s = r->wall_s;
    x.n_combinations = r->n_combinations;
    x.n_repeated = r->n_repeated;
    x.n_invalid = r->n_invalid;
    x.n_valid = r->n_valid;
    x.n_bounded_step = r->n_bounded_step;
    x.n_bounded_memory = r->n_bounded_memory;
    x.n_simulated = r->n_simulated;
    x.n_unfit = r->n_unfit;
    x.least_pruned = r->least_pruned;
    x.within = r->pairs.within;
    x.n_tables = r->pairs.n_tables;
    x.same_parallelism = r->pairs.same;
    LW_TAKE(&a, reasons, r->n_reasons + 1, err);
    for (int64_t i = 0; i < r->n_reasons; i++)
        reasons[i] = (struct lw_search_reason){r->reasons[i].n, r->reasons[i].text,
                                               r->reasons[i].example};
    enum lw_status st = answer_of(m, r, &a, &v, &n, err);
    if (st == LW_OK)
        st = lw_store_finish_search(m->store, &x, v, n, reasons, r->n_reasons, err);
    lw_arena_free(&a);
    return st;
}

/* --- runs --- */

static enum lw_status store_run(const struct lw_tune_memo *m, const struct lw_tune_row *x,
                                int64_t *run, struct lw_err *err)
{
    const struct lw_tune_part *part = &m->r.parts[x->part];
    struct lw_prediction p = {.options = lw_sim_options_default(), .seed = -1, .row.id = -1,
                              .db = m->r.db, .quiet = true,
                              .n_samples = part->noise.n_samples};
    struct lw_strategy strategy;
    struct lw_tune_given given;
    struct lw_sim_report report;

    lw_tune_strategy(&part->space, x->combination, &strategy, &given, NULL);
    /* as sim stores it: without the program's name */
    snprintf(p.command, sizeof p.command, "%s", x->command + strcspn(x->command, " ") + 1);
    lw_tune_noise_set(&part->noise, &p);
    enum lw_status st = lw_tune_source(&part->request, &given, &p.source, err);
    if (st == LW_OK)
        st = lw_prediction_make(&p, &report, err);
    if (st == LW_OK && p.unstored.code != LW_OK) {
        *err = p.unstored;
        st = p.unstored.code;
    }
    *run = p.row.id;
    lw_prediction_free(&p);
    return st;
}

/* In all copies of the row. */
static void set_run(const struct lw_tune_result *r, const struct lw_tune_row *x, int64_t run)
{
    for (int64_t i = 0; i < r->n_best + r->n_front + r->n_rows; i++) {
        struct lw_tune_row *y = i < r->n_best ? (struct lw_tune_row *)r->best[i]
                                : i < r->n_best + r->n_front
                                    ? (struct lw_tune_row *)r->front[i - r->n_best]
                                    : &r->rows[i - r->n_best - r->n_front];
        if (y->part == x->part && y->combination == x->combination)
            y->run = run;
    }
}

enum lw_status lw_tune_memo_runs(struct lw_tune_memo *m, const struct lw_tune_result *r, int64_t n,
                                 struct lw_err *err)
{
    for (int64_t i = 0; m && m->store && i < n && i < r->n_best; i++) {
        const struct lw_tune_row *x = r->best[i];
        int64_t run = x->run;
        if (run <= 0)
            LW_TRY(store_run(m, x, &run, err));
        LW_TRY(lw_store_searched_run(m->store, m->search.id, number_of(m, x), run, err));
        set_run(r, x, run);
    }
    return LW_OK;
}

int64_t lw_tune_memo_search(const struct lw_tune_memo *m)
{
    return m->search.id;
}

int64_t lw_tune_memo_known(const struct lw_tune_memo *m)
{
    return m->n_known;
}
