/* Facts of frameworks: their ranges, their hash, and the strategy options that a framework usually
 * has. What the facts do to kernels stands in traces/models, to stages and memory in this room. */
#include "shared/framework/framework.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/hash.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/workload.h"

/* Limits of counts leave room in 64 bits, and in 32 for launches of a module. */
enum range { FLAG, POSITIVE, FACTOR, COUNT, STATE_BYTES, ELEMENTS, WHOLE_PS };

static const struct {
    double least, most;
    bool whole;
    const char *allowed;
} ranges[] = {
    [FLAG] = {0, 1, true, "0 or 1"},
    [POSITIVE] = {1e-6, 1e6, false, "more than 0, at most 10^6"},
    [FACTOR] = {1, 1e6, false, "1 or more, at most 10^6"},
    [COUNT] = {0, 1e6, true, "a whole number from 0 to 10^6"},
    [STATE_BYTES] = {1, 100, true, "a whole number from 1 to 100"},
    [ELEMENTS] = {0, 1e12, true, "a whole number from 0 to 10^12"},
    [WHOLE_PS] = {0, (double)LW_PS_PER_S, true, "whole picoseconds, at most 10^9 ns (1 s)"},
};

struct row {
    const char *name, *group, *unit, *help;
    size_t at;
    enum range range;
};

#define ROW(m, unit, range, help) {#m, GROUP, unit, help, offsetof(struct lw_framework, m), range},
#define TIME(m, help) \
    {#m "_ns", GROUP, "ns", help, offsetof(struct lw_framework, m##_ps), WHOLE_PS},
static const struct row rows[] = {
#define GROUP "kernels"
    LW_FRAMEWORK_KERNELS(ROW, TIME)
#undef GROUP
#define GROUP "host"
    LW_FRAMEWORK_HOST(ROW, TIME)
#undef GROUP
#define GROUP "step"
    LW_FRAMEWORK_STEP(ROW, TIME)
#undef GROUP
#define GROUP "memory"
    LW_FRAMEWORK_MEMORY(ROW, TIME)
#undef GROUP
#define GROUP "stages"
    LW_FRAMEWORK_STAGES(ROW, TIME)
#undef GROUP
};

enum { N_ROWS = sizeof rows / sizeof *rows };

bool lw_fact(struct lw_figure f)
{
    return lw_figure_is_set(f) && f.value != 0;
}

double lw_fact_value(struct lw_figure f, double otherwise)
{
    return lw_figure_is_set(f) ? f.value : otherwise;
}

static struct lw_figure figure_of(const struct lw_framework *f, int k)
{
    return *(const struct lw_figure *)((const char *)f + rows[k].at);
}

struct lw_figure *lw_framework_figure(struct lw_framework *f, int k)
{
    return (struct lw_figure *)((char *)f + rows[k].at);
}

bool lw_framework_fact(const struct lw_framework *f, int k, struct lw_framework_fact *out)
{
    if (k < 0 || k >= N_ROWS)
        return false;
    *out = (struct lw_framework_fact){rows[k].name, rows[k].group, rows[k].unit, rows[k].help,
                                      figure_of(f, k)};
    return true;
}

/* --- check ------------------------------------------------------------------------------------ */

static bool is_of_cpu(const struct lw_usual_option *u)
{
    return u->device && u->device[0];
}

static enum lw_status check_fact(const struct lw_framework *f, int k, struct lw_err *err)
{
    enum range r = rows[k].range;
    double v = figure_of(f, k).value;

    if (v >= ranges[r].least && v <= ranges[r].most && (!ranges[r].whole || v == floor(v)))
        return LW_OK;
    return lw_fail(err, LW_EFORMAT, "at %s.%s.value: found %.13g%s, allowed: %s", rows[k].group,
                   rows[k].name, r == WHOLE_PS ? v / (double)LW_PS_PER_NS : v,
                   r == WHOLE_PS ? " ns" : "", ranges[r].allowed);
}

/* The user says how large a job is, not its framework. */
static bool is_size(const char *option)
{
    static const char *const sizes[] = {"dp", "pp", "tp", "cp", "ep", "etp",
                                        "micro-batches", "chunks", "micro-batch-group",
                                        "drain-every"};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(option, sizes[i]) == 0)
            return true;
    return false;
}

/* An option that exists, with a value that it may have, once. */
static enum lw_status check_usual(const struct lw_framework *f, int32_t k, struct lw_err *err)
{
    const struct lw_usual_option *u = &f->usual[k];
    struct lw_strategy s = lw_strategy_default();

    if (is_size(u->option))
        return lw_fail(err, LW_EFORMAT, ".option: found '%s', which is a size of the job; allowed: "
                                        "options that say how it runs", u->option);
    if (is_of_cpu(u) && strcmp(u->device, "cpu") != 0)
        return lw_fail(err, LW_EFORMAT, ".device: found '%s', expected cpu", u->device);
    if (!u->source[0])
        return lw_fail(err, LW_EFORMAT, ".source: it cannot be empty");
    for (int32_t i = 0; i < k; i++)
        if (strcmp(f->usual[i].option, u->option) == 0 && is_of_cpu(&f->usual[i]) == is_of_cpu(u))
            return lw_fail(err, LW_EFORMAT, ".option: '%s' is given twice", u->option);
    s.dp = s.pp = s.tp = s.cp = 2;
    LW_TRY(lw_strategy_set(&s, u->option, u->value, err));
    return lw_strategy_check(&s, err);
}

enum lw_status lw_framework_check(const struct lw_framework *f, struct lw_err *err)
{
    if (f->name && !*f->name)
        return lw_fail(err, LW_EFORMAT, "at name: it cannot be empty");
    for (int k = 0; k < N_ROWS; k++)
        if (lw_figure_is_set(figure_of(f, k)))
            LW_TRY(check_fact(f, k, err));
    if (lw_fact(f->even_blocks) && lw_fact(f->blocks_by_cost))
        return lw_fail(err, LW_EFORMAT, "at stages: found even_blocks and blocks_by_cost, allowed: "
                                        "one of them");
    for (int32_t i = 0; i < f->n_usual; i++) {
        struct lw_err why = {0};
        if (check_usual(f, i, &why) != LW_OK)
            return lw_fail(err, LW_EFORMAT, "at usual[%d]%s%.200s", i,
                           why.msg[0] == '.' ? "" : ": ", why.msg);
    }
    return LW_OK;
}

/* --- hash ------------------------------------------------------------------------------------- */

enum lw_status lw_framework_hash(const struct lw_framework *f, char hex[33], struct lw_err *err)
{
    struct lw_hash *h = lw_hash_new();
    int64_t bits;

    if (!h)
        return lw_fail_nomem(err);
    for (int k = 0; k < N_ROWS; k++) {
        struct lw_figure v = figure_of(f, k);
        if (!lw_figure_is_set(v))
            continue; /* a fact that comes later leaves the hashes as they are */
        lw_hash_string(h, rows[k].name);
        memcpy(&bits, &v.value, sizeof bits);
        lw_hash_int(h, bits);
    }
    for (int32_t i = 0; i < f->n_usual; i++) {
        lw_hash_string(h, f->usual[i].option);
        lw_hash_string(h, f->usual[i].value);
        if (is_of_cpu(&f->usual[i]))
            lw_hash_string(h, f->usual[i].device);
    }
    lw_hash_finish(h, hex);
    return LW_OK;
}

/* --- strategy --------------------------------------------------------------------------------- */

static bool is_option(const char *option, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(option, *list) == 0)
            return true;
    return false;
}

/* Overlaps run beside a whole backward: no plan has them with one in halves. */
static bool runs_whole_backwards(const struct lw_strategy *s)
{
    static const enum lw_schedule whole[] = {
        LW_SCHEDULE_GPIPE, LW_SCHEDULE_1F1B, LW_SCHEDULE_INTERLEAVED_1F1B, LW_SCHEDULE_LOOPED_BFS,
        LW_SCHEDULE_COLOSSAL_1F1B, LW_SCHEDULE_COLOSSAL_INTERLEAVED};

    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (s->schedule == whole[i])
            return true;
    return s->pp == 1;
}

static bool is_given(const struct lw_strategy *s, const char *option)
{
    return lw_strategy_given(s, lw_strategy_find(option));
}

/* A user who asks for what other policies alone have asks for one of these. ZeRO-3 has units. */
static bool takes_policy(const char *policy, const struct lw_strategy *s)
{
    static const char *const others[] = {"first-bucket", "last-bucket-cap", "static-graph",
                                         "find-unused", "gradient-as-bucket-view",
                                         "count-forward"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_given(s, others[i]))
            return false;
    if (s->reduce_elements > 0 && strcmp(policy, "deepspeed") != 0)
        return false;
    return s->zero < 3 && s->compat == LW_COMPAT_NONE &&
           (!is_given(s, "shard-policy") || s->shard_policy == LW_SHARD_FLAT);
}

/* Gathers before the next forward are of shares of buckets, which owners of whole parameters and
 * other units do not have (shared/lower/lower.c, refuse_gathers_ahead). */
static bool gathers_ahead(const struct lw_strategy *s)
{
    return s->dp * s->cp > 1 && (s->zero == 1 || s->zero == 2) && s->compat == LW_COMPAT_NONE &&
           (!is_given(s, "shard-policy") || s->shard_policy == LW_SHARD_FLAT) &&
           !is_given(s, "bucket-policy") && !is_given(s, "broadcast-dtype");
}

/* A ring's attention is not planned among pieces of products of modules without kernels
 * (docs/design/lower_sequence.md). */
static bool has_ring(const struct lw_strategy *s)
{
    return s->cp > 1 && s->cp_comm == LW_CP_P2P;
}

static bool applies(const struct lw_usual_option *u, struct lw_usual_for times,
                    const struct lw_strategy *s)
{
    const char *option = u->option;
    static const char *const tensor[] = {"tp-overlap", "sequence-parallel", NULL};
    static const char *const data[] = {"zero", NULL};
    static const char *const third[] = {"reshard", "prefetch", "units", "unit-copies", "persist",
                                        NULL};
    static const char *const elements[] = {"prefetch-bucket-size", "max-live-parameters", NULL};

    if (is_option(option, elements)) /* in place of units that the user counts */
        return s->zero == 3 && s->prefetch < 0;
    if (strcmp(option, "bucket-policy") == 0)
        return takes_policy(u->value, s);
    if (strcmp(option, "overlap-param-gather") == 0)
        return gathers_ahead(s);
    if (strcmp(option, "tp-overlap") == 0 &&
        (!runs_whole_backwards(s) || (times.measured && has_ring(s))))
        return false;
    if (is_option(option, tensor))
        return s->tp > 1;
    if (strcmp(option, "cp-comm-type") == 0) /* a plan of both is simulated rank by rank */
        return s->cp > 1 && s->tp_overlap == LW_TP_OVERLAP_OFF && runs_whole_backwards(s);
    if (strcmp(option, "scatter-gather") == 0)
        return s->tp > 1 && s->pp > 1 && !s->sequence_parallel;
    if (strcmp(option, "bucket-cap") == 0)
        return s->zero == 0;
    if (strcmp(option, "root-unit") == 0)
        return s->zero == 3 && !is_given(s, "units");
    if (is_option(option, third) || strcmp(option, "overlap") == 0)
        return s->zero == 3;
    if (strcmp(option, "sync-each-micro-batch") == 0)
        return s->dp * s->cp > 1 && s->pp == 1 && s->micro_batches > 1 && s->no_sync == 0 &&
               (s->zero == 0 || (s->zero == 3 && s->zero_group > 0));
    if (strcmp(option, "accumulate-pass") == 0)
        return s->zero == 0;
    if (strcmp(option, "async-messages") == 0)
        return s->pp > 1 && s->compat == LW_COMPAT_NONE &&
               (s->schedule == LW_SCHEDULE_1F1B || s->schedule == LW_SCHEDULE_GPIPE);
    return !is_option(option, data) || s->dp * s->cp > 1;
}

enum lw_status lw_framework_strategy(const struct lw_framework *f, struct lw_usual_for times,
                                     struct lw_strategy *s, struct lw_err *err)
{
    struct lw_strategy chosen = *s;

    for (int32_t i = 0; i < f->n_usual; i++) {
        const struct lw_usual_option *u = &f->usual[i];
        int option = lw_strategy_find(u->option);
        if (lw_strategy_given(&chosen, option) || !applies(u, times, s) ||
            (is_of_cpu(u) && !times.on_cpu))
            continue;
        LW_TRY(lw_strategy_set(s, u->option, u->value, err));
    }
    s->given = chosen.given;
    return LW_OK;
}

static const struct lw_usual_option *usual_option(const struct lw_framework *f, const char *option)
{
    for (int32_t i = 0; i < f->n_usual; i++)
        if (strcmp(f->usual[i].option, option) == 0)
            return &f->usual[i];
    return NULL;
}

void lw_framework_left_out(const struct lw_framework *f, const struct lw_strategy *s, char *text,
                           size_t size)
{
    bool ring = has_ring(s), overlaps = s->tp_overlap != LW_TP_OVERLAP_OFF;
    const char *out = ring ? "tp-overlap" : "cp-comm-type", *in = ring ? "cp-comm-type"
                                                                       : "tp-overlap";
    const struct lw_usual_option *u = usual_option(f, out);
    char value[LW_STRATEGY_TEXT];

    text[0] = '\0';
    if (u && s->tp > 1 && s->cp > 1 && ring != overlaps && runs_whole_backwards(s) &&
        !lw_options_has(&s->given, lw_strategy_find(out)))
        snprintf(text, size, "its usual --%s %s is left out beside --%s %s", out, u->value, in,
                 lw_strategy_get(s, lw_strategy_find(in), value));
}

bool lw_framework_times_others(const struct lw_framework *f, const struct lw_workload *w,
                               const struct lw_strategy *s)
{
    const struct lw_made_for *m = &w->from.made_for, to = lw_made_for(s);
    bool ideal = strcmp(f->name, LW_IDEAL_FRAMEWORK) == 0;

    return !ideal && ((lw_fact(f->step_scale) && m->reduced != to.reduced) ||
                      m->grad_f32 != to.grad_f32);
}

LW_FREE_BY_ARENA(lw_framework_free, struct lw_framework)
