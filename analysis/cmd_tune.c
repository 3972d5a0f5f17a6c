/* lapwing tune: the best strategies of a space, exactly. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/store/store.h"
#include "analysis/tune/tune_memo.h"
#include "analysis/tune_command/tune_parts.h"
#include "analysis/tune/tune_print.h"
#include "analysis/tune/tune_ranks.h"
#include "exec/launch/rendezvous.h"
#include "shared/base/clock.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/text/wrap.h"

/* NULL with --no-db, but where other processes tell this one what they find. */
static enum lw_status open_memo(const struct lw_tune_command *c, bool told,
                                struct lw_tune_memo **memo, struct lw_err *err)
{
    const struct lw_tune_memo_request r = {
        .db = c->no_db ? NULL : c->db, .parts = c->parts, .n_parts = c->n_parts, .shard = c->shard,
        .resume = c->resume, .model = c->model, .cluster = c->cluster, .framework = c->framework,
        .command = c->words, .global_batch = c->global_batch, .n_best = c->n_best};

    if (c->no_db)
        return told ? lw_tune_memo_open(&r, memo, err) : LW_OK;
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

static struct lw_tune_task task_of(const struct lw_tune_command *c, struct lw_tune_memo *memo,
                                   const struct lw_progress *progress)
{
    return (struct lw_tune_task){.parts = c->parts, .n_parts = c->n_parts,
                                 .n_best = (int)c->n_best, .n_threads = (int)c->n_threads,
                                 .no_bounds = c->no_bounds, .progress = progress,
                                 .shard = c->shard, .memo = memo,
                                 .listed = c->quiet ? NULL : say_space};
}

/* The search, which began before, and all of it in the database. Predictions of a shard's best are
 * no runs: those of the whole space are. */
static enum lw_status search(const struct lw_tune_command *c, double began_s,
                             struct lw_tune_memo *memo, struct lw_tune_result *r,
                             struct lw_err *err)
{
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, c->quiet);
    progress.stop = lw_catch_signals();
    const struct lw_tune_task task = task_of(c, memo, &progress);
    enum lw_status st = lw_tune(&task, r, err);

    lw_progress_bar_end(&bar);
    r->wall_s = lw_now_s() - began_s;
    if (st == LW_OK && r->n_valid == 0)
        st = lw_tune_answer(c, r, err); /* nothing to store */
    if (st == LW_OK)
        st = lw_tune_memo_finish(memo, r, err);
    if (st == LW_OK && c->shard.n < 2 && !r->interrupted)
        st = lw_tune_memo_runs(memo, r, c->n_runs, err);
    return st;
}

static enum lw_status tell(const struct lw_tune_command *c, const struct lw_tune_memo *memo,
                           struct lw_tune_result *r, struct lw_err *err)
{
    struct lw_tune_report report = {.r = r, .model = c->model, .cluster = c->cluster,
                                          .framework = c->framework,
                                          .global_batch = c->global_batch, .shard = c->shard,
                                          .search = memo ? lw_tune_memo_search(memo) : 0,
                                          .db = c->db};

    LW_TRY(lw_tune_answer(c, r, err));
    LW_TRY(lw_tune_spreads(c->parts, c->n_parts, &r->arena, &report.spreads, err));
    LW_TRY(lw_tune_print(&report, c->format, stdout, err));
    if (r->interrupted && memo && !c->no_db)
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

/* --- processes of one launcher --- */

static enum lw_status search_shards(const struct lw_tune_command *c, struct lw_tune_ranks *ranks,
                                    const struct lw_tune_task *task, struct lw_err *err)
{
    const char *then = c->no_db ? "" : "; the same command with --resume goes on";
    struct lw_err why = {0};
    bool stopped;
    enum lw_status st = lw_tune_ranks_search(ranks, task, &stopped, &why);

    if (st != LW_OK)
        return lw_fail(err, st, "%.900s%s", why.msg, then);
    if (stopped)
        return lw_fail(err, LW_EFAILED, "interrupted: the search is not complete%s", then);
    return LW_OK;
}

/* Of each process its shard; rank 0 then has in its memo what all have found. *speaks: this process
 * says why there is no answer. */
static enum lw_status search_together(const struct lw_tune_command *c,
                                      const struct exec_identity *id, struct lw_tune_memo **memo,
                                      bool *speaks, struct lw_err *err)
{
    struct lw_progress_bar bar;
    struct lw_tune_ranks *ranks = NULL;
    struct lw_progress progress = lw_progress_bar_begin(&bar, c->quiet || id->rank > 0);
    progress.stop = lw_catch_signals();
    struct lw_tune_task task = task_of(c, NULL, &progress);
    enum lw_status st = lw_tune_ranks_open(id, &task, &ranks, err);

    *speaks = id->rank == 0 || st != LW_EINVAL; /* who differs: rank 0 says it */
    if (st == LW_OK) {
        st = id->rank == 0 ? open_memo(c, true, memo, err) : LW_OK;
        if (st != LW_OK)
            lw_tune_ranks_stop(ranks, err->msg);
        task.memo = *memo;
        if (st == LW_OK)
            st = search_shards(c, ranks, &task, err);
        *speaks = lw_tune_ranks_speaks(ranks);
    }
    lw_tune_ranks_close(ranks);
    lw_progress_bar_end(&bar);
    return st;
}

/* id NULL: this process alone. */
static enum lw_status search_and_tell(const struct lw_tune_command *c,
                                      const struct exec_identity *id, struct lw_tune_memo **memo,
                                      struct lw_tune_result *r, bool *speaks, struct lw_err *err)
{
    double began_s = lw_now_s();

    *speaks = true;
    LW_TRY(id ? search_together(c, id, memo, speaks, err) : open_memo(c, false, memo, err));
    if (id && id->rank > 0)
        return LW_OK;
    LW_TRY(search(c, began_s, *memo, r, err));
    return tell(c, *memo, r, err);
}

static bool has_word(int argc, char **argv, const char *option)
{
    size_t n = strlen(option);

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], option, n) == 0 && (argv[i][n] == '\0' || argv[i][n] == '='))
            return true;
    return false;
}

/* This process is one of several that search a space together. Those with --shard have each a
 * part and an answer of it. A launcher's variables that contradict each other are none of a
 * search's. */
static bool is_one_of_several(int argc, char **argv, struct exec_identity *id)
{
    bool found = false;

    return !has_word(argc, argv, "--shard") && exec_identity_read(id, &found, NULL) == LW_OK &&
           found && id->n_ranks > 1;
}

/* On another rank than 0: nothing goes to standard output, and what is said of the options is kept,
 * since rank 0 most likely says the same. The file that it is kept in, or -1. */
static int keep_words(int *real)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC), kept = memfd_create("words", MFD_CLOEXEC);

    if (null >= 0)
        dup2(null, STDOUT_FILENO);
    if (null >= 0)
        close(null);
    *real = kept >= 0 ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
    if (*real >= 0)
        dup2(kept, STDERR_FILENO);
    return kept;
}

/* rc: what the options led to, -1 to a search. They are said if rank 0 waits for this process:
 * then it had nothing to say itself. */
static void end_words(int kept, int real, int rc)
{
    char buffer[1024];
    ssize_t n;

    fflush(stderr);
    if (real >= 0) {
        dup2(real, STDERR_FILENO);
        close(real);
    }
    if (rc > 0 && exec_rendezvous_not_coming(rc) && kept >= 0 && lseek(kept, 0, SEEK_SET) == 0)
        while ((n = read(kept, buffer, sizeof buffer)) > 0)
            if (write(STDERR_FILENO, buffer, (size_t)n) != n)
                break;
    if (kept >= 0)
        close(kept);
}

static int parse(struct lw_tune_command *c, const struct exec_identity *id, int argc, char **argv)
{
    int real = -1, kept = id && id->rank > 0 ? keep_words(&real) : -1;
    int rc = -1;

    *c = (struct lw_tune_command){.machine = -1};
    if (id && has_word(argc, argv, "--here") && !has_word(argc, argv, "--help"))
        rc = lw_cli_usage("tune", "--here executes strategies on the cores of this machine, and %s "
                                  "started %d processes that would do so at once: start it without "
                                  "a launcher", id->source, (int)id->n_ranks);
    if (rc < 0)
        rc = lw_tune_parts(c, argc, argv);
    if (id && id->rank > 0)
        end_words(kept, real, rc);
    return rc;
}

int cmd_tune(int argc, char **argv)
{
    struct lw_tune_command c;
    struct lw_tune_result r = {0};
    struct lw_tune_memo *memo = NULL;
    struct exec_identity of_launcher = {0};
    const struct exec_identity *id =
        is_one_of_several(argc, argv, &of_launcher) ? &of_launcher : NULL;
    struct lw_err err = {0};
    bool speaks = true;
    int rc = parse(&c, id, argc, argv);

    if (rc < 0) {
        enum lw_status st = c.here.on ? here(&c, &r, &err)
                                      : search_and_tell(&c, id, &memo, &r, &speaks, &err);
        rc = speaks || st == LW_OK ? lw_cli_end("tune", st, &err) : LW_EXIT_COULD_NOT;
    }
    lw_tune_free(&r);
    lw_tune_memo_close(memo);
    lw_tune_parts_free(&c);
    return rc;
}
