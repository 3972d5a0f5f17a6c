/* lapwing calibrate: measure this machine and write it as a cluster file. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "exec/calibrate/calibrate.h"
#include "exec/calibrate/calibrate_print.h"
#include "exec/launch/multi_process.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "shared/io/output.h"
#include "shared/io/used_files.h"

/* One plan after the other takes hundreds of MiB: what one gave back serves the next, instead of
 * being fetched from the system page by page. */
static void keep_memory(void)
{
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
}

/* The file of the rounds so far, for a calibration that does not end. */
struct kept {
    const char *file;
    int n;
};

static enum lw_status keep_round(void *ctx, const struct lw_cluster *c, struct lw_err *err)
{
    struct kept *k = ctx;

    if (lw_output_is_stdout(k->file))
        return LW_OK;
    if (k->n++ > 0)
        lw_used_file_again(k->file);
    return lw_cluster_write(c, k->file, err);
}

static enum lw_status calibrate(struct lw_calibrate_options *o, const char *file, bool quiet,
                                enum lw_format format, struct lw_err *err)
{
    struct lw_cluster c = {0};
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, quiet || (o->id && o->id->rank > 0));

    struct kept kept = {.file = file};

    if (!o->id) /* ranks of several processes end together with a signal */
        progress.stop = lw_catch_signals();
    o->progress = &progress;
    o->keep = keep_round;
    o->keep_ctx = &kept;
    keep_memory();
    enum lw_status s = lw_calibrate(o, &c, err);
    lw_progress_bar_end(&bar);
    if (lw_progress_stopped(&progress) && s != LW_OK)
        snprintf(err->msg + strlen(err->msg), sizeof err->msg - strlen(err->msg), "%s%s",
                 kept.n > 0 ? "; their medians are in " : "; nothing is written",
                 kept.n > 0 ? file : "");
    if (o->id && o->id->rank > 0) { /* rank 0 writes */
        lw_cluster_free(&c);
        return s;
    }
    if (s == LW_OK && kept.n == 0)
        s = lw_cluster_write(&c, file, err);
    if (s == LW_OK && format == LW_FORMAT_JSON)
        exec_calibrate_print_json(&c, file, stdout);
    else if (s == LW_OK)
        s = exec_calibrate_print(&c, format == LW_FORMAT_CSV, stdout, err);
    if (s == LW_OK && format == LW_FORMAT_TEXT)
        printf("\nwrote %s: use it with -c %s\n", file, file);
    lw_cluster_free(&c);
    return s;
}

int cmd_calibrate(int argc, char **argv)
{
    struct lw_calibrate_options o = lw_calibrate_options_default();
    const char *backend = "threads", *file = NULL, *transport = NULL;
    enum lw_format format = LW_FORMAT_TEXT;
    bool quiet = false, spawn = false;
    struct exec_ranks ranks = {0};
    int64_t n_ranks = 0, n_rounds = o.n_rounds, n_steps = o.n_steps, per_node = 0;
    int64_t max_side = o.max_side;
    int64_t link_rate = 0, link_latency = 0;
    const struct lw_opt options[] = {
        {"backend", 0, LW_OPT_STRING, &backend, "NAME", "what to measure with (threads)"},
        {"transport", 0, LW_OPT_STRING, &transport, "loop",
         "nccl: all ranks as streams of one GPU"},
        {"ranks", 0, LW_OPT_INT, &n_ranks, "N",
         "size of the measured groups (2, or what a launcher started)", 1, 64},
        {"ranks-per-node", 0, LW_OPT_INT, &per_node, "N",
         "consecutive ranks that share a node (as many as the launcher says, else all)", 1, 64},
        {"spawn", 0, LW_OPT_FLAG, &spawn, NULL, "start one process per rank on this machine"},
        {"rounds", 0, LW_OPT_INT, &n_rounds, "N", "repetitions of the whole series (3)", 1, 100},
        {"steps", 0, LW_OPT_INT, &n_steps, "N", "measured steps of each plan in a round (8)", 1,
         1000},
        {"max-bytes", 0, LW_OPT_SIZE, &o.max_bytes, "BYTES",
         "largest message, 16MiB to 1GiB (256MiB)"},
        {"max-side", 0, LW_OPT_INT, &max_side, "N",
         "rows of the largest matrix product (1024; a GPU wants more)", 32, 8192},
        {"link-rate", 0, LW_OPT_SIZE, &link_rate, "BYTES",
         "pace links to this many bytes per second, as exec --link-rate does"},
        {"link-latency", 0, LW_OPT_TIME, &link_latency, "TIME", "of a paced link (0)"},
        {"output", 'o', LW_OPT_STRING, &file, "FILE", "cluster file to write (needed)"},
        LW_OPTION_FORCE,
        LW_OPTION_QUIET(&quiet),
        LW_OPTION_FORMAT(&format),
        {0},
    };
    const struct lw_usage usage = {
        "calibrate", "-o cluster.json [options]",
        "Measure this machine as `lapwing exec` uses it: matrix products, copies, casts and "
        "optimizer "
        "steps over sizes, dispatch, collectives and messages over sizes, and how much compute and "
        "communication of a rank slow each other down. Writes a cluster file for `lapwing sim -c`. "
        "Leave the machine alone meanwhile.",
        0, 0};
    struct lw_err err = {0};
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    if (!file)
        return lw_cli_usage("calibrate", "needs -o FILE");
    if (transport && strcmp(transport, "loop") != 0)
        return lw_cli_usage("calibrate", "--transport %s: calibrate knows 'loop'", transport);
    o.loop = transport != NULL;
    o.link_bytes_per_s = (double)link_rate;
    o.link_latency_ns = lw_ps_to_ns(link_latency);
    o.n_rounds = (int32_t)n_rounds;
    o.n_steps = (int32_t)n_steps;
    o.ranks_per_node = (int32_t)per_node;
    o.max_side = (int32_t)max_side;
    enum lw_status status = lw_output_try(file, &err);
    if (status == LW_OK)
        status = exec_backend_find(backend, &o.backend, &err);
    if (status == LW_OK)
        status = exec_ranks_find(&ranks, o.backend, &n_ranks, 2, spawn, &err);
    if (ranks.printed)
        lw_cli_no_json();
    if (status == LW_OK && ranks.over)
        return ranks.exit_status;
    o.n_ranks = (int32_t)n_ranks;
    o.id = ranks.several ? &ranks.id : NULL;
    if (status == LW_OK)
        status = calibrate(&o, file, quiet, format, &err);
    return lw_cli_end("calibrate", status, &err);
}
