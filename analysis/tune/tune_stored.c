/* Searches of the database, printed as the command that made them prints its own. */
#include "analysis/tune/tune_stored.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/store/store.h"
#include "analysis/tune/tune_memo.h"
#include "analysis/tune/tune_print.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/text/wrap.h"
#include "shared/timeline/budget.h"

/* --- the list --- */

struct listed {
    struct lw_search search;
    lw_ps step; /* of the best; -1 = none */
    char shard[48], started[32];
};

#define AT(field) offsetof(struct listed, field)
static const struct lw_column columns[] = {
    {"id", ">search", LW_COLUMN_INT, AT(search.id)},
    {"status", "status", LW_COLUMN_WORD, AT(search.status), .word = lw_search_status_name},
    {"model", "model", LW_COLUMN_TEXT, AT(search.model), 24},
    {"cluster", "cluster", LW_COLUMN_TEXT, AT(search.cluster), 24},
    {"framework", "framework", LW_COLUMN_TEXT, AT(search.framework), 20},
    {"global_batch", ">batch", LW_COLUMN_INT, AT(search.global_batch)},
    {"shard", "shard", LW_COLUMN_CHARS, AT(shard), .lacking = "-"},
    {"n_valid", ">strategies", LW_COLUMN_INT, AT(search.n_valid)},
    {"n_simulated", ">simulated", LW_COLUMN_INT, AT(search.n_simulated)},
    {"step_ns", ">best step", LW_COLUMN_PS, AT(step), .lacking = "-"},
    {NULL, "started (UTC)", LW_COLUMN_CHARS, AT(started)},
    {"started_at_s", NULL, LW_COLUMN_INT, AT(search.started_at)},
    {"command", NULL, LW_COLUMN_TEXT, AT(search.command)},
};
#undef AT

static enum lw_status best_step(struct lw_store *s, const struct lw_search *x, struct lw_arena *a,
                                lw_ps *step, struct lw_err *err)
{
    struct lw_searched *v;
    int64_t n;

    *step = -1;
    LW_TRY(lw_store_searched(s, x->id, a, &v, &n, err));
    for (int64_t i = 0; i < n; i++)
        *step = v[i].place == 1 ? v[i].step : *step;
    return LW_OK;
}

static enum lw_status list(struct lw_store *s, struct lw_arena *a, enum lw_format format, FILE *f,
                           struct lw_err *err)
{
    struct lw_search *v;
    struct listed *rows;
    int64_t n;

    LW_TRY(lw_store_searches(s, a, &v, &n, err));
    if (n == 0 && format == LW_FORMAT_TEXT) {
        fprintf(f, "%s holds no search; `lapwing tune` stores one\n", lw_store_file(s));
        return LW_OK;
    }
    LW_TAKE(a, rows, n + 1, err);
    for (int64_t i = 0; i < n; i++) {
        struct listed *x = &rows[i];
        time_t at = (time_t)v[i].started_at;
        struct tm tm;
        x->search = v[i];
        LW_TRY(best_step(s, &v[i], a, &x->step, err));
        if (v[i].n_shards > 1)
            snprintf(x->shard, sizeof x->shard, "%lld/%lld", (long long)v[i].shard,
                     (long long)v[i].n_shards);
        if (gmtime_r(&at, &tm))
            strftime(x->started, sizeof x->started, "%m-%d %H:%M", &tm);
    }
    return lw_records_print(&LW_RECORDS("searches", columns, rows, n), format, f, err);
}

enum lw_status lw_search_list_print(struct lw_store *s, enum lw_format format, FILE *f,
                                    struct lw_err *err)
{
    struct lw_arena a = {0};
    enum lw_status st = list(s, &a, format, f, err);

    lw_arena_free(&a);
    return st;
}

/* --- the answer of one --- */

/* The value of --tokens among a search's words; 0 = not given. */
static double tokens_of(const char *command)
{
    static const char option[] = " --tokens";
    const char *at = strstr(command, option);
    double tokens = 0;
    char word[64];

    if (!at || (at[strlen(option)] != ' ' && at[strlen(option)] != '='))
        return 0;
    at += strlen(option) + 1;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(at, " "), at);
    return lw_parse_tokens(word, &tokens, NULL) == LW_OK ? tokens : 0;
}

static struct lw_tune_row row_of(const struct lw_searched *v, double tokens)
{
    struct lw_tune_row x = {
        .combination = v->combination,
        .strategy = v->strategy,
        .command = v->command,
        .bound = v->bound,
        .step = v->step,
        .step_p90 = v->step_p90,
        .p10 = v->p10,
        .p90 = v->p90,
        .n_devices = v->n_devices,
        .peak_memory_bytes = v->peak_memory_bytes,
        .device_bytes = v->memory_bytes,
        .missing_bytes = v->missing_bytes,
        .needed_bytes = v->needed_bytes,
        .needed_bound = v->needed_bound,
        .tokens_per_s = v->tokens_per_s,
        .samples_per_s = v->samples_per_s,
        .cost_per_trillion_tokens = v->cost_per_trillion_tokens,
        .fits = v->missing_bytes <= 0,
        .told_apart = v->told_apart,
        .interval_of = v->interval_of,
        .run = v->run > 0 ? v->run : -1,
    };

    lw_tune_put_budget(tokens, &x);
    return x;
}

static void put_row(struct lw_tune_result *r, const struct lw_searched *v, double tokens)
{
    struct lw_tune_row *x = &r->rows[v->nth];

    *x = row_of(v, tokens);
    if (v->place > 0)
        r->best[v->place - 1] = x;
    if (v->front > 0)
        r->front[v->front - 1] = x;
    r->n_best += v->place > 0;
    r->n_front += v->front > 0;
}

static bool is_answer(const struct lw_searched *v, int64_t n)
{
    return v->outcome == LW_SEARCHED_SIMULATED && v->nth >= 0 && v->nth < n && v->place <= n &&
           v->front <= n;
}

static enum lw_status put_reasons(struct lw_store *s, int64_t search, struct lw_tune_result *r,
                                  struct lw_err *err)
{
    struct lw_search_reason *v;

    LW_TRY(lw_store_search_reasons(s, search, &r->arena, &v, &r->n_reasons, err));
    LW_TAKE(&r->arena, r->reasons, r->n_reasons + 1, err);
    for (int64_t i = 0; i < r->n_reasons; i++)
        r->reasons[i] = (struct lw_tune_reason){v[i].text, v[i].example, v[i].n, LW_TUNE_BY_GROUPS};
    return LW_OK;
}

/* Of the arena alone: lw_arena_free. */
static enum lw_status load(struct lw_store *s, const struct lw_search *x, struct lw_tune_result *r,
                           struct lw_err *err)
{
    struct lw_searched *v;
    int64_t n;

    LW_TRY(lw_store_searched(s, x->id, &r->arena, &v, &n, err));
    r->n_combinations = x->n_combinations;
    r->n_repeated = x->n_repeated;
    r->n_invalid = x->n_invalid;
    r->n_valid = x->n_valid;
    r->n_bounded_step = x->n_bounded_step;
    r->n_bounded_memory = x->n_bounded_memory;
    r->n_simulated = r->n_rows = x->n_simulated;
    r->n_unfit = x->n_unfit;
    r->least_pruned = x->least_pruned;
    r->wall_s = x->wall_s;
    r->interrupted = x->status == LW_SEARCH_INTERRUPTED;
    r->has_noise = strstr(x->space, " --samples ") != NULL; /* of every command, with noise alone */
    r->pairs = (struct lw_alike_pairs){.within = x->within, .n_tables = (int32_t)x->n_tables,
                                       .same = x->same_parallelism};
    LW_TAKE(&r->arena, r->rows, n + 1, err);
    LW_TAKE(&r->arena, r->best, n + 1, err);
    LW_TAKE(&r->arena, r->front, n + 1, err);
    for (int64_t i = 0; i < n; i++)
        if (is_answer(&v[i], n))
            put_row(r, &v[i], tokens_of(x->command));
    bool whole = r->n_rows >= 0 && r->n_rows <= n;
    for (int64_t i = 0; i < n; i++)
        whole &= (i >= r->n_best || r->best[i]) && (i >= r->n_front || r->front[i]) &&
                 (i >= r->n_rows || r->rows[i].strategy);
    if (!whole)
        return lw_fail_at(err, LW_EFORMAT, lw_store_file(s), 0,
                          "search %lld: strategies are missing: edited or damaged",
                          (long long)x->id);
    return put_reasons(s, x->id, r, err);
}

static enum lw_status check_ended(struct lw_store *s, const struct lw_search *x,
                                  struct lw_err *err)
{
    return x->status != LW_SEARCH_RUNNING
               ? LW_OK
               : lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                            "search %lld runs, or its process was ended; then `lapwing %s%s` goes "
                            "on with it", (long long)x->id, x->command,
                            strstr(x->command, "--resume") ? "" : " --resume");
}

enum lw_status lw_search_print(struct lw_store *s, const struct lw_search *x,
                               enum lw_format format, FILE *f, struct lw_err *err)
{
    struct lw_tune_result r = {.least_pruned = -1};
    struct lw_tune_report report = {
        .r = &r, .model = x->model, .cluster = x->cluster, .framework = x->framework,
        .global_batch = x->global_batch, .shard = {x->shard, x->n_shards}, .search = x->id,
        .db = lw_store_file(s)};

    LW_TRY(check_ended(s, x, err));
    enum lw_status st = load(s, x, &r, err);
    if (st == LW_OK)
        st = lw_tune_spreads_of_space(x->space, &r.arena, &report.spreads, err);
    if (st == LW_OK)
        st = lw_tune_print(&report, format, f, err);
    lw_arena_free(&r.arena);
    return st;
}

/* --- why the others lose --- */

struct loser {
    struct lw_searched v;
    lw_ps time; /* what it is ranked by, else the bound of that */
    char why[200];
};

#define AT(field) offsetof(struct loser, field)
static const struct lw_column loser_columns[] = {
    {"strategy", NULL, LW_COLUMN_TEXT, AT(v.strategy)},
    {"outcome", NULL, LW_COLUMN_WORD, AT(v.outcome), .word = lw_searched_outcome_name},
    {"step_ns", NULL, LW_COLUMN_PS, AT(v.step), .lacking = ""},
    {"step_p90_ns", NULL, LW_COLUMN_PS, AT(v.step_p90), .lacking = ""},
    {"bound_ns", NULL, LW_COLUMN_PS, AT(v.bound), .lacking = ""},
    {"memory_bytes", NULL, LW_COLUMN_BYTES, AT(v.memory_bytes), .lacking = ""},
    {"missing_bytes", NULL, LW_COLUMN_BYTES, AT(v.missing_bytes), .lacking = ""},
    {"why", NULL, LW_COLUMN_CHARS, AT(why)},
};
#undef AT

LW_COMPARATOR(by_time, struct loser, a->v.outcome, b->v.outcome, a->time, b->time,
              a->v.combination, b->v.combination)

static double percent(lw_ps a, lw_ps b)
{
    return 100 * ((double)a / (double)b - 1);
}

/* first, last: of the best, what they are ranked by; -1 = there are none. */
static void explain(struct loser *x, lw_ps first, lw_ps last)
{
    const struct lw_searched *v = &x->v;
    char bytes[32];

    if (v->outcome == LW_SEARCHED_INVALID)
        snprintf(x->why, sizeof x->why, "not valid: %.150s", v->why);
    else if (v->outcome == LW_SEARCHED_NO_ROOM)
        snprintf(x->why, sizeof x->why, "lacks at least %s of memory",
                 lw_format_bytes(bytes, v->missing_bytes));
    else if (v->outcome == LW_SEARCHED_BOUNDED)
        snprintf(x->why, sizeof x->why, "bound is %.1f %% above the last of the best",
                 percent(v->bound, last));
    else if (v->missing_bytes > 0)
        snprintf(x->why, sizeof x->why, "lacks %s of memory",
                 lw_format_bytes(bytes, v->missing_bytes));
    else
        snprintf(x->why, sizeof x->why, "%.1f %% slower than the first",
                 percent(lw_searched_rank_by(v), first));
    const char *cap = v->outcome == LW_SEARCHED_SIMULATED ? strstr(v->why, "bucket-cap=") : NULL;
    size_t n = strlen(x->why);
    if (cap)
        snprintf(x->why + n, sizeof x->why - n, "; the same plan as with %.*s",
                 (int)strcspn(cap, " "), cap);
}

static enum lw_status losers(struct lw_store *s, const struct lw_search *x, struct lw_arena *a,
                             struct loser **out, int64_t *n, struct lw_err *err)
{
    struct lw_searched *v;
    int64_t all;
    lw_ps first = -1, last = -1;

    *n = 0;
    LW_TRY(lw_store_searched(s, x->id, a, &v, &all, err));
    LW_TAKE(a, *out, all + 1, err);
    for (int64_t i = 0; i < all; i++) {
        lw_ps step = lw_searched_rank_by(&v[i]);
        first = v[i].place == 1 ? step : first;
        last = v[i].place > 0 && step > last ? step : last;
    }
    for (int64_t i = 0; i < all; i++) {
        if (v[i].place > 0)
            continue;
        struct loser *y = &(*out)[(*n)++];
        *y = (struct loser){.v = v[i], .time = v[i].step >= 0 ? lw_searched_rank_by(&v[i])
                                                               : v[i].bound};
        explain(y, first, last);
    }
    lw_sort(*out, *n, by_time);
    return LW_OK;
}

static enum lw_status losers_text(const struct loser *v, int64_t n, FILE *f, struct lw_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        struct lw_paragraph line;
        char time[32];
        FILE *o = lw_paragraph_open(&line, f, NULL);
        fprintf(o, "%s", v[i].v.strategy);
        if (v[i].v.step >= 0)
            fprintf(o, ": %s%s,", v[i].v.step_p90 >= 0 ? "p90 " : "",
                    lw_format_ps(time, lw_searched_rank_by(&v[i].v)));
        else if (v[i].v.bound >= 0)
            fprintf(o, ": at least %s,", lw_format_ps(time, v[i].v.bound));
        fprintf(o, " %s", v[i].why);
        LW_TRY(lw_paragraph_close(&line, err));
    }
    return LW_OK;
}

enum lw_status lw_search_losers_print(struct lw_store *s, const struct lw_search *x, int64_t most,
                                      enum lw_format format, FILE *f, struct lw_err *err)
{
    struct lw_arena a = {0};
    struct loser *v;
    int64_t n, not_stored = x->n_bounded_step - LW_TUNE_LOST;

    LW_TRY(check_ended(s, x, err));
    enum lw_status st = losers(s, x, &a, &v, &n, err);
    if (st == LW_OK && format == LW_FORMAT_TEXT)
        st = losers_text(v, most > 0 && n > most ? most : n, f, err);
    else if (st == LW_OK)
        st = lw_records_print(&LW_RECORDS("losers", loser_columns, v, n), format, f, err);
    if (st == LW_OK && format == LW_FORMAT_TEXT && most > 0 && n > most)
        fprintf(f, "... and %lld more: --format csv has them%s\n", (long long)(n - most),
                not_stored > 0 ? ", but those with the largest bounds" : "");
    lw_arena_free(&a);
    return st;
}
