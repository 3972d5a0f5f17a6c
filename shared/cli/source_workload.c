/* The workload of -w: read, made from a model, or made again for this device and these groups. */
#include "shared/cli/source_parts.h"

#include <stdio.h>
#include <string.h>

#include "shared/cli/model_source.h"
#include "shared/device/device_kind.h"
#include "shared/files/files.h"
#include "shared/io/input.h"
#include "shared/io/own_output.h"
#include "shared/text/wrap.h"

/* A model's plan is cut where gradients are ready, in the proportions of its kernels' times: those
 * of this system stand in where none is named. It has every data type but 4-bit operands, which
 * are given twice the rate of 8-bit ones, the ratio of B200's peaks. */
#define PROPORTIONS_OF "dgx-h100"

static enum lw_status find_proportions(struct lw_plan_source *s, const struct lw_cluster **c,
                                       struct lw_err *err)
{
    struct lw_device *d = &s->proportions.device;

    if (!s->proportions.name)
        LW_TRY(lw_cluster_find(PROPORTIONS_OF, &s->proportions, err));
    if (!lw_figure_is_set(d->fp4_speedup) && lw_figure_is_set(d->fp8_speedup)) {
        d->fp4_speedup = d->fp8_speedup;
        d->fp4_speedup.value *= 2;
    }
    *c = &s->proportions;
    return LW_OK;
}

/* The device is that of --device, else the cluster's. */
static enum lw_status make_for(struct lw_plan_source *s, const struct lw_model_request *r,
                               const struct lw_strategy *strategy, const struct lw_cluster *c,
                               struct lw_workload *w, struct lw_err *err)
{
    struct lw_model_target target = {.strategy = strategy, .framework = lw_source_framework(s),
                                     .usual = s->choice.from == LW_FRAMEWORK_USUAL};
    struct lw_model_request request = *r;

    LW_TRY(lw_global_batch_samples(s->global_batch, strategy, &request, err));
    LW_TRY(lw_source_device(s, c, &target.cluster, err));
    LW_TRY(s->make_model(&request, &target, w, err));
    w->timeless = lw_source_is_timeless(s);
    return LW_OK;
}

enum lw_status lw_source_sizes(const struct lw_plan_source *s, const struct lw_model_request *r,
                               struct lw_workload *w, struct lw_err *err)
{
    const struct lw_strategy strategy = lw_strategy_default();
    const struct lw_model_target sizes = {.strategy = &strategy};

    return s->make_model(r, &sizes, w, err);
}

/* An option for recorded times, where no other one refuses it; NULL: none. */
static const char *idle_of_model(const struct lw_plan_source *s)
{
    if (s->as_recorded)
        return !s->device && (s->cluster_file || s->predicts) ? "as-recorded" : NULL;
    return s->from_device && s->device ? "from-device" : NULL;
}

/* LW_ENO: it is no model. */
static enum lw_status make_model(struct lw_plan_source *s, const char *name,
                                 struct lw_strategy *strategy, const struct lw_cluster *c,
                                 struct lw_workload *w, struct lw_err *err)
{
    struct lw_model_request r = s->model;
    struct lw_err why = {0};

    r.name = name;
    r.optimizer = r.optimizer ? r.optimizer : s->model_optimizer;
    LW_TRY(lw_plan_source_framework(s, &r, strategy, c, err));
    LW_TRY(lw_strategy_check(strategy, err));
    enum lw_status st = make_for(s, &r, strategy, c, w, &why);
    if (st == LW_ENO && lw_is_folder(name))
        return lw_fail(err, LW_EIO, "%s (a folder is read as a model's, by its config.json)",
                       why.msg);
    if (st == LW_ENO && lw_is_file(name)) {
        *err = why;
        return LW_ENO;
    }
    if (st == LW_ENO)
        return lw_fail(err, LW_EINVAL, "%s: no such file; as a model: %s", name, why.msg);
    if (st == LW_OK && idle_of_model(s)) {
        lw_workload_free(w);
        return lw_fail(err, LW_EINVAL,
                       "--%s is for a workload file, which has times: model '%.60s' has those of "
                       "the cluster, or of --device", idle_of_model(s), name);
    }
    bool of_machine = !s->cluster_file && !s->device && !s->takes_timeless &&
                      strncmp(why.msg, "--", 2) != 0;
    if (st == LW_EUSAGE)
        *err = why;
    else if (st != LW_OK)
        lw_fail(err, st, "model %s: %s%s", name, why.msg,
                of_machine ? "; or give its cluster (-c NAME)" : ""); /* not of an option */
    if (st == LW_OK && !s->silent && !s->device && !s->cluster_file && !w->timeless &&
        s->workload_file)
        lw_printf_paragraph(stderr, "lapwing: model '%.80s' is timed for cluster '%.80s', this "
                                    "machine; -c NAME takes another (`lapwing cluster` lists them)",
                            name, c->name);
    return st;
}

static void say_again(const struct lw_plan_source *s, const struct lw_workload *old,
                      const struct lw_workload *now)
{
    const struct lw_made_for *a = &old->from.made_for, *b = &now->from.made_for;
    const char *device = lw_device_is_nameless(old->from.device) ? "no device" : old->from.device;
    bool timed = !lw_device_is_nameless(old->from.device);
    char was[200], is[200];

    if (!s->silent)
        lw_printf_paragraph(
            stderr,
            "lapwing: workload '%.80s' was made from model '%.80s' for %.60s (%s); it is computed "
            "again for %.60s (%s)%s%s",
            old->name, old->from.model.name, device,
            lw_source_made_for_text(a, b, timed, was, sizeof was), now->from.device,
            lw_source_made_for_text(b, a, timed, is, sizeof is),
            s->device || s->cluster_file ? "" : "; -c NAME takes another cluster",
            lw_model_first_given(&s->model) ? ", with the options given" : "");
}

/* Made from a model for no device. One whose device the user calls unknown has times, which are
 * kept: they are no model's any more. */
static bool is_untimed(const struct lw_workload *w)
{
    return !w->from.device[0] && lw_workload_step_ps(w) == 0;
}

/* Whether the times of a file that was made from a model are to be those of the cluster's device.
 * Where not, the file's device stays. */
static bool takes_cluster(const struct lw_plan_source *s, const struct lw_workload *w)
{
    return is_untimed(w) || ((s->cluster_file || s->predicts) && !s->as_recorded);
}

/* c: of the device that times are to be of; NULL = the file's own. */
static bool needs_again(const struct lw_plan_source *s, const struct lw_workload *w,
                        const struct lw_strategy *strategy, const struct lw_cluster *c)
{
    bool other = c && !s->from_device &&
                 (is_untimed(w) || !lw_device_same_kind(w->from.device, c->device.kind));
    bool groups = !s->as_recorded && !lw_device_is_nameless(w->from.device) &&
                  (lw_workload_is_of_others(w, strategy, lw_source_framework_hash(s)) ||
                   lw_framework_times_others(&s->framework, w, strategy));

    return other || groups || lw_model_first_given(&s->model);
}

static enum lw_status make_from(const struct lw_plan_source *s, const struct lw_strategy *strategy,
                                const struct lw_cluster *c, const struct lw_workload *w,
                                struct lw_workload *again, struct lw_err *err)
{
    const struct lw_model_target target = {.strategy = strategy, .cluster = c,
                                           .framework = lw_source_framework(s),
                                           .usual = s->choice.from == LW_FRAMEWORK_USUAL};
    struct lw_model_request r = w->from.model;

    lw_model_override(&r, &s->model);
    LW_TRY(lw_global_batch_samples(s->global_batch, strategy, &r, err));
    return s->make_model(&r, &target, again, err);
}

/* The error begins with an option that the file's model has: no option turns it off. */
static void say_of_file(const struct lw_model_request *r, struct lw_err *err)
{
    const struct {
        const char *name;
        bool has;
    } of[] = {{"--tf32:", r->tf32}, {"--fp8:", r->fp8}, {"--fp4:", r->fp4}};
    struct lw_err why = *err;

    for (size_t k = 0; k < sizeof of / sizeof *of; k++)
        if (of[k].has && strncmp(why.msg, of[k].name, strlen(of[k].name)) == 0)
            lw_fail(err, LW_EINVAL, "%s; the workload file has %.*s: to leave it out, make the "
                                    "file anew without it (lapwing model ... -o FILE)", why.msg,
                    (int)strlen(of[k].name) - 1, of[k].name);
}

static enum lw_status make_on(const struct lw_plan_source *s, const struct lw_strategy *strategy,
                              const struct lw_cluster *c, bool here, struct lw_workload *w,
                              struct lw_err *err)
{
    bool timeless = lw_source_is_timeless(s);
    struct lw_workload again;

    enum lw_status st = make_from(s, strategy, c, w, &again, err);
    if (st == LW_EINVAL)
        say_of_file(&w->from.model, err);
    if (st != LW_OK)
        return lw_err_context(err, st == LW_ENO ? LW_EINVAL : st,
                              "workload '%s', computed again%s", w->name,
                              here && !timeless
                                  ? " for this machine (-c NAME takes another cluster)"
                                  : "");
    again.timeless = here && timeless;
    if (!again.timeless)
        say_again(s, w, &again);
    lw_workload_free(w);
    *w = again;
    return LW_OK;
}

static enum lw_status find_own_device(const struct lw_workload *w, struct lw_cluster *c,
                                      struct lw_err *err)
{
    if (lw_cluster_find_device(w->from.device, c, NULL) == LW_OK)
        return LW_OK;
    return lw_fail(err, LW_EINVAL, "workload '%s' is timed for device '%s', which no known system "
                                   "has: give its cluster (-c FILE)", w->name, w->from.device);
}

/* The same model for the device and the groups in use. */
static enum lw_status model_again(struct lw_plan_source *s, const char *name,
                                  const struct lw_strategy *strategy, const struct lw_cluster *c,
                                  bool here, struct lw_workload *w, struct lw_err *err)
{
    if (lw_is_edited(name, "workload") && !s->silent)
        lw_printf_paragraph(stderr, "lapwing: %s was edited; its edits are dropped for the "
                                    "options given", name);
    return make_on(s, strategy, c, here, w, err);
}

/* Of a file that was made from a model, or has kernels: times for the device and the groups in
 * use. An edited one keeps its edits: its own kernels are timed. */
static enum lw_status make_again(struct lw_plan_source *s, const char *name,
                                 const struct lw_strategy *strategy, const struct lw_cluster *c,
                                 struct lw_workload *w, struct lw_err *err)
{
    const struct lw_cluster *to = takes_cluster(s, w) ? c : NULL;
    bool model = s->make_model && lw_model_is_set(&w->from.model);
    bool given = lw_model_first_given(&s->model) != NULL;
    struct lw_cluster found = {0};
    enum lw_status st = LW_OK;

    LW_TRY(lw_source_device(s, to, &to, err));
    if (!needs_again(s, w, strategy, to))
        return lw_source_take_kernels(s, to, w, err);
    bool again = model && (given || !lw_is_edited(name, "workload"));
    if (!again && w->n_kernels == 0)
        return lw_fail(err, LW_EINVAL,
                       "%s: was edited, and would be computed again from model '%s' without the "
                       "edits: give them as options (--batch, --seq, --layers, ...), or keep the "
                       "file's times and device with --as-recorded", name, w->from.model.name);
    if (!to)
        st = find_own_device(w, &found, err);
    bool here = to && to == c && !s->cluster_file;
    if (st == LW_OK)
        st = again ? model_again(s, name, strategy, to ? to : &found, here, w, err)
                   : lw_source_time_kernels(s, name, strategy, to ? to : &found, w, err);
    if (st == LW_OK && !again)
        w->timeless = here && lw_source_is_timeless(s);
    lw_cluster_free(&found);
    return st;
}

/* The usual options that act on times of a device; their texts are the framework's. */
static enum lw_status apply_usual(struct lw_plan_source *s, const char *device,
                                  struct lw_strategy *strategy, struct lw_err *err)
{
    bool of_options = s->choice.from == LW_FRAMEWORK_RECORDED && s->framework_name;

    if (of_options && !s->of_options.name)
        LW_TRY(lw_framework_find(s->framework_name, &s->of_options, err));
    const struct lw_framework *f = of_options ? &s->of_options : &s->framework;
    const struct lw_usual_for times = {lw_device_is_cpu(device), s->measured};
    LW_TRY(lw_framework_strategy(f, times, strategy, err));
    lw_framework_left_out(f, strategy, s->choice.left_out, sizeof s->choice.left_out);
    return LW_OK;
}

static enum lw_status read_workload(struct lw_plan_source *s, const char *name,
                                    struct lw_strategy *strategy,
                                    const struct lw_cluster *c, struct lw_workload *w,
                                    struct lw_err *err)
{
    const char *given = lw_model_first_given(&s->model);
    struct lw_workload read;

    if (s->read_before) {
        read = *s->read_before;
        lw_free(s->read_before);
        s->read_before = NULL;
    } else {
        LW_TRY(lw_workload_read(name, &read, err));
    }
    bool model = lw_model_is_set(&read.from.model);
    bool now = (model || read.n_kernels > 0) && takes_cluster(s, &read);
    const struct lw_cluster own = {.device = {.kind = read.from.device}};
    const struct lw_cluster *of;
    enum lw_status st = lw_source_device(s, now ? c : &own, &of, err);
    if (st == LW_OK)
        st = lw_source_framework_of_file(s, name, &read, strategy, &of->device, err);
    s->measured = read.n_kernels == 0 || s->as_recorded || lw_is_edited(name, "workload");
    if (st == LW_OK)
        st = apply_usual(s, of->device.kind, strategy, err);
    if (st == LW_OK)
        st = lw_strategy_check(strategy, err);
    if (st != LW_OK) {
        lw_workload_free(&read);
        return st;
    }
    if ((s->make_model && model) || (read.n_kernels > 0 && !given))
        st = make_again(s, name, strategy, c, &read, err);
    else if (given)
        st = lw_fail(err, LW_EINVAL,
                     "--%s is of a model: workload '%s' was not made from one (its times are of "
                     "%s); give the model to -w", given, name,
                     read.from.format[0] ? read.from.format : "an unnamed source");
    LW_GIVE(st, w, read, lw_workload_free(&read));
}

bool lw_source_is_stream(const char *name)
{
    return strcmp(name, "-") == 0 || lw_is_device_or_pipe(name);
}

/* A stream is taken to be a workload: it cannot be looked at first. */
static bool is_ours(const char *name)
{
    char kind[16];

    return lw_source_is_stream(name) || (lw_file_kind(name, kind, NULL) == LW_OK && kind[0]);
}

enum lw_status lw_plan_source_workload(struct lw_plan_source *s, const char *name,
                                       struct lw_strategy *strategy, const struct lw_cluster *c,
                                       struct lw_workload *w, struct lw_err *err)
{
    struct lw_strategy completed = *strategy;
    struct lw_workload made;
    const struct lw_cluster *of; /* of --device */
    enum lw_status st = LW_ENO;

    LW_TRY(lw_source_device(s, NULL, &of, err));
    if (s->make_model && lw_source_is_timeless(s))
        LW_TRY(find_proportions(s, &c, err));

    if (s->make_model && !(lw_names_file(name) && is_ours(name)))
        st = make_model(s, name, &completed, c, &made, err);
    if (st == LW_ENO) {
        completed = *strategy;
        st = read_workload(s, name, &completed, c, &made, err);
    }
    LW_TRY(st);
    st = lw_global_batch_divide(s->global_batch, &made, &completed, err);
    if (st == LW_OK) /* with the micro-batches of --global-batch */
        st = apply_usual(s, of ? of->device.kind : made.from.device, &completed, err);
    if (st == LW_OK)
        st = lw_strategy_check(&completed, err);
    if (st == LW_OK)
        *strategy = completed;
    LW_GIVE(st, w, made, lw_workload_free(&made));
}
bool lw_plan_source_is_model(const struct lw_plan_source *s, const char *name)
{
    const struct lw_model_request r = {.name = name};
    struct lw_workload w;

    if (!s->make_model || lw_source_is_stream(name) || lw_source_sizes(s, &r, &w, NULL) != LW_OK)
        return false;
    lw_workload_free(&w);
    return true;
}
