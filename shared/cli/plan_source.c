/* The plan of a command line. Options of the strategy are tried at once (so that a wrong word is
 * wrong usage) and kept as text, because a strategy file named by a later -s must not win over
 * them. */
#include "shared/cli/plan_source.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/base/shown_text.h"
#include "shared/cli/cluster_warning.h"
#include "shared/cli/model_source.h"
#include "shared/cluster/gloo.h"
#include "shared/device/device_kind.h"
#include "shared/device/retime.h"
#include "shared/files/files.h"
#include "shared/io/own_output.h"
#include "shared/framework/framework_stages.h"
#include "shared/lower/lower.h"
#include "shared/text/wrap.h"

/* A size of a few bytes without a unit is one that lacks its unit. */
static void warn_of_bytes(const char *name, const char *value)
{
    const struct lw_strategy_option *o = lw_strategy_option(lw_strategy_find(name));

    if (o->arg && strcmp(o->arg, "SIZE") == 0 && strspn(value, "0123456789") == strlen(value) &&
        strlen(value) > 0 && strlen(value) < 5 && strcmp(value, "0") != 0)
        lw_printf_paragraph(stderr, "lapwing: --%s %s means %s bytes; write %sMiB for mebibytes",
                            name, value, value, value);
}

void lw_plan_source_init(struct lw_plan_source *s)
{
    *s = (struct lw_plan_source){.given = lw_strategy_default()};
}

static enum lw_status set_option(void *ctx, const char *name, const char *value,
                                 struct lw_err *err)
{
    struct lw_plan_source *s = ctx;
    int i = 0;

    LW_TRY(lw_strategy_set(&s->given, name, value, err));
    while (i < s->n_given && strcmp(s->names[i], name) != 0)
        i++;
    s->names[i] = name;
    s->values[i] = value;
    if (i == s->n_given)
        s->n_given++;
    if (!s->silent)
        warn_of_bytes(name, value);
    return LW_OK;
}

enum lw_status lw_plan_source_set(struct lw_plan_source *s, const char *name, const char *value,
                                  struct lw_err *err)
{
    if (lw_strategy_find(name) < 0) /* says which there are */
        return lw_strategy_set(&s->given, name, value, err);
    return set_option(s, name, value, err);
}

/* Those of a plan source, then `own`, then the end mark. */
static bool has_option(const struct lw_opt *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return true;
    return false;
}

/* Those of a model, but for names that the command has for itself. */
static size_t join_model_options(struct lw_plan_source *s, const struct lw_opt *own,
                                 struct lw_opt *table)
{
    struct lw_opt of_model[LW_MODEL_SOURCE_OPTIONS];
    int n_of_model = lw_model_options(&s->model, &s->model_words, of_model);
    size_t n = 0;

    for (int i = 0; i < n_of_model; i++)
        if (!has_option(own, of_model[i].name))
            table[n++] = of_model[i];
    return n;
}

static void join_options(struct lw_plan_source *s, const struct lw_opt *own, struct lw_opt *table)
{
    struct lw_opt first[] = {
        {"workload", 'w', LW_OPT_STRING, &s->workload_file, "MODEL|FILE",
         "model to plan for: a name, a Hugging Face config.json or its folder; or a workload file"},
        {"cluster", 'c', LW_OPT_STRING, &s->cluster_file, "NAME|FILE",
         "known cluster or cluster file (host)"},
        {"framework", 0, LW_OPT_STRING, &s->framework_name, "NAME|FILE",
         "what the training program does: a known framework or a file (the one that such a "
         "strategy is usually run with: `lapwing framework --help`)"},
        {"node-gbps", 0, LW_OPT_DOUBLE, &s->node_gbps, "G",
         "line rate of all network ports of a node together, in Gb/s (the cluster's)", 0,
         1000000000, .check = lw_cli_above_0},
        {"strategy", 's', LW_OPT_STRING, &s->strategy_file, "FILE",
         "strategy file; options win over it"},
        {"global-batch", 0, LW_OPT_INT, &s->global_batch, "N",
         "samples of one step of all ranks: --micro-batches follows from N, --batch and --dp", 1,
         0},
        {"ranks", 0, LW_OPT_INT, &s->ranks, "N", "must equal dp * pp * tp * cp", 1, INT32_MAX},
        {"device", 0, LW_OPT_STRING, &s->device, "KIND",
         "compute the times of the workload or replay for this device: a known system, a device "
         "kind, or a cluster file"},
        {"from-device", 0, LW_OPT_STRING, &s->from_device, "KIND",
         "with --device: the device that the input was recorded on or timed for (the one that the "
         "file names)"},
        {"as-recorded", 0, LW_OPT_FLAG, &s->as_recorded, NULL,
         "with a cluster of another device kind: keep the workload's times and device, and use "
         "only the cluster's network"},
    };
    size_t n = sizeof first / sizeof *first;

    s->given = lw_strategy_default();
    s->call = (struct lw_opt_call){set_option, s};
    memcpy(table, first, sizeof first);
    n += join_model_options(s, own, table + n);
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        assert(n < LW_PLAN_SOURCE_OPTIONS);
        const struct lw_strategy_option *o = lw_strategy_option(i);
        table[n++] =
            (struct lw_opt){o->name, 0, LW_OPT_CALL, &s->call, o->arg, o->help, 0, 0};
    }
    for (; own->name; own++) {
        assert(n < LW_PLAN_SOURCE_OPTIONS + LW_PLAN_SOURCE_OWN - 1);
        table[n++] = *own;
    }
    table[n] = (struct lw_opt){0};
}

void lw_plan_source_options(struct lw_plan_source *s, struct lw_opt *table)
{
    const struct lw_opt none[] = {{0}};

    join_options(s, none, table);
}

int lw_plan_source_begin(struct lw_plan_source *s, const struct lw_usage *usage,
                         const struct lw_opt *own, int argc, char **argv, int *n_operands)
{
    struct lw_opt table[LW_PLAN_SOURCE_OPTIONS + LW_PLAN_SOURCE_OWN];

    join_options(s, own, table);
    return lw_cli_begin(usage, table, argc, argv, n_operands);
}

static bool is_given(const struct lw_plan_source *s, const char *name)
{
    for (int i = 0; i < s->n_given; i++)
        if (strcmp(s->names[i], name) == 0)
            return true;
    return false;
}

/* Both options of accumulation on a command line without a pipeline: --micro-batches M are the
 * backwards of a step, as in a loop of torch, and --no-sync K of them do not reduce. A pass of a
 * plan has either, and each pass is reduced at its end alone. */
static enum lw_status settle_accumulation(const struct lw_plan_source *s, struct lw_strategy *x,
                                          struct lw_err *err)
{
    long long m = (long long)x->micro_batches, k = (long long)x->no_sync;

    if (x->pp > 1 || m == 1 || !is_given(s, "micro-batches") || !is_given(s, "no-sync"))
        return LW_OK;
    if (k == m - 1) {
        x->micro_batches = 1;
        return LW_OK;
    }
    if (k == 0 && x->zero >= 2)
        return LW_OK; /* each micro-batch is reduced */
    if (k == 0 && is_given(s, "sync-each-micro-batch") && !x->sync_each)
        return lw_fail(err, LW_EUSAGE, "--no-sync 0 reduces each micro-batch, and "
                                       "--sync-each-micro-batch off the last one alone: leave one "
                                       "of them out");
    if (k == 0 && x->zero == 0)
        return lw_strategy_set(x, "sync-each-micro-batch", "on", err);
    if (k == 0)
        return lw_fail(err, LW_EUSAGE,
                       "--micro-batches %lld --no-sync 0: each of the %lld backwards of a step "
                       "would be reduced, which is planned without --zero and with --zero 2 and 3: "
                       "leave --no-sync out to reduce once, after the last one",
                       m, m);
    if (k >= m)
        return lw_fail(err, LW_EUSAGE,
                       "--micro-batches %lld --no-sync %lld: a step has %lld backwards, of which "
                       "the last is reduced: at most %lld do not reduce; for %lld backwards give "
                       "--no-sync %lld alone",
                       m, k, m, m - 1, k + 1, k);
    return lw_fail(err, LW_EUSAGE,
                   "--micro-batches %lld --no-sync %lld: %lld of the %lld backwards of a step "
                   "would be reduced; a plan reduces once: --no-sync %lld, or each: --no-sync 0",
                   m, k, m - k, m, m - 1);
}

enum lw_status lw_plan_source_strategy(struct lw_plan_source *s, struct lw_strategy *out,
                                       struct lw_err *err)
{
    *out = lw_strategy_default();
    if (s->strategy_file)
        LW_TRY(lw_strategy_read(s->strategy_file, &s->strings, out, err));
    for (int i = 0; i < s->n_given; i++)
        LW_TRY(lw_strategy_set(out, s->names[i], s->values[i], err));
    return settle_accumulation(s, out, err);
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

static enum lw_status retime(const struct lw_plan_source *s, const struct timed *t,
                             struct lw_err *err)
{
    struct lw_cluster to;
    enum lw_status st = LW_OK;

    LW_TRY(lw_cluster_find_device(s->device, &to, err));
    if (s->from_device || lw_device_is_nameless(t->device) ||
        !lw_device_same_kind(t->device, to.device.kind))
        st = retime_from(s, t, &to.device, err);
    lw_cluster_free(&to);
    return st;
}

/* "--device NAME times it ...; ", or "" where the file lacks what that needs. */
static const char *device_hint(const struct lw_plan_source *s, const struct timed *t, char *buf,
                               size_t size)
{
    bool can = t->w ? lw_workload_can_retime(t->w) : lw_plan_can_retime(t->p);

    buf[0] = '\0';
    if (can)
        snprintf(buf, size, "--device %s times it by FLOPs and bytes; ", s->cluster_file);
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
        return LW_OK;
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

/* --- framework --- */

/* NULL: the ideal one. */
static const struct lw_framework *framework_of(const struct lw_plan_source *s)
{
    return s->framework.name && strcmp(s->framework.name, LW_IDEAL_FRAMEWORK) != 0 ? &s->framework
                                                                                   : NULL;
}

static const char *framework_hash(const struct lw_plan_source *s)
{
    return framework_of(s) ? s->choice.hash : "";
}

static enum lw_status take_framework(struct lw_plan_source *s, struct lw_framework_choice choice,
                                     struct lw_err *err)
{
    struct lw_framework found = {0};

    LW_TRY(lw_framework_find(choice.file ? choice.file : choice.name, &found, err));
    enum lw_status st = lw_framework_hash(&found, choice.hash, err);
    if (st != LW_OK) {
        lw_framework_free(&found);
        return st;
    }
    lw_framework_free(&s->framework);
    s->framework = found;
    choice.name = found.name;
    s->choice = choice;
    return LW_OK;
}

static enum lw_status take_given(struct lw_plan_source *s, struct lw_err *err)
{
    return take_framework(s, (struct lw_framework_choice){.from = LW_FRAMEWORK_GIVEN,
                                                          .file = s->framework_name}, err);
}

enum lw_status lw_plan_source_given(struct lw_plan_source *s, struct lw_err *err)
{
    return s->framework_name ? take_given(s, err) : LW_OK;
}

static enum lw_status take_ideal(struct lw_plan_source *s, enum lw_framework_from from,
                                 const char *why, struct lw_err *err)
{
    struct lw_framework_choice c = {.from = from, .name = LW_IDEAL_FRAMEWORK};

    snprintf(c.why, sizeof c.why, "%s", why);
    return take_framework(s, c, err);
}

enum lw_status lw_plan_source_recorded(struct lw_plan_source *s, struct lw_err *err)
{
    return take_ideal(s, LW_FRAMEWORK_RECORDED,
                      "times and memory are of the file, nothing is added", err);
}

/* Whether it has blocks: its sizes are enough. */
static bool is_transformer(const struct lw_plan_source *s, const struct lw_model_request *r)
{
    const struct lw_strategy strategy = lw_strategy_default();
    const struct lw_model_target sizes = {.strategy = &strategy};
    struct lw_workload w;

    if (s->make_model(r, &sizes, &w, NULL) != LW_OK)
        return false;
    bool is = w.dims.layers > 0;
    lw_workload_free(&w);
    return is;
}

/* d: of the times, unless --device names another. */
static enum lw_status take_usual(struct lw_plan_source *s, const struct lw_model_request *r,
                                 const struct lw_strategy *strategy, const struct lw_device *d,
                                 struct lw_err *err)
{
    struct lw_framework_choice choice;
    struct lw_cluster of_device = {0};

    if (s->device)
        LW_TRY(lw_cluster_find_device(s->device, &of_device, err));
    lw_framework_usual(strategy, s->device ? &of_device.device : d, is_transformer(s, r), &choice);
    lw_cluster_free(&of_device);
    return take_framework(s, choice, err);
}

enum lw_status lw_plan_source_framework(struct lw_plan_source *s, const struct lw_model_request *r,
                                        struct lw_strategy *strategy, const struct lw_cluster *c,
                                        struct lw_err *err)
{
    if (s->framework_name)
        LW_TRY(take_given(s, err));
    else if (c || s->device)
        LW_TRY(take_usual(s, r, strategy, c ? &c->device : NULL, err));
    return lw_framework_strategy(&s->framework,
                                 !s->device && c && lw_device_is_cpu(c->device.kind), strategy,
                                 err);
}

/* Workloads that were made here have NULL for absent texts, files "". */
static const char *text(const char *s)
{
    return s ? s : "";
}

/* The framework that a file names, which must be the one of that time. */
static enum lw_status take_named(struct lw_plan_source *s, const struct lw_workload *w,
                                 struct lw_err *err)
{
    const struct lw_made_for *m = &w->from.made_for;
    struct lw_framework_choice c = {.from = LW_FRAMEWORK_WORKLOAD, .name = m->framework,
                                    .why = "as the workload file says"};
    enum lw_status st = take_framework(s, c, err);

    if (st == LW_ENOMEM || (st == LW_OK && strcmp(s->choice.hash, text(m->framework_hash)) == 0))
        return st;
    return lw_fail(err, LW_EINVAL,
                   "workload '%s' was made with framework '%s' (%.8s), which this lapwing %s: "
                   "give its file with --framework, or the name of a known one to compute the "
                   "times again", w->name, m->framework, text(m->framework_hash),
                   st == LW_OK ? "has with other facts" : "does not know");
}

/* Of recorded times a framework's usual options act, and nothing is added. */
static enum lw_status take_options(struct lw_plan_source *s, struct lw_err *err)
{
    LW_TRY(take_given(s, err));
    const char *name = lw_arena_strdup(&s->strings, s->framework.name);
    if (!name)
        return lw_fail_nomem(err);
    LW_TRY(lw_plan_source_recorded(s, err));
    s->choice.name = name;
    s->choice.hash[0] = '\0';
    snprintf(s->choice.why, sizeof s->choice.why,
             "its usual options; times and memory are of the file");
    return LW_OK;
}

static bool takes_cluster(const struct lw_plan_source *s, const struct lw_workload *w);

/* Where the file's framework was not given, it is chosen again. Edits and --as-recorded keep the
 * file's times, and so its framework. */
static enum lw_status take_of_file(struct lw_plan_source *s, const char *name,
                                   const struct lw_workload *w, const struct lw_strategy *strategy,
                                   const struct lw_cluster *c, struct lw_err *err)
{
    const struct lw_made_for *m = &w->from.made_for;
    bool model = s->make_model && lw_model_is_set(&w->from.model);
    const struct lw_device own = {.kind = w->from.device};

    if (!model)
        return s->framework_name ? take_options(s, err) : lw_plan_source_recorded(s, err);
    if (s->framework_name) {
        LW_TRY(take_given(s, err));
        if (s->as_recorded && strcmp(framework_hash(s), text(m->framework_hash)) != 0)
            return lw_fail(err, LW_EUSAGE,
                           "--as-recorded keeps the times of workload '%s', which are of framework "
                           "'%s'; --framework computes them again: give only one of them", w->name,
                           text(m->framework)[0] ? m->framework : LW_IDEAL_FRAMEWORK);
        return LW_OK;
    }
    if (m->usual && !s->as_recorded && !lw_is_edited(name, "workload"))
        return take_usual(s, &w->from.model, strategy, takes_cluster(s, w) ? &c->device : &own,
                          err);
    if (text(m->framework)[0])
        return take_named(s, w, err);
    return take_ideal(s, LW_FRAMEWORK_WORKLOAD,
                      "the workload file names none", err);
}

enum lw_status lw_plan_source_stages(struct lw_plan_source *s, struct lw_workload *w,
                                     struct lw_strategy *strategy, struct lw_err *err)
{
    const struct lw_framework *f = &s->framework;
    const struct lw_model_dims *d = &w->dims;
    const char *refusal = lw_framework_refusal(f, d, strategy);
    char list[4096];

    s->refused = refusal != NULL;
    if (refusal)
        return lw_fail(err, LW_ENOTSUP,
                       "framework '%s' cannot run --pp %lld --micro-batches %lld --chunks %lld: %s",
                       f->name, (long long)strategy->pp, (long long)strategy->micro_batches,
                       (long long)strategy->chunks, refusal);
    if (!lw_framework_stages(f, d, strategy, list, sizeof list))
        return strategy->pp < 2 || !lw_fact(f->header_poll_ps)
                   ? LW_OK
                   : lw_fail(err, LW_ENOTSUP,
                             "framework '%s' sleeps between stages (host.header_poll_ns), which is "
                             "modelled for its own stages under 1f1b, interleaved-1f1b and gpipe: "
                             "leave out --partition", f->name);
    lw_framework_stage_waits(f, strategy, list, w);
    strategy->partition = LW_PARTITION_EXPLICIT;
    strategy->partition_list = lw_arena_strdup(&s->strings, list);
    return strategy->partition_list ? LW_OK : lw_fail_nomem(err);
}

/* A plan file holds its times; what its framework holds beside the plan's tensors is added. */
static enum lw_status take_of_plan(struct lw_plan_source *s, const char *file,
                                   const struct lw_plan *p, struct lw_err *err)
{
    bool named = p->framework && p->framework[0];
    const char *name = named ? p->framework : LW_IDEAL_FRAMEWORK;
    bool ideal = strcmp(name, LW_IDEAL_FRAMEWORK) == 0;
    struct lw_framework_choice c = {.from = LW_FRAMEWORK_PLAN, .name = name,
                                    .file = s->framework_name, .why = "as the plan file says"};
    enum lw_status st = take_framework(s, c, err);
    bool same = st == LW_OK && (ideal ? strcmp(s->framework.name, name) == 0
                                      : strcmp(s->choice.hash, text(p->framework_hash)) == 0);

    if (st == LW_ENOMEM || (st != LW_OK && s->framework_name))
        return st;
    if (!same && s->framework_name)
        return lw_fail(err, LW_EUSAGE,
                       "--framework %s: plan file '%s' was made with framework '%s'%s%.8s%s: leave "
                       "the option out, or make the plan again with it (lapwing plan -w ...)",
                       s->framework_name, file, name, ideal ? "" : " (",
                       ideal ? "" : text(p->framework_hash),
                       ideal ? "" : ")");
    if (!same) {
        LW_TRY(take_ideal(s, LW_FRAMEWORK_PLAN, "", err));
        snprintf(s->choice.why, sizeof s->choice.why,
                 "'%.40s' (%.8s) of the plan file is not known here, and its memory rules are left "
                 "out; --framework FILE gives them", name, text(p->framework_hash));
    } else if (!named) {
        snprintf(s->choice.why, sizeof s->choice.why, "the plan file names none");
    }
    return LW_OK;
}

/* --- workloads --- */

/* The device is that of --device, else the cluster's. */
static enum lw_status make_for(const struct lw_plan_source *s, const struct lw_model_request *r,
                               const struct lw_strategy *strategy, const struct lw_cluster *c,
                               struct lw_workload *w, struct lw_err *err)
{
    struct lw_cluster of_device = {0};
    struct lw_model_target target = {.strategy = strategy, .framework = framework_of(s),
                                     .usual = s->choice.from == LW_FRAMEWORK_USUAL};
    struct lw_model_request request = *r;

    LW_TRY(lw_global_batch_samples(s->global_batch, strategy, &request, err));
    if (s->device)
        LW_TRY(lw_cluster_find_device(s->device, &of_device, err));
    target.cluster = s->device ? &of_device : c;
    enum lw_status st = s->make_model(&request, &target, w, err);
    lw_cluster_free(&of_device);
    return st;
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
    if (st == LW_ENO && lw_names_file(name)) {
        *err = why;
        return LW_ENO;
    }
    if (st == LW_ENO)
        return lw_fail(err, LW_EINVAL, "%s: no such file; as a model: %s", name, why.msg);
    bool of_machine = !s->cluster_file && !s->device && strncmp(why.msg, "--", 2) != 0;
    if (st == LW_EUSAGE)
        *err = why;
    else if (st != LW_OK)
        lw_fail(err, st, "model %s: %s%s", name, why.msg,
                of_machine ? "; or give its cluster (-c NAME)" : ""); /* not of an option */
    if (st == LW_OK && !s->silent && !s->device && !s->cluster_file && s->workload_file)
        lw_printf_paragraph(stderr, "lapwing: model '%.80s' is timed for cluster '%.80s', this "
                                    "machine; -c NAME takes another (`lapwing cluster` lists them)",
                            name, c->name);
    return st;
}

/* What times were made for: the groups, and where two are for other frameworks or other gradients,
 * these too. A file without times is of none. */
static const char *made_for_text(const struct lw_made_for *m, const struct lw_made_for *other,
                                 bool timed, char *buf, size_t size)
{
    const char *f = text(m->framework)[0] ? m->framework : LW_IDEAL_FRAMEWORK;
    const char *g = text(other->framework)[0] ? other->framework : LW_IDEAL_FRAMEWORK;
    int64_t tp = m->tp ? m->tp : 1, cp = m->cp ? m->cp : 1, ep = m->ep ? m->ep : 1;
    bool others = timed && strcmp(f, g) != 0;
    bool same_groups = timed && !others && m->tp == other->tp && m->cp == other->cp &&
                       m->ep == other->ep;
    const char *reduced = m->reduced ? ", several data ranks" : ", one data rank";
    const char *f32 = m->grad_f32 ? ", f32 gradients" : ", gradients of the parameters' type";

    snprintf(buf, size, "tp %lld, cp %lld, ep %lld%s%.60s%s%s", (long long)tp, (long long)cp,
             (long long)ep, others ? ", framework " : "", others ? f : "",
             same_groups && m->reduced != other->reduced ? reduced : "",
             same_groups && m->grad_f32 != other->grad_f32 ? f32 : "");
    return buf;
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
            old->name, old->from.model.name, device, made_for_text(a, b, timed, was, sizeof was),
            now->from.device, made_for_text(b, a, timed, is, sizeof is),
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
                  (lw_workload_is_of_others(w, strategy, framework_hash(s)) ||
                   lw_framework_times_others(&s->framework, w, strategy));

    return other || groups || lw_model_first_given(&s->model);
}

static enum lw_status make_on(const struct lw_plan_source *s, const struct lw_strategy *strategy,
                              const struct lw_cluster *c, bool here, struct lw_workload *w,
                              struct lw_err *err)
{
    const struct lw_model_target target = {.strategy = strategy, .cluster = c,
                                           .framework = framework_of(s),
                                           .usual = s->choice.from == LW_FRAMEWORK_USUAL};
    struct lw_model_request r = w->from.model;
    struct lw_workload again;

    lw_model_override(&r, &s->model);
    LW_TRY(lw_global_batch_samples(s->global_batch, strategy, &r, err));
    enum lw_status st = s->make_model(&r, &target, &again, err);
    if (st != LW_OK)
        return lw_err_context(err, st == LW_ENO ? LW_EINVAL : st,
                              "workload '%s', computed again%s", w->name,
                              here ? " for this machine (-c NAME takes another cluster)" : "");
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

/* Of a file that was made from a model: the same model for the device and the groups in use. */
static enum lw_status make_again(const struct lw_plan_source *s, const char *name,
                                 const struct lw_strategy *strategy, const struct lw_cluster *c,
                                 struct lw_workload *w, struct lw_err *err)
{
    const struct lw_cluster *to = takes_cluster(s, w) ? c : NULL;
    struct lw_cluster found = {0};
    enum lw_status st = LW_OK;

    if (s->device) {
        LW_TRY(lw_cluster_find_device(s->device, &found, err));
        to = &found;
    }
    if (needs_again(s, w, strategy, to)) {
        bool edited = lw_is_edited(name, "workload"), given = lw_model_first_given(&s->model);

        if (edited && given && !s->silent)
            lw_printf_paragraph(stderr, "lapwing: %s was edited; its edits are dropped for the "
                                        "options given", name);
        if (edited && !given)
            st = lw_fail(err, LW_EINVAL,
                         "%s: was edited, and would be computed again from model '%s' without the "
                         "edits: give them as options (--batch, --seq, --layers, ...), or keep the "
                         "file's times and device with --as-recorded", name, w->from.model.name);
        if (st == LW_OK && !to)
            st = find_own_device(w, &found, err);
        if (st == LW_OK)
            st = make_on(s, strategy, to ? to : &found, to == c && !s->cluster_file, w, err);
    }
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
    return lw_framework_strategy(of_options ? &s->of_options : &s->framework,
                                 lw_device_is_cpu(device), strategy, err);
}

static enum lw_status read_workload(struct lw_plan_source *s, const char *name,
                                    struct lw_strategy *strategy,
                                    const struct lw_cluster *c, struct lw_workload *w,
                                    struct lw_err *err)
{
    const char *given = lw_model_first_given(&s->model);
    struct lw_workload read;

    LW_TRY(lw_workload_read(name, &read, err));
    enum lw_status st = take_of_file(s, name, &read, strategy, c, err);
    bool now = lw_model_is_set(&read.from.model) && takes_cluster(s, &read);
    if (st == LW_OK)
        st = apply_usual(s, !now ? read.from.device : s->device ? "" : c->device.kind, strategy,
                         err);
    if (st == LW_OK)
        st = lw_strategy_check(strategy, err);
    if (st != LW_OK) {
        lw_workload_free(&read);
        return st;
    }
    if (s->make_model && lw_model_is_set(&read.from.model))
        st = make_again(s, name, strategy, c, &read, err);
    else if (given)
        st = lw_fail(err, LW_EINVAL,
                     "--%s is of a model: workload '%s' was not made from one (its times are of "
                     "%s); give the model to -w", given, name,
                     read.from.format[0] ? read.from.format : "an unnamed source");
    LW_GIVE(st, w, read, lw_workload_free(&read));
}

/* Can be read once only: standard input, a pipe, a device. */
static bool is_stream(const char *name)
{
    struct stat st;

    return strcmp(name, "-") == 0 ||
           (stat(name, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

/* A stream is taken to be a workload: it cannot be looked at first. */
static bool is_ours(const char *name)
{
    char kind[16];

    return is_stream(name) || (lw_file_kind(name, kind, NULL) == LW_OK && kind[0]);
}

enum lw_status lw_plan_source_workload(struct lw_plan_source *s, const char *name,
                                       struct lw_strategy *strategy, const struct lw_cluster *c,
                                       struct lw_workload *w, struct lw_err *err)
{
    struct lw_strategy completed = *strategy;
    struct lw_workload made;
    enum lw_status st = LW_ENO;

    if (s->make_model && !(lw_names_file(name) && is_ours(name)))
        st = make_model(s, name, &completed, c, &made, err);
    if (st == LW_ENO) {
        completed = *strategy;
        st = read_workload(s, name, &completed, c, &made, err);
    }
    LW_TRY(st);
    st = lw_global_batch_divide(s->global_batch, &made, &completed, err);
    if (st == LW_OK) /* with the micro-batches of --global-batch */
        st = apply_usual(s, made.from.device, &completed, err);
    if (st == LW_OK)
        st = lw_strategy_check(&completed, err);
    if (st == LW_OK)
        *strategy = completed;
    LW_GIVE(st, w, made, lw_workload_free(&made));
}

/* Times of whole products divided by a group are too short: smaller products have a lower rate. */
static void warn_of_shapes(const struct lw_plan_source *src, const struct lw_workload *w,
                           const struct lw_strategy *s)
{
    char name[200];

    if (!src->silent && w->n_products > 0 && !lw_products_fit(w, s))
        lw_printf_paragraph(stderr,
                "lapwing: workload '%s' is timed by the products of --tp %d --cp %d; these times "
                "are divided for --tp %lld --cp %lld, though smaller products are slower: make it "
                "with these groups (lapwing model), or give the model's name to -w",
                lw_shown_text(name, sizeof name, w->name), lw_products_tp(w),
                lw_products_cp(w), (long long)s->tp, (long long)s->cp);
}

/* Workload and strategy of a plan, which is not built yet. */
static enum lw_status ready(struct lw_plan_source *s, struct lw_cluster *c,
                            struct lw_strategy *strategy, struct lw_err *err)
{
    LW_TRY(lw_plan_source_strategy(s, strategy, err));
    if (s->ranks > 0 && s->ranks != lw_strategy_ranks(strategy))
        return lw_fail(err, LW_EINVAL,
                       "--ranks %lld, but --dp %lld, --pp %lld, --tp %lld and --cp %lld "
                       "make %lld ranks",
                       (long long)s->ranks, (long long)strategy->dp, (long long)strategy->pp,
                       (long long)strategy->tp, (long long)strategy->cp,
                       (long long)lw_strategy_ranks(strategy));
    LW_TRY(lw_plan_source_workload(s, s->workload_file, strategy, c, &s->workload, err));
    s->has_workload = true;
    LW_TRY(lw_plan_source_fit(s, &s->workload, c, err));
    warn_of_shapes(s, &s->workload, strategy);
    return lw_plan_source_stages(s, &s->workload, strategy, err);
}

enum lw_status lw_plan_source_check(struct lw_plan_source *s, struct lw_cluster *cluster,
                                    struct lw_err *err)
{
    struct lw_strategy strategy;

    return ready(s, cluster, &strategy, err);
}

static enum lw_status plan_workload(struct lw_plan_source *s, const struct lw_cost *cost,
                                    struct lw_cluster *c, struct lw_plan *plan, struct lw_err *err)
{
    struct lw_strategy strategy;
    struct lw_cost placed = {0};

    LW_TRY(ready(s, c, &strategy, err));
    lw_cluster_place(c, lw_strategy_ranks(&strategy));
    if (cost) {
        placed = *cost;
        placed.ranks_per_node = c->devices_per_node;
    }
    return lw_plan_build(&s->workload, &strategy, cost ? &placed : NULL, plan, err);
}

enum lw_status lw_plan_source_read(struct lw_plan_source *s, const char *plan_file, bool unchecked,
                                   struct lw_cluster *c, struct lw_plan *plan, struct lw_err *err)
{
    struct lw_plan p;

    plan_file = s->stored.text ? s->stored.name : plan_file;
    LW_TRY(s->stored.text ? lw_plan_read_text(s->stored.name, s->stored.text, s->stored.len,
                                              unchecked, &p, err)
                          : lw_plan_read(plan_file, unchecked, &p, err));
    if (s->stored_framework) {
        p.framework = s->stored_framework;
        p.framework_hash = s->stored_framework_hash;
    }
    enum lw_status st = take_of_plan(s, plan_file, &p, err);
    if (st == LW_OK)
        st = fit_device(s, NULL, &p, c, err);
    if (st == LW_OK)
        lw_cluster_place(c, p.n_ranks);
    LW_GIVE(st, plan, p, lw_plan_free(&p));
}

static enum lw_status refuse_model_options(const struct lw_plan_source *s, const char *what,
                                           struct lw_err *err)
{
    const char *given = lw_model_first_given(&s->model);

    given = given ? given : s->global_batch > 0 ? "global-batch" : NULL;
    return given ? lw_fail(err, LW_EUSAGE, "--%s is of a model and needs -w: it does not apply to "
                                           "%s", given, what)
                 : LW_OK;
}

enum lw_status lw_plan_source_no_model(const struct lw_plan_source *s, const char *what,
                                       struct lw_err *err)
{
    LW_TRY(refuse_model_options(s, what, err));
    return s->framework_name
               ? lw_fail(err, LW_EUSAGE,
                         "--framework is of a model and needs -w: it does not apply to %s", what)
               : LW_OK;
}

bool lw_plan_source_is_model(const struct lw_plan_source *s, const char *name)
{
    const struct lw_model_request r = {.name = name};
    const struct lw_strategy strategy = lw_strategy_default();
    const struct lw_model_target sizes = {.strategy = &strategy};
    struct lw_workload w;

    if (!s->make_model || is_stream(name) || s->make_model(&r, &sizes, &w, NULL) != LW_OK)
        return false;
    lw_workload_free(&w);
    return true;
}

static bool is_workload(const char *file)
{
    char kind[16];

    return strcmp(file, "-") != 0 && lw_file_kind(file, kind, NULL) == LW_OK &&
           strcmp(kind, "workload") == 0;
}

/* A first operand that names no file. */
static enum lw_status refuse_no_file(struct lw_plan_source *s, const char *name,
                                     const struct lw_cluster *c, struct lw_err *err)
{
    struct lw_workload w;
    struct lw_strategy strategy = s->given;

    LW_TRY(lw_plan_source_workload(s, name, &strategy, c, &w, err));
    lw_workload_free(&w);
    return lw_fail(err, LW_EINVAL, "'%s' is a model, not a plan file: give it with -w", name);
}

enum lw_status lw_plan_source_load(struct lw_plan_source *s, const char *plan_file,
                                   const struct lw_cost *cost, struct lw_cluster *c,
                                   struct lw_plan *plan, struct lw_err *err)
{
    bool stored = s->stored.text != NULL;

    plan_file = stored ? s->stored.name : plan_file;
    if (!plan_file && !s->workload_file)
        return lw_fail(err, LW_EUSAGE, "needs a plan file or a workload (-w FILE)");
    if (plan_file && s->workload_file)
        return lw_fail(err, LW_EUSAGE, "takes plan file '%s' or -w %s, not both", plan_file,
                       s->workload_file);
    if (plan_file && !stored && !lw_names_file(plan_file))
        return refuse_no_file(s, plan_file, c, err);
    if (plan_file && !stored && is_workload(plan_file))
        return lw_fail(err, LW_EINVAL, "'%s' is a workload, not a plan: give it with -w",
                       plan_file);
    if (plan_file && (s->n_given > 0 || s->strategy_file))
        return lw_fail(err, LW_EUSAGE, "plan file '%s' holds its strategy: %s%s needs -w",
                       plan_file, s->n_given > 0 ? "--" : "-s", s->n_given > 0 ? s->names[0] : "");
    if (plan_file)
        LW_TRY(refuse_model_options(s, "a plan file", err)); /* one may name its framework */
    LW_TRY(plan_file ? lw_plan_source_read(s, plan_file, false, c, plan, err)
                     : plan_workload(s, cost, c, plan, err));
    if (s->ranks > 0 && s->ranks != plan->n_ranks) {
        enum lw_status st = lw_fail(err, LW_EINVAL, "--ranks %lld, but plan '%s' is for %d ranks",
                                    (long long)s->ranks, plan_file ? plan_file : plan->name,
                                    plan->n_ranks);
        lw_plan_free(plan);
        return st;
    }
    return LW_OK;
}

enum lw_status lw_plan_source_cluster(const struct lw_plan_source *s, struct lw_cluster *cluster,
                                      struct lw_err *err)
{
    enum lw_status st = LW_OK;

    LW_TRY(lw_cluster_find(s->cluster_file ? s->cluster_file : "host", cluster, err));
    if (s->node_gbps != 0)
        st = lw_err_context(err, lw_cluster_state_network(cluster, s->node_gbps, err),
                            "--node-gbps");
    if (st != LW_OK)
        lw_cluster_free(cluster);
    else if (!s->silent)
        lw_cluster_warn(cluster);
    return st;
}

void lw_plan_source_free(struct lw_plan_source *s)
{
    lw_workload_free(&s->workload);
    lw_framework_free(&s->framework);
    lw_framework_free(&s->of_options);
    lw_input_free(&s->stored);
    lw_arena_free(&s->strings);
    s->has_workload = false;
}
