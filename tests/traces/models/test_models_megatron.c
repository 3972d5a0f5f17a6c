/* What Megatron-LM keeps and holds: closed forms of bytes. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/files/files.h"
#include "shared/framework/framework.h"
#include "shared/strategy/strategy.h"
#include "traces/models/model_workload.h"

enum { LAYERS = 2, HIDDEN = 512, HEADS = 8, FFN = 2048, SEQ = 1024, BATCH = 4, VOCAB = 50304 };
enum { TOKENS = BATCH * SEQ, BLOCK = 1, HEAD = LAYERS + 1, SCORES = HEADS * SEQ };
static const int64_t MiB = 1 << 20, KiB = 1 << 10;

/* GPT of Megatron's defaults. */
static struct lw_model_request gpt(void)
{
    return (struct lw_model_request){
        .name = "decoder", .layers = LAYERS, .hidden = HIDDEN, .heads = HEADS, .ffn = FFN,
        .seq = SEQ, .batch = BATCH, .vocab = VOCAB, .positions = SEQ, .plain_ffn = true,
        .layer_norm = true, .biases = true, .dropout = true, .tied = true, .dtype = "bf16",
        .attention = "full"};
}

/* Each option a word: "tp=2". kind: the device's name in its cluster file, NULL = as it is. */
static struct lw_workload made_on(const struct lw_model_request *r, const char *device,
                                  const char *kind, const char *words)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_framework f;
    struct lw_cluster c;
    struct lw_workload w;
    struct lw_err err;
    char cut[100];

    snprintf(cut, sizeof cut, "%s", words);
    for (char *rest = cut, *o; (o = strtok_r(rest, " ", &rest));) {
        char *value = strchr(o, '=');
        *value++ = '\0';
        assert_ok(lw_strategy_set(&s, o, value, &err), err);
    }
    assert_ok(lw_framework_find("megatron-lm", &f, &err), err);
    assert_ok(lw_cluster_find(device, &c, &err), err);
    c.device.kind = kind ? kind : c.device.kind;
    struct lw_model_target target = {.strategy = &s, .cluster = &c, .framework = &f};
    assert_ok(traces_model_workload(r, &target, &w, &err), err);
    lw_cluster_free(&c);
    lw_framework_free(&f);
    return w;
}

static struct lw_workload made(const struct lw_model_request *r, const char *device,
                               const char *words)
{
    return made_on(r, device, NULL, words);
}

static int64_t kept_of(const struct lw_model_request *r, const char *device, const char *words,
                       int32_t module)
{
    struct lw_workload w = made(r, device, words);
    int64_t bytes = w.modules[module].kept_bytes[LW_RECOMPUTE_NONE];

    lw_workload_free(&w);
    return bytes;
}

static int64_t kept(const struct lw_model_request *r, const char *device, int32_t module)
{
    return kept_of(r, device, "dp=8", module);
}

static int64_t workspace(const struct lw_model_request *r, const char *device, const char *words)
{
    struct lw_workload w = made(r, device, words);
    int64_t bytes = w.dims.workspace;

    lw_workload_free(&w);
    return bytes;
}

/* 34 s b h and 5 a s s b; softmax in f32 keeps 4 bytes of a score in place of 2, and its cast. */
TEST(a_block_of_gpt_keeps_what_korthikanti_counts)
{
    struct lw_model_request r = gpt();
    int64_t all = (int64_t)TOKENS * (34 * HIDDEN + 5 * SCORES);

    assert_int_equal(kept(&r, "dgx-h100", BLOCK), all);
    r.f32_softmax = true;
    assert_int_equal(kept(&r, "dgx-h100", BLOCK), all + (int64_t)TOKENS * 2 * SCORES);
}

TEST(without_dropout_no_masks_are_kept)
{
    struct lw_model_request r = gpt();

    r.dropout = false;
    assert_int_equal(kept(&r, "dgx-h100", BLOCK), (int64_t)TOKENS * (32 * HIDDEN + 2 * SCORES));
}

/* FlashAttention's result is there in two orders, cuDNN's in one: cuDNN from Hopper on, but not in
 * a fixed order on Blackwell. */
TEST(fused_attention_s_result_is_kept_as_the_kernel_of_the_device_leaves_it)
{
    static const struct {
        const char *device;
        bool deterministic, twice;
    } cases[] = {{"dgx-a100", false, true}, {"dgx-h100", true, false}, {"dgx-h100", false, false},
                 {"gb200", true, true},     {"gb200", false, false}};
    int64_t once = (int64_t)TOKENS * (34 * HIDDEN + 4 * HEADS), more = (int64_t)TOKENS * 2 * HIDDEN;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_model_request r = gpt();
        r.attention = "flash";
        r.deterministic = cases[i].deterministic;
        assert_int_equal(kept(&r, cases[i].device, BLOCK), once + (cases[i].twice ? more : 0));
    }
}

/* The norm's input and output; of a score 2 bytes and an f32 copy, compiled two copies; the batch's
 * mask of all pairs. Waiting micro-batches have their scores' gradients and inputs. */
TEST(the_loss_holds_scores_and_their_copy)
{
    struct lw_model_request r = gpt();
    int64_t scores = (int64_t)TOKENS * VOCAB, mask = (int64_t)BATCH * SEQ * SEQ;
    int64_t all = 4 * TOKENS * HIDDEN + 6 * scores + mask;

    assert_int_equal(kept(&r, "dgx-h100", HEAD), all);
    r.fused_loss = true;
    assert_int_equal(kept(&r, "dgx-h100", HEAD), all + 4 * scores);
    r.fused_loss = false;
    r.head_waits = 2;
    assert_int_equal(kept(&r, "dgx-h100", HEAD),
                     all + 2 * 2 * (scores + TOKENS * HIDDEN) + 2 * VOCAB * HIDDEN);
    r = gpt();
    r.dtype = "f32";
    assert_int_equal(kept(&r, "dgx-h100", HEAD), 8 * TOKENS * HIDDEN + 4 * scores + mask);
}

/* Latent attention of options: narrow and wide products of queries and of keys and values, a norm
 * of each narrow one, and the product of all heads' values; without --q-lora queries have one. */
TEST(latent_attention_of_options_has_its_parameters)
{
    enum { Q = 192, KV = 64, PLAIN = 16, ROTATED = 8, V = 24 };
    struct lw_model_request r = gpt();
    int64_t kv = HIDDEN * (KV + ROTATED) + KV + KV * HEADS * (PLAIN + V), out = HEADS * V * HIDDEN;
    int64_t rest = (int64_t)HIDDEN * (2 * FFN + 2), ends = 2 * VOCAB * HIDDEN + HIDDEN;

    r.head_width = PLAIN;
    r.kv_lora = KV;
    r.rope_width = ROTATED;
    r.v_width = V;
    r.positions = 0;
    r.layer_norm = r.biases = r.tied = false;
    for (r.q_lora = 0; r.q_lora <= Q; r.q_lora += Q) {
        int64_t wide = HEADS * (PLAIN + ROTATED);
        int64_t q = r.q_lora > 0 ? HIDDEN * Q + Q + Q * wide : HIDDEN * wide, n = 0;
        struct lw_workload w = made(&r, "dgx-h100", "dp=8");
        for (int32_t i = 0; i < w.n_params; i++)
            n += w.params[i].numel;
        assert_int_equal(n, LAYERS * (q + kv + out + rest) + ends);
        lw_workload_free(&w);
    }
}

/* Of two handles of cuBLAS, and TransformerEngine's. */
TEST(workspaces_are_those_of_the_device)
{
    static const struct {
        const char *device;
        bool deterministic;
        int64_t kib;
    } cases[] = {{"dgx-a100", true, 68 * 1024}, {"dgx-a100", false, 16640 + 4 * 1024},
                 {"dgx-h100", true, 96 * 1024 + 1}, {"dgx-h100", false, 96 * 1024 + 1},
                 {"gb200", true, 96 * 1024 + 1}, {"gb200", false, 16640 + 32 * 1024 + 1},
                 {"mi300x", false, 0}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_model_request r = gpt();
        r.deterministic = cases[i].deterministic;
        assert_int_equal(workspace(&r, cases[i].device, "dp=8"), cases[i].kib * KiB);
    }
}

/* Hopper's workspaces and kept bytes are the same in any order; A100's are not. */
TEST(a_fixed_order_that_changes_nothing_is_said)
{
    static const struct {
        const char *device;
        bool deterministic, said, idle;
    } cases[] = {{"dgx-a100", true, true, false}, {"dgx-h100", true, true, true},
                 {"dgx-h100", false, false, false}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_model_request r = gpt();
        bool said = false, idle = false;
        r.deterministic = cases[i].deterministic;
        struct lw_workload w = made(&r, cases[i].device, "dp=8");
        for (int32_t k = 0; k < w.n_notes; k++) {
            said |= strstr(w.notes[k], "--deterministic: kernels of a fixed order take the time "
                                       "of the usual ones") != NULL;
            idle |= strstr(w.notes[k], "changes nothing here: megatron-lm holds no other memory "
                                       "for them on this device") != NULL;
        }
        assert_int_equal(said, cases[i].said);
        assert_int_equal(idle, cases[i].idle);
        lw_workload_free(&w);
    }
}

static int n_notes_of_workspaces(const struct lw_workload *w)
{
    int n = 0;

    for (int32_t i = 0; i < w->n_notes; i++)
        n += strstr(w->notes[i], "workspaces of libraries on ") != NULL;
    return n;
}

/* A driver's name of a device gives the workspaces, the kept bytes and the times of its kind. */
TEST(a_device_s_names_are_one_device)
{
    static const struct {
        const char *system, *name;
    } cases[] = {{"dgx-h100", "NVIDIA H100 80GB HBM3"}, {"dgx-a100", "NVIDIA A100-SXM4-80GB"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_model_request r = gpt();
        r.attention = "flash";
        struct lw_workload a = made(&r, cases[i].system, "dp=8");
        struct lw_workload b = made_on(&r, cases[i].system, cases[i].name, "dp=8");
        assert_true(a.dims.workspace > 0);
        assert_int_equal(a.dims.workspace, b.dims.workspace);
        assert_int_equal(a.modules[BLOCK].forward_ps, b.modules[BLOCK].forward_ps);
        assert_int_equal(a.modules[BLOCK].kept_bytes[0], b.modules[BLOCK].kept_bytes[0]);
        assert_int_equal(n_notes_of_workspaces(&a), 0);
        assert_int_equal(n_notes_of_workspaces(&b), 0);
        lw_workload_free(&a);
        lw_workload_free(&b);
    }
}

TEST(a_device_without_known_workspaces_is_said)
{
    struct lw_model_request r = gpt();
    struct lw_workload w = made(&r, "mi300x", "dp=8");

    assert_int_equal(w.dims.workspace, 0);
    assert_int_equal(n_notes_of_workspaces(&w), 1);
    lw_workload_free(&w);
}

/* Three more for products in pieces; the head's gathered input; four more for grouped products; all
 * tokens of a group of experts. */
TEST(groups_add_workspaces_and_buffers)
{
    struct lw_model_request r = gpt();
    int64_t own = 96 * MiB + KiB, engine = 32 * MiB + KiB, tokens = (int64_t)TOKENS * HIDDEN * 2;

    assert_int_equal(workspace(&r, "dgx-h100", "tp=2"), own);
    assert_int_equal(workspace(&r, "dgx-h100", "tp=2 sequence-parallel=on"), own + tokens);
    assert_int_equal(workspace(&r, "dgx-h100", "tp=2 tp-overlap=pieces"), own + 3 * engine);
    r.experts = 8;
    r.topk = 2;
    r.expert_ffn = FFN;
    assert_int_equal(workspace(&r, "dgx-h100", "dp=4 ep=4"), own + 4 * engine);
    r.expert_serial = true;
    assert_int_equal(workspace(&r, "dgx-h100", "dp=4 ep=4"), own);
    r.expert_gathered = true;
    assert_int_equal(workspace(&r, "dgx-h100", "dp=4 ep=4"), own + 4 * tokens);
}

/* A token goes to two experts: input of the first product, its result, the activation before and
 * after the token's weight. */
TEST(plain_experts_keep_their_activation_twice)
{
    struct lw_model_request r = gpt();
    int64_t dense = kept(&r, "dgx-h100", BLOCK), scores = 2 * 4 * TOKENS * 8;

    r.experts = 8;
    r.topk = 2;
    r.expert_ffn = FFN;
    assert_int_equal(kept(&r, "dgx-h100", BLOCK) - dense,
                     (int64_t)TOKENS * (2 * (2 * HIDDEN + 6 * FFN) - 4 * FFN) + scores);
}

/* Sums in a fixed order (index_add_) keep each expert's result: 2 h of a copy. Of a tensor group's
 * gathered tokens a rank has all; a plan divides by the group. Fused kernels keep none. */
TEST(sums_in_a_fixed_order_keep_what_experts_give)
{
    static const struct {
        bool deterministic, fused, gathered;
        const char *strategy;
        int64_t copies; /* of the group's tokens, as kept in the workload */
    } cases[] = {{true, false, false, "dp=8", 2 * TOKENS},   {false, false, false, "dp=8", 0},
                 {true, true, false, "dp=8", 0},
                 {true, false, true, "dp=8", 2 * TOKENS},
                 {true, false, true, "dp=4 tp=2 sequence-parallel=on", 4 * TOKENS},
                 {true, false, false, "dp=4 tp=2 sequence-parallel=on", 2 * TOKENS}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_model_request r = gpt();
        r.experts = 8;
        r.topk = 2;
        r.expert_ffn = FFN;
        r.expert_gathered = cases[i].gathered;
        int64_t usual = kept_of(&r, "dgx-h100", cases[i].strategy, BLOCK);
        r.deterministic = cases[i].deterministic;
        r.fused_permute = cases[i].fused;
        assert_int_equal(kept_of(&r, "dgx-h100", cases[i].strategy, BLOCK) - usual,
                         cases[i].copies * HIDDEN * 2);
    }
}

/* Parameters of Megatron's GPT: 12 h h + 13 h of a block, both tables, the last norm. */
TEST(a_decoder_of_options_has_gpt_s_parameters)
{
    struct lw_model_request r = gpt();
    struct lw_workload w = made(&r, "dgx-h100", "dp=8");
    int64_t n = 0;

    for (int32_t i = 0; i < w.n_params; i++)
        n += w.params[i].tied < 0 ? w.params[i].numel : 0;
    assert_int_equal(n, LAYERS * (12 * HIDDEN * HIDDEN + 13 * HIDDEN) + (VOCAB + SEQ) * HIDDEN +
                            2 * HIDDEN);
    lw_workload_free(&w);
}
