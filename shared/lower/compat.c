/* The reference systems' fixed choices and refusals, as tables.
 *
 * Sources: picotron@59714b1 (data_parallel/), pytorch c10d 1.13.1, fairscale@146f1602
 * (optim/oss.py, nn/data_parallel/sharded_ddp.py), HaiScale's DDP wrapper over hfreduce >=
 * 1.3.1, ColossalAI@96780e6. The quirks themselves live where the decision is made
 * (shared/bucket/, shared/shard/shard_oss.c and shared/lower/ ask strategy.compat); here is only
 * what a name represents. Not modelled: faults of a run (double marks, exceptions inside
 * no_sync), which no plan can hold. */
#include "shared/lower/compat.h"

#include <string.h>

struct fixed {
    enum lw_compat compat;
    const char *option;
    const char *allowed; /* words apart by '|'; the first is the system's own */
};

static const struct fixed table[] = {
    {LW_COMPAT_C10D, "bucket-policy", "c10d-2|c10d-1.13|c10d-2020"},
    {LW_COMPAT_C10D, "launch-order", "in-order"},
    {LW_COMPAT_C10D, "zero", "0"},

    {LW_COMPAT_PICOTRON, "bucket-policy", "picotron"},
    {LW_COMPAT_PICOTRON, "launch-order", "completion-order"},
    {LW_COMPAT_PICOTRON, "find-unused", "off"},
    {LW_COMPAT_PICOTRON, "static-graph", "off"},
    {LW_COMPAT_PICOTRON, "comm-hook", "none"},
    {LW_COMPAT_PICOTRON, "overlap", "on"},
    {LW_COMPAT_PICOTRON, "zero", "0"},

    {LW_COMPAT_FAIRSCALE, "zero", "1"},
    {LW_COMPAT_FAIRSCALE, "shard-policy", "oss-greedy"},
    {LW_COMPAT_FAIRSCALE, "bucket-policy", "sharded-ddp"},
    {LW_COMPAT_FAIRSCALE, "launch-order", "completion-order"},
    {LW_COMPAT_FAIRSCALE, "find-unused", "off"},
    {LW_COMPAT_FAIRSCALE, "static-graph", "off"},
    {LW_COMPAT_FAIRSCALE, "comm-hook", "none"},
    {LW_COMPAT_FAIRSCALE, "overlap", "on"},

    {LW_COMPAT_COLOSSALAI, "bucket-policy", "colossal"},
    {LW_COMPAT_COLOSSALAI, "find-unused", "off"},
    {LW_COMPAT_COLOSSALAI, "static-graph", "off"},
    {LW_COMPAT_COLOSSALAI, "comm-hook", "none"},
    {LW_COMPAT_COLOSSALAI, "rank-order", "colossal"},
    {LW_COMPAT_COLOSSALAI, "zero", "0"},
    {LW_COMPAT_COLOSSALAI, "schedule", "colossal-1f1b|colossal-interleaved"},
    {LW_COMPAT_COLOSSALAI, "partition", "uniform|colossal-balanced"},

    {LW_COMPAT_HAISCALE, "collective-algorithm", "hfreduce"},
    {LW_COMPAT_HAISCALE, "static-graph", "off"},
    {LW_COMPAT_HAISCALE, "comm-hook", "none"},
    {LW_COMPAT_HAISCALE, "rank-order", "haiscale"},
    {LW_COMPAT_HAISCALE, "zero", "0"},
};

static bool allows(const char *allowed, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = allowed; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, word, n) == 0 && (at[n] == '\0' || at[n] == '|'))
            return true;
    }
    return false;
}

static enum lw_status fix(const struct fixed *f, const struct lw_strategy *s,
                          struct lw_strategy *out, struct lw_err *err)
{
    int option = lw_strategy_find(f->option);
    char text[LW_STRATEGY_TEXT], first[64];
    const char *word = lw_strategy_get(s, option, text);
    size_t n = strcspn(f->allowed, "|");

    if (lw_strategy_given(s, option)) {
        if (allows(f->allowed, word))
            return LW_OK;
        return lw_fail(err, LW_EINVAL, "--compat %s contradicts --%s %s: it supports only %s",
                       lw_compat_name(s->compat), f->option, word, f->allowed);
    }
    memcpy(first, f->allowed, n);
    first[n] = '\0';
    return lw_strategy_set(out, f->option, first, err);
}

/* Fixed only where there is a pipeline. */
static bool of_pipelines(const char *option)
{
    return strcmp(option, "schedule") == 0 || strcmp(option, "partition") == 0;
}

enum lw_status lw_compat_resolve(const struct lw_strategy *s, struct lw_strategy *out,
                                 struct lw_err *err)
{
    struct lw_strategy made = *s;

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].compat == s->compat && (s->pp > 1 || !of_pipelines(table[i].option)))
            LW_TRY(fix(&table[i], s, &made, err));
    *out = made;
    return LW_OK;
}

/* --- workloads a system stops at ------------------------------------------------------------- */

/* Frozen and ignored parameters are looked at too. */
static enum lw_status check_haiscale(const struct lw_workload *w, struct lw_err *err)
{
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = LW_PARAM(w, i);
        if (p->dtype != LW_F32)
            return lw_fail(err, LW_EINVAL, "--compat haiscale: parameter %d '%s' is %s; HaiScale's "
                                           "DDP stops unless every parameter is f32", i, p->name,
                           lw_dtype_name(p->dtype));
        if (p->device != lw_param_at(w, 0).device)
            return lw_fail(err, LW_EINVAL, "--compat haiscale: parameter %d '%s' is on device %d, "
                                           "the first one on device %d; HaiScale's DDP stops "
                                           "unless all are on one", i, p->name, p->device,
                           lw_param_at(w, 0).device);
    }
    return LW_OK;
}

/* Unused gradients: bucketed ones go with their bucket after the backward, others are never
 * sent. */
static enum lw_status check_fairscale(const struct lw_workload *w, struct lw_err *err)
{
    for (int32_t i = 0; i < w->n_params; i++)
        if (lw_param_at(w, i).trainable && lw_param_at(w, i).tied < 0 && !lw_param_at(w, i).used)
            return lw_fail(err, LW_ENOTSUP, "--compat fairscale: parameter %d '%s' is unused; its "
                                            "bucket would be flushed after the backward, which "
                                            "this build does not plan", i, lw_param_at(w, i).name);
    return LW_OK;
}

static enum lw_status check_picotron(const struct lw_workload *w, struct lw_err *err)
{
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = LW_PARAM(w, i);
        if (p->trainable && p->tied < 0 && !p->used)
            return lw_fail(err, LW_EINVAL, "--compat picotron: parameter %d '%s' is unused; "
                                           "picotron waits for every bucket and stops at the one "
                                           "that was never launched", i, p->name);
        if (p->ignored)
            return lw_fail(err, LW_EINVAL, "--compat picotron: parameter %d '%s' is on an ignore "
                                           "list, picotron has none", i, p->name);
    }
    return LW_OK;
}

enum lw_status lw_compat_check(const struct lw_strategy *s, const struct lw_workload *w,
                               struct lw_err *err)
{
    if (s->compat == LW_COMPAT_HAISCALE)
        return check_haiscale(w, err);
    if (s->compat == LW_COMPAT_FAIRSCALE)
        return check_fairscale(w, err);
    return s->compat == LW_COMPAT_PICOTRON ? check_picotron(w, err) : LW_OK;
}

/* --- notes ----------------------------------------------------------------------------------- */

void lw_compat_notes(const struct lw_strategy *s, struct lw_builder *b)
{
    switch (s->compat) {
    case LW_COMPAT_NONE:
        break;
    case LW_COMPAT_C10D:
        lw_builder_note(b, "compat c10d: buckets left open under an order go by first-ready "
                           "gradient (c10d: hash order)");
        break;
    case LW_COMPAT_PICOTRON:
        lw_builder_note(b, "compat picotron: buckets numbered as registered and launched as they "
                           "complete (ranks that complete them differently would mismatch); "
                           "a capacity counts 4 bytes for every gradient but bf16");
        break;
    case LW_COMPAT_FAIRSCALE:
        lw_builder_note(b, "compat fairscale: owners by elements in registration order, a frozen "
                           "parameter counts 1; one bucket per owner, below its limit");
        break;
    case LW_COMPAT_HAISCALE:
        lw_builder_note(b, "compat haiscale: the buckets, order and averaging of hfreduce are not "
                           "public; those of --bucket-policy %s are used instead",
                        lw_bucket_policy_name(s->bucket_policy));
        lw_builder_note(b, "compat haiscale: node and local ranks are found at start-up from the "
                           "devices; a plan places no ranks");
        break;
    case LW_COMPAT_COLOSSALAI:
        lw_builder_note(b, "compat colossalai: one flat buffer after the other, each waited for; "
                           "found-inf and norm are reduced over the model group, which has %s",
                        s->pp * s->tp > 1 ? "all ranks of a replica" : "one rank here");
        if (s->pp > 1)
            lw_builder_note(b,
                            "compat colossalai: shapes are sent before the first activation of a "
                            "part (three dimensions are assumed), transfers block");
        break;
    case LW_N_COMPATS:
        break;
    }
}
