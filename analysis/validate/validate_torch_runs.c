/* Measured runs of torch.distributed on two processes: one case per configuration. Its workload is
 * the import of local.json's recording of one process with the configuration's batch, its cluster
 * the import of net__NET.json, and the prediction is `lapwing sim`'s: the case's command is what a
 * user types, and both go through the same files and functions. The measured side is read only
 * after all predictions are made. docs/design/torch_runs.md. */
#include "analysis/validate/validate_kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/study/prediction.h"
#include "shared/base/shown_text.h"
#include "shared/base/temp_names.h"
#include "shared/cluster/gloo.h"
#include "shared/files/files.h"
#include "shared/io/used_files.h"
#include "sim/predict/sim.h"
#include "traces/import/convert.h"
#include "traces/torch_runs/torch_runs.h"

enum { MARGIN_PCT = 3, N_PROCESSES = 2, PATH = 1024 };

struct option {
    char name[32], value[64];
};

/* Options of sim beside -w and -c. */
struct choices {
    int n;
    struct option v[8];
};

struct predicted {
    double step_ns;       /* 0: it was not predicted */
    int64_t peak_bytes;   /* of the process; 0: not predicted */
    const char *why;      /* why it was not */
    const char *command;
};

enum { MOST_WRITTEN = 64 };

struct file {
    const struct lw_input *in;
    struct lw_validation *v;
    struct lw_torch_runs runs;
    struct lw_torch_local local;
    char folder[PATH];    /* of the file, "" or with '/' at its end */
    char scratch[64];     /* of what is imported */
    char cluster[PATH];
    char *written[MOST_WRITTEN]; /* in it; a signal's end removes them too */
    int n_written;
    struct lw_arena arena;
    struct predicted *p;  /* [runs.n] */
};

bool lw_validate_is_torch_runs(const struct lw_input *in)
{
    return lw_torch_runs_are(in->text, in->len);
}

/* --- imports ---------------------------------------------------------------------------------- */

static enum lw_status note_written(struct file *f, const char *name, struct lw_err *err)
{
    if (f->n_written == MOST_WRITTEN)
        return lw_fail(err, LW_EINVAL, "%s: more than %d recordings", f->in->name, MOST_WRITTEN);
    if (!(f->written[f->n_written] = lw_arena_strdup(&f->arena, name)))
        return lw_fail_nomem(err);
    lw_temp_note(f->written[f->n_written++]);
    return LW_OK;
}

/* What `lapwing import NAME -o OUT` (or --cluster-out OUT) does. */
static enum lw_status import(char *name, const struct traces_wanted *want, const char *out,
                             struct lw_err *err)
{
    struct traces_reading reading = {0};
    struct traces_file file;
    struct traces_converted c = {0};
    int n = 1;

    LW_TRY(traces_files_read(&reading, &name, &n, &file, err));
    enum lw_status status = traces_convert(&file, 1, want, &c, err);
    if (status == LW_OK)
        status = want->workload ? lw_workload_write(&c.workload, out, err)
                                : lw_cluster_write(&c.cluster, out, err);
    lw_used_file_again(out); /* it is read next */
    traces_converted_free(&c);
    traces_files_free(&file, 1);
    return status;
}

static enum lw_status import_links(struct file *f, struct lw_err *err)
{
    struct traces_wanted want = {.cluster = true, .choice.step = -1,
                                 .bench = {.n_ranks = N_PROCESSES, .n_nodes = N_PROCESSES}};
    char name[2 * PATH];

    snprintf(name, sizeof name, "%snet__%s.json", f->folder, f->runs.net);
    snprintf(f->cluster, sizeof f->cluster, "%s/%.200s.json", f->scratch, f->runs.net);
    LW_TRY(note_written(f, f->cluster, err));
    return import(name, &want, f->cluster, err);
}

/* The workload of the recording, imported once. */
static enum lw_status import_recording(struct file *f, const struct lw_torch_recording *r,
                                       char *out, size_t size, struct lw_err *err)
{
    struct traces_wanted want = {.workload = true, .choice.step = -1};
    char name[2 * PATH];

    snprintf(out, size, "%s/%.200s.json", f->scratch, r->name);
    if (access(out, R_OK) == 0)
        return LW_OK;
    snprintf(name, sizeof name, "%s%.1000s", f->folder, r->file);
    LW_TRY(note_written(f, out, err));
    return import(name, &want, out, err);
}

/* --- options ---------------------------------------------------------------------------------- */

static void choose(struct choices *c, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void choose(struct choices *c, const char *name, const char *format, ...)
{
    struct option *o = &c->v[c->n++];
    va_list args;

    snprintf(o->name, sizeof o->name, "%s", name);
    va_start(args, format);
    vsnprintf(o->value, sizeof o->value, format, args);
    va_end(args);
}

static void choose_ddp(const struct lw_torch_config *t, struct choices *c)
{
    choose(c, "framework", "torch-ddp");
    choose(c, "dp", "%d", N_PROCESSES);
    if (t->cap_mb > 0)
        choose(c, "bucket-cap", "%lld", (long long)(t->cap_mb * (1 << 20)));
    if (t->view)
        choose(c, "gradient-as-bucket-view", "on");
    if (t->micro_batches > 1)
        choose(c, "micro-batches", "%lld", (long long)t->micro_batches);
    if (t->no_sync)
        choose(c, "sync-each-micro-batch", "off");
}

/* The file describes what was wrapped. */
static const char *units_remark(const struct lw_torch_config *t)
{
    bool other = strcmp(t->kind, "fsdp2") == 0 &&
                 strncmp(t->units, "every child of the root", 23) != 0;

    return other ? "its units are taken to be the root's children" : "";
}

static void choose_fsdp(const struct lw_torch_config *t, struct choices *c)
{
    choose(c, "framework", "torch-fsdp2");
    choose(c, "dp", "%d", N_PROCESSES);
    choose(c, "units", "children");
    choose(c, "reshard", t->reshard ? "on" : "off");
}

/* The first module of the workload that lies in that child of the root or in a later one; -1: the
 * names of its modules do not begin with numbers. */
static int32_t module_of_child(const struct lw_workload *w, int64_t child)
{
    char *end;

    for (int32_t m = 0; m < w->n_modules; m++)
        if (strtoll(w->modules[m].name, &end, 10) >= child && end != w->modules[m].name)
            return m;
    return -1;
}

static bool choose_pipeline(const struct lw_torch_config *t, const struct lw_workload *w,
                            struct choices *c, const char **why)
{
    int32_t second = module_of_child(w, t->first_module);

    *why = t->stages != N_PROCESSES ? "it has not as many stages as processes"
           : second < 1             ? "no module of the recording begins the second stage"
                                    : "";
    if (**why)
        return false;
    choose(c, "framework", "torch-pipelining");
    choose(c, "pp", "%d", N_PROCESSES);
    choose(c, "micro-batches", "%lld", (long long)t->micro_batches);
    choose(c, "schedule", "%.60s", t->schedule);
    choose(c, "partition", "explicit");
    choose(c, "partition-list", "0,%d", second);
    return true;
}

static bool choose_all(const struct lw_torch_config *t, const struct lw_workload *w,
                       struct choices *c, const char **why)
{
    c->n = 0;
    *why = "unknown \"kind\"; expected ddp, fsdp2, pipeline, or compute...";
    if (strncmp(t->kind, "compute", 7) == 0)
        return true;
    if (strcmp(t->kind, "ddp") == 0) {
        choose_ddp(t, c);
        return true;
    }
    if (strcmp(t->kind, "fsdp2") == 0) {
        choose_fsdp(t, c);
        return true;
    }
    return strcmp(t->kind, "pipeline") == 0 && choose_pipeline(t, w, c, why);
}

/* --- predictions ------------------------------------------------------------------------------ */

static enum lw_status write_command(struct file *f, const struct lw_torch_recording *r,
                                    const struct choices *c, const char **command,
                                    struct lw_err *err)
{
    char options[640] = "";
    size_t used = 0;

    for (int i = 0; i < c->n; i++)
        used += (size_t)snprintf(options + used, sizeof options - used, " --%s %s", c->v[i].name,
                                 c->v[i].value);
    LW_PRINT(&f->arena, *command, err,
             "lapwing import %s%s -o %s.json --force && lapwing import %snet__%s.json --ranks %d "
             "--nodes %d --cluster-out %s.json --force && lapwing sim -w %s.json -c %s.json%s",
             f->folder, r->file, r->name, f->folder, f->runs.net, N_PROCESSES, N_PROCESSES,
             f->runs.net, r->name, f->runs.net, options);
    return LW_OK;
}

static enum lw_status simulate(const struct file *f, const char *workload,
                               const struct choices *c, double *step_ns, int64_t *peak_bytes,
                               struct lw_err *err)
{
    struct lw_prediction p = {.options = lw_sim_options_default(), .seed = -1, .row.id = -1,
                              .no_db = true, .quiet = true};
    enum lw_status status = LW_OK;

    lw_plan_source_init(&p.source);
    p.source.predicts = p.source.silent = true;
    p.source.workload_file = workload;
    p.source.cluster_file = f->cluster;
    for (int i = 0; status == LW_OK && i < c->n; i++)
        if (strcmp(c->v[i].name, "framework") == 0)
            p.source.framework_name = c->v[i].value;
        else
            status = lw_plan_source_set(&p.source, c->v[i].name, c->v[i].value, err);
    if (status == LW_OK)
        status = lw_predict(&p, err);
    if (status == LW_OK) {
        *step_ns = (double)lw_ps_to_ns(p.summary.step);
        *peak_bytes = p.summary.peak_memory_bytes;
    }
    lw_prediction_free(&p);
    return status;
}

/* A process of the recording held all that one process holds; to it comes what the plan of the
 * configuration holds beyond the plan of one process. */
static enum lw_status add_peak(const struct file *f, const char *workload,
                               const struct lw_torch_recording *r, int64_t planned,
                               struct predicted *p, struct lw_err *err)
{
    const struct choices none = {0};
    double unused;
    int64_t alone = 0;

    if (r->peak_rss_bytes <= 0 || planned <= 0)
        return LW_OK;
    LW_TRY(simulate(f, workload, &none, &unused, &alone, err));
    p->peak_bytes = alone > 0 ? r->peak_rss_bytes + planned - alone : 0;
    return LW_OK;
}

/* Peaks hold those of all that the process ran before: known of what ran first, and of the
 * configuration of DDP after it, which needs more. */
static bool has_own_peak(const struct file *f, int32_t i)
{
    return i == 0 || (i == 1 && strncmp(f->runs.configs[0].kind, "compute", 7) == 0 &&
                      strcmp(f->runs.configs[1].kind, "ddp") == 0);
}

static enum lw_status predict(struct file *f, int32_t i, struct lw_err *err)
{
    const struct lw_torch_config *t = &f->runs.configs[i];
    const struct lw_torch_recording *r =
        lw_torch_recording_of(&f->local, f->runs.model, t->batch);
    struct predicted *p = &f->p[i];
    struct lw_workload w;
    struct choices c;
    char workload[PATH];

    if (!r) {
        LW_PRINT(&f->arena, p->why, err, "local.json has no recording of model '%s' with batch "
                 "%lld", f->runs.model, (long long)t->batch);
        return LW_OK;
    }
    LW_TRY(import_recording(f, r, workload, sizeof workload, err));
    LW_TRY(lw_workload_read(workload, &w, err));
    bool says = choose_all(t, &w, &c, &p->why);
    lw_workload_free(&w);
    if (!says)
        return LW_OK;
    LW_TRY(write_command(f, r, &c, &p->command, err));
    struct lw_err why = {0};
    int64_t planned = 0;
    enum lw_status status = simulate(f, workload, &c, &p->step_ns, &planned, &why);
    if (status == LW_OK && has_own_peak(f, i))
        status = add_peak(f, workload, r, planned, p, &why);
    if (status == LW_ENOMEM)
        return lw_fail_nomem(err);
    if (status != LW_OK) /* the others are predicted */
        LW_PRINT(&f->arena, p->why, err, "%s", why.msg);
    return LW_OK;
}

/* --- cases ------------------------------------------------------------------------------------ */

/* Configurations whose order is judged differ in one choice: the cap, resharding, the schedule with
 * its micro-batches. */
static const char *series_of(const struct lw_torch_config *t)
{
    if (strcmp(t->kind, "ddp") == 0 && t->micro_batches == 1)
        return t->view ? "caps, views" : "caps";
    return strcmp(t->kind, "fsdp2") == 0      ? "reshard"
           : strcmp(t->kind, "pipeline") == 0 ? "schedules"
                                              : NULL;
}

static enum lw_status find_series(struct lw_validation *v, int32_t family, const char *name,
                                  int32_t *out, struct lw_err *err)
{
    for (*out = 0; *out < v->n_series; ++*out)
        if (v->series[*out].family == family && strcmp(v->series[*out].name, name) == 0)
            return LW_OK;
    return lw_validation_series(v, family, name, MARGIN_PCT, out, err);
}

static enum lw_status add_case(struct file *f, int32_t i, int32_t family, double step_s,
                               struct lw_err *err)
{
    const struct lw_torch_config *t = &f->runs.configs[i];
    const struct predicted *p = &f->p[i];
    const char *series = series_of(t);
    char id[256], name[256];

    snprintf(id, sizeof id, "%s__%s__%s", f->runs.model, f->runs.net, t->name);
    if (p->step_ns <= 0)
        return lw_validation_skip(f->v, family, id, p->why, err);
    struct lw_case c = {.id = id, .unit = "ns", .family = family, .series = -1,
                        .predicted = p->step_ns, .measured = (double)(int64_t)(step_s * 1e9 + 0.5),
                        .remark = step_s > 0 ? units_remark(t)
                                             : "step_s has no such configuration",
                        .command = p->command};
    snprintf(name, sizeof name, "%s__%s, %s", f->runs.model, f->runs.net, series ? series : "");
    if (series)
        LW_TRY(find_series(f->v, family, name, &c.series, err));
    return lw_validation_case(f->v, &c, err);
}

/* In a family of their own: the process with its libraries, before and after. */
static enum lw_status add_peaks(struct file *f, const struct lw_torch_measured *m,
                                struct lw_err *err)
{
    static const struct lw_bars bars = {.mean_pct = 5, .worst_pct = 15};
    int32_t family;
    char id[256];

    for (int32_t i = 0; i < f->runs.n; i++) {
        if (f->p[i].peak_bytes <= 0 || m[i].peak_rss_bytes <= 0)
            continue;
        LW_TRY(lw_validation_family(f->v, "torch runs, peak RSS", bars, false, &family, err));
        snprintf(id, sizeof id, "%s__%s__%s, peak RSS", f->runs.model, f->runs.net,
                 f->runs.configs[i].name);
        struct lw_case c = {.id = id, .unit = "B", .family = family, .series = -1,
                            .predicted = (double)f->p[i].peak_bytes,
                            .measured = (double)m[i].peak_rss_bytes, .remark = "",
                            .command = f->p[i].command};
        LW_TRY(lw_validation_case(f->v, &c, err));
    }
    return LW_OK;
}

static enum lw_status add_cases(struct file *f, struct lw_err *err)
{
    static const struct lw_bars bars = {.mean_pct = 5, .worst_pct = 15, .order_pct = 100};
    const struct lw_gloo_fact *x = &lw_gloo_facts[LW_GLOO_COPY];
    struct lw_torch_measured *m;
    int32_t family;

    LW_TAKE(&f->arena, m, f->runs.n, err);
    LW_TRY(lw_torch_measured_read(f->in, &f->runs, m, err));
    LW_TRY(lw_validation_family(f->v, "torch runs", bars, true, &family, err));
    struct lw_fit fit = {family, x->n_rows, x->name, x->unit, x->fitted_on, x->value};
    LW_TRY(lw_validation_fit(f->v, &fit, err));
    for (int32_t i = 0; i < f->runs.n; i++)
        LW_TRY(add_case(f, i, family, m[i].step_s, err));
    return add_peaks(f, m, err);
}

static enum lw_status predict_all(struct file *f, struct lw_err *err)
{
    LW_TAKE(&f->arena, f->p, f->runs.n, err);
    LW_TRY(import_links(f, err));
    for (int32_t i = 0;
         i < f->runs.n && lw_validation_goes_on(f->v, f->in->name, i, f->runs.n); i++)
        LW_TRY(lw_err_context(err, predict(f, i, err), "%s: %s", f->in->name,
                              f->runs.configs[i].name));
    return LW_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static enum lw_status open_scratch(struct file *f, struct lw_err *err)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(f->scratch, sizeof f->scratch, "%.40s/lapwing-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (mkdtemp(f->scratch)) {
        lw_temp_note(f->scratch);
        return LW_OK;
    }
    enum lw_status status = lw_fail(err, LW_EIO, "no folder for imports can be made as %s; set "
                                                 "TMPDIR", f->scratch);
    f->scratch[0] = '\0';
    return status;
}

static void close_scratch(struct file *f)
{
    for (int i = 0; i < f->n_written; i++) {
        unlink(f->written[i]);
        lw_temp_forget(f->written[i]);
    }
    if (f->scratch[0])
        rmdir(f->scratch);
    lw_temp_forget(f->scratch);
}

static enum lw_status read_local(struct file *f, struct lw_err *err)
{
    struct lw_input in;
    char name[PATH + 16];

    snprintf(name, sizeof name, "%slocal.json", f->folder);
    LW_TRY(lw_input_read(name, 0, &in, err));
    enum lw_status status = lw_torch_local_read(&in, &f->local, err);
    lw_input_free(&in);
    return status;
}

enum lw_status lw_validate_torch_runs(const struct lw_input *in, struct lw_validation *v,
                                      struct lw_err *err)
{
    struct file f = {.in = in, .v = v};
    size_t n = (size_t)(lw_base_name(in->name) - in->name);

    if (n >= sizeof f.folder)
        return lw_fail(err, LW_EINVAL, "%s: the path has more than %d characters", in->name, PATH);
    memcpy(f.folder, in->name, n);
    LW_TRY(lw_torch_runs_read(in, &f.runs, err));
    enum lw_status status = read_local(&f, err);
    if (status == LW_OK)
        status = open_scratch(&f, err);
    if (status == LW_OK)
        status = predict_all(&f, err);
    if (status == LW_OK)
        status = add_cases(&f, err);
    close_scratch(&f);
    lw_arena_free(&f.arena);
    lw_torch_local_free(&f.local);
    lw_torch_runs_free(&f.runs);
    return status;
}
