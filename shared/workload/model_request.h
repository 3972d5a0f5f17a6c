#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

struct lw_cluster;
struct lw_framework;
struct lw_strategy;
struct lw_workload;

enum { LW_MODEL_LAYERS_SIZE = 256 }; /* of a pattern of layers, with its end */
enum { LW_MOST_EXPERTS = 65536 };    /* of a block, in options and in files */

/* A model that a workload is computed from: its name, and the sizes that are not the name's own.
 * Commands fill it from their options; a workload that was made from one keeps it in its
 * provenance, so that it can be computed again for another device or other groups. 0, NULL and ""
 * = the model's own. See docs/design/model_request.md. */
struct lw_model_request {
    const char *name;   /* of `lapwing model --list`; from a user also a Hugging Face config.json or
                         * a folder that holds one. NULL, "": no model */
    const char *config; /* base name of the configuration that the sizes are of; NULL, "": none */
    int64_t batch;      /* samples of one micro-batch */
    int64_t layers, width, image, patch, hidden, heads, kv_heads, ffn, seq, vocab;
    int64_t decoder_seq; /* of a workload: more than 0, its decoder reads what its encoder makes */
    const char *dtype, *attention, *optimizer;
    const char *narrow_of; /* of fp8 or fp4: "all", "linears", "experts" or "head" */
    const char *fp8_recipe; /* word of enum lw_fp8_recipe; NULL, "": unstated */
    bool fp8, fp4, tf32;
    double expert_capacity;
    int64_t lora;           /* rank of adapters; 0: all is trained */
    int64_t experts, topk, expert_ffn, shared_ffn, dense_layers, mtp_layers;
    bool expert_whole, experts_in_turn, tied;
    int64_t positions; /* rows of a learned table of positions; 0: the model's own */
    int64_t head_waits;
    bool layer_norm, biases, dropout, fused_loss, deterministic, expert_serial, expert_gathered;
    bool fused_permute;
    bool f32_softmax, autocast;
    char layer_pattern[LW_MODEL_LAYERS_SIZE]; /* hybrids: a letter for each layer; "": its own */
    int64_t ssm_heads, ssm_head_width, ssm_groups, ssm_state, ssm_chunk, expert_latent;
    /* Of configurations alone, without an option; meanings: traces/models/models.h. */
    int64_t head_width, window, window_every, q_lora, kv_lora, rope_width, v_width;
    int64_t expert_every, expert_groups, topk_groups, mtp_stated;
    const char *stored_as; /* NULL, "": as it is trained */
    const char *text_beside; /* of config.json, left out; NULL, "": none */
    bool plain_ffn, qk_norm, qk_norm_wide, norms_after, no_norms_before, joined;
    int64_t linear_every, linear_heads, linear_key_heads, linear_width, linear_key_width;
    bool linear_split, attention_gate;
    bool shared_gate, qkv_bias, expert_bias, alibi, embedding_norm, no_bias;
};

/* What a model's workload is computed for. */
struct lw_model_target {
    const struct lw_strategy *strategy;
    const struct lw_cluster *cluster; /* NULL: sizes alone, without times */
    const struct lw_framework *framework; /* NULL: the ideal one */
    bool usual; /* the framework was chosen for the strategy and the device, and not given */
};

/* Makes the workload of a request for a target. LW_ENO: neither a model nor a configuration has
 * the request's name; err says so. */
typedef enum lw_status lw_model_maker(const struct lw_model_request *request,
                                      const struct lw_model_target *target, struct lw_workload *w,
                                      struct lw_err *err);

/* The options of a model, which every command that takes one has: one row each. */
enum lw_model_option_kind {
    LW_MODEL_INT, LW_MODEL_REAL, LW_MODEL_TEXT, LW_MODEL_FLAG,
    LW_MODEL_LAYERS, /* a pattern of layers, of LW_MODEL_LAYERS_SIZE characters in the request */
};
struct lw_model_option {
    const char *name; /* as an option, without "--" */
    enum lw_model_option_kind kind;
    size_t at;        /* of the field in struct lw_model_request */
    const char *arg, *help;
    int64_t least, most;      /* LW_MODEL_INT: of every model; a model may allow fewer */
    const char *const *words; /* LW_MODEL_TEXT: the values, NULL at the end */
};
int lw_model_n_options(void);
int lw_model_find(const char *name); /* -1 = no such option */
const struct lw_model_option *lw_model_option(int option);
/* The word of a LW_MODEL_TEXT option that the value names (a dtype has several names). */
enum lw_status lw_model_word(int option, const char *value, const char **word, struct lw_err *err);

/* A pattern of layers is of M, *, - and E; `to` holds LW_MODEL_LAYERS_SIZE characters. */
enum lw_status lw_model_layers(const char *value, char *to, struct lw_err *err);

/* Set one field by its option's name and text, which is kept by pointer. LW_EINVAL names both. */
enum lw_status lw_model_set(struct lw_model_request *r, const char *name, const char *value,
                            struct lw_err *err);
/* The option was given: its field is not as if absent. */
bool lw_model_given(const struct lw_model_request *r, int option);
/* The first option that was given, without "--"; NULL = none. */
const char *lw_model_first_given(const struct lw_model_request *r);
/* Over what `r` has: the options that `options` gives. */
void lw_model_override(struct lw_model_request *r, const struct lw_model_request *options);

static inline bool lw_model_is_set(const struct lw_model_request *r)
{
    return r->name && r->name[0];
}
