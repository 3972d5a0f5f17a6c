/* Peaks of whole plans against closed forms: states of the ZeRO paper (Rajbhandari et al., arXiv
 * 1910.02054, sections 3 and 5: bytes per parameter = whole + shared / N) and activations of
 * Korthikanti et al. (arXiv 2205.05198, equations 1, 2, 4 and 5, and section 4.3 for the ends of
 * the model), on a GPT of 32 blocks of 4096 (GPT-3 6.7B). The forms share no code with the
 * program. Both exclude the framework's reserve. */
#include "tests/lib/unit.h"

#include <math.h>
#include <string.h>

#include "shared/timeline/param_memory.h"
#include "tests/lib/traces/model_help.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/sim/sim_help.h"

static const double S = 2048, H = 4096, L = 32, A = 32, V = 51200;

/* Parameters of a block and of the embeddings on a rank of t. */
static double block(double t)
{
    return 12 * H * H / t + 7 * H / t + 6 * H;
}

static double embedding(double t)
{
    return (V / t + S) * H;
}

enum mode { NONE, SELECTIVE, FULL };

/* Bytes of activations of a block for one sequence. */
static double kept(double t, enum mode mode, bool sp)
{
    double scores = mode == SELECTIVE ? 0 : 5 * A * S / (H * t);

    if (mode == FULL)
        return 2 * S * H / (sp ? t : 1);
    return S * H * (sp ? 34 / t + scores : 10 + 24 / t + scores);
}

/* The last norm and the input of the head, 2 S H each, and scores of 4 bytes. */
static double last(double t, bool sp)
{
    return 4 * S * H / (sp ? t : 1) + 4 * S * V / t;
}

struct row {
    const char *words;
    double n, whole, shared; /* states: (whole + shared / n) bytes per parameter */
    double t;
    enum mode mode;
    double stages;           /* of 1F1B or GPipe; the rank with the peak has one */
    double in_flight;        /* micro-batches whose blocks are kept */
    bool is_last;            /* the stage with the head; else the first one */
    double units, all;       /* whole blocks, and whole models, beside the states; of 2 bytes */
    double root;             /* embeddings beside the states, of 2 bytes */
};

static const struct row rows[] = {
    {"dp 8", 8, 18, 0, 1, NONE, 1, 1, true, 0, 0, 0},
    {"dp 8 micro-batches 4", 8, 18, 0, 1, NONE, 1, 1, true, 0, 0, 0},
    {"dp 8 recompute selective", 8, 18, 0, 1, SELECTIVE, 1, 1, true, 0, 0, 0},
    {"dp 8 recompute full", 8, 18, 0, 1, FULL, 1, 1, true, 0, 0, 0},
    {"dp 8 zero 1", 8, 4, 12, 1, NONE, 1, 1, true, 0, 0, 0},
    {"dp 16 zero 1", 16, 4, 12, 1, NONE, 1, 1, true, 0, 0, 0},
    {"dp 8 zero 1 grad-dtype f32", 8, 6, 12, 1, NONE, 1, 1, true, 0, 0, 0},
    {"dp 8 zero 2 bucket-cap 64MiB", 8, 2, 14, 1, NONE, 1, 1, true, 0, 0, 0},
    {"dp 16 zero 2 bucket-cap 64MiB recompute full", 16, 2, 14, 1, FULL, 1, 1, true, 0, 0, 0},
    {"dp 8 zero 2 no-sync 3 recompute selective", 8, 4, 12, 1, SELECTIVE, 1, 1, true, 0, 0, 0},
    {"dp 8 zero 3", 8, 0, 16, 1, NONE, 1, 1, true, 2, 0, 0},
    {"dp 16 zero 3 recompute full", 16, 0, 16, 1, FULL, 1, 1, true, 3, 0, 0},
    {"dp 8 zero 3 micro-batches 4 recompute full", 8, 0, 16, 1, FULL, 1, 1, true, 3, 0, 0},
    {"dp 16 zero 3 recompute selective", 16, 0, 16, 1, SELECTIVE, 1, 1, true, 3, 0, 0},
    {"dp 16 zero 3 root-unit on recompute selective", 16, 0, 16, 1, SELECTIVE, 1, 1, true, 3, 0, 1},
    {"dp 16 zero 3 zero-group 8 recompute selective", 8, 0, 16, 1, SELECTIVE, 1, 1, true, 3, 0, 0},
    {"dp 16 zero 3 reshard off recompute selective", 16, 0, 16, 1, SELECTIVE, 1, 1, true, 1, 1, 0},
    {"dp 8 zero 3 no-sync 3 recompute selective", 8, 2, 14, 1, SELECTIVE, 1, 1, true, 2, 0, 0},
    {"dp 2 tp 8", 2, 18, 0, 8, NONE, 1, 1, true, 0, 0, 0},
    {"dp 2 tp 8 zero 1 grad-dtype f32", 2, 6, 12, 8, NONE, 1, 1, true, 0, 0, 0},
    {"dp 2 tp 8 recompute selective sequence-parallel on", 2, 18, 0, 8, SELECTIVE, 1, 1, true, 0,
     0, 0},
    {"dp 8 tp 2 zero 3 recompute full", 8, 0, 16, 2, FULL, 1, 1, true, 3, 0, 0},
    {"dp 2 pp 4 micro-batches 16 schedule 1f1b", 2, 18, 0, 1, NONE, 4, 4, false, 0, 0, 0},
    {"dp 2 pp 4 micro-batches 16 schedule 1f1b zero 1 recompute selective", 2, 4, 12, 1, SELECTIVE,
     4, 4, false, 0, 0, 0},
    {"dp 2 pp 4 micro-batches 8 schedule gpipe zero 1 recompute selective", 2, 4, 12, 1, SELECTIVE,
     4, 8, true, 0, 0, 0},
    {"dp 2 pp 4 micro-batches 16 schedule zb-h1 zero 1 recompute selective", 2, 4, 12, 1, SELECTIVE,
     4, 4, true, 0, 0, 0},
    {"dp 2 pp 4 tp 8 micro-batches 16 schedule zb-h1 recompute selective sequence-parallel on", 2,
     18, 0, 8, SELECTIVE, 4, 4, true, 0, 0, 0},
    {"dp 2 pp 4 tp 8 micro-batches 16 schedule 1f1b zero 1 grad-dtype f32 recompute selective "
     "sequence-parallel on", 2, 6, 12, 8, SELECTIVE, 4, 4, false, 0, 0, 0},
    {"dp 2 pp 4 tp 8 micro-batches 16 schedule interleaved-1f1b chunks 2 zero 1 recompute full "
     "sequence-parallel on", 2, 4, 12, 8, FULL, 4, 4 * (1 + 3 / 8.0), false, 0, 0, 0},
    /* of 2 chunks a group of 6, 2 (4 - 1) more of the warm-up and the steady one */
    {"dp 2 pp 4 tp 8 micro-batches 16 schedule interleaved-1f1b chunks 2 micro-batch-group 6 "
     "zero 1 recompute full sequence-parallel on", 2, 4, 12, 8, FULL, 4, (6 + 6 + 1) / 2.0, false,
     0, 0, 0},
    {"dp 64 zero 3 shard-policy rows root-unit on recompute selective", 64, 0, 16, 1, SELECTIVE, 1,
     1, true, 3, 0, 1},
    {"dp 32 zero 3 zero-group 8 reshard off recompute full", 8, 0, 16, 1, FULL, 1, 1, true, 1, 1,
     0},
    {"dp 32 zero 3 no-sync 1 recompute full", 32, 2, 14, 1, FULL, 1, 1, true, 2, 0, 0},
    {"dp 16 tp 2 zero 2 bucket-cap 64MiB recompute selective sequence-parallel on", 16, 2, 14, 2,
     SELECTIVE, 1, 1, true, 0, 0, 0},
    {"dp 16 tp 2 zero 3 recompute selective sequence-parallel on", 16, 0, 16, 2, SELECTIVE, 1, 1,
     true, 3, 0, 0},
    {"dp 8 grad-dtype f32", 8, 22, 0, 1, NONE, 1, 1, true, 0, 0, 0},
};

static double closed_form(const struct row *r)
{
    bool sp = strstr(r->words, "sequence-parallel"), is_first = r->stages == 1 || !r->is_last;
    double parameters = L / r->stages * block(r->t), ends = 0;
    bool drops = (strstr(r->words, "zero 2") || strstr(r->words, "zero 3")) &&
                 !strstr(r->words, "no-sync");
    double block_bytes = kept(r->t, r->mode, sp);
    double again = r->mode == NONE ? 0 : kept(r->t, NONE, sp) - block_bytes;

    if (is_first)
        parameters += embedding(r->t);
    else
        parameters += V / r->t * H;
    if (is_first) /* the mask of a dropout */
        ends += r->in_flight * S * H / (sp ? r->t : 1);
    double head = r->is_last ? r->in_flight * last(r->t, sp) : 0;
    /* Of a split backward the gradients of the scores stay, 2 bytes each, until the half for the
     * weights, also while a block is computed again; the scores themselves do not. */
    bool splits = strstr(r->words, "zb-");
    double scores = 2 * S * V / r->t;
    if (drops && strstr(r->words, "zero 2")) /* gradients of a block, none of which is reduced */
        again += 2 * block(r->t);
    double both = splits ? head - r->in_flight * scores + (again > scores ? again : scores)
                         : head > again ? head : again;
    /* The head's backward writes the gradient that it shares with the embedding, and no owner has
     * it before the embedding's backward. */
    double tied = drops && r->stages == 1 ? 2 * embedding(r->t) : 0;
    return tied + (r->whole + r->shared / r->n) * parameters + 2 * r->units * block(r->t) +
           2 * r->all * parameters + 2 * r->root * embedding(r->t) +
           L / r->stages * r->in_flight * block_bytes + ends + both;
}

static double peak_of(const struct lw_workload *w, const char *words)
{
    struct lw_plan p = plan_of_words(w, words);
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_stats stats;
    struct lw_timeline t = {0};
    struct lw_cluster c;
    struct lw_err err = {0};
    int64_t peak[64], most = 0;

    make_cluster(&c, p.n_ranks, 1e11, 0);
    c.device.copy_bytes_per_s = given(1e12);
    assert_true(p.n_ranks <= 64);
    if (lw_sim_run(&p, &c, &o, &t, &stats, &err) != LW_OK ||
        lw_memory_peaks(&t, &p, peak, NULL, &err) != LW_OK)
        fail_msg("%s: %s", words, err.msg);
    for (int32_t r = 0; r < p.n_ranks; r++)
        most = peak[r] > most ? peak[r] : most;
    lw_timeline_free(&t);
    lw_cluster_free(&c);
    lw_plan_free(&p);
    return (double)most;
}

TEST(peaks_of_whole_plans_are_the_closed_forms)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lw_workload w =
            model_build("gpt-6.7b", (struct traces_model_shape){
                                        .batch = 1, .tensor = (int64_t)rows[i].t,
                                        .sequence_parallel = strstr(rows[i].words, "sequence")});
        double found = peak_of(&w, rows[i].words), expected = closed_form(&rows[i]);
        lw_workload_free(&w);
        /* a bucket of 64 MiB, which has left while its block's activations are summed, is 0.9 % */
        if (fabs(found / expected - 1) > 0.0095)
            fail_msg("%s: %.3f GB, the closed form gives %.3f", rows[i].words, found / 1e9,
                     expected / 1e9);
    }
}

/* --- tied and untied models ------------------------------------------------------------------- */

struct llama {
    const char *name;
    double layers, hidden, keys, ffn, vocab, tokens; /* keys: the width of keys and of values */
    bool tied;
};

/* huggingface.co: config.json of each. The peak is at the head, whose scores take the most. */
static const struct llama llamas[] = {
    {"llama-3.2-3b", 28, 3072, 1024, 8192, 128256, 8192, true},
    {"llama-3-8b", 32, 4096, 1024, 14336, 128256, 8192, false},
};

/* States of (whole + shared * share) bytes per parameter, where a share is 1 / n or FairScale's;
 * what is gathered and what gradients have room beside them when the head's backward begins. */
struct stage {
    const char *words;
    double n, whole, shared;
    bool gathers, root, all, room;
};

static const struct stage stages[] = {
    {"dp 8", 8, 18, 0, .room = false},
    {"dp 8 zero 1", 8, 4, 12, .room = false},
    {"dp 64 zero 1 zero-group 8", 8, 4, 12, .room = false},
    {"dp 8 zero 1 shard-policy oss-greedy", 8, 6, 12, .room = false},
    {"dp 8 zero 1 bucket-policy sharded-ddp", 8, 4, 12, .room = false},
    {"dp 8 zero 2 bucket-cap 64MiB", 8, 2, 14, .room = true},
    {"dp 64 zero 2 micro-batches 2 bucket-cap 64MiB", 64, 2, 14, .room = true},
    {"dp 8 zero 3", 8, 0, 16, .gathers = true, .room = true},
    {"dp 64 zero 3", 64, 0, 16, .gathers = true, .room = true},
    {"dp 64 zero 3 micro-batches 4", 64, 0, 16, .gathers = true, .room = true},
    {"dp 64 zero 3 zero-group 8", 8, 0, 16, .gathers = true, .room = true},
    {"dp 64 zero 3 root-unit on", 64, 0, 16, .gathers = true, .root = true, .room = true},
    {"dp 64 zero 3 reshard off", 64, 0, 16, .all = true, .room = true},
    {"dp 64 zero 3 no-sync 1", 64, 2, 14, .gathers = true, .room = false},
};

/* With full recomputation: tokens take 8 bytes, inputs of the blocks, of the last norm and of the
 * head 2, scores 4. The head's gradient has room of its own, or that of the embedding where they
 * are tied, which then stays until the embedding's backward. */
static double llama_form(const struct llama *m, const struct stage *z, double fullest)
{
    double table = m->vocab * m->hidden;
    double of_block = m->hidden * (2 * m->hidden + 2 * m->keys + 3 * m->ffn + 2);
    double root = table * (m->tied ? 1 : 2) + m->hidden;
    double parameters = m->layers * of_block + root;
    double share = strstr(z->words, "oss") || strstr(z->words, "sharded") ? fullest : 1 / z->n;
    double beside = 0;

    if (z->gathers)
        beside += 2 * (z->root ? root + of_block : table + of_block);
    if (z->all)
        beside += 2 * parameters;
    if (z->room)
        beside += 2 * (z->root ? root : table);
    return (z->whole + z->shared * share) * parameters + beside +
           m->tokens * (8 + m->hidden * (2 * m->layers + 4) + 4 * m->vocab);
}

TEST(peaks_of_tied_and_untied_models_are_the_closed_forms)
{
    for (size_t m = 0; m < sizeof llamas / sizeof *llamas; m++) {
        struct lw_workload w = model_build(llamas[m].name, (struct traces_model_shape){.batch = 1});
        for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
            const struct stage *z = &stages[i];
            char words[128];
            snprintf(words, sizeof words, "%s recompute full", z->words);
            double found = peak_of(&w, words);
            double expected = llama_form(&llamas[m], z, model_fullest_share(&w, (int)z->n));
            if (fabs(found / expected - 1) > 0.004)
                fail_msg("%s, %s: %.3f GB, the closed form gives %.3f", llamas[m].name, words,
                         found / 1e9, expected / 1e9);
        }
        lw_workload_free(&w);
    }
}
