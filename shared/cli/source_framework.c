/* The framework of a command line: given, named by a file, the usual one, or none. */
#include "shared/cli/source_parts.h"

#include <stdio.h>
#include <string.h>

#include "shared/device/device_kind.h"
#include "shared/files/files.h"
#include "shared/framework/framework_stages.h"
#include "shared/io/own_output.h"

const struct lw_framework *lw_source_framework(const struct lw_plan_source *s)
{
    return s->framework.name && strcmp(s->framework.name, LW_IDEAL_FRAMEWORK) != 0 ? &s->framework
                                                                                   : NULL;
}

const char *lw_source_framework_hash(const struct lw_plan_source *s)
{
    return lw_source_framework(s) ? s->choice.hash : "";
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
    struct lw_workload w;

    if (lw_source_sizes(s, r, &w, NULL) != LW_OK)
        return false;
    bool is = w.dims.layers > 0;
    lw_workload_free(&w);
    return is;
}

/* of: the device of the times; NULL = none. */
static enum lw_status take_usual(struct lw_plan_source *s, const struct lw_model_request *r,
                                 const struct lw_strategy *strategy, const struct lw_device *of,
                                 struct lw_err *err)
{
    struct lw_framework_choice choice;

    lw_framework_usual(strategy, of, is_transformer(s, r), &choice);
    return take_framework(s, choice, err);
}

enum lw_status lw_plan_source_framework(struct lw_plan_source *s, const struct lw_model_request *r,
                                        struct lw_strategy *strategy, const struct lw_cluster *c,
                                        struct lw_err *err)
{
    const struct lw_cluster *of;

    LW_TRY(lw_source_device(s, c, &of, err));
    if (s->framework_name)
        LW_TRY(take_given(s, err));
    else if (of)
        LW_TRY(take_usual(s, r, strategy, &of->device, err));
    const struct lw_usual_for times = {.on_cpu = of && lw_device_is_cpu(of->device.kind)};
    LW_TRY(lw_framework_strategy(&s->framework, times, strategy, err));
    lw_framework_left_out(&s->framework, strategy, s->choice.left_out, sizeof s->choice.left_out);
    return LW_OK;
}

/* The framework that a file names, which must be the one of that time. */
static enum lw_status take_named(struct lw_plan_source *s, const struct lw_workload *w,
                                 struct lw_err *err)
{
    const struct lw_made_for *m = &w->from.made_for;
    struct lw_framework_choice c = {.from = LW_FRAMEWORK_WORKLOAD, .name = m->framework,
                                    .why = "as the workload file says"};
    enum lw_status st = take_framework(s, c, err);

    if (st == LW_ENOMEM ||
        (st == LW_OK && strcmp(s->choice.hash, lw_source_text(m->framework_hash)) == 0))
        return st;
    return lw_fail(err, LW_EINVAL,
                   "workload '%s' was made with framework '%s' (%.8s), which this lapwing %s: "
                   "give its file with --framework, or the name of a known one to compute the "
                   "times again", w->name, m->framework, lw_source_text(m->framework_hash),
                   st == LW_OK ? "has with other facts" : "does not know");
}

/* Of recorded times a framework's usual options act, and nothing is added. Whether gradients stay
 * is not in the file: the framework says it. */
static enum lw_status take_options(struct lw_plan_source *s, struct lw_err *err)
{
    LW_TRY(take_given(s, err));
    const char *name = lw_arena_strdup(&s->strings, s->framework.name);
    bool stay = lw_fact(s->framework.gradients_stay);
    if (!name)
        return lw_fail_nomem(err);
    LW_TRY(lw_plan_source_recorded(s, err));
    s->framework.gradients_stay = (struct lw_figure){stay, stay ? "the named framework" : NULL};
    s->choice.name = name;
    s->choice.hash[0] = '\0';
    snprintf(s->choice.why, sizeof s->choice.why,
             "its usual options%s; times and memory are of the file",
             stay ? ", and gradients that stay" : "");
    return LW_OK;
}

enum lw_status lw_source_framework_of_file(struct lw_plan_source *s, const char *name,
                                           const struct lw_workload *w,
                                           const struct lw_strategy *strategy,
                                           const struct lw_device *of, struct lw_err *err)
{
    const struct lw_made_for *m = &w->from.made_for;
    bool model = s->make_model && lw_model_is_set(&w->from.model);

    if (!model && w->n_kernels == 0)
        return s->framework_name ? take_options(s, err) : lw_plan_source_recorded(s, err);
    if (s->framework_name) {
        LW_TRY(take_given(s, err));
        if (s->as_recorded &&
            strcmp(lw_source_framework_hash(s), lw_source_text(m->framework_hash)) != 0)
            return lw_fail(err, LW_EINVAL,
                           "--as-recorded keeps the times of workload '%s', which are of framework "
                           "'%s'; --framework computes them again: give only one of them", w->name,
                           lw_source_text(m->framework)[0] ? m->framework : LW_IDEAL_FRAMEWORK);
        return LW_OK;
    }
    if (model && m->usual && !s->as_recorded && !lw_is_edited(name, "workload"))
        return take_usual(s, &w->from.model, strategy, of, err);
    if (lw_source_text(m->framework)[0])
        return take_named(s, w, err);
    return take_ideal(s, LW_FRAMEWORK_WORKLOAD,
                      "the workload file names none", err);
}

enum lw_status lw_plan_source_stages(struct lw_plan_source *s, struct lw_workload *w,
                                     const struct lw_cluster *c, struct lw_strategy *strategy,
                                     struct lw_err *err)
{
    const struct lw_framework *f = &s->framework;
    const struct lw_model_dims *d = &w->dims;
    const struct lw_cluster *of;
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
    LW_TRY(lw_source_device(s, c, &of, err));
    lw_framework_stage_waits(f, strategy, list, w);
    if (of)
        lw_framework_stage_fills(f, strategy, &of->device, list, w);
    strategy->partition = LW_PARTITION_EXPLICIT;
    strategy->partition_list = lw_arena_strdup(&s->strings, list);
    return strategy->partition_list ? LW_OK : lw_fail_nomem(err);
}

static bool is_shipped(const char *name)
{
    char known[64];

    for (int k = 0; lw_framework_known(k, known); k++)
        if (strcmp(known, name) == 0)
            return true;
    return false;
}

/* Whether what was found for a plan file is the shipped framework of the name that the file has,
 * whose facts have changed since: its rules of today are better than none. */
static bool is_of_today(const struct lw_plan_source *s, const char *name)
{
    return is_shipped(name) && (!s->framework_name || strcmp(s->framework_name, name) == 0);
}

/* Why the framework of a plan file is not the one that the file was planned with. */
static enum lw_status take_other(struct lw_plan_source *s, const struct lw_plan *p,
                                 struct lw_err *err)
{
    const char *hash = lw_source_text(p->framework_hash);

    if (is_of_today(s, p->framework)) {
        snprintf(s->choice.why, sizeof s->choice.why,
                 "in place of (%.8s) that the file was planned with: its facts have changed", hash);
        return LW_OK;
    }
    LW_TRY(take_ideal(s, LW_FRAMEWORK_PLAN, "", err));
    snprintf(s->choice.why, sizeof s->choice.why,
             "'%.40s' (%.8s) of the plan file is not known here, and its memory rules are left "
             "out; --framework FILE gives them", p->framework, hash);
    return LW_OK;
}

/* The plan's kept bytes and states are in its file, as the program that planned it had them. */
static void say_older_rules(struct lw_plan_source *s, const struct lw_plan *p)
{
    size_t at = strlen(s->choice.why);

    if (p->rules < LW_PLAN_RULES)
        snprintf(s->choice.why + at, sizeof s->choice.why - at,
                 "; planned by an older lapwing, whose rules of memory and times differ: plan it "
                 "again for those of today");
}

enum lw_status lw_source_framework_of_plan(struct lw_plan_source *s, const char *file,
                                           const struct lw_plan *p, struct lw_err *err)
{
    bool named = p->framework && p->framework[0];
    const char *name = named ? p->framework : LW_IDEAL_FRAMEWORK;
    bool ideal = strcmp(name, LW_IDEAL_FRAMEWORK) == 0;
    struct lw_framework_choice c = {.from = LW_FRAMEWORK_PLAN, .name = name,
                                    .file = s->framework_name, .why = "as the plan file says"};
    enum lw_status st = take_framework(s, c, err);
    bool same = st == LW_OK && (ideal ? strcmp(s->framework.name, name) == 0
                                      : strcmp(s->choice.hash,
                                               lw_source_text(p->framework_hash)) == 0);

    if (st == LW_ENOMEM || (st != LW_OK && s->framework_name))
        return st;
    if (!same && s->framework_name && (ideal || !is_of_today(s, name)))
        return lw_fail(err, LW_EINVAL,
                       "--framework %s: plan file '%s' was made with framework '%s'%s%.8s%s: leave "
                       "the option out, or make the plan again with it (lapwing plan -w ...)",
                       s->framework_name, file, name, ideal ? "" : " (",
                       ideal ? "" : lw_source_text(p->framework_hash),
                       ideal ? "" : ")");
    if (!same)
        LW_TRY(take_other(s, p, err));
    else if (!named)
        snprintf(s->choice.why, sizeof s->choice.why, "the plan file names none");
    if (named && !ideal)
        say_older_rules(s, p);
    return LW_OK;
}
