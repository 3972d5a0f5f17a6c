/* Predictions for this machine beside what it then does. The prediction of a row is made before
 * its run, from a calibration that ran no row. */
#include "analysis/validate/validate_here.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/store/store.h"
#include "analysis/study/machine_run.h"
#include "exec/calibrate/calibrate.h"
#include "shared/files/files.h"
#include "shared/lower/lower.h"
#include "sim/cost/cost_model.h"
#include "traces/models/models.h"

enum { WORDS = 160 };
#define LEAST_STEP_PS (40 * LW_PS_PER_MS) /* of a built-in model on one rank */

/* N: as many ranks as are measured; 2N: twice as many, where all ranks are in one process. */
struct row {
    const char *series, *name, *strategy;
};

static const struct row rows[] = {
    {"caps", "cap 1 MiB", "dp=N bucket-cap=1MiB"},
    {"caps", "cap 5 MiB", "dp=N bucket-cap=5MiB"},
    {"caps", "cap 25 MiB", "dp=N bucket-cap=25MiB"},
    {"policies", "c10d-2", "dp=N"},
    {"policies", "c10d-1.13", "dp=N bucket-policy=c10d-1.13"},
    {"policies", "picotron", "dp=N bucket-policy=picotron"},
    {"policies", "colossal", "dp=N bucket-policy=colossal"},
    {"policies", "per-tensor", "dp=N bucket-policy=per-tensor"},
    {"policies", "single", "dp=N bucket-policy=single"},
    {"policies", "mg-wfbp", "dp=N bucket-policy=mg-wfbp"},
    {"policies", "optimal", "dp=N bucket-policy=optimal"},
    {"policies", "without overlap", "dp=N overlap=off"},
    {"policies", "bf16 hook", "dp=N comm-hook=bf16"},
    {"policies", "accumulation", "dp=N no-sync=1"},
    {"zero", "zero 1, oss-greedy", "dp=N zero=1"},
    {"zero", "zero 1, lpt", "dp=N zero=1 shard-policy=lpt"},
    {"zero", "zero 1, flat", "dp=N zero=1 shard-policy=flat-contiguous"},
    {"zero", "zero 1, sharded-ddp", "dp=N zero=1 bucket-policy=sharded-ddp"},
    {"zero", "zero 2",
     "dp=N zero=2 bucket-policy=deepspeed bucket-cap=5MiB shard-policy=flat-contiguous"},
    {"zero", "zero 3", "dp=N zero=3"},
    {"zero", "zero 3, prefetch 2", "dp=N zero=3 prefetch=2"},
    {"schedules", "gpipe", "pp=N micro-batches=4 schedule=gpipe"},
    {"schedules", "1f1b", "pp=N micro-batches=4"},
    {"schedules", "interleaved-1f1b", "pp=N micro-batches=4 schedule=interleaved-1f1b chunks=2"},
    {"schedules", "looped-bfs", "pp=N micro-batches=4 schedule=looped-bfs chunks=2"},
    {"schedules", "zb-h1", "pp=N micro-batches=4 schedule=zb-h1"},
    {"schedules", "zb-h2", "pp=N micro-batches=4 schedule=zb-h2"},
    {"schedules", "zbv", "pp=N micro-batches=4 schedule=zbv chunks=2"},
    {"schedules", "dualpipe", "pp=N micro-batches=4 schedule=dualpipe chunks=2"},
    {"tensor", "tensor group", "tp=N"},
    {"oversubscribed", "data parallel", "dp=2N"},
    {"oversubscribed", "zero 3", "dp=2N zero=3"},
    {"oversubscribed", "1f1b", "pp=2N micro-batches=8"},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

struct here {
    const struct lw_validate_here *o;
    struct lw_validation *v;
    struct lw_cluster cluster;
    struct lw_workload *workload;
    const struct lw_progress *progress;
    int32_t family, shown;      /* judged, and only shown */
    int32_t done, all;          /* rows, for the progress bar */
};

/* Ranks that are processes or have a device each are as many as there are. */
static bool fixed_ranks(const struct here *h)
{
    return h->o->id || (h->o->backend != &exec_backend_threads && !h->o->loop);
}

static bool leads(const struct here *h)
{
    return !h->o->id || h->o->id->rank == 0;
}

static struct lw_machine machine_of(const struct here *h)
{
    return (struct lw_machine){.backend = h->o->backend, .loop = h->o->loop, .id = h->o->id,
                               .cluster = &h->cluster, .n_steps = (int32_t)h->o->n_steps,
                               .stop = h->o->stop};
}

/* --- strategies --- */

/* "dp=N zero=3" into a strategy; words: room, in which the texts of its options stay. */
static enum lw_status read_strategy(const struct here *h, const char *text, char words[WORDS],
                                    struct lw_strategy *s, struct lw_err *err)
{
    char *rest, number[16];

    *s = lw_strategy_default();
    snprintf(words, WORDS, "%s", text);
    for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(w, '=');
        *value++ = '\0';
        bool twice = strcmp(value, "2N") == 0;
        if (twice || strcmp(value, "N") == 0) {
            snprintf(number, sizeof number, "%lld", (long long)h->o->n_ranks * (twice ? 2 : 1));
            value = number;
        }
        LW_TRY(lw_strategy_set(s, w, value, err));
    }
    return LW_OK;
}

static enum lw_status build(const struct here *h, const struct row *row, struct lw_plan *plan,
                            struct lw_err *err)
{
    struct lw_cost cost = lw_sim_cost(&h->cluster);
    struct lw_strategy s;
    char words[WORDS];

    LW_TRY(read_strategy(h, row->strategy, words, &s, err));
    LW_TRY(lw_strategy_check(&s, err));
    return lw_plan_build(h->workload, &s, &cost, plan, err);
}

/* --- what becomes of it --- */

static enum lw_status store(const struct here *h, const struct lw_machine_run *c,
                            struct lw_err *err)
{
    const struct lw_machine m = machine_of(h);
    int64_t run;

    LW_TRY(lw_machine_store_prediction(&m, c, h->o->db, h->o->command, h->workload, &run, err));
    return lw_machine_store_execution(&m, c, h->o->db, h->o->command, h->workload, &run, err);
}

#define SPEED_APART 0.02 /* from which on the machine's speed is a remark */

static void remark(const struct lw_machine_run *c, char *text, size_t room)
{
    const struct lw_exec_result *x = &c->result;
    size_t used = 0;

    *text = '\0';
    if (x->others_share > LW_DISTURBED)
        used = (size_t)snprintf(text, room, "%sother programs took %.0f %% of the processors",
                                lw_machine_is_loaded(c) ? "measured under load: " : "",
                                100 * x->others_share);
    double speed = lw_machine_compute_speed(c);
    if (fabs(speed - 1) > SPEED_APART && used < room)
        used += (size_t)snprintf(text + used, room - used,
                                 "%sits compute ran at %.3f of the speed that the prediction "
                                 "assumes", used ? "; " : "", speed);
    if (x->over > c->measured.step / 50 && used < room)
        snprintf(text + used, room - used,
                 "%sreal memory work went %.1f ms a step beyond the plan's "
                 "times",
                 used ? "; " : "", (double)x->over * 1e-9);
}

static enum lw_status add_case(const struct here *h, const struct row *row, int32_t series,
                               const struct lw_machine_run *c, struct lw_err *err)
{
    bool scored = !c->result.oversubscribed;
    char id[256], about[320];

    snprintf(id, sizeof id, "%s: %s", h->workload->name, row->name);
    remark(c, about, sizeof about);
    struct lw_case k = {.id = id, .unit = "ns", .family = scored ? h->family : h->shown,
                        .series = scored ? series : -1,
                        .predicted = (double)lw_ps_to_ns(c->expected.step),
                        .measured = (double)lw_ps_to_ns(c->measured.step), .remark = about,
                        .machine_speed = c->result.speed.n > 0 ? c->result.speed.median : 0};
    h->v->n_loaded += lw_machine_is_loaded(c);
    return lw_validation_case(h->v, &k, err);
}

/* By which pictures of stored runs tell the rows apart. */
static enum lw_status name_plan(const struct here *h, const struct row *row, struct lw_plan *p,
                                struct lw_err *err)
{
    char name[256];

    snprintf(name, sizeof name, "%s: %s%s", h->workload->name, row->name,
             strcmp(row->series, "oversubscribed") == 0 ? ", oversubscribed" : "");
    p->name = lw_arena_strdup(&p->arena, name);
    return p->name ? LW_OK : lw_fail_nomem(err);
}

static enum lw_status run_case(const struct here *h, const struct row *row, int32_t series,
                               struct lw_machine_run *c, struct lw_err *err)
{
    const struct lw_machine m = machine_of(h);

    if (!leads(h))
        return lw_machine_execute(&m, c, err);
    LW_TRY(name_plan(h, row, &c->plan, err));
    LW_TRY(lw_machine_predict(&m, c, err));
    LW_TRY(lw_machine_execute(&m, c, err));
    LW_TRY(lw_machine_summarize(&m, c, err));
    if (h->o->db)
        LW_TRY(store(h, c, err));
    return add_case(h, row, series, c, err);
}

/* A strategy that does not suit this workload or cluster is a note, not a case. */
static enum lw_status try_row(struct here *h, const struct row *row, int32_t series,
                              struct lw_err *err)
{
    struct lw_machine_run c = {0};
    struct lw_err why = {0};
    char text[512];

    lw_progress_report(h->progress, row->name, (double)h->done++ / h->all);
    enum lw_status s = build(h, row, &c.plan, &why);
    if (s == LW_OK) {
        s = lw_err_context(err, run_case(h, row, series, &c, err), "%s: %s", h->workload->name,
                           row->name);
    } else if (s != LW_ENOMEM) {
        snprintf(text, sizeof text, "not planned: %s: %s: %.300s", h->workload->name, row->name,
                 why.msg);
        s = lw_validation_note(h->v, h->family, text, text, err);
    }
    lw_machine_run_free(&c);
    return s;
}

static bool is_chosen(const struct here *h, const struct row *row)
{
    if (fixed_ranks(h) && strcmp(row->series, "oversubscribed") == 0)
        return false;
    return !h->o->only || strstr(row->name, h->o->only);
}

static enum lw_status all_rows(struct here *h, struct lw_workload *w, struct lw_err *err)
{
    const char *open = "oversubscribed"; /* which has no series */
    int32_t series = -1;
    char name[128];

    h->workload = w;
    for (int i = 0; i < N_ROWS && !lw_progress_stopped(h->progress); i++) {
        if (!is_chosen(h, &rows[i]))
            continue;
        if (strcmp(rows[i].series, open) != 0 && strcmp(rows[i].series, "oversubscribed") != 0) {
            open = rows[i].series;
            snprintf(name, sizeof name, "%s, %s", w->name, open);
            LW_TRY(lw_validation_series(h->v, h->family, name, 5, &series, err));
        }
        LW_TRY(try_row(h, &rows[i], series, err));
    }
    return LW_OK;
}

/* --- workloads --- */

/* With the least power of two as batch that makes a step long enough to be measured. */
static enum lw_status model(const struct here *h, const char *name, struct traces_model_shape shape,
                            struct lw_workload *w, struct lw_err *err)
{
    for (shape.batch = 1;; shape.batch *= 2) {
        LW_TRY(traces_model_build(name, &shape, &h->cluster.device, w, err));
        if (lw_workload_forward_ps(w) + lw_workload_backward_ps(w) >= LEAST_STEP_PS)
            return LW_OK;
        lw_workload_free(w);
    }
}

static enum lw_status load(const struct here *h, int k, struct lw_workload *w, struct lw_err *err)
{
    static const struct traces_model_shape gpt = {.layers = 4,
                                                  .hidden = 256,
                                                  .heads = 4,
                                                  .seq = 128,
                                                  .vocab = 4096},
                                           mlp = {.layers = 8, .width = 768};

    if (h->o->n_workload_files > 0)
        return lw_workload_read(h->o->workload_files[k], w, err);
    return k == 0 ? model(h, "gpt2", gpt, w, err) : model(h, "mlp", mlp, w, err);
}

static enum lw_status all_workloads(struct here *h, struct lw_err *err)
{
    int n = h->o->n_workload_files > 0 ? h->o->n_workload_files : 2, chosen = 0;

    for (int i = 0; i < N_ROWS; i++)
        chosen += is_chosen(h, &rows[i]);
    if (chosen == 0)
        return lw_fail(err, LW_EUSAGE, "--only '%s': it matches no row of the grid; leave out "
                                       "--only to run all", h->o->only);
    h->all = n * chosen;
    for (int k = 0; k < n; k++) {
        struct lw_workload w = {0};
        LW_TRY(load(h, k, &w, err));
        enum lw_status s = all_rows(h, &w, err);
        lw_workload_free(&w);
        LW_TRY(s);
    }
    return LW_OK;
}

/* --- the cluster --- */

static enum lw_status send_file(const struct here *h, struct exec_rendezvous *r, int fd,
                                const char *name, struct lw_err *err)
{
    struct stat s = {0};
    int64_t bytes = 0;

    if (leads(h)) {
        LW_TRY(lw_cluster_write(&h->cluster, name, err));
        bytes = fstat(fd, &s) == 0 ? (int64_t)s.st_size : 0;
    }
    LW_TRY(exec_rendezvous_broadcast(r, &bytes, sizeof bytes, err));
    if (bytes <= 0 || bytes > INT32_MAX || ftruncate(fd, (off_t)bytes) != 0)
        return lw_fail(err, LW_EIO, "the calibration of rank 0 has %lld bytes", (long long)bytes);
    void *text = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (text == MAP_FAILED)
        return lw_fail_nomem(err);
    enum lw_status status = exec_rendezvous_broadcast(r, text, (int32_t)bytes, err);
    munmap(text, (size_t)bytes);
    return status;
}

/* All ranks plan with the cluster of rank 0, which is sent as the text of its file. */
static enum lw_status share_cluster(struct here *h, struct lw_err *err)
{
    struct exec_agreement same = {.plan_hash = "validate", .program = LW_VERSION};
    struct exec_rendezvous *r = NULL;
    char name[32];
    int fd = memfd_create("cluster", MFD_CLOEXEC);

    if (fd < 0)
        return lw_fail(err, LW_EIO, "no memory for the calibration of rank 0");
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    snprintf(same.backend, sizeof same.backend, "%s", h->o->backend->name);
    enum lw_status s = exec_rendezvous_open(h->o->id, &same, exec_opening_limit(0), NULL, &r, err);
    if (s == LW_OK)
        s = send_file(h, r, fd, name, err);
    if (s == LW_OK && !leads(h)) {
        lw_cluster_free(&h->cluster);
        s = lw_cluster_read(name, &h->cluster, err);
    }
    exec_rendezvous_close(r);
    close(fd);
    return s;
}

static enum lw_status read_cluster(struct here *h, struct lw_err *err)
{
    LW_TRY(lw_cluster_find(h->o->cluster_file, &h->cluster, err));
    if (h->cluster.calibrated)
        return LW_OK;
    return lw_fail(err, LW_EINVAL, "-c %s: '%s' is not calibrated; --here needs a file that "
                                   "`lapwing calibrate -o FILE` wrote, or no "
                                   "-c", h->o->cluster_file,
                   h->cluster.name);
}

static enum lw_status find_cluster(struct here *h, struct lw_err *err)
{
    struct lw_calibrate_options c = lw_calibrate_options_default();

    c.backend = h->o->backend;
    c.loop = h->o->loop;
    c.id = h->o->id;
    c.n_ranks = (int32_t)h->o->n_ranks;
    c.progress = h->progress;
    if (!h->o->cluster_file)
        LW_TRY(lw_calibrate(&c, &h->cluster, err));
    else if (leads(h))
        LW_TRY(read_cluster(h, err));
    return h->o->id ? share_cluster(h, err) : LW_OK;
}

static enum lw_status families(struct here *h, struct lw_err *err)
{
    static const struct lw_bars bars = {.mean_pct = 8, .worst_pct = 20}, none = {0};
    char text[256];

    LW_TRY(lw_validation_family(h->v, "here", bars, true, &h->family, err));
    LW_TRY(lw_validation_family(h->v, "here, oversubscribed", none, false, &h->shown, err));
    snprintf(text, sizeof text,
             "measured: medians of %lld step%s after %d, %s backend%s, verified bitwise",
             (long long)h->o->n_steps, lw_plural(h->o->n_steps), LW_MACHINE_WARMUP,
             h->o->backend->name,
             h->o->loop                               ? ", ranks are streams of one device"
             : h->o->backend == &exec_backend_threads ? ", pinned"
                                                      : "");
    LW_TRY(lw_validation_note(h->v, h->family, "how", text, err));
    snprintf(text, sizeof text, "predicted from: %.200s", h->cluster.about);
    LW_TRY(lw_validation_note(h->v, h->family, "cluster", text, err));
    return lw_validation_note(h->v, h->shown, "why",
                              h->o->loop
                                  ? "ranks share one device: shown, not judged"
                                  : "more ranks than cores, predicted as if each had one: shown, "
                                    "not judged",
                              err);
}

enum lw_status lw_validate_this_machine(const struct lw_validate_here *o, struct lw_validation *v,
                                        struct lw_err *err)
{
    struct here h = {.o = o, .v = v};
    struct lw_progress_bar bar;
    struct lw_progress progress =
        lw_progress_bar_begin(&bar, o->quiet || (o->id && o->id->rank > 0));

    progress.stop = o->stop;
    h.progress = &progress;
    enum lw_status s = o->db && !(o->id && o->id->rank > 0) ? lw_store_usable(o->db, err) : LW_OK;
    if (s == LW_OK)
        s = find_cluster(&h, err);
    if (s == LW_OK)
        s = families(&h, err);
    if (s == LW_OK)
        s = all_workloads(&h, err);
    lw_progress_bar_end(&bar);
    lw_cluster_free(&h.cluster);
    return s;
}
