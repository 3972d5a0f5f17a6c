/* Searches into and out of the database. A strategy's row is written as soon as it was simulated;
 * the answer (places, counts) by one transaction at the end, so that a search whose process was
 * killed has rows that are right and no answer. */
#include "analysis/store/store_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/store/sql.h"
#include "analysis/store/store.h"

static const char *const status_name[] = {"running", "interrupted", "ok"};
static const char *const outcome_name[] = {"simulated", "invalid", "no_room", "bounded"};

const char *lw_search_status_name(int status)
{
    return status_name[status];
}

const char *lw_searched_outcome_name(int outcome)
{
    return outcome_name[outcome];
}

static int index_of(const char *const *names, int n, const char *word)
{
    int i = n - 1;

    while (i > 0 && strcmp(names[i], word) != 0)
        i--;
    return i;
}

/* --- writing --- */

enum lw_status lw_store_begin_search(struct lw_store *s, const struct lw_search *x, int64_t *id,
                                     struct lw_err *err)
{
    LW_TRY(lw_sql_do(s, err,
                     "INSERT INTO search (status, hash, space, shard, n_shards, model, cluster,"
                     " framework, global_batch, n_best, command, version, started_at)"
                     " VALUES ('running', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                     "ttlltttllttl", x->hash, x->space, x->shard, x->n_shards, x->model,
                     x->cluster, x->framework, x->global_batch, x->n_best, x->command, LW_VERSION,
                     (int64_t)time(NULL)));
    *id = lw_sql_last_id(s);
    return LW_OK;
}

enum lw_status lw_store_continue_search(struct lw_store *s, const struct lw_search *x,
                                        struct lw_err *err)
{
    return lw_sql_do(s, err,
                     "UPDATE search SET status = 'running', n_best = ?, command = ? WHERE id = ?",
                     "ltl", x->n_best, x->command, x->id);
}

static void put_one(struct lw_sql *q, int64_t search, const struct lw_searched *x)
{
    lw_sql_run(q, "lltllllttt" "llllltl" "llllll" "dddtll", search, x->combination,
               outcome_name[x->outcome], x->place, x->front, x->run, x->nth, x->strategy,
               x->command, x->why, x->bound, x->step, x->step_p90, x->p10, x->p90, x->interval_of,
               (int64_t)x->told_apart, x->n_devices, x->peak_memory_bytes, x->memory_bytes,
               x->missing_bytes, x->needed_bytes, x->needed_bound, x->tokens_per_s,
               x->samples_per_s, x->cost_per_trillion_tokens, x->alike, x->least_cap,
               x->next_cap);
}

static enum lw_status put_all(struct lw_store *s, int64_t search, const struct lw_searched *v,
                              int64_t n, struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_prepare(s,
                          "INSERT OR REPLACE INTO searched (search, combination, outcome, place,"
                          " front, run, nth, strategy, command, why, bound_ps, step_ps,"
                          " samples_p90_ps, p10_ps, p90_ps, interval_of, told_apart, n_devices,"
                          " peak_memory_bytes, memory_bytes, missing_bytes, needed_bytes,"
                          " needed_bound_bytes, tokens_per_s, samples_per_s,"
                          " cost_per_trillion_tokens, alike, least_cap_bytes, next_cap_bytes)"
                          " VALUES (?,?,?,?,?,nullif(?,0),?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
                          "?,?,?)",
                          &q, err));
    for (int64_t i = 0; i < n && !lw_sql_failed(q); i++)
        put_one(q, search, &v[i]);
    return lw_sql_finish(q, err);
}

enum lw_status lw_store_put_searched(struct lw_store *s, int64_t search,
                                     const struct lw_searched *v, int64_t n, struct lw_err *err)
{
    LW_TRY(lw_sql_begin(s, err));
    return lw_sql_commit(s, put_all(s, search, v, n, err), err);
}

static enum lw_status put_figures(struct lw_store *s, const struct lw_search *x,
                                  struct lw_err *err)
{
    return lw_sql_do(s, err,
                     "UPDATE search SET status = ?, ended_at = ?, wall_s = ?, n_combinations = ?,"
                     " n_repeated = ?, n_invalid = ?, n_valid = ?, n_bounded_step = ?,"
                     " n_bounded_memory = ?, n_simulated = ?, n_unfit = ?, least_pruned_ps = ?,"
                     " within = ?, n_tables = ?, same_parallelism = ? WHERE id = ?",
                     "tldllllllllldlll", status_name[x->status], (int64_t)time(NULL), x->wall_s,
                     x->n_combinations, x->n_repeated, x->n_invalid, x->n_valid, x->n_bounded_step,
                     x->n_bounded_memory, x->n_simulated, x->n_unfit, x->least_pruned, x->within,
                     x->n_tables, (int64_t)x->same_parallelism, x->id);
}

static enum lw_status put_reasons(struct lw_store *s, int64_t search,
                                  const struct lw_search_reason *v, int64_t n, struct lw_err *err)
{
    LW_TRY(lw_sql_do(s, err, "DELETE FROM search_reason WHERE search = ?", "l", search));
    for (int64_t i = 0; i < n; i++)
        LW_TRY(lw_sql_do(s, err, "INSERT INTO search_reason VALUES (?, ?, ?, ?, ?)", "llltt",
                         search, i, v[i].n, v[i].text, v[i].example));
    return LW_OK;
}

/* Of the rows that are not in the answer. */
static enum lw_status tell_apart(struct lw_store *s, const struct lw_search *x, struct lw_err *err)
{
    return lw_sql_do(s, err,
                     "UPDATE searched SET told_apart = coalesce(iif(samples_p90_ps < 0, step_ps,"
                     " samples_p90_ps) > ? * (SELECT iif(samples_p90_ps < 0, step_ps,"
                     " samples_p90_ps) FROM searched WHERE search = ? AND place = 1), 0)"
                     " WHERE search = ? AND outcome = 'simulated' AND place = 0 AND front = 0",
                     "dll", x->within, x->id, x->id);
}

enum lw_status lw_store_finish_search(struct lw_store *s, const struct lw_search *x,
                                      const struct lw_searched *v, int64_t n,
                                      const struct lw_search_reason *reasons, int64_t n_reasons,
                                      struct lw_err *err)
{
    LW_TRY(lw_sql_begin(s, err));
    enum lw_status st = put_figures(s, x, err);
    if (st == LW_OK)
        st = lw_sql_do(s, err, "UPDATE searched SET place = 0, front = 0 WHERE search = ?", "l",
                       x->id);
    if (st == LW_OK)
        st = put_all(s, x->id, v, n, err);
    if (st == LW_OK)
        st = tell_apart(s, x, err);
    if (st == LW_OK)
        st = put_reasons(s, x->id, reasons, n_reasons, err);
    return lw_sql_commit(s, st, err);
}

enum lw_status lw_store_searched_run(struct lw_store *s, int64_t search, int64_t combination,
                                     int64_t run, struct lw_err *err)
{
    return lw_sql_do(s, err, "UPDATE searched SET run = ? WHERE search = ? AND combination = ?",
                     "lll", run, search, combination);
}

enum lw_status lw_store_delete_search(struct lw_store *s, int64_t search, struct lw_err *err)
{
    LW_TRY(lw_sql_begin(s, err));
    enum lw_status st = lw_sql_do(s, err, "DELETE FROM searched WHERE search = ?", "l", search);
    if (st == LW_OK)
        st = lw_sql_do(s, err, "DELETE FROM search_reason WHERE search = ?", "l", search);
    if (st == LW_OK)
        st = lw_sql_do(s, err, "DELETE FROM search WHERE id = ?", "l", search);
    return lw_sql_commit(s, st, err);
}

/* --- reading --- */

/* A text of the row; *failed where memory ran out. */
static const char *text_of(struct lw_sql *q, int column, struct lw_arena *a, bool *failed)
{
    const char *text = lw_arena_strdup(a, lw_sql_text(q, column));

    *failed |= !text;
    return text;
}

static double real_of(struct lw_sql *q, int column)
{
    return lw_sql_is_null(q, column) ? NAN : lw_sql_real(q, column);
}

static bool read_search(struct lw_sql *q, struct lw_arena *a, struct lw_search *x)
{
    bool failed = false;

    *x = (struct lw_search){
        .id = lw_sql_int(q, 0),
        .status = (enum lw_search_status)index_of(status_name, 3, lw_sql_text(q, 1)),
        .hash = text_of(q, 2, a, &failed),
        .space = text_of(q, 3, a, &failed),
        .shard = lw_sql_int(q, 4),
        .n_shards = lw_sql_int(q, 5),
        .model = text_of(q, 6, a, &failed),
        .cluster = text_of(q, 7, a, &failed),
        .framework = text_of(q, 8, a, &failed),
        .command = text_of(q, 9, a, &failed),
        .version = text_of(q, 10, a, &failed),
        .global_batch = lw_sql_int(q, 11),
        .n_best = lw_sql_int(q, 12),
        .started_at = lw_sql_int(q, 13),
        .wall_s = real_of(q, 14),
        .n_combinations = lw_sql_int(q, 15),
        .n_repeated = lw_sql_int(q, 16),
        .n_invalid = lw_sql_int(q, 17),
        .n_valid = lw_sql_int(q, 18),
        .n_bounded_step = lw_sql_int(q, 19),
        .n_bounded_memory = lw_sql_int(q, 20),
        .n_simulated = lw_sql_int(q, 21),
        .n_unfit = lw_sql_int(q, 22),
        .least_pruned = lw_sql_is_null(q, 23) ? -1 : lw_sql_int(q, 23),
        .within = real_of(q, 24),
        .n_tables = lw_sql_int(q, 25),
        .same_parallelism = lw_sql_int(q, 26) != 0,
    };
    return !failed;
}

enum lw_status lw_store_searches(struct lw_store *s, struct lw_arena *a, struct lw_search **out,
                                 int64_t *n, struct lw_err *err)
{
    struct lw_sql *q;
    enum lw_status st = LW_OK;
    int64_t most;

    *n = 0;
    LW_TRY(lw_sql_number(s, &most, err, "SELECT count(*) FROM search", ""));
    LW_TAKE(a, *out, most + 1, err);
    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT id, status, hash, space, shard, n_shards, model, cluster,"
                        " framework, command, version, global_batch, n_best, started_at, wall_s,"
                        " n_combinations, n_repeated, n_invalid, n_valid, n_bounded_step,"
                        " n_bounded_memory, n_simulated, n_unfit, least_pruned_ps, within,"
                        " n_tables, same_parallelism FROM search ORDER BY id", ""));
    while (st == LW_OK && *n < most && lw_sql_next(q))
        st = read_search(q, a, &(*out)[(*n)++]) ? LW_OK : lw_fail_nomem(err);
    return lw_sql_end(q, st, err);
}

enum lw_status lw_store_find_search(struct lw_store *s, const char *text, struct lw_arena *a,
                                    struct lw_search *out, struct lw_err *err)
{
    struct lw_search *v;
    int64_t n;
    char *end;
    long long id = strtoll(text, &end, 10);
    bool last = strcmp(text, "last") == 0;

    LW_TRY(lw_store_searches(s, a, &v, &n, err));
    if (n == 0)
        return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                          "holds no search; `lapwing tune` stores one");
    for (int64_t i = n - 1; i >= 0; i--)
        if (last || (end != text && !*end && v[i].id == id)) {
            *out = v[i];
            return LW_OK;
        }
    return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                      "no search '%s', expected 'last' or a number from %lld to %lld (`lapwing "
                      "runs --searches` lists them)",
                      text, (long long)v[0].id, (long long)v[n - 1].id);
}

#define SEARCHED                                                                                \
    "SELECT combination, outcome, place, front, coalesce(searched.run, 0), nth, strategy,"      \
    " searched.command, why, interval_of, alike, bound_ps, step_ps, p10_ps, p90_ps, told_apart," \
    " n_devices, peak_memory_bytes, memory_bytes, missing_bytes, needed_bytes,"                 \
    " needed_bound_bytes, tokens_per_s, samples_per_s, cost_per_trillion_tokens,"                  \
    " samples_p90_ps, least_cap_bytes, next_cap_bytes FROM searched "

static bool read_searched(struct lw_sql *q, struct lw_arena *a, struct lw_searched *x)
{
    bool failed = false;

    *x = (struct lw_searched){
        .combination = lw_sql_int(q, 0),
        .outcome = (enum lw_searched_outcome)index_of(outcome_name, LW_N_SEARCHED,
                                                      lw_sql_text(q, 1)),
        .place = lw_sql_int(q, 2),
        .front = lw_sql_int(q, 3),
        .run = lw_sql_int(q, 4),
        .nth = lw_sql_int(q, 5),
        .strategy = text_of(q, 6, a, &failed),
        .command = text_of(q, 7, a, &failed),
        .why = text_of(q, 8, a, &failed),
        .interval_of = text_of(q, 9, a, &failed),
        .alike = text_of(q, 10, a, &failed),
        .bound = lw_sql_int(q, 11),
        .step = lw_sql_int(q, 12),
        .p10 = lw_sql_int(q, 13),
        .p90 = lw_sql_int(q, 14),
        .told_apart = lw_sql_int(q, 15) != 0,
        .n_devices = lw_sql_int(q, 16),
        .peak_memory_bytes = lw_sql_int(q, 17),
        .memory_bytes = lw_sql_int(q, 18),
        .missing_bytes = lw_sql_int(q, 19),
        .needed_bytes = lw_sql_int(q, 20),
        .needed_bound = lw_sql_int(q, 21),
        .tokens_per_s = real_of(q, 22),
        .samples_per_s = real_of(q, 23),
        .cost_per_trillion_tokens = real_of(q, 24),
        .step_p90 = lw_sql_int(q, 25),
        .least_cap = lw_sql_int(q, 26),
        .next_cap = lw_sql_int(q, 27),
    };
    return !failed;
}

/* Ends q. Of rows with one number the first counts. */
static enum lw_status read_all(struct lw_sql *q, struct lw_arena *a, struct lw_searched **out,
                               int64_t *n, struct lw_err *err)
{
    enum lw_status st = LW_OK;

    *n = 0;
    *out = NULL;
    while (st == LW_OK && lw_sql_next(q)) {
        if (*n > 0 && (*out)[*n - 1].combination == lw_sql_int(q, 0))
            continue;
        *out = lw_arena_more(a, *out, *n, sizeof **out);
        if (!*out || !read_searched(q, a, &(*out)[(*n)++]))
            st = lw_fail_nomem(err);
    }
    return lw_sql_end(q, st, err);
}

enum lw_status lw_store_searched(struct lw_store *s, int64_t search, struct lw_arena *a,
                                 struct lw_searched **out, int64_t *n, struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err, SEARCHED "WHERE search = ? ORDER BY combination", "l", search));
    return read_all(q, a, out, n, err);
}

enum lw_status lw_store_searched_of_space(struct lw_store *s, const char *hash, struct lw_arena *a,
                                          struct lw_searched **out, int64_t *n,
                                          struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        SEARCHED "JOIN search ON search.id = searched.search WHERE hash = ?"
                                 " AND outcome IN ('simulated', 'invalid')"
                                 " ORDER BY combination, searched.run IS NULL, search.id", "t",
                        hash));
    return read_all(q, a, out, n, err);
}

enum lw_status lw_store_search_reasons(struct lw_store *s, int64_t search, struct lw_arena *a,
                                       struct lw_search_reason **out, int64_t *n,
                                       struct lw_err *err)
{
    struct lw_sql *q;
    enum lw_status st = LW_OK;

    *n = 0;
    *out = NULL;
    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT n, text, example FROM search_reason WHERE search = ?"
                        " ORDER BY reason", "l", search));
    while (st == LW_OK && lw_sql_next(q)) {
        bool failed = false;
        *out = lw_arena_more(a, *out, *n, sizeof **out);
        if (*out)
            (*out)[(*n)++] = (struct lw_search_reason){lw_sql_int(q, 0), text_of(q, 1, a, &failed),
                                                       text_of(q, 2, a, &failed)};
        st = *out && !failed ? LW_OK : lw_fail_nomem(err);
    }
    return lw_sql_end(q, st, err);
}
