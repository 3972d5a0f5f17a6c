/* From a model's request to its workload: the sizes of a configuration are read first, so that what
 * is left depends on no file; then the shapes that a rank of the strategy has are built for the
 * cluster's device, and the workload keeps the request that it was made from. */
#include "traces/models/model_workload.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/framework/framework.h"
#include "shared/io/input.h"
#include "shared/strategy/strategy.h"
#include "traces/models/hf_config.h"
#include "traces/models/model_framework.h"
#include "traces/models/models.h"

/* --- a request and a shape have the same fields --- */

#define SAME(field)                                                                         \
    {                                                                                       \
        offsetof(struct lw_model_request, field), offsetof(struct traces_model_shape, field), \
            sizeof(((struct traces_model_shape *)NULL)->field)                              \
    }
static const struct {
    size_t request, shape, size;
} same[] = {
    SAME(batch), SAME(layers), SAME(width), SAME(image), SAME(patch), SAME(hidden), SAME(heads),
    SAME(kv_heads), SAME(ffn), SAME(seq), SAME(vocab), SAME(decoder_seq), SAME(dtype),
    SAME(attention),
    SAME(optimizer), SAME(fp8), SAME(fp4), SAME(narrow_of), SAME(fp8_recipe),
    SAME(tf32), SAME(expert_capacity),
    SAME(head_width),
    SAME(window), SAME(window_every),
    SAME(q_lora), SAME(kv_lora), SAME(rope_width), SAME(v_width),
    SAME(layer_pattern), SAME(ssm_heads), SAME(ssm_head_width), SAME(ssm_groups), SAME(ssm_state),
    SAME(ssm_chunk), SAME(expert_latent), SAME(experts), SAME(topk),
    SAME(expert_ffn), SAME(shared_ffn), SAME(dense_layers), SAME(expert_every), SAME(expert_groups),
    SAME(topk_groups), SAME(mtp_layers), SAME(mtp_stated), SAME(stored_as),
    SAME(text_beside),
    SAME(plain_ffn), SAME(qk_norm), SAME(qk_norm_wide), SAME(norms_after),
    SAME(no_norms_before), SAME(joined), SAME(shared_gate), SAME(qkv_bias), SAME(expert_bias),
    SAME(tied), SAME(alibi),
    SAME(embedding_norm), SAME(no_bias), SAME(lora), SAME(expert_whole), SAME(experts_in_turn),
    SAME(positions),
    SAME(layer_norm), SAME(biases), SAME(dropout), SAME(fused_loss), SAME(deterministic),
    SAME(expert_serial), SAME(expert_gathered), SAME(fused_permute), SAME(head_waits),
    SAME(f32_softmax), SAME(autocast),
    SAME(linear_every), SAME(linear_heads), SAME(linear_key_heads), SAME(linear_width),
    SAME(linear_key_width), SAME(linear_split), SAME(attention_gate),
};

/* A file's absent text is "". */
static const char *text_or_null(const char *text)
{
    return text && text[0] ? text : NULL;
}

static struct traces_model_shape shape_of(const struct lw_model_request *r)
{
    struct traces_model_shape s = {0};

    for (size_t k = 0; k < sizeof same / sizeof *same; k++)
        memcpy((char *)&s + same[k].shape, (const char *)r + same[k].request, same[k].size);
    s.dtype = text_or_null(s.dtype);
    s.attention = text_or_null(s.attention);
    s.optimizer = text_or_null(s.optimizer);
    s.narrow_of = text_or_null(s.narrow_of);
    s.fp8_recipe = text_or_null(s.fp8_recipe);
    s.stored_as = text_or_null(s.stored_as);
    s.text_beside = text_or_null(s.text_beside);
    return s;
}

static void take_shape(struct lw_model_request *r, const struct traces_model_shape *s)
{
    for (size_t k = 0; k < sizeof same / sizeof *same; k++)
        memcpy((char *)r + same[k].request, (const char *)s + same[k].shape, same[k].size);
}

/* --- configurations --- */

static bool is_model(const char *name)
{
    return traces_model_named(name) != NULL;
}

/* A folder's configuration, else the name itself. */
static enum lw_status config_path(const char *name, char *path, size_t size, struct lw_err *err)
{
    int n = snprintf(path, size, lw_is_folder(name) ? "%s/config.json" : "%s", name);

    return n < 0 || (size_t)n >= size
               ? lw_fail(err, LW_EINVAL, "%.80s...: the name is longer than %zu bytes", name, size)
               : LW_OK;
}

static bool names_config(const char *name)
{
    size_t n = strlen(name);
    char path[4096];
    struct stat st;

    if (lw_is_folder(name)) /* a folder with a model's name may hold anything */
        return config_path(name, path, sizeof path, NULL) == LW_OK &&
               (stat(path, &st) == 0 || !is_model(name));
    return n >= 5 && strcmp(name + n - 5, ".json") == 0;
}

static enum lw_status read_config(const char *path, struct lw_model_request *out,
                                  struct lw_err *err)
{
    struct traces_model_shape shape = shape_of(out);
    struct lw_input in;

    enum lw_status read = lw_input_read(path, 1 << 24, &in, err);
    if (read != LW_OK)
        return read == LW_ENOMEM ? read : LW_ENO;
    bool is_config = traces_is_hf_config(&in);
    enum lw_status s = traces_hf_config(&in, &out->name, &shape, err);
    lw_input_free(&in);
    if (s != LW_OK)
        return is_config ? s : LW_ENO;
    take_shape(out, &shape);
    out->config = "config.json";
    return LW_OK;
}

enum lw_status traces_model_resolve(const struct lw_model_request *request,
                                    struct lw_model_request *out, struct lw_err *err)
{
    struct lw_model_request r = *request;
    char path[4096];

    if (!text_or_null(r.config) && names_config(r.name)) {
        LW_TRY(config_path(request->name, path, sizeof path, err));
        LW_TRY(read_config(path, &r, err));
        const char *last = strrchr(request->name, '/');
        if (!lw_is_folder(request->name))
            r.config = last ? last + 1 : request->name;
    } else if (!is_model(r.name)) {
        traces_model_unknown(r.name, err);
        return LW_ENO;
    }
    const struct traces_model *m = traces_model_named(r.name);
    r.name = m ? m->name : r.name;
    *out = r;
    return LW_OK;
}

/* --- workloads --- */

static enum lw_status keep(struct lw_workload *w, const char **text, struct lw_err *err)
{
    if (!text_or_null(*text))
        *text = NULL;
    else if (!(*text = lw_arena_strdup(&w->arena, *text)))
        return lw_fail_nomem(err);
    return LW_OK;
}

/* A configuration's sizes are its own, so the workload has the name of the kind: "bloom" of
 * "bloom-560m". */
static enum lw_status name_kind(struct lw_workload *w, struct lw_err *err)
{
    char kind[32];

    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(w->from.model.name, "-"), w->from.model.name);
    w->name = kind;
    return keep(w, &w->name, err);
}

static enum lw_status note_origin(struct lw_workload *w, const struct lw_model_request *r,
                                  const struct lw_model_target *target, struct lw_err *err)
{
    struct lw_model_request *m = &w->from.model;
    struct lw_made_for *to = &w->from.made_for;
    char hash[33] = "";

    *m = *r;
    LW_TRY(keep(w, &m->name, err));
    LW_TRY(keep(w, &m->config, err));
    LW_TRY(keep(w, &m->dtype, err));
    LW_TRY(keep(w, &m->attention, err));
    LW_TRY(keep(w, &m->optimizer, err));
    LW_TRY(keep(w, &m->narrow_of, err));
    LW_TRY(keep(w, &m->fp8_recipe, err));
    LW_TRY(keep(w, &m->stored_as, err));
    LW_TRY(keep(w, &m->text_beside, err));
    *to = lw_made_for(target->strategy);
    if (target->framework)
        LW_TRY(lw_framework_hash(target->framework, hash, err));
    to->usual = target->usual;
    to->framework = target->framework ? target->framework->name : NULL;
    to->framework_hash = hash;
    LW_TRY(keep(w, &to->framework, err));
    LW_TRY(keep(w, &to->framework_hash, err));
    return m->config ? name_kind(w, err) : LW_OK;
}

static bool has_experts(const char *name, const struct traces_model_shape *given)
{
    const struct traces_model *m = traces_model_at(0);

    for (int k = 0; m && strcmp(m->name, name) != 0;)
        m = traces_model_at(++k);
    return given->experts > 0 || (m && m->defaults.experts > 0);
}

/* Whether the framework's memory is another one where training asks for a fixed order of sums. */
static bool holds_for_order(const char *name, const struct lw_model_target *target,
                            struct traces_model_shape fixed)
{
    struct traces_model_shape usual = fixed;

    if (!target->framework || !target->cluster)
        return false;
    usual.deterministic = false;
    traces_model_take_framework(target->framework, target->strategy, &target->cluster->device,
                                &fixed);
    traces_model_take_framework(target->framework, target->strategy, &target->cluster->device,
                                &usual);
    if (!has_experts(name, &fixed))
        fixed.kept &= ~(unsigned)TRACES_KEPT_SCATTERED;
    return fixed.workspace != usual.workspace || fixed.kept != usual.kept;
}

static enum lw_status note_order(struct lw_workload *w, const struct lw_model_target *target,
                                 bool idle, struct lw_err *err)
{
    char text[300];

    snprintf(text, sizeof text, LW_ASSUMPTION "--deterministic: kernels of a fixed order take the "
             "time of the usual ones%s%.60s%s",
             !idle ? "" : ", and the option changes nothing here: ",
             !idle ? "" : target->framework ? target->framework->name : "",
             !idle               ? ""
             : target->framework ? " holds no other memory for them on this device"
                                 : "without a framework (--framework NAME) and its device, no "
                                   "memory depends on it");
    return lw_note_add(&w->arena, &w->notes, &w->n_notes, text, err);
}

/* What a recipe of 8-bit products leaves as it is without one. */
static enum lw_status note_recipe(struct lw_workload *w, const struct traces_model_shape *s,
                                  struct lw_err *err)
{
    const enum lw_fp8_recipe recipe = lw_fp8_recipe_named(s->fp8_recipe);
    char text[300];

    if (lw_fp8_has_layouts(recipe))
        snprintf(text, sizeof text, LW_ASSUMPTION "--fp8-recipe %s: products take the time of "
                 "operands with one scale a tensor", s->fp8_recipe);
    else if (recipe != LW_FP8_UNSTATED && s->narrow_params)
        snprintf(text, sizeof text, LW_ASSUMPTION "--fp8-recipe %s: weights that the framework "
                 "holds in 8 bits are gathered over data-parallel ranks in 16", s->fp8_recipe);
    else
        return LW_OK;
    return lw_note_add(&w->arena, &w->notes, &w->n_notes, text, err);
}

/* Nodes of the ranks that share the experts, which follow each other; tensor ranks lie between
 * those of a group that splits or has each expert beside it. */
static int64_t expert_nodes(const struct lw_strategy *s, const struct lw_cluster *c)
{
    int64_t span = (int64_t)s->ep * (lw_strategy_folds_experts(s) ? 1 : s->tp);

    return c && c->devices_per_node > 0 && span > c->devices_per_node
               ? (span + c->devices_per_node - 1) / c->devices_per_node
               : 1;
}

enum lw_status traces_model_workload(const struct lw_model_request *request,
                                     const struct lw_model_target *target, struct lw_workload *w,
                                     struct lw_err *err)
{
    const struct lw_strategy *s = target->strategy;
    const struct lw_device none = traces_no_device();
    const struct lw_device *device = target->cluster ? &target->cluster->device : &none;
    struct lw_model_request r;
    struct lw_workload made;

    LW_TRY(traces_model_resolve(request, &r, err));
    if (r.fp8 && r.fp4)
        return lw_fail(err, LW_EINVAL,
                       "--fp8 and --fp4: products of blocks take operands of 8 bits or of 4; leave "
                       "one out");
    struct traces_model_shape shape = shape_of(&r);
    shape.fp8 = r.fp8 || r.fp4;
    shape.tensor = s->tp;
    shape.context = s->cp;
    shape.expert_ranks = s->ep;
    shape.expert_nodes = expert_nodes(s, target->cluster);
    shape.dispatch_once = s->dispatch_once;
    shape.dispatcher = s->dispatcher;
    shape.expert_folded = lw_strategy_folds_experts(s);
    shape.expert_whole = shape.expert_whole || shape.expert_folded;
    shape.sequence_parallel = s->sequence_parallel;
    bool idle = shape.deterministic && !holds_for_order(r.name, target, shape);
    shape.again_parts = s->again_parts;
    if (target->framework)
        traces_model_take_framework(target->framework, s, device, &shape);
    LW_TRY(traces_model_build(r.name, &shape, device, &made, err));
    if (r.decoder_seq == 0) /* a workload says whether it has a decoder that reads an encoder */
        r.decoder_seq = traces_model_named(r.name)->defaults.decoder_seq;
    enum lw_status status = note_origin(&made, &r, target, err);
    if (status == LW_OK && shape.deterministic)
        status = note_order(&made, target, idle, err);
    if (status == LW_OK)
        status = note_recipe(&made, &shape, err);
    LW_GIVE(status, w, made, lw_workload_free(&made));
}
