/* Memory over time, stored when a run's spans are: a plan that is read back has no fixed bytes and
 * no activations, so it cannot be computed again. Changes are kept as differences, which repeat
 * from layer to layer and from micro-batch to micro-batch, in pieces of a list (pieces.c). */
#include "analysis/store/store_memory.h"

#include <stdio.h>
#include <string.h>

#include "analysis/store/piece_writer.h"
#include "analysis/store/sql.h"
#include "analysis/store/store.h"
#include "analysis/store/store_state.h"
#include "shared/base/arena.h"
#include "shared/timeline/param_memory.h"

/* Categories of a run: those of this version, and what another one wrote. */
enum { MOST_CATEGORIES = 64, MOST_WORD = 40 };

enum { WAIT, CATEGORY, MORE_BYTES, N_NUMBERS };

struct writer {
    struct piece_writer pieces;
    const char *of_file;          /* where rows come from, and their run there */
    int64_t of_run;
    lw_ps at;                     /* of the last change */
    int64_t held[MOST_CATEGORIES];
    char words[MOST_CATEGORIES][MOST_WORD];
    int n_words;
};

static void put_order(void *ctx, struct lw_sql *add, int64_t run, int64_t place,
                      const int64_t *item)
{
    const struct writer *w = ctx;

    lw_sql_run(add, "llltl", run, place, item[WAIT], w->words[item[CATEGORY]], item[MORE_BYTES]);
}

static enum lw_status writer_end(struct writer *w, enum lw_status st, struct lw_err *err)
{
    if (w)
        st = piece_writer_end(&w->pieces, st, err);
    lw_free(w);
    return st;
}

static enum lw_status writer_new(struct lw_store *s, int64_t run, struct writer **out,
                                 struct lw_err *err)
{
    static const struct piece_tables tables = {
        "INSERT INTO main.memory_order (run, place, wait_ps, category, more_bytes)"
        " VALUES (?,?,?,?,?)",
        "INSERT INTO main.memory_piece (run, change, n, rank, place) VALUES (?,?,?,?,?)",
        N_NUMBERS, put_order};
    struct writer *w;

    LW_NEW(w, 1, err);
    *w = (struct writer){.of_file = s->file, .of_run = run};
    enum lw_status st = piece_writer_begin(&w->pieces, s, &tables, run, w, err);
    if (st != LW_OK)
        return writer_end(w, st, err);
    *out = w;
    return LW_OK;
}

/* Differences of numbers of any database. */
static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static enum lw_status damaged(const char *file, int64_t run, const char *table,
                              struct lw_err *err)
{
    return lw_fail_at(err, LW_EFORMAT, file, 0,
                      "table %s: the memory of run %lld is damaged: delete the run (lapwing runs "
                      "%lld --delete --db %s) and run it again", table, (long long)run,
                      (long long)run, file);
}

static enum lw_status category_of(struct writer *w, const char *word, int *k, struct lw_err *err)
{
    for (*k = 0; *k < w->n_words; ++*k)
        if (strcmp(w->words[*k], word) == 0)
            return LW_OK;
    if (*k == MOST_CATEGORIES || strlen(word) >= MOST_WORD)
        return damaged(w->of_file, w->of_run, "memory_order", err);
    strcpy(w->words[w->n_words++], word);
    return LW_OK;
}

static enum lw_status put(struct writer *w, int64_t change, int64_t rank, lw_ps at,
                          const char *category, int64_t bytes, struct lw_err *err)
{
    int k;

    LW_TRY(category_of(w, category, &k, err));
    const int64_t item[N_NUMBERS] = {
        [WAIT] = minus(at, w->at), [CATEGORY] = k, [MORE_BYTES] = minus(bytes, w->held[k])};
    w->at = at;
    w->held[k] = bytes;
    return piece_coder_add(&w->pieces.coder, change, rank, item, err);
}

/* --- of a timeline --------------------------------------------------------------------------- */

struct walker {
    struct writer *w;
    int32_t rank;
    int64_t n, held[LW_N_MEMORY];
};

static enum lw_status put_held(struct walker *x, int m, lw_ps at, struct lw_err *err)
{
    return put(x->w, x->n++, x->rank, at, lw_memory_name((enum lw_memory)m), x->held[m], err);
}

static enum lw_status put_changes(void *ctx, const struct lw_memory_change *v, int64_t n,
                                  struct lw_err *err)
{
    struct walker *x = ctx;

    for (int64_t i = 0; i < n; i++) {
        x->held[v[i].memory] += v[i].bytes;
        LW_TRY(put_held(x, v[i].memory, v[i].at, err));
    }
    return LW_OK; /* what fails in a statement is told by its end */
}

static enum lw_status put_all(struct walker *x, const struct lw_plan *plan,
                              struct lw_memory_walk *walk, struct lw_err *err)
{
    lw_memory_at_start(plan, x->rank, x->held);
    for (int m = 0; m < LW_N_MEMORY; m++)
        LW_TRY(put_held(x, m, 0, err));
    return lw_memory_walk_visit(walk, x->rank, put_changes, x, err);
}

static enum lw_status insert_all(struct lw_store *s, int64_t run, struct walker *x,
                                 const struct lw_plan *plan, struct lw_memory_walk *walk,
                                 struct lw_err *err)
{
    LW_TRY(lw_sql_begin(s, err));
    enum lw_status st = writer_new(s, run, &x->w, err);
    if (st == LW_OK)
        st = writer_end(x->w, put_all(x, plan, walk, err), err);
    return lw_sql_commit(s, st, err);
}

enum lw_status lw_store_memory(struct lw_store *s, int64_t run, const struct lw_timeline *t,
                               const struct lw_plan *plan, struct lw_err *err)
{
    struct lw_memory_peak peak;
    struct lw_memory_walk *walk;
    struct walker x = {.n = 0};

    LW_TRY(lw_memory_peaks(t, plan, NULL, &peak, err));
    LW_TRY(lw_memory_walk_new(t, plan, &walk, err));
    x.rank = peak.rank;
    enum lw_status st = insert_all(s, run, &x, plan, walk, err);
    lw_memory_walk_free(walk);
    return st;
}

/* --- of rows that a database has ------------------------------------------------------------- */

enum { IN_PIECES = 16 }; /* the version of the schema */

enum lw_status lw_store_query_memory(struct lw_store *s, int64_t run, struct lw_sql **out,
                                     struct lw_err *err)
{
    static const char rows[] = "SELECT change, rank, at_ps, category, bytes FROM main.memory"
                               " WHERE run = ? ORDER BY change";
    static const char pieces[] =
        "SELECT change, rank, sum(wait_ps) OVER (ORDER BY change), category,"
        " sum(more_bytes) OVER (PARTITION BY category ORDER BY change)"
        " FROM (SELECT p.change + o.place - p.place AS change, p.rank AS rank,"
        "  o.wait_ps AS wait_ps, o.category AS category, o.more_bytes AS more_bytes"
        "  FROM main.memory_piece AS p CROSS JOIN main.memory_order AS o"
        "  WHERE p.run = ?1 AND o.run = p.run"
        "  AND o.place BETWEEN p.place AND p.place + p.n - 1) ORDER BY change";

    return lw_sql_query(s, out, err, s->version < IN_PIECES ? rows : pieces, "l", run);
}

enum lw_status lw_store_check_memory(struct lw_store *s, int64_t run, struct lw_err *err)
{
    int64_t whole = 1;

    /* pieces have the changes from 0 on, one after the other; the list ends where the last piece
     * ends in it, and lacks no place */
    if (s->version >= IN_PIECES)
        LW_TRY(lw_sql_number(
            s, &whole, err,
            "SELECT p.ends = l.n AND l.last + 1 = l.n AND NOT p.wrong FROM"
            " (SELECT ifnull(max(place + n), 0) AS ends,"
            "  ifnull(max(change <> begins OR n < 1 OR place < 0), 0) AS wrong"
            "  FROM (SELECT change, n, place, sum(n) OVER (ORDER BY change) - n AS begins"
            "   FROM main.memory_piece WHERE run = ?1)) AS p,"
            " (SELECT count(*) AS n, ifnull(max(place), -1) AS last FROM main.memory_order"
            "  WHERE run = ?1 AND place >= 0) AS l", "l", run));
    return whole ? LW_OK : damaged(s->file, run, "memory_piece", err);
}

/* Rows of q, with the columns of lw_store_query_memory, into the run; they are of a run of `of`. */
static enum lw_status write_rows(struct lw_store *s, int64_t run, const struct lw_store *of,
                                 int64_t of_run, struct lw_sql *q, struct lw_err *err)
{
    struct writer *w = NULL;

    LW_TRY(writer_new(s, run, &w, err));
    w->of_file = of->file;
    w->of_run = of_run;
    enum lw_status st = LW_OK;
    while (st == LW_OK && lw_sql_next(q))
        st = put(w, lw_sql_int(q, 0), lw_sql_int(q, 1), lw_sql_int(q, 2), lw_sql_text(q, 3),
                 lw_sql_int(q, 4), err);
    return writer_end(w, st, err); /* what failed in q is told by its end */
}

enum lw_status lw_store_copy_memory(struct lw_store *s, int64_t to, struct lw_store *other,
                                    int64_t from, struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_store_check_memory(other, from, err));
    LW_TRY(lw_store_query_memory(other, from, &q, err));
    return lw_sql_end(q, write_rows(s, to, other, from, q, err), err);
}

static enum lw_status pack_run(struct lw_store *s, int64_t run, struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT change, rank, at_ps, category, bytes FROM memory_before"
                        " WHERE run = ? ORDER BY change",
                        "l", run));
    return lw_sql_end(q, write_rows(s, run, s, run, q, err), err);
}

enum lw_status lw_store_pack_memory(struct lw_store *s, struct lw_err *err)
{
    for (int64_t run = 0;;) {
        LW_TRY(lw_sql_number(s, &run, err, "SELECT min(run) FROM memory_before WHERE run > ?", "l",
                             run));
        if (run <= 0)
            return lw_sql_exec(s, "DROP TABLE memory_before", err);
        LW_TRY(pack_run(s, run, err));
    }
}
