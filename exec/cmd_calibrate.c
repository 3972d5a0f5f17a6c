/* lapwing calibrate: measure this machine and write it as a cluster file. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "exec/backend/backend.h"
#include "exec/calibrate/calibrate.h"
#include "exec/calibrate/calibrate_print.h"
#include "exec/launch/spawn.h"
#include "shared/cli/cli.h"
#include "shared/cli/cluster_warning.h"
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

/* What the command line asks for. */
struct request {
    struct lw_calibrate_options options;
    const char *backend, *file, *transport;
    int64_t n_ranks, n_rounds, n_steps, per_node, max_side, link_rate, link_latency;
    enum lw_format format;
    bool quiet, spawn;
};

static enum lw_status print(const struct lw_cluster *c, const char *file, enum lw_format format,
                            struct lw_err *err)
{
    if (format == LW_FORMAT_JSON) {
        exec_calibrate_print_json(c, file, stdout);
        return LW_OK;
    }
    LW_TRY(exec_calibrate_print(c, format == LW_FORMAT_CSV, stdout, err));
    if (format == LW_FORMAT_TEXT)
        printf("\nwrote %s: use it with -c %s\n", file, file);
    return LW_OK;
}

static enum lw_status calibrate(struct request *r, struct lw_err *err)
{
    struct lw_calibrate_options *o = &r->options;
    struct lw_cluster c = {0};
    struct lw_progress_bar bar;
    bool writes = !o->id || o->id->rank == 0;
    struct lw_progress progress = lw_progress_bar_begin(&bar, r->quiet || !writes);
    struct kept kept = {.file = r->file};

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
                 kept.n > 0 ? r->file : "");
    if (s == LW_OK && writes && kept.n == 0)
        s = lw_cluster_write(&c, r->file, err);
    if (s == LW_OK && writes)
        s = print(&c, r->file, r->format, err);
    if (s == LW_OK && writes)
        lw_cluster_warn(&c, 0);
    lw_cluster_free(&c);
    return s;
}

/* *exit_status: of the processes that --spawn started, where they did the work; else -1. */
static enum lw_status run(struct request *r, int *exit_status, struct lw_err *err)
{
    struct lw_calibrate_options *o = &r->options;
    struct exec_ranks ranks = {0};

    o->loop = r->transport != NULL;
    o->link_bytes_per_s = (double)r->link_rate;
    o->link_latency_ns = lw_ps_to_ns(r->link_latency);
    o->n_rounds = (int32_t)r->n_rounds;
    o->n_steps = (int32_t)r->n_steps;
    o->ranks_per_node = (int32_t)r->per_node;
    o->max_side = (int32_t)r->max_side;
    LW_TRY(lw_output_try(r->file, "cluster", err));
    LW_TRY(exec_backend_find(r->backend, &o->backend, err));
    enum lw_status status = exec_ranks_find(&ranks, o->backend, &r->n_ranks, 2, r->spawn, err);
    if (ranks.printed)
        lw_cli_no_json();
    LW_TRY(status);
    *exit_status = ranks.over ? ranks.exit_status : -1;
    o->n_ranks = (int32_t)r->n_ranks;
    o->id = ranks.several ? &ranks.id : NULL;
    return ranks.over ? LW_OK : calibrate(r, err);
}

static const struct lw_usage usage = {
    "calibrate", "-o cluster.json [options]",
    "Measure this machine as `lapwing exec` uses it: matrix products, copies, casts and optimizer "
    "steps over sizes, dispatch, collectives and messages over sizes, and how much compute and "
    "communication of a rank slow each other down. Writes a cluster file for `lapwing sim -c`. Run "
    "no other program meanwhile.",
    0, 0};

int cmd_calibrate(int argc, char **argv)
{
    struct request r = {.options = lw_calibrate_options_default(), .backend = "threads"};
    const struct lw_opt options[] = {
        {"backend", 0, LW_OPT_STRING, &r.backend, "NAME", "what to measure with (threads)",
         .check = exec_backend_known},
        {"transport", 0, LW_OPT_STRING, &r.transport, "loop",
         "nccl: all ranks as streams of one GPU"},
        {"ranks", 0, LW_OPT_INT, &r.n_ranks, "N",
         "ranks (2, or as many as a launcher started)", 1, 64},
        {"ranks-per-node", 0, LW_OPT_INT, &r.per_node, "N",
         "consecutive ranks that share a node (the launcher's number, else all)", 1, 64},
        {"spawn", 0, LW_OPT_FLAG, &r.spawn, NULL, "start one process per rank on this machine"},
        {"rounds", 0, LW_OPT_INT, &r.n_rounds, "N", "repetitions of the whole series (3)", 1, 100},
        {"steps", 0, LW_OPT_INT, &r.n_steps, "N", "measured steps of each plan in a round (8)", 1,
         1000},
        {"max-bytes", 0, LW_OPT_SIZE, &r.options.max_bytes, "BYTES",
         "largest message, 16MiB to 1GiB (256MiB)", CALIBRATE_LEAST_BYTES, CALIBRATE_MOST_BYTES},
        {"max-side", 0, LW_OPT_INT, &r.max_side, "N",
         "rows of the largest matrix product (1024; use more for a GPU)", 32, 8192},
        {"link-rate", 0, LW_OPT_SIZE, &r.link_rate, "BYTES",
         "pace links to this many bytes per second, as exec --link-rate does"},
        {"link-latency", 0, LW_OPT_TIME, &r.link_latency, "TIME", "of a paced link (0)"},
        {"output", 'o', LW_OPT_STRING, &r.file, "FILE", "cluster file to write (needed)"},
        LW_OPTION_FORCE,
        LW_OPTION_QUIET(&r.quiet),
        LW_OPTION_FORMAT(&r.format),
        {0},
    };
    struct lw_err err = {0};
    int n_operands, rc, exit_status = -1;

    r.n_rounds = r.options.n_rounds;
    r.n_steps = r.options.n_steps;
    r.max_side = r.options.max_side;
    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    if (!r.file)
        return lw_cli_usage("calibrate", "needs -o FILE");
    enum lw_status status = run(&r, &exit_status, &err);
    return exit_status >= 0 ? exit_status : lw_cli_end("calibrate", status, &err);
}
