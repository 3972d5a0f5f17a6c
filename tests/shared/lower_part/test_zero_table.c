/* The table of docs/design/zero.md, row by row on whole plans: what each option set moves per
 * rank and step, and what a rank keeps per parameter; and the peak of llama-2-70b under ZeRO-3
 * from its parts. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shared/lower/lower.h"
#include "shared/plan/op.h"
#include "shared/timeline/param_memory.h"
#include "shared/workload/buffer.h"
#include "tests/lib/plans/freeze.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/sim/sim_help.h"
#include "tests/lib/traces/model_help.h"

/* Times its payload that a rank sends at the least: Thakur et al., IJHPCA 2005, section 4; of
 * rooted operations each byte reaches or leaves a rank once. */
static double factor(enum lw_op_kind kind, double n)
{
    switch (kind) {
    case LW_OP_ALL_REDUCE: return 2 * (n - 1) / n;
    case LW_OP_REDUCE_SCATTER:
    case LW_OP_ALL_GATHER: return (n - 1) / n;
    case LW_OP_REDUCE:
    case LW_OP_BROADCAST: return 1;
    default: return 0;
    }
}

/* Bytes that rank 0 moves in the last variant, over those of the model in bf16. */
static double volume(const struct lw_plan *p, double model_bytes)
{
    struct lw_program g = lw_plan_program(p, p->n_variants - 1, 0);
    double bytes = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (p->ops[i].comm >= 0)
            bytes += factor((enum lw_op_kind)p->ops[i].kind,
                            lw_plan_group(p, p->ops[i].comm, 0)->n_members) *
                     (double)p->ops[i].bytes;
    return bytes / model_bytes;
}

static double kept(const struct lw_plan *p)
{
    return (double)lw_memory_fixed(p, 0);
}

static void near(double found, double expected, double within, const char *what)
{
    if (fabs(found / expected - 1) > within)
        fail_msg("%s: %.4f, expected %.4f", what, found, expected);
}

struct row {
    const char *words;
    double ring, rooted;      /* volume = ring * (N - 1) / N + rooted */
    double whole, shared;     /* bytes per parameter = whole + shared / N */
    int group;                /* N, in place of all ranks; R groups: 2 (R - 1) / R / N more */
};

/* Of docs/design/zero.md. The head, or the root unit of embedding and head, is gathered once. */
static const struct row rows[] = {
    {"zero 0", 2, 0, 18, 0, 0},
    {"zero 1 shard-policy oss-greedy", 2, 1, 6, 12, 0},
    {"zero 1 bucket-policy sharded-ddp", 0, 2, 4, 12, 0},
    {"zero 1", 2, 0, 4, 12, 0},
    {"zero 1 zero-group 8", 2, 0, 4, 12, 8},
    {"zero 1 grad-dtype f32", 3, 0, 6, 12, 0},
    {"zero 2", 2, 0, 2, 14, 0},
    {"zero 3 reshard off", 2, 0, 0, 16, 0},
    {"zero 3", 3, 0, 0, 16, 0},
    {"zero 3 root-unit on", 3, 0, 0, 16, 0},
    {"zero 3 zero-group 8", 3, 0, 0, 16, 8},
    {"zero 3 shard-policy rows root-unit on", 3, 0, 0, 16, 0},
    {"zero 3 shard-policy rows reshard off", 2, 0, 0, 16, 0},
};

static double share_of_module(const struct lw_workload *w, int32_t module)
{
    int64_t of_module = 0;

    for (int32_t i = 0; i < w->n_params; i++)
        if (w->params[i].module == module && w->params[i].tied < 0)
            of_module += w->params[i].numel;
    return (double)of_module / (double)lw_workload_numel(w, true);
}

/* Two sizes of llama on 2 to 64 ranks: 76 plans. Padding adds some: 3 %. */
TEST(volumes_and_bytes_are_those_of_the_table)
{
    static const char *const models[] = {"llama-2-7b", "llama-3-8b"};
    static const int dp[] = {2, 6, 8, 64};
    int n_plans = 0;

    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct lw_workload w = model_build(models[m], (struct traces_model_shape){
                                               .dtype = "bf16", .optimizer = "adam"});
        double numel = (double)lw_workload_numel(&w, true);
        double once = share_of_module(&w, w.n_modules - 1);
        for (size_t d = 0; d < sizeof dp / sizeof *dp; d++)
            for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                char words[128];
                const struct row *r = &rows[i];
                bool whole = strstr(r->words, "oss") || strstr(r->words, "sharded");
                double n = r->group > 0 ? r->group : dp[d], copies = dp[d] / n;
                double moved = r->ring * (n - 1) / n + r->rooted + 2 * (copies - 1) / copies / n;
                double share = whole ? model_fullest_share(&w, dp[d]) : 1 / n;
                if (dp[d] < r->group || (r->group > 0 && dp[d] % r->group != 0))
                    continue;
                snprintf(words, sizeof words, "dp %d %s", dp[d], r->words);
                struct lw_plan p = plan_of_words(&w, words);
                if (r->ring == 3 && r->whole == 0)
                    moved -= once * (n - 1) / n;
                if (strstr(r->words, "root"))
                    moved -= share_of_module(&w, 0) * (n - 1) / n;
                near(volume(&p, 2 * numel), moved, 0.005, words);
                near(kept(&p) / numel, r->whole + r->shared * share, whole ? 1e-5 : 0.03, words);
                lw_plan_free(&p);
                n_plans++;
            }
        lw_workload_free(&w);
    }
    assert_int_equal(n_plans, 2 * (4 * 11 + 2 * 2));
}

/* Bytes that rank 0 moves in the second simulated step, over those of the model in bf16; those of
 * broadcasts apart. */
static double simulated_volume(const struct lw_plan *p, double model_bytes, double *broadcast)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_stats stats;
    struct lw_timeline t = {0};
    struct lw_cluster c;
    struct lw_err err = {0};
    double bytes = 0;

    make_cluster(&c, p->n_ranks, 1e12, 0);
    c.device.copy_bytes_per_s = given(1e12);
    o.n_steps = 2;
    assert_ok(lw_sim_run(p, &c, &o, &t, &stats, &err), err);
    *broadcast = 0;
    for (int64_t i = 0; i < t.n; i++) {
        const struct lw_op *op = &p->ops[t.op[i]];
        if (t.step[i] != 1 || t.rank[i] != 0 || op->comm < 0)
            continue;
        double moved = factor((enum lw_op_kind)op->kind,
                              lw_plan_group(p, op->comm, 0)->n_members) * (double)op->bytes;
        *(op->kind == LW_OP_BROADCAST ? broadcast : &bytes) += moved;
    }
    lw_timeline_free(&t);
    lw_cluster_free(&c);
    return bytes / model_bytes;
}

/* Steps of four passes, as the table of docs/design/zero.md has them. `ring` as above; `head` and
 * `root`: gathers that the head, and embedding and head as the root unit, do not take part in. */
static const struct accumulation {
    const char *words;
    double ring, head, root;
    bool sends_buffers;
} accumulations[] = {
    {"zero 0 micro-batches 4", 2, 0, 0, true},
    {"zero 0 no-sync 3", 2, 0, 0, true},
    {"zero 1 micro-batches 4", 2, 0, 0, false},
    {"zero 1 no-sync 3", 2, 0, 0, false},
    {"zero 2 micro-batches 4", 4 + 1, 0, 0, false},
    {"zero 2 no-sync 3", 1 + 1, 0, 0, false},
    {"zero 3 micro-batches 4", 4 + 8, 4, 0, false},
    {"zero 3 no-sync 3", 1 + 8, 4, 0, false},
    {"zero 3 micro-batches 4 reshard off", 4 + 4, 0, 0, false},
    {"zero 3 no-sync 3 reshard off", 1 + 1, 0, 0, false},
    {"zero 3 micro-batches 4 root-unit on", 4 + 8, 0, 4, false},
    {"zero 3 no-sync 3 root-unit on", 1 + 8, 0, 4, false},
};

TEST(steps_of_four_passes_move_what_the_frameworks_move)
{
    struct lw_workload w = model_build("llama-2-7b", (struct traces_model_shape){
                                           .dtype = "bf16", .optimizer = "adam"});
    struct lw_buffer buffer = {"running_mean", 1000, LW_F32, true};
    const double n = 4, bytes = 2 * (double)lw_workload_numel(&w, true);
    const double head = share_of_module(&w, w.n_modules - 1), root = head + share_of_module(&w, 0);

    w.buffers = &buffer;
    w.n_buffers = 1;
    for (size_t i = 0; i < sizeof accumulations / sizeof *accumulations; i++) {
        const struct accumulation *x = &accumulations[i];
        char words[128];
        double broadcast;
        snprintf(words, sizeof words, "dp 4 %s", x->words);
        struct lw_plan p = plan_of_words(&w, words);
        near(simulated_volume(&p, bytes, &broadcast),
             (x->ring - x->head * head - x->root * root) * (n - 1) / n, 0.005, words);
        if ((broadcast > 0) != x->sends_buffers)
            fail_msg("%s: %.0f bytes of buffers are broadcast", words, broadcast);
        lw_plan_free(&p);
    }
    lw_workload_free(&w);
}

/* torch/distributed/fsdp/_fully_shard/_fsdp_param.py, _init_sharded_param: a parameter is chunked
 * by its first dimension, and every rank allocates and sends what the first chunk has. GPT-2 with
 * 50257 tokens on 64 ranks: 786 rows of the embedding, and 64 x 786 - 50257 = 47 of padding. */
static int64_t chunk_of(int64_t n_rows, int64_t columns, int64_t n)
{
    return (n_rows + n - 1) / n * columns;
}

/* Bytes of a block of GPT-2 over n ranks. */
static int64_t block_bytes(int64_t n)
{
    const int64_t h = 768, ffn = 4 * h;
    int64_t elements = 2 * 2 * chunk_of(h, 1, n) + chunk_of(3 * h, h, n) +
                       chunk_of(3 * h, 1, n) + chunk_of(h, h, n) + chunk_of(h, 1, n) +
                       chunk_of(ffn, h, n) + chunk_of(ffn, 1, n) + chunk_of(h, ffn, n) +
                       chunk_of(h, 1, n);

    return 2 * n * elements;
}

/* Operations on whole blocks in a pass of all stages. */
static int count_blocks(const struct lw_plan *p, enum lw_op_kind kind, int64_t bytes)
{
    int found = 0;

    for (int32_t r = 0; r < p->n_roles; r++) {
        struct lw_program g = p->programs[(int64_t)(p->n_variants - 1) * p->n_roles + r];
        for (int32_t k = g.first_op; k < g.first_op + g.n_ops; k++)
            found += p->ops[k].kind == kind && p->ops[k].bytes == bytes;
    }
    return found;
}

/* Stages and model chunks cut rows among the ranks that hold them: the six of a dualpipe's stage
 * pair, else three. Each block is reduced once. */
TEST(pipelines_cut_rows_too)
{
    static const struct {
        const char *words;
        int n;
    } each[] = {{"schedule 1f1b", 3}, {"schedule interleaved-1f1b chunks 3", 3},
                {"schedule looped-bfs chunks 2", 3}, {"schedule zbv", 3}, {"schedule zb-h2", 3},
                {"schedule dualpipe", 6}};
    struct lw_workload w = model_build("gpt2", (struct traces_model_shape){
                                           .vocab = 50257, .dtype = "bf16", .optimizer = "adam"});

    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        char words[128];
        int copies = each[i].n / 3;
        snprintf(words, sizeof words, "dp 3 pp 2 micro-batches 4 zero 3 shard-policy rows %s",
                 each[i].words);
        struct lw_plan p = plan_of_words(&w, words);
        int64_t bytes = block_bytes(each[i].n);
        if (count_blocks(&p, LW_OP_REDUCE_SCATTER, bytes) != 12 * copies)
            fail_msg("%s: %d reduce-scatters", words,
                     count_blocks(&p, LW_OP_REDUCE_SCATTER, bytes));
        assert_true(count_blocks(&p, LW_OP_ALL_GATHER, bytes) >= 12);
        lw_plan_free(&p);
    }
    lw_workload_free(&w);
}

TEST(rows_are_cut_as_fsdp2_cuts_them)
{
    static const int64_t world[] = {3, 8, 64};
    const int64_t h = 768;
    struct lw_workload w = model_build("gpt2", (struct traces_model_shape){
                                           .vocab = 50257, .dtype = "bf16", .optimizer = "adam"});

    for (int i = 0; i < 3; i++) {
        int64_t n = world[i], masks = 0;
        char words[64];
        snprintf(words, sizeof words, "dp %d zero 3 shard-policy rows", (int)n);
        struct lw_plan p = plan_of_words(&w, words);
        assert_int_equal(count_blocks(&p, LW_OP_REDUCE_SCATTER, block_bytes(n)), 12);
        int64_t all = 12 * block_bytes(n) / 2 / n + chunk_of(50257, h, n) + chunk_of(1024, h, n) +
                      2 * chunk_of(h, 1, n);
        for (int32_t b = 0; b < w.n_buffers; b++)
            masks += w.buffers[b].numel * lw_dtype_size(w.buffers[b].dtype);
        near(kept(&p), 16.0 * (double)all + (double)masks, 1e-9, words);
        lw_plan_free(&p);
    }
    w.params[3].rows = 0;
    struct lw_strategy s = strategy("dp 8 zero 3 shard-policy rows");
    struct lw_err err = {0};
    struct lw_plan none;
    assert_int_equal(lw_plan_build(&w, &s, NULL, &none, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "has no \"rows\" in the workload"));
    w.params[3].rows = 1; /* one row of 2^57 elements on each of 64 ranks */
    w.params[3].numel = (int64_t)1 << 57;
    s = strategy("dp 64 zero 3 shard-policy rows");
    assert_int_equal(lw_plan_build(&w, &s, NULL, &none, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "has more than 2^59 elements on 64 ranks"));
    s = strategy("dp 8 zero 2 shard-policy rows");
    assert_int_equal(lw_plan_build(&w, &s, NULL, &none, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "it needs --zero 3, not 2"));
    lw_workload_free(&w);
}

/* Adapters: only vectors are trained. A rank keeps 2/64 bytes of each frozen element and 16/64 of
 * the others, and gathers all of them as without adapters. */
TEST(frozen_parameters_are_sharded)
{
    struct lw_workload w = model_build("llama-2-7b", (struct traces_model_shape){
                                           .dtype = "bf16", .optimizer = "adam"});
    double all = (double)lw_workload_numel(&w, true);
    double moved = 2 - share_of_module(&w, w.n_modules - 1);

    for (int32_t i = 0; i < w.n_params; i++)
        if (w.params[i].numel >= 100000)
            freeze(&w, i);
    double trained = (double)lw_workload_numel(&w, true);
    assert_true(trained > 0 && trained < 0.001 * all);
    struct lw_plan p = plan_of_words(&w, "dp 64 zero 3");
    near(kept(&p), (2 * (all - trained) + 16 * trained) / 64, 0.03, "bytes of a rank");
    near(volume(&p, 2 * all), (moved + trained / all) * 63 / 64, 0.005, "volume");
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* 27 GiB and not the 154 that every bucket at once would make: 16/64 bytes of each parameter,
 * two gathered units, the gradients of one, and activations: full recomputation keeps the input
 * of each of 80 blocks, and one block is whole while its backward runs. */
TEST(seventy_billion_parameters_fit)
{
    struct lw_workload w = model_build("llama-2-70b", (struct traces_model_shape){0});
    struct lw_plan p = plan_of_words(&w, "dp 64 zero 3 recompute full");
    struct lw_cluster c;
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_stats stats;
    struct lw_timeline t = {0};
    struct lw_err err = {0};
    int64_t peak[64];
    double numel = (double)lw_workload_numel(&w, true), unit = share_of_module(&w, 1) * numel * 2;
    double activations = 0;

    make_cluster(&c, 64, 1e12, 0);
    c.device.copy_bytes_per_s = given(1e12);
    if (lw_sim_run(&p, &c, &o, &t, &stats, &err) != LW_OK ||
        lw_memory_peaks(&t, &p, peak, NULL, &err) != LW_OK)
        fail_msg("%s", err.msg);
    for (int32_t m = 0; m < w.n_modules; m++)
        activations += (double)w.modules[m].kept_bytes[LW_RECOMPUTE_FULL];
    activations += (double)(w.modules[1].kept_bytes[LW_RECOMPUTE_NONE] -
                            w.modules[1].kept_bytes[LW_RECOMPUTE_FULL]);
    near((double)peak[0], numel * 16 / 64 + 3 * unit + activations, 0.03, "peak");
    near((double)peak[0] / (1 << 30), 27, 0.03, "GiB");
    lw_timeline_free(&t);
    lw_cluster_free(&c);
    lw_plan_free(&p);
    lw_workload_free(&w);
}
