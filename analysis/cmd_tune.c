/* lapwing tune: the best strategies of a space, exactly. */
#include <string.h>
#include <unistd.h>

#include "analysis/store/store.h"
#include "analysis/tune/tune_memo.h"
#include "analysis/tune/tune_parts.h"
#include "analysis/tune/tune_print.h"
#include "exec/launch/rendezvous.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/text/wrap.h"

/* NULL with --no-db. */
static enum lw_status open_memo(const struct lw_tune_command *c, struct lw_tune_memo **memo,
                                struct lw_err *err)
{
    const struct lw_tune_memo_request r = {
        .db = c->db, .parts = c->parts, .n_parts = c->n_parts, .shard = c->shard,
        .resume = c->resume, .model = c->model, .cluster = c->cluster, .framework = c->framework,
        .command = c->words, .global_batch = c->global_batch, .n_best = c->n_best};

    if (c->no_db)
        return LW_OK;
    LW_TRY(lw_store_usable(c->db, err));
    if (c->resume && access(c->db, F_OK) != 0)
        return lw_fail_at(err, LW_EIO, c->db, 0, "--resume: there is no such database; leave out "
                                                 "--resume to begin a search");
    LW_TRY(lw_tune_memo_open(&r, memo, err));
    if (lw_tune_memo_known(*memo) > 0 && !c->quiet)
        lw_printf_paragraph(stderr, "lapwing: %lld strategies of this space are in %s and are not "
                                    "simulated again",
                            (long long)lw_tune_memo_known(*memo), c->db);
    return LW_OK;
}

/* To standard error: it may be long until the result is there. */
static enum lw_status say_space(const struct lw_tune_result *r, struct lw_err *err)
{
    return lw_tune_print_space(r, stderr, err);
}

/* The search, and all of it in the database. Predictions of a shard's best are no runs: those of
 * the whole space are. */
static enum lw_status search(const struct lw_tune_command *c, struct lw_tune_memo *memo,
                             struct lw_tune_result *r, struct lw_err *err)
{
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, c->quiet);
    progress.stop = lw_catch_signals();
    const struct lw_tune_task task = {.parts = c->parts, .n_parts = c->n_parts,
                                      .n_best = (int)c->n_best, .n_threads = (int)c->n_threads,
                                      .no_bounds = c->no_bounds, .progress = &progress,
                                      .shard = c->shard, .memo = memo,
                                      .listed = c->quiet ? NULL : say_space};
    enum lw_status st = lw_tune(&task, r, err);

    lw_progress_bar_end(&bar);
    if (st == LW_OK)
        st = lw_tune_memo_finish(memo, r, err);
    if (st == LW_OK && c->shard.n < 2 && !r->interrupted)
        st = lw_tune_memo_runs(memo, r, c->n_runs, err);
    return st;
}

static enum lw_status tell(const struct lw_tune_command *c, const struct lw_tune_memo *memo,
                           const struct lw_tune_result *r, struct lw_err *err)
{
    const struct lw_tune_report report = {.r = r, .model = c->model, .cluster = c->cluster,
                                          .framework = c->framework,
                                          .global_batch = c->global_batch, .shard = c->shard,
                                          .search = memo ? lw_tune_memo_search(memo) : 0,
                                          .db = c->db};

    LW_TRY(lw_tune_answer(c, r, err));
    LW_TRY(lw_tune_print(&report, c->format, stdout, err));
    if (r->interrupted && memo)
        return lw_fail(err, LW_EFAILED, "interrupted: the search is not complete; the same command "
                                        "with --resume goes on");
    return r->interrupted ? lw_fail(err, LW_EFAILED, "interrupted: the search is not complete")
                          : LW_OK;
}

/* Small enough that all of it is simulated: any strategy may be among the others. */
static enum lw_status find_here(const struct lw_tune_command *c,
                                const struct lw_progress *progress, struct lw_tune_result *r,
                                struct lw_err *err)
{
    const struct lw_tune_task task = {.parts = c->parts, .n_parts = c->n_parts,
                                      .n_best = (int)c->n_best, .n_threads = (int)c->n_threads,
                                      .no_bounds = true, .progress = progress,
                                      .listed = c->quiet ? NULL : say_space};

    LW_TRY(lw_tune(&task, r, err));
    return lw_tune_answer(c, r, err);
}

static enum lw_status try_here(const struct lw_tune_command *c, struct lw_tune_result *found,
                               struct lw_tune_here_result *r, struct lw_err *err)
{
    const char *db = c->no_db ? NULL : c->db;
    struct lw_progress_bar bar;

    if (db)
        LW_TRY(lw_store_usable(db, err));
    struct lw_progress progress = lw_progress_bar_begin(&bar, c->quiet);
    progress.stop = lw_catch_signals();
    enum lw_status st = find_here(c, &progress, found, err);
    if (st == LW_OK)
        st = lw_tune_here(&(struct lw_tune_here_task){.request = &c->here, .parts = c->parts,
                                                      .found = found, .db = db,
                                                      .command = c->words, .progress = &progress},
                          r, err);
    lw_progress_bar_end(&bar);
    return st;
}

static enum lw_status here(const struct lw_tune_command *c, struct lw_tune_result *found,
                           struct lw_err *err)
{
    struct lw_tune_here_result r = {.n_rows = 0};
    const struct lw_tune_report report = {.r = found, .model = c->model, .cluster = c->cluster,
                                          .framework = c->framework,
                                          .global_batch = c->global_batch,
                                          .db = c->no_db ? NULL : c->db};
    enum lw_status st = try_here(c, found, &r, err);

    if (st == LW_OK)
        st = lw_tune_here_print(&report, &c->here, &r, c->format, stdout, err);
    if (st == LW_OK)
        st = lw_tune_here_verdict(&r, err);
    lw_tune_here_free(&r);
    return st;
}

static enum lw_status search_and_tell(const struct lw_tune_command *c, struct lw_tune_memo **memo,
                                      struct lw_tune_result *r, struct lw_err *err)
{
    LW_TRY(open_memo(c, memo, err));
    LW_TRY(search(c, *memo, r, err));
    return tell(c, *memo, r, err);
}

/* Processes of one launcher would search the same space: refused without parts. A launcher's
 * variables that contradict each other are none of a search's. */
static int check_launcher(const struct lw_tune_command *c)
{
    struct exec_identity id = {0};
    bool found;

    if (c->shard_text || c->here.on || exec_identity_read(&id, &found, NULL) != LW_OK || !found ||
        id.n_ranks < 2)
        return -1;
    return lw_cli_usage("tune",
                        "%s: %d processes, each of which would search the whole space: give each "
                        "its part, here --shard %d/%d, and a --db of its own, or --shard 1/1 to "
                        "search all of it in this one", id.source, (int)id.n_ranks,
                        (int)id.rank + 1, (int)id.n_ranks);
}

int cmd_tune(int argc, char **argv)
{
    struct lw_tune_command c;
    struct lw_tune_result r = {0};
    struct lw_tune_memo *memo = NULL;
    struct lw_err err = {0};
    int rc = lw_tune_parts(&c, argc, argv);

    if (rc < 0)
        rc = check_launcher(&c);
    if (rc < 0) {
        enum lw_status st = c.here.on ? here(&c, &r, &err) : search_and_tell(&c, &memo, &r, &err);
        rc = lw_cli_end("tune", st, &err);
    }
    lw_tune_free(&r);
    lw_tune_memo_close(memo);
    lw_tune_parts_free(&c);
    return rc;
}
