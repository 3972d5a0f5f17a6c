/* The device of a command line: what times are of, against what the cluster has. */
#include "shared/cli/source_parts.h"

#include <stdio.h>

#include "shared/cluster/gloo.h"
#include "shared/device/device_kind.h"
#include "shared/device/retime.h"
#include "shared/device/time_ops.h"
#include "shared/files/files.h"
#include "shared/framework/framework_rates.h"

enum lw_status lw_source_device(struct lw_plan_source *s, const struct lw_cluster *c,
                                const struct lw_cluster **of, struct lw_err *err)
{
    if (s->device && !s->has_of_device)
        LW_TRY(lw_err_context(err, lw_cluster_find_device(s->device, &s->of_device, err),
                              "--device"));
    s->has_of_device = s->device != NULL;
    *of = s->device ? &s->of_device : c;
    return LW_OK;
}

/* A workload or a plan, with the device that its times are of. */
struct timed {
    const char *what, *name, *device;
    struct lw_workload *w; /* one of the two is NULL */
    struct lw_plan *p;
};

static struct timed timed_of(struct lw_workload *w, struct lw_plan *p)
{
    const char *device = w ? w->from.device : p->device;

    return (struct timed){w ? "workload" : "plan", w ? w->name : p->name, device ? device : "", w,
                          p};
}

static enum lw_status retime_from(const struct lw_plan_source *s, const struct timed *t,
                                  const struct lw_device *to, struct lw_err *err)
{
    struct lw_cluster from;
    enum lw_status st =
        lw_cluster_find_device(s->from_device ? s->from_device : t->device, &from, err);

    if (st != LW_OK && s->from_device)
        return st;
    if (st != LW_OK && !t->device[0])
        return lw_fail(err, LW_EINVAL,
                       "--device: the %s does not name the device that its times are of; name it "
                       "with --from-device (a known system, its device's kind, or a cluster file)",
                       t->what);
    if (st != LW_OK)
        return lw_fail(err, LW_EINVAL,
                       "--device: unknown device '%s' of the %s; name a similar one with "
                       "--from-device (a known system, its device's kind, or a cluster file)",
                       t->device, t->what);
    st = t->w ? lw_workload_retime(t->w, &from.device, to, err)
              : lw_plan_retime(t->p, &from.device, to, err);
    lw_cluster_free(&from);
    return st;
}

/* Of the framework that is given, else of eager PyTorch, which is what recordings are of. */
static enum lw_status host_rates(const struct lw_plan_source *s, const struct lw_device *to,
                                 struct lw_kernel_rates *rates, struct lw_err *err)
{
    struct lw_framework f;

    LW_TRY(lw_framework_find(s->framework_name ? s->framework_name : "torch-ddp", &f, err));
    *rates = (struct lw_kernel_rates){.host_op_ps = lw_framework_host_op(&f, to)};
    lw_framework_free(&f);
    return LW_OK;
}

/* A recording whose operators have shapes. Times of a CPU, or of a device without figures, are not
 * scaled: the operators are timed there as a model's kernels are. */
static enum lw_status time_ops(struct lw_plan_source *s, struct lw_workload *w,
                               const struct lw_device *to, struct lw_err *err)
{
    const char *name = s->from_device ? s->from_device : w->from.device;
    struct lw_kernel_rates rates = {.host_op_ps = 0};
    struct lw_cluster from = {.name = NULL};
    enum lw_status st = LW_OK;
    struct lw_err why;
    bool scales = name && !lw_device_is_nameless(name) && !lw_device_is_cpu(name);

    if (scales)
        st = lw_cluster_find_device(name, &from, s->from_device ? err : &why);
    if (st != LW_OK && s->from_device)
        return st;
    scales = scales && st == LW_OK && !lw_device_is_cpu(from.device.kind);
    st = scales ? LW_OK : host_rates(s, to, &rates, err);
    if (st == LW_OK)
        st = lw_workload_time_ops(w, scales ? &from.device : NULL, to, &rates, err);
    lw_cluster_free(&from);
    if (st == LW_OK && s->choice.from == LW_FRAMEWORK_RECORDED)
        snprintf(s->choice.why, sizeof s->choice.why, "memory is of the file, times are of its "
                 "operators");
    return st;
}

static enum lw_status retime(struct lw_plan_source *s, const struct timed *t, struct lw_err *err)
{
    const struct lw_cluster *to;

    LW_TRY(lw_source_device(s, NULL, &to, err));
    if (s->from_device || lw_device_is_nameless(t->device) ||
        !lw_device_same_kind(t->device, to->device.kind))
        return t->w && t->w->n_ops > 0 ? time_ops(s, t->w, &to->device, err)
                                       : retime_from(s, t, &to->device, err);
    return LW_OK;
}

/* "--device NAME times it ...; ", or "" where the file lacks what that needs. */
static const char *device_hint(const struct lw_plan_source *s, const struct timed *t, char *buf,
                               size_t size)
{
    bool can = t->w ? lw_workload_can_retime(t->w) : lw_plan_can_retime(t->p);

    buf[0] = '\0';
    if (can)
        snprintf(buf, size, "--device %s times it %s; ", s->cluster_file,
                 t->w && t->w->n_ops > 0 ? "by its recorded operators" : "by FLOPs and bytes");
    return buf;
}

static enum lw_status refuse_other_kind(const struct lw_plan_source *s, const struct timed *t,
                                        const struct lw_cluster *c, struct lw_err *err)
{
    char hint[400];

    if (!s->cluster_file)
        return lw_fail(err, LW_EINVAL,
                       "%s '%s' is timed for device '%s': give its cluster (-c NAME; `lapwing "
                       "import --cluster-out FILE` writes a recording's); without -c it is '%s', "
                       "which has '%s'",
                       t->what, t->name, t->device, c->name, c->device.kind);
    return lw_fail(err, LW_EINVAL,
                   "%s '%s' is timed for device '%s', cluster '%s' has '%s': %s--as-recorded keeps "
                   "its times and uses only the cluster's network; or make %sit for that device",
                   t->what, t->name, t->device, c->name, c->device.kind,
                   device_hint(s, t, hint, sizeof hint),
                   t->w ? "or record " : "");
}

/* Times of an unnamed device are predicted with as those of the cluster's. */
static enum lw_status note_nameless(const struct timed *t, const struct lw_cluster *c,
                                    struct lw_err *err)
{
    char text[200];

    snprintf(text, sizeof text,
             LW_ASSUMPTION "the %s names no device: its times are taken to be of '%.60s'",
             t->what, c->device.kind);
    return t->w ? lw_note_add(&t->w->arena, &t->w->notes, &t->w->n_notes, text, err)
                : lw_note_add(&t->p->arena, &t->p->notes, &t->p->n_notes, text, err);
}

/* The run's times are of its own cluster's device. */
static enum lw_status refuse_own_cluster(const struct lw_plan_source *s, struct lw_err *err)
{
    return lw_fail(err, LW_EUSAGE, "--as-recorded changes nothing of run %lld on its own cluster: "
                                   "name another one (-c NAME), or leave it out",
                   (long long)s->of_run);
}

/* --device, then the cluster: one of another kind is refused, or with --as-recorded gets the
 * device of the times. The default cluster is compared where its device is predicted with. */
static enum lw_status fit_kinds(struct lw_plan_source *s, struct lw_workload *w, struct lw_plan *p,
                                struct lw_cluster *c, struct lw_err *err)
{
    struct timed t = timed_of(w, p);

    if (s->from_device && !s->device)
        return lw_fail(err, LW_EUSAGE, "--from-device names the device that the %s is timed for, "
                                       "and needs --device, which names the new one", t.what);
    if (s->device && s->as_recorded)
        return lw_fail(err, LW_EUSAGE, "--device computes new times of the %s, --as-recorded keeps "
                                       "its times: give only one of them", t.what);
    bool compared = s->cluster_file || s->predicts;
    if (s->as_recorded && !compared)
        return lw_fail(err, LW_EUSAGE, "--as-recorded uses the network of a cluster with another "
                                       "device: give that cluster (-c NAME)");
    if (s->device)
        LW_TRY(retime(s, &t, err));
    t = timed_of(w, p);
    if (compared && lw_device_is_nameless(t.device))
        return s->as_recorded ? lw_cluster_put_device(c, "unnamed device", err)
                              : note_nameless(&t, c, err);
    if (!compared || lw_device_same_kind(t.device, c->device.kind))
        return s->as_recorded && s->of_run > 0 ? refuse_own_cluster(s, err) : LW_OK;
    return s->as_recorded ? lw_cluster_put_device(c, t.device, err)
                          : refuse_other_kind(s, &t, c, err);
}

/* Measured tables alone, for times of a CPU, are of PyTorch's gloo. */
static enum lw_status fit_device(struct lw_plan_source *s, struct lw_workload *w,
                                 struct lw_plan *p, struct lw_cluster *c, struct lw_err *err)
{
    LW_TRY(fit_kinds(s, w, p, c, err));
    return lw_device_is_cpu(timed_of(w, p).device) ? lw_gloo_complete(c, err) : LW_OK;
}

enum lw_status lw_plan_source_fit(struct lw_plan_source *s, struct lw_workload *w,
                                  struct lw_cluster *c, struct lw_err *err)
{
    return fit_device(s, w, NULL, c, err);
}

enum lw_status lw_source_fit_plan(struct lw_plan_source *s, struct lw_plan *p, struct lw_cluster *c,
                                  struct lw_err *err)
{
    return fit_device(s, NULL, p, c, err);
}
