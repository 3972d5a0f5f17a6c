/* No prediction beats the hardware. Random models, clusters, layouts, schedules, ZeRO stages and
 * levels of detail; bounds that follow from what the devices and links can do, by formulas of this
 * file. LAPWING_TEST_SEED repeats a run. */
#include "tests/lib/unit.h"

#include <math.h>
#include <string.h>

#include "shared/files/files.h"
#include "shared/lower/lower.h"
#include "shared/plan/op.h"
#include "shared/timeline/period_figures.h"
#include "shared/timeline/throughput.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/sim.h"
#include "tests/lib/plans/random_strategy.h"
#include "traces/models/models.h"

enum { MAX_NODES = 64, MAX_WORDS = 600 };

struct drawn {
    const char *model, *system;
    struct traces_model_shape shape; /* of one rank */
    struct lw_cluster c;
    struct lw_strategy s;
    struct lw_sim_options o;
    char words[MAX_WORDS];
    /* made of them */
    struct lw_workload w;
    struct lw_plan p;
    struct lw_timeline t;
    struct lw_summary sum;
    struct lw_throughput rate;
};

/* --- drawing --- */

static const char *pick(struct prng *r, const char *const *words, int n)
{
    return words[prng_below(r, n)];
}
#define PICK(r, words) pick(r, words, (int)(sizeof(words) / sizeof *(words)))

static void give(struct drawn *d, const char *name, const char *value)
{
    size_t at = strlen(d->words);
    struct lw_err err = {0};

    assert_ok(lw_strategy_set(&d->s, name, value, &err), err);
    snprintf(d->words + at, sizeof d->words - at, " --%s %s", name, value);
}

static void give_number(struct drawn *d, const char *name, int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)value);
    give(d, name, text);
}

static void draw_pipeline(struct prng *r, struct drawn *d)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "interleaved-1f1b", "zb-h1", "zb-h2",
                                            "zbv", "dualpipe", "dualpipev", "looped-bfs",
                                            "interleaved-zb", "v-half"};

    give_number(d, "pp", prng_in(r, 2, 4));
    const char *schedule = PICK(r, schedules);
    give(d, "schedule", schedule);
    if (strstr(schedule, "interleaved") || strstr(schedule, "looped"))
        give(d, "chunks", "2");
    give_number(d, "micro-batches", d->s.pp * prng_in(r, 1, 4));
}

static void draw_sharding(struct prng *r, struct drawn *d)
{
    static const char *const owners[] = {"oss-greedy", "lpt"};

    give_number(d, "zero", prng_in(r, 0, 3));
    if (d->s.zero == 1 && prng_in(r, 0, 3) == 0)
        give(d, "shard-policy", PICK(r, owners));
    if (d->s.zero == 3 && prng_in(r, 0, 2) == 0)
        give(d, "reshard", "off");
    if (d->s.zero == 3 && prng_in(r, 0, 2) == 0)
        give(d, "root-unit", "on");
    if (d->s.zero > 0 && d->s.dp % 4 == 0 && prng_in(r, 0, 3) == 0)
        give_number(d, "zero-group", d->s.dp / 2);
    if (prng_in(r, 0, 3) == 0)
        give(d, "clip", "1");
    if (prng_in(r, 0, 3) == 0)
        give(d, "grad-dtype", "f32");
    if (prng_in(r, 0, 5) == 0)
        give_number(d, "no-sync", prng_in(r, 1, 2));
}

/* What a user might ask for; not all of it can be planned. */
static void draw(struct prng *r, struct drawn *d, bool chunk)
{
    static const char *const models[] = {"gpt-1.3b", "gpt-6.7b", "llama-2-7b", "llama-3.2-3b",
                                         "llama-3-8b", "bert-large", "resnet50", "vit-l-16"};
    static const char *const systems[] = {"dgx-h100", "dgx-a100", "p4d", "dgx-b200", "l40s",
                                          "a100-ib4", "v100-ib", "gb200", "fire-flyer", "mi300x",
                                          "a100-pcie-8", "dgx-h200"};
    static const int dp[] = {1, 2, 3, 4, 5, 8, 9, 12, 16, 24};
    static const char *const recompute[] = {"none", "selective", "full"};

    *d = (struct drawn){.model = PICK(r, models), .system = PICK(r, systems),
                        .s = lw_strategy_default(), .o = lw_sim_options_default()};
    snprintf(d->words, sizeof d->words, "%s on %s%s", d->model, d->system, chunk ? ", chunk" : "");
    bool tokens = strncmp(d->model, "gpt", 3) == 0 || strncmp(d->model, "llama", 5) == 0;
    give_number(d, "dp", dp[prng_below(r, chunk ? 7 : 10)]);
    if (tokens && prng_in(r, 0, 1))
        give_number(d, "tp", INT64_C(1) << prng_in(r, 1, chunk ? 2 : 3));
    if (d->s.tp > 1 && prng_in(r, 0, 1))
        give(d, "sequence-parallel", "on");
    if (tokens && prng_in(r, 0, 5) == 0)
        give(d, "cp", "2");
    if (tokens && prng_in(r, 0, 1))
        draw_pipeline(r, d);
    else
        give_number(d, "micro-batches", prng_in(r, 1, 3));
    draw_sharding(r, d);
    give(d, "recompute", PICK(r, recompute));
    if (d->s.zero == 0 && prng_in(r, 0, 1))
        give(d, "bucket-cap", prng_in(r, 0, 1) ? "64MiB" : "8MiB");
    d->o.detail = chunk ? LW_SIM_CHUNK : LW_SIM_COLLECTIVE;
    d->shape = (struct traces_model_shape){.layers = tokens ? 8 : 0, .tensor = d->s.tp,
                                           .context = d->s.cp,
                                           .sequence_parallel = d->s.sequence_parallel,
                                           .batch = prng_in(r, 1, 2),
                                           .seq = tokens ? 1024 << prng_below(r, 2) : 0};
}

static void clear(struct drawn *d)
{
    lw_summary_free(&d->sum);
    lw_timeline_free(&d->t);
    lw_plan_free(&d->p);
    lw_workload_free(&d->w);
    lw_cluster_free(&d->c);
}

/* The prediction; false: such a plan is refused. */
static bool predict(struct drawn *d, struct lw_err *err)
{
    struct lw_sim_stats stats;

    assert_ok(lw_cluster_find(d->system, &d->c, err), *err);
    struct lw_cost cost = lw_sim_cost(&d->c);
    if (traces_model_build(d->model, &d->shape, &d->c.device, &d->w, err) != LW_OK ||
        lw_plan_build(&d->w, &d->s, &cost, &d->p, err) != LW_OK)
        return false;
    int32_t warmup = lw_sim_warmup_steps(&d->p);
    d->o.n_steps = warmup + 2;
    if (lw_sim_run(&d->p, &d->c, &d->o, &d->t, &stats, err) != LW_OK ||
        lw_timeline_summarize(&d->t, &d->p, warmup, &d->sum, err) != LW_OK)
        return false;
    d->rate = lw_throughput_of(&d->p, &d->c, d->sum.step);
    return true;
}

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:\n    ", d->words);                                                         \
            printf(__VA_ARGS__);                                                                   \
            printf("\n");                                                                          \
            fail_msg("a prediction beats the hardware or does not add up");                        \
        }                                                                                          \
    } while (0)

/* --- links --- */

static double rate_of(const struct lw_cluster *c, enum lw_link_level level)
{
    const struct lw_link *l = lw_cluster_link(c, level);

    if (!l)
        return 0;
    return l->bytes_per_s.value * (lw_figure_is_set(l->n_links) ? l->n_links.value : 1);
}

/* Out of a node, or into it, by q of its devices: their part of the adapters, one at the least. */
static double adapters(const struct lw_cluster *c, double q)
{
    double all = rate_of(c, LW_LINK_INTER);
    double one = lw_cluster_link(c, LW_LINK_INTER)->bytes_per_s.value;
    double part = all * q / c->devices_per_node;

    if (strcmp(c->library, "hfreduce") == 0)
        return all; /* hosts reduce: devices send all */
    return fmin(all, fmax(one, part));
}

/* What an operation brings into a node, and takes out of it: q of n members are there, nodes in
 * all; S bytes. All-reduce: every node receives a sum that the others have a part in, and gives its
 * own; where nodes have equally many members, 2 (N - 1) / N (Patarasuk and Yuan, J. Parallel
 * Distrib. Comput. 69(2), 2009, theorem 1, for nodes). */
struct flow {
    double in, out;
};

static struct flow flow_of(enum lw_op_kind kind, double S, double q, double n, double nodes,
                           bool even, bool has_root)
{
    double away = (n - q) / n * S, here = q / n * S;

    switch (kind) {
    case LW_OP_ALL_REDUCE:
        return (struct flow){even ? 2 * (nodes - 1) / nodes * S : S,
                             even ? 2 * (nodes - 1) / nodes * S : S};
    case LW_OP_ALL_GATHER: return (struct flow){away, here};
    case LW_OP_REDUCE_SCATTER: return (struct flow){here, away};
    case LW_OP_ALL_TO_ALL: return (struct flow){q * away, q * away};
    case LW_OP_BROADCAST: return has_root ? (struct flow){0, S} : (struct flow){S, 0};
    case LW_OP_REDUCE: return has_root ? (struct flow){S, 0} : (struct flow){0, S};
    default: return (struct flow){0, 0};
    }
}

/* Inside a node, into a device. */
static double received(const struct lw_cluster *c, enum lw_op_kind kind, double S, double n)
{
    bool adds = (lw_figure_is_set(c->nccl.multicast) && c->nccl.multicast.value > 0) ||
                strcmp(c->library, "hfreduce") == 0; /* the switch, or the host */

    switch (kind) {
    case LW_OP_ALL_REDUCE: return adds ? S : 2 * (n - 1) / n * S;
    case LW_OP_ALL_GATHER:
    case LW_OP_REDUCE_SCATTER:
    case LW_OP_ALL_TO_ALL: return (n - 1) / n * S;
    case LW_OP_BROADCAST: return S;
    case LW_OP_REDUCE: return 0; /* the root receives; a switch may add */
    default: return 0;
    }
}

struct spread { /* of a group over nodes */
    double q[MAX_NODES];
    int nodes;
    bool even;
};

static struct spread spread_of(const struct drawn *d, const struct lw_group *g)
{
    struct spread x = {.even = true};

    for (int32_t i = 0; i < g->n_members; i++)
        x.q[lw_plan_member_of(&d->p, g, i) / d->c.devices_per_node]++;
    for (int k = 0; k < MAX_NODES; k++)
        x.nodes += x.q[k] > 0;
    for (int k = 0; k < MAX_NODES; k++)
        x.even = x.even && (x.q[k] == 0 || x.q[k] * x.nodes == g->n_members);
    return x;
}

/* Seconds that the links need for the op of a row at the least. */
static double least_time(const struct drawn *d, int64_t row, double *into, double *out_of)
{
    const struct lw_op *op = &d->p.ops[d->t.op[row]];
    const struct lw_group *g = lw_plan_group(&d->p, d->t.comm[row], d->t.rank[row]);
    struct lw_operand x = lw_plan_operand(&d->p, op, d->t.rank[row]);
    double S = (double)x.bytes, n = g->n_members, least = 0;
    struct spread at = spread_of(d, g);

    if (at.nodes == 1)
        return received(&d->c, (enum lw_op_kind)op->kind, S, n) / rate_of(&d->c, LW_LINK_INTRA);
    int root = op->kind == LW_OP_BROADCAST || op->kind == LW_OP_REDUCE
                   ? x.peer / d->c.devices_per_node
                   : -1;
    for (int k = 0; k < MAX_NODES; k++) {
        if (at.q[k] == 0)
            continue;
        struct flow f =
            flow_of((enum lw_op_kind)op->kind, S, at.q[k], n, at.nodes, at.even, k == root);
        least = fmax(least, fmax(f.in, f.out) / adapters(&d->c, at.q[k]));
        into[k] += f.in;
        out_of[k] += f.out;
    }
    return least;
}

static bool is_message(int kind)
{
    return kind == LW_OP_SEND || kind == LW_OP_RECV;
}

static double least_of_message(const struct drawn *d, int64_t row, double *into, double *out_of)
{
    struct lw_operand x = lw_plan_operand(&d->p, &d->p.ops[d->t.op[row]], d->t.rank[row]);
    int32_t peer = x.peer, per = d->c.devices_per_node;

    if (d->t.rank[row] / per == peer / per)
        return (double)x.bytes / rate_of(&d->c, LW_LINK_INTRA);
    out_of[d->t.rank[row] / per] += (double)x.bytes;
    into[peer / per] += (double)x.bytes;
    return (double)x.bytes / adapters(&d->c, 1);
}

/* A member's row by its group, for chunk detail: from the first entry to the last end. */
static double all_of_row(const struct drawn *d, int64_t row)
{
    const struct lw_group *g = lw_plan_group(&d->p, d->t.comm[row], d->t.rank[row]);
    lw_ps start = d->t.start[row], end = d->t.end[row];

    for (int64_t i = 0; i < d->t.n; i++)
        if (d->t.op[i] == d->t.op[row] && d->t.step[i] == d->t.step[row] &&
            d->t.pass[i] == d->t.pass[row] && d->t.comm[i] == d->t.comm[row] &&
            lw_plan_group(&d->p, d->t.comm[i], d->t.rank[i]) == g) {
            start = d->t.start[i] < start ? d->t.start[i] : start;
            end = d->t.end[i] > end ? d->t.end[i] : end;
        }
    return (double)(end - start) * 1e-12;
}

static bool first_of_group(const struct drawn *d, int64_t row)
{
    const struct lw_group *g = lw_plan_group(&d->p, d->t.comm[row], d->t.rank[row]);

    return lw_plan_member_of(&d->p, g, 0) == d->t.rank[row];
}

static void check_links(const struct drawn *d)
{
    double into[MAX_NODES] = {0}, out_of[MAX_NODES] = {0}, run = 0;
    bool chunk = d->o.detail == LW_SIM_CHUNK;

    for (int64_t i = 0; i < d->t.n; i++) {
        run = fmax(run, (double)d->t.end[i] * 1e-12);
        if (d->t.comm[i] < 0 || d->t.kind[i] == LW_OP_RECV || d->t.kind[i] == LW_OP_BARRIER)
            continue;
        bool message = is_message(d->t.kind[i]);
        if (!message && !first_of_group(d, i))
            continue;
        double least = message ? least_of_message(d, i, into, out_of)
                               : least_time(d, i, into, out_of);
        double took = chunk && !message ? all_of_row(d, i)
                                        : (double)(d->t.end[i] - d->t.all_in[i]) * 1e-12;
        EXPECT(took >= least * (1 - 1e-9) - 2e-12,
               "op %d (%s, %lld bytes, %d ranks) takes %.6g ms, the links need %.6g", d->t.op[i],
               lw_op_name((enum lw_op_kind)d->t.kind[i]),
               (long long)d->p.ops[d->t.op[i]].bytes,
               lw_plan_group(&d->p, d->t.comm[i], d->t.rank[i])->n_members, took * 1e3,
               least * 1e3);
    }
    for (int k = 0; k < MAX_NODES && rate_of(&d->c, LW_LINK_INTER) > 0; k++) {
        double need = fmax(into[k], out_of[k]) / rate_of(&d->c, LW_LINK_INTER);
        EXPECT(need <= run, "node %d needs %.6g ms for its bytes, the run takes %.6g", k,
               need * 1e3, run * 1e3);
    }
}

/* --- devices --- */

static void check_ranks(const struct drawn *d)
{
    for (int32_t i = 0; i < d->sum.n_ranks; i++) {
        const struct lw_measure x = lw_summary_of(&d->sum, i), *m = &x;
        struct lw_period_row row = lw_period_row_of(m);
        lw_ps period = m->end - m->start, waits = 0;
        lw_ns parts = 0;
        for (int k = 0; k < LW_N_WAITS; k++)
            waits += m->wait[k];
        for (int k = 0; k < LW_N_PERIOD_PARTS; k++)
            parts += row.figure[lw_period_parts[k]];
        EXPECT(m->compute_busy <= period && m->copy_busy <= period && m->comm_busy <= period,
               "rank %d is busy for longer than its period", m->rank);
        EXPECT(m->compute_busy + m->exposed_copy + m->exposed_comm + m->idle == period,
               "rank %d: parts and period differ", m->rank);
        EXPECT(m->transfer + waits == m->exposed_comm, "rank %d: exposed parts differ", m->rank);
        EXPECT(parts == row.figure[LW_FIGURE_PERIOD], "rank %d: parts in ns differ", m->rank);
    }
}

/* Forward FLOPs of a module for a micro-batch, all scores of attention counted: a causal kernel
 * needs half of the scores' products, which are spread over the blocks evenly. */
static double forward_flops(const struct drawn *d, int32_t m)
{
    double all = 0, blocks = 0, needed, scores;

    for (int32_t i = 0; i < d->w.n_modules; i++) {
        all += (double)d->w.modules[i].forward_flops;
        blocks += d->w.modules[i].tp_split == LW_TP_BLOCK;
    }
    needed = (double)d->w.attention_flops * (double)d->w.batch;
    scores = blocks > 0 && d->w.modules[m].tp_split == LW_TP_BLOCK ? needed / blocks : 0;
    return (double)d->w.modules[m].forward_flops - scores;
}

/* The stage with the most work: forward and twice as much backward, for every micro-batch, by the
 * ranks that share it. */
static double busiest_flops(const struct drawn *d)
{
    double of[64] = {0}, most = 0;
    double passes = (double)(d->s.micro_batches * (d->s.no_sync + 1));

    for (int32_t m = 0; m < d->w.n_modules; m++) {
        int stage = d->p.stage_of[m];
        of[stage] += 3 * forward_flops(d, m) * passes / (double)(d->s.tp * d->s.cp);
        most = fmax(most, of[stage]);
    }
    return d->s.schedule == LW_SCHEDULE_DUALPIPE ? most / 2 : most; /* two ranks have a stage */
}

static void check_arithmetic(const struct drawn *d)
{
    const struct lw_throughput *t = &d->rate;
    double step_s = (double)d->sum.step * 1e-12, n = d->p.n_ranks, samples;

    samples = (double)(d->s.dp * d->s.micro_batches * (d->s.no_sync + 1) * d->shape.batch);
    EXPECT((double)t->samples == samples, "%lld samples a step, %g were asked for",
           (long long)t->samples, samples);
    EXPECT(fabs(t->samples_per_s * step_s / samples - 1) < 1e-9, "samples/s is not samples / step");
    EXPECT(t->tokens == t->samples * d->w.sample_tokens, "tokens of a step");
    if (!isfinite(t->model_flops) || !isfinite(t->peak_flops_per_s))
        return;
    EXPECT(fabs(t->mfu * step_s * n * t->peak_flops_per_s / t->model_flops - 1) < 1e-9, "MFU");
    EXPECT(t->mfu <= t->hfu * (1 + 1e-12) && t->hfu <= 1, "MFU %g, HFU %g", t->mfu, t->hfu);
    EXPECT(step_s >= busiest_flops(d) / t->peak_flops_per_s,
           "a step of %g ms has %g ms of FLOPs at the device's peak", step_s * 1e3,
           busiest_flops(d) / t->peak_flops_per_s * 1e3);
}

/* What the job cannot do without: every parameter, gradient and state is on some rank (whole copies
 * on each), so the fullest rank has the mean at the least. */
static void check_memory(const struct drawn *d)
{
    double shares = d->s.zero_group > 0 ? (double)d->s.zero_group : (double)(d->s.dp * d->s.cp);
    double numel = 0, item = lw_dtype_size(d->w.params[0].dtype);
    double state = item == 4 ? 8 : 12, all[4], least;

    for (int32_t i = 0; i < d->w.n_params; i++)
        numel += d->w.params[i].tied < 0 ? (double)d->w.params[i].numel : 0;
    if (d->w.optimizer != LW_OPTIMIZER_ADAM)
        state = 0;
    all[0] = 2 * item + state;
    all[1] = 2 * item + state / shares;
    all[2] = item + (item + state) / shares;
    all[3] = (2 * item + state) / shares;
    least = numel * all[d->s.zero] / (double)(d->s.tp * d->s.pp);
    EXPECT((double)d->sum.peak_memory_bytes >= least, "a peak of %g GB, its states need %g",
           (double)d->sum.peak_memory_bytes / 1e9, least / 1e9);
}

static void check(const struct drawn *d)
{
    check_links(d);
    check_ranks(d);
    check_arithmetic(d);
    check_memory(d);
}

static bool fits(const struct drawn *d, int64_t most)
{
    return lw_strategy_ranks(&d->s) <= most;
}

TEST(no_prediction_beats_the_hardware)
{
    struct prng r = prng_start("physical bounds");
    const int plans = unit_cases(150, 1500);
    static struct drawn x;
    struct lw_err err = {0};

    for (int made = 0; made < plans;) {
        bool chunk = made % 5 == 0;
        draw(&r, &x, chunk);
        if (fits(&x, chunk ? 32 : 256) && predict(&x, &err)) {
            check(&x);
            made++;
        }
        clear(&x);
    }
}

/* Model FLOPs of a token, of one device alone. */
static double flops_alone(const struct drawn *d)
{
    struct traces_model_shape shape = {.layers = d->shape.layers, .seq = d->shape.seq, .batch = 1};
    struct lw_strategy one = lw_strategy_default();
    struct lw_workload w = {0};
    struct lw_plan p = {0};
    struct lw_err err = {0};

    assert_ok(traces_model_build(d->model, &shape, &d->c.device, &w, &err), err);
    assert_ok(lw_plan_build(&w, &one, NULL, &p, &err), err);
    struct lw_throughput t = lw_throughput_of(&p, &d->c, 1);
    lw_plan_free(&p);
    lw_workload_free(&w);
    return t.model_flops / (double)t.samples;
}

/* However the work is divided, and whatever is computed again, a sample needs the same FLOPs. */
TEST(model_flops_of_a_sample_do_not_depend_on_the_layout)
{
    struct prng r = prng_start("model flops");
    static struct drawn x;
    struct lw_err err = {0};

    for (int made = 0; made < 60;) {
        draw(&r, &x, false);
        if (fits(&x, 64) && predict(&x, &err)) {
            const struct drawn *d = &x;
            double each = d->rate.model_flops / (double)d->rate.samples;
            EXPECT(fabs(each / flops_alone(d) - 1) < 1e-9, "%g FLOPs a sample, %g on one device",
                   each, flops_alone(d));
            made++;
        }
        clear(&x);
    }
}

/* On every node that it has members on, each group has as many. */
static bool lies_evenly(const struct drawn *d)
{
    bool even = d->p.n_ranks % d->c.devices_per_node == 0;

    for (int32_t g = 0; even && g < d->p.n_groups; g++)
        even = spread_of(d, &d->p.groups[g]).even;
    return even;
}

/* Twice the nodes with data-parallel ranks do twice the work of a step. They are no faster than
 * that but for the optimizer, of which each rank updates half where it is sharded over all: the
 * step may be shorter by half of the optimizer's time. 1/1000 beside, as NCCL chooses other
 * algorithms. Groups lie evenly, as a rank alone on a node waits for its one adapter. */
TEST(twice_the_nodes_are_at_most_twice_as_fast)
{
    struct prng r = prng_start("twice the nodes");
    static struct drawn one, two;
    struct lw_err err = {0};

    for (int made = 0; made < 60;) {
        draw(&r, &one, false);
        if (fits(&one, 128) && one.s.zero_group == 0 && predict(&one, &err) &&
            lies_evenly(&one)) {
            const struct drawn *d = &two;
            two = (struct drawn){.model = one.model, .system = one.system, .shape = one.shape,
                                 .s = one.s, .o = one.o};
            snprintf(two.words, sizeof two.words, "%s", one.words);
            give_number(&two, "dp", 2 * one.s.dp);
            if (predict(&two, &err) && lies_evenly(&two)) {
                double spared = one.s.zero > 0 ? (double)one.w.optimizer_ps / 2 : 0;
                double least = (double)one.sum.step - spared;
                EXPECT((double)two.sum.step >= least * (1 - 1e-3), "a step of %g ms, of %g on half "
                       "the ranks, whose optimizer takes %g", (double)two.sum.step / 1e9,
                       (double)one.sum.step / 1e9, (double)one.w.optimizer_ps / 1e9);
                made++;
            }
            clear(&two);
        }
        clear(&one);
    }
}
