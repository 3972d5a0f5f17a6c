/* Model types of Hugging Face's config.json that no family here has, and the part that it lacks
 * (huggingface/transformers, src/transformers/models/<type>/modeling_<type>.py). A type is listed
 * where a file would otherwise be read wrongly by a family that is like it. */
#include "traces/models/hf_refused.h"

#include <stddef.h>
#include <string.h>

static const char STATES[] = "blocks of state spaces";
static const char LINEAR[] = "attention by linear recurrences";
static const char ENCODER[] = "an encoder beside a decoder";
static const char ONE_NORM[] = "attention and a gated pair from one norm";
static const char CAPPED[] = "capped scores of attention and of the vocabulary";

static const struct {
    const char *type, *why;
} refused[] = {
    {"bamba", STATES},        {"falcon_h1", STATES},   {"falcon_mamba", STATES},
    {"granitemoehybrid", STATES}, {"jamba", STATES},   {"mamba", STATES},
    {"mamba2", STATES},       {"zamba2", STATES},
    {"minimax", LINEAR},      {"kimi_linear", LINEAR}, {"rwkv", LINEAR},
    {"bart", ENCODER},        {"mt5", ENCODER},        {"t5", ENCODER},
    {"whisper", ENCODER},     {"cohere", ONE_NORM},    {"cohere2", ONE_NORM},
    {"gemma2", CAPPED},
    {"lfm2", "blocks of convolutions"}, {"lfm2_moe", "blocks of convolutions"},
    {"glm_moe_dsa", "attention to tokens that an index chooses"},
    {"exaone4", "blocks without positions among others"},
    {"apertus", "an activation with parameters"},
    {"hunyuan_v1_moe", "numbers of experts that each block has of its own"},
    {"longcat_flash", "experts without weights"},
    {"deepseek_v32", "attention to tokens that an index chooses"},
    {"gemma3n_text", "embeddings of each block"},
    {"olmo", "norms without weights"},
    {"opt", "dropout of the residual alone"},
    {"smollm3", "blocks without positions among others"},
};

const char *traces_hf_refused(const char *model_type)
{
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++)
        if (strcmp(refused[k].type, model_type) == 0)
            return refused[k].why;
    return NULL;
}
