/* Lists and ranges of runs. A range is those of its runs that there are, because numbers of deleted
 * runs are not used again; a number on its own has to be there, which who reads the run says. */
#include "analysis/store/run_numbers.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/store/sql.h"
#include "analysis/store/store.h"
#include "shared/numbers/units.h"

struct words {
    struct lw_store *store;
    struct lw_arena *arena;
    char **word;
    int n, room;
};

static enum lw_status add(struct words *w, char *text, struct lw_err *err)
{
    if (w->n == w->room) {
        char **more;
        int room = w->room > 0 ? 2 * w->room : 16;
        LW_TAKE(w->arena, more, room, err);
        if (w->n > 0)
            memcpy(more, w->word, (size_t)w->n * sizeof *more);
        w->word = more;
        w->room = room;
    }
    w->word[w->n++] = text;
    return LW_OK;
}

bool lw_names_runs(const char *text)
{
    return strpbrk(text, ",-") != NULL;
}

/* The end of a range: a number, or the last run. */
static enum lw_status end_of(struct words *w, const char *item, const char *text, int64_t *id,
                             struct lw_err *err)
{
    struct lw_err why;

    if (strcmp(text, "last") == 0) {
        LW_TRY(lw_sql_number(w->store, id, err, "SELECT ifnull(max(id), 0) FROM run", ""));
        return *id > 0 ? LW_OK
                       : lw_fail_at(err, LW_EINVAL, lw_store_file(w->store), 0, "holds no run yet");
    }
    return lw_parse_int(text, 1, INT64_MAX, id, &why) == LW_OK
               ? LW_OK
               : lw_fail(err, LW_EINVAL,
                         "runs '%.60s': found '%.40s', expected the number of a run, or 'last'",
                         item, text);
}

static enum lw_status add_range(struct words *w, const char *item, const char *from, const char *to,
                                struct lw_err *err)
{
    struct lw_sql *q;
    int64_t low, high;
    int before = w->n;
    enum lw_status st = LW_OK;

    LW_TRY(end_of(w, item, from, &low, err));
    LW_TRY(end_of(w, item, to, &high, err));
    if (low > high && strcmp(to, "last") != 0)
        return lw_fail(err, LW_EINVAL, "runs '%.60s': the range goes down; write %lld-%lld", item,
                       (long long)high, (long long)low);
    LW_TRY(lw_sql_query(w->store, &q, err,
                        "SELECT id FROM run WHERE id BETWEEN ? AND ? ORDER BY id", "ll", low,
                        high));
    while (st == LW_OK && lw_sql_next(q)) {
        char *id = lw_arena_printf(w->arena, "%lld", (long long)lw_sql_int(q, 0));
        st = id ? add(w, id, err) : lw_fail_nomem(err);
    }
    LW_TRY(lw_sql_end(q, st, err));
    return w->n > before ? LW_OK
                         : lw_fail_at(err, LW_EINVAL, lw_store_file(w->store), 0,
                                      "holds no run of '%.60s'", item);
}

static enum lw_status add_item(struct words *w, char *item, struct lw_err *err)
{
    char *dash = strchr(item, '-');

    if (!dash || dash == item) /* a number below 0 is no run, which is said where it is read */
        return add(w, item, err);
    char *from = lw_arena_strdup(w->arena, item);
    if (!from)
        return lw_fail_nomem(err);
    from[dash - item] = '\0';
    return add_range(w, item, from, dash + 1, err);
}

static enum lw_status add_operand(struct words *w, const char *text, struct lw_err *err)
{
    char *rest = lw_arena_strdup(w->arena, text);

    if (!rest)
        return lw_fail_nomem(err);
    for (char *item; (item = strsep(&rest, ","));) {
        if (!*item)
            return lw_fail(err, LW_EINVAL,
                           "runs '%.60s': an item is empty; expected numbers and ranges with ',' "
                           "between, as 1,5-7", text);
        LW_TRY(add_item(w, item, err));
    }
    return LW_OK;
}

enum lw_status lw_store_run_numbers(struct lw_store *s, char **names, int n_names,
                                    struct lw_arena *a, char ***out, int *n, struct lw_err *err)
{
    struct words w = {.store = s, .arena = a};

    for (int i = 0; i < n_names; i++)
        LW_TRY(add_operand(&w, names[i], err));
    *out = w.word;
    *n = w.n;
    return LW_OK;
}
