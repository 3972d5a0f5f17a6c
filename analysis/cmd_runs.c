/* lapwing runs: what the results database holds; deletes runs and takes over those of another. */
#include <stdio.h>
#include <unistd.h>

#include "analysis/compare/run_list.h"
#include "analysis/store/run_filter.h"
#include "analysis/tune/tune_stored.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"

enum { LOSERS = 40 }; /* that the text shows */

struct options {
    const char *db, *merge, *search;
    bool del, searches, losers;
    enum lw_format format;
    struct lw_run_filter wanted;
};

static bool is_filtered(const struct lw_run_filter *f)
{
    return f->workload || f->since || f->kind;
}

/* Of `lapwing tune`. */
static enum lw_status show_search(const struct options *o, struct lw_store *s, struct lw_arena *a,
                                  struct lw_err *err)
{
    struct lw_search x;

    if (o->searches)
        return lw_search_list_print(s, o->format, stdout, err);
    LW_TRY(lw_store_find_search(s, o->search, a, &x, err));
    if (o->del) {
        LW_TRY(lw_store_delete_search(s, x.id, err));
        printf("deleted search %lld: %s on %s\n", (long long)x.id, x.model, x.cluster);
        return LW_OK;
    }
    return o->losers ? lw_search_losers_print(s, &x, LOSERS, o->format, stdout, err)
                     : lw_search_print(s, &x, o->format, stdout, err);
}

static void print_merged(const struct options *o, int32_t n, int64_t n_searches)
{
    struct lw_jsonout out = {.file = stdout};

    if (o->format == LW_FORMAT_TEXT && n_searches > 0)
        printf("%d run%s and %lld search%s of %s taken over into %s\n", n, lw_plural(n),
               (long long)n_searches, n_searches == 1 ? "" : "es", o->merge, o->db);
    else if (o->format == LW_FORMAT_TEXT)
        printf("%d run%s of %s taken over into %s\n", n, lw_plural(n), o->merge, o->db);
    if (o->format == LW_FORMAT_CSV)
        printf("n_merged,n_searches\n%d,%lld\n", n, (long long)n_searches);
    if (o->format != LW_FORMAT_JSON)
        return;
    lw_jsonout_object(&out, NULL);
    LW_JSON(&out, "n_merged", n, "n_searches", n_searches, "from", o->merge, "into", o->db);
    lw_jsonout_end(&out);
}

static void print_deleted(enum lw_format format, const struct lw_run *runs, int32_t n)
{
    struct lw_jsonout out = {.file = stdout};

    if (format == LW_FORMAT_CSV)
        printf("deleted\n");
    for (int32_t i = 0; i < n && format != LW_FORMAT_JSON; i++)
        if (format == LW_FORMAT_CSV)
            printf("%lld\n", (long long)runs[i].id);
        else
            printf("deleted run %lld: %s\n", (long long)runs[i].id, runs[i].name);
    if (format != LW_FORMAT_JSON)
        return;
    lw_jsonout_object(&out, NULL);
    lw_jsonout_line_array(&out, "deleted");
    for (int32_t i = 0; i < n; i++)
        lw_jsonout_int(&out, NULL, runs[i].id);
    lw_jsonout_end(&out);
    lw_jsonout_end(&out);
}

static enum lw_status work(const struct options *o, struct lw_store *s, char **names, int n_names,
                           struct lw_arena *a, struct lw_err *err)
{
    struct lw_run *runs;
    int64_t n_searches;
    int32_t n;

    if (o->merge) {
        LW_TRY(lw_store_merge(s, o->merge, &n, &n_searches, err));
        print_merged(o, n, n_searches);
        return LW_OK;
    }
    if (o->searches || o->search)
        return show_search(o, s, a, err);
    LW_TRY(lw_run_filter_select(s, names, n_names, &o->wanted, a, &runs, &n, err));
    if (n == 0 && o->format == LW_FORMAT_TEXT && is_filtered(&o->wanted)) {
        printf("no run of %s matches the filter\n", o->db);
        return LW_OK;
    }
    if (!o->del)
        return lw_run_list_print(runs, n, a, o->format, stdout, err);
    if (n > 0)
        LW_TRY(lw_store_delete_runs(s, runs, n, err));
    print_deleted(o->format, runs, n);
    return LW_OK;
}

/* Before the own database is made, where there is none yet. */
static enum lw_status try_other(const char *file, struct lw_err *err)
{
    struct lw_store *other = NULL;
    enum lw_status st = file ? lw_store_open(file, LW_STORE_READ, &other, err) : LW_OK;

    lw_store_close(other);
    return st;
}

/* What --delete names, before the database is opened to be written, which brings an older one up to
 * date. One that is too old to be read is looked at then. *n: how many runs or searches. */
static enum lw_status find_deleted(const struct options *o, char **names, int n_names, int32_t *n,
                                   struct lw_arena *a, struct lw_err *err)
{
    struct lw_store *s = NULL;
    struct lw_search search;
    struct lw_run *runs;

    *n = 1;
    if (lw_store_open(o->db, LW_STORE_READ, &s, err) != LW_OK)
        return access(o->db, F_OK) == 0 ? LW_OK : err->code;
    enum lw_status st = o->search ? lw_store_find_search(s, o->search, a, &search, err)
                                  : lw_run_filter_select(s, names, n_names, &o->wanted, a, &runs, n,
                                                         err);
    lw_store_close(s);
    return st;
}

int cmd_runs(int argc, char **argv)
{
    struct options o = {.db = "lapwing.db"};
    const struct lw_opt table[] = {
        LW_OPTION_DB(&o.db),
        {"workload", 0, LW_OPT_STRING, &o.wanted.workload, "TEXT",
         "only runs whose workload's name contains TEXT"},
        {"since", 0, LW_OPT_STRING, &o.wanted.since, "WHEN",
         "only runs since a date (2026-11-22, UTC) or for so long (30m, 12h, 7d)",
         .check = lw_run_since_check},
        {"kind", 0, LW_OPT_STRING, &o.wanted.kind, "sim|exec|import", "only runs of that kind"},
        {"delete", 0, LW_OPT_FLAG, &o.del, NULL,
         "delete these runs with their spans; needs operands or a filter"},
        {"merge", 0, LW_OPT_STRING, &o.merge, "FILE",
         "copy all runs and searches of another database, with new numbers"},
        {"searches", 0, LW_OPT_FLAG, &o.searches, NULL, "list the searches of `lapwing tune`"},
        {"search", 0, LW_OPT_STRING, &o.search, "N|last",
         "print the answer of a search; with --delete, delete it and keep its runs",
         .check = lw_cli_search},
        {"losers", 0, LW_OPT_FLAG, &o.losers, NULL,
         "--search: why each strategy is not among the best"},
        LW_OPTION_FORMAT(&o.format),
        {0},
    };
    const struct lw_usage usage = {
        "runs", "[RUN...] [--workload TEXT] [--since WHEN] [--kind KIND] [--delete | --merge FILE]"
                " [--searches | --search N]",
        "List the runs of the results database, delete some, or copy those of another database. A "
        "run is named by its workload, the options that differ from their defaults, where it ran "
        "and its cluster; the traits that distinguish it from the other listed runs come first. "
        "The option --name of the command that made the run gives another name. RUN is a number, "
        "'last', a range of those that are there or a list (2,5-7).", 0, -1};
    struct lw_err err = {0};
    struct lw_store *store = NULL;
    struct lw_arena arena = {0};
    int n, rc;
    int32_t n_deleted = 1;

    if ((rc = lw_cli_begin(&usage, table, argc, argv, &n)) >= 0)
        return rc;
    if (o.merge && (o.del || n > 0 || is_filtered(&o.wanted)))
        return lw_cli_usage("runs", "--merge takes over a whole database: no --delete, no RUN, no "
                                    "filter");
    if ((o.search || o.searches) && (o.merge || n > 0 || is_filtered(&o.wanted)))
        return lw_cli_usage("runs", "--search and --searches are of searches: no RUN, no filter, "
                                    "no --merge");
    if ((o.losers && !o.search) || (o.searches && (o.search || o.del)))
        return lw_cli_usage("runs", "%s", o.losers ? "--losers needs --search N"
                                                   : "--searches lists all: no --search, no "
                                                     "--delete");
    if (o.del && n == 0 && !o.search && !is_filtered(&o.wanted))
        return lw_cli_usage("runs",
                            "--delete needs the runs: numbers, --workload, --since or --kind");
    enum lw_status st = lw_run_filter_check(&o.wanted, &err);
    if (st == LW_OK)
        st = try_other(o.merge, &err);
    if (st == LW_OK && o.del)
        st = find_deleted(&o, argv + 1, n, &n_deleted, &arena, &err);
    bool writes = o.merge || (o.del && n_deleted > 0);
    if (st == LW_OK)
        st = lw_store_open(o.db, writes ? LW_STORE_WRITE : LW_STORE_READ, &store, &err);
    if (st == LW_OK)
        st = work(&o, store, argv + 1, n, &arena, &err);
    lw_store_close(store);
    lw_arena_free(&arena);
    return lw_cli_end("runs", st, &err);
}
