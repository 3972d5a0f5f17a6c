/* What --here puts in the place of options that a command line has not, and the cluster of this
 * machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/tune_trial/tune_here.h"
#include "exec/calibrate/calibrate.h"
#include "shared/base/parallel.h"
#include "shared/files/files.h"
#include "shared/io/used_files.h"

/* --- the command line --- */

/* A word that is given in one way or another. */
struct here_option {
    const char *name;
    char letter; /* or 0 */
    const char *value;
};

/* The model: a step takes some 0.1 s on a core. */
static const struct here_option of_model[] = {
    {"workload", 'w', "gpt2"}, {"layers", 0, "4"},   {"hidden", 0, "256"}, {"heads", 0, "4"},
    {"seq", 0, "128"},         {"vocab", 0, "4096"}, {"optimizer", 0, "sgd"},
    {"batch", 0, "2"}};

/* Recomputation, tensor groups and micro-batches change how much is computed, which the executor
 * takes from the plan: nothing is learned from measuring that. */
static const struct here_option of_space[] = {
    {"framework", 0, "ideal"},
    {"global-batch", 0, "8"},
    {"tp", 0, "1"},
    {"bucket-policy", 0, "c10d-2,picotron,per-tensor,single,mg-wfbp"},
    {"bucket-cap", 0, "1MiB,5MiB,25MiB"},
    {"schedule", 0, "gpipe,1f1b,interleaved-1f1b,zb-h1,zb-h2"},
    {"chunks", 0, "2"},
    {"recompute", 0, "none"},
    {"overlap-param-gather", 0, "off"}};

static const struct {
    const char *name, *why;
} refused[] = {
    {"shard", "it searches all of a small space: leave out --shard"},
    {"resume", "its runs are measured anew each time: leave out --resume"},
    {"framework", "the strategies run in Lapwing's own executor, with measured times: leave out "
                  "--framework"},
    {"device", "the strategies run on this machine, whose times the calibration gives: leave out "
               "--device"},
    {"store-runs", "all that it runs is stored, with --no-db nothing: leave out --store-runs"},
    {"noise", "the machine has noise of its own, which repeats show: leave out --noise"},
    {"rank-noise", "the machine has noise of its own, which repeats show: leave out --rank-noise"},
    {"samples", "it measures each step --repeats times, and draws none: leave out --samples"},
};

enum { N_MODEL = sizeof of_model / sizeof *of_model, N_SPACE = sizeof of_space / sizeof *of_space };
enum { MOST_RANKS = 8 };

/* The value of an option, "" where it is the last word; NULL: it is not given. Letters and '_' for
 * '-' are as lw_cli_parse reads them. */
static const char *given(int argc, char **argv, const char *name, char letter)
{
    size_t n = strlen(name);

    for (int i = 1; i < argc; i++) {
        const char *w = argv[i];
        bool alone = false, joined = false;
        if (w[0] == '-' && w[1] == '-') {
            size_t at = 0;
            while (at < n && (w[2 + at] == name[at] || (w[2 + at] == '_' && name[at] == '-')))
                at++;
            alone = at == n && w[2 + n] == '\0';
            joined = at == n && w[2 + n] == '=';
        } else if (letter && w[0] == '-' && w[1] == letter) {
            alone = w[2] == '\0';
            if (!alone)
                return w + 2;
        }
        if (joined)
            return w + 3 + n;
        if (alone)
            return i + 1 < argc ? argv[i + 1] : "";
    }
    return NULL;
}

static enum lw_status check_ranks(const char *text, struct lw_err *err)
{
    int cores = lw_n_cores();
    char *end;
    long long n = text ? strtoll(text, &end, 10) : 2;

    if (cores < 2)
        return lw_fail(err, LW_ENOTSUP,
                       "--here: this process may use one core, and a strategy of one rank has "
                       "nothing to choose: give it two cores or more");
    if (!text)
        return LW_OK;
    if (*end)
        return lw_fail(err, LW_EUSAGE,
                       "--here: --ranks %s: expected one number: the calibration is of that many "
                       "ranks", text);
    if (n > cores)
        return lw_fail(err, LW_EINVAL,
                       "--here: --ranks %lld on %d cores: ranks that share a core take turns, "
                       "which no strategy says; take --ranks %d", n, cores, cores);
    if (n < 2)
        return lw_fail(err, LW_EUSAGE,
                       "--here: --ranks %lld: expected 2 or more: on one rank nothing is "
                       "communicated", n);
    return LW_OK;
}

static enum lw_status check_words(int argc, char **argv, struct lw_err *err)
{
    const char *cluster = given(argc, argv, "cluster", 'c');

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (given(argc, argv, refused[i].name, 0))
            return lw_fail(err, LW_EUSAGE, "--here does not go with --%s: %s", refused[i].name,
                           refused[i].why);
    if (cluster && strchr(cluster, ','))
        return lw_fail(err, LW_EUSAGE,
                       "--here: -c %s: expected one calibration of this machine, or no -c",
                       cluster);
    return check_ranks(given(argc, argv, "ranks", 0), err);
}

static enum lw_status put(struct lw_arena *a, char **out, int *n, const struct here_option *o,
                          struct lw_err *err)
{
    LW_PRINT(a, out[*n], err, "--%s", o->name);
    ++*n;
    LW_PRINT(a, out[*n], err, "%s", o->value);
    ++*n;
    return LW_OK;
}

enum lw_status lw_tune_here_words(int argc, char **argv, struct lw_arena *a, int *n, char ***out,
                                  struct lw_err *err)
{
    int cores = lw_n_cores();
    char ranks[24];

    LW_TRY(check_words(argc, argv, err));
    LW_TAKE(a, *out, argc + 2 * (N_MODEL + N_SPACE) + 3, err);
    for (*n = 0; *n < argc; ++*n)
        (*out)[*n] = argv[*n];
    bool has_model = given(argc, argv, "workload", 'w') != NULL;
    for (int i = 0; i < N_MODEL && !has_model; i++)
        if (!given(argc, argv, of_model[i].name, of_model[i].letter))
            LW_TRY(put(a, *out, n, &of_model[i], err));
    for (int i = 0; i < N_SPACE; i++)
        if (!given(argc, argv, of_space[i].name, of_space[i].letter))
            LW_TRY(put(a, *out, n, &of_space[i], err));
    snprintf(ranks, sizeof ranks, "%d", cores < MOST_RANKS ? cores : MOST_RANKS);
    return given(argc, argv, "ranks", 0)
               ? LW_OK
               : put(a, *out, n, &(struct here_option){"ranks", 0, ranks}, err);
}

/* --- the cluster --- */

enum lw_status lw_tune_here_calibrate(int64_t ranks, bool quiet, struct lw_arena *a, int *fd,
                                      const char **name, struct lw_err *err)
{
    struct lw_calibrate_options c = lw_calibrate_options_default();
    struct lw_cluster cluster = {0};
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, quiet);

    progress.stop = lw_catch_signals();
    c.backend = &exec_backend_threads;
    c.n_ranks = (int32_t)ranks;
    c.progress = &progress;
    enum lw_status st = lw_calibrate(&c, &cluster, err);
    lw_progress_bar_end(&bar);
    if (st == LW_OK && (*fd = memfd_create("cluster", MFD_CLOEXEC)) < 0)
        st = lw_fail(err, LW_EIO, "no memory for the calibration");
    if (st == LW_OK) {
        char text[32];
        snprintf(text, sizeof text, "/dev/fd/%d", *fd);
        *name = lw_arena_strdup(a, text);
        st = *name ? lw_cluster_write(&cluster, *name, err) : lw_fail_nomem(err);
        if (st == LW_OK)
            lw_used_file_again(*name); /* it is read next */
    }
    lw_cluster_free(&cluster);
    return st;
}
