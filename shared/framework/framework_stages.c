/* How frameworks spread blocks over stages.
 *
 * By cost, nanotron (huggingface/nanotron@67c5ebb6, src/nanotron/models/base.py and llama.py): a
 * block costs its weights, 4 h^2 + 3 f h, the head vocabulary * h, the embedding nothing. Stage q
 * takes blocks until their costs exceed (q + 1) / p of the whole, so the first stages have more
 * than their share. Where the head comes before the last stage, its module lies in the last one
 * here, and each stage without a module takes the block before it. After the head come the scores'
 * cast and the loss as blocks of their own; a stage that is left without any ends the run.
 *
 * nanotron of 27 December 2024 (huggingface/nanotron@67c5ebb6, src/nanotron/parallel/
 * pipeline_parallel/p2p.py, _send_meta and _recv_meta) sends two headers before each tensor that
 * crosses a stage's end. After each of them sender and receiver sleep 0.1 s until it is complete,
 * and it is not at the first look, since its kernel has just been launched: two sleeps of each side
 * a tensor, in which the device has nothing to do. Forward two tensors cross (models/llama.py:
 * hidden_states and sequence_mask), backward one. Where sender and receiver wait at the same time
 * the second's sleeps are counted after the first's, as if it came then.
 *
 * Sailor's DeepSpeed sends a tensor group's parts of a message and gathers them in the group. To
 * gather into, a receiver first makes torch.zeros of the whole in f32 on its host and copies it to
 * the device (eth-easl/sailor@cf2c8e3, deepspeed/utils.py, reconstruct_tensor): the input of all
 * stages but the first, the gradient of all but the last. It does so after it has read the header
 * on the host, so the device has nothing to do meanwhile. torchrun gives each of a node's processes
 * one thread.
 *
 * Evenly: equal numbers of blocks. Where they do not divide, the first parts have one more, unless
 * embedding and head count as blocks.
 *
 * In parts: DeepSpeed's uniform method gives stages equal numbers of a PipelineModule's layers, the
 * first ones one more (deepspeed/utils.py, partition_uniform). Those of Sailor's models are a
 * cast, the embedding and a transposition before the blocks, and the head or a norm after them
 * (eth-easl/sailor@cf2c8e3, third_party/Megatron-DeepSpeed/megatron/model/opt_model.py and
 * gpt_neo_model.py): 24 blocks on 4 stages are 4, 7, 7, 6, of 7 layers each.
 *
 * The rest last, NVIDIA's recipes for DeepSeek-V3, Kimi K2 and Moonlight (NVIDIA-NeMo/
 * Megatron-Bridge@05d003fb, src/megatron/bridge/recipes/deepseek/deepseek_v3.py, layout_map; NeMo's
 * pretrain_deepseek_v3.py has the same): every part has as many blocks as divide up, and the last
 * one what is left, beside the blocks that predict further tokens and the loss: 61 blocks in 16
 * parts are 15 x 4 and 1. Where nothing is left for it the first part has fewer: in 32 parts 1,
 * 30 x 2 and none, "Et|(tt|)*30mL" (@04264182, scripts/performance/configs/deepseek/
 * deepseek_workload_base_configs.py). */
#include "shared/framework/framework_stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/cluster/cluster.h"
#include "shared/framework/framework.h"
#include "shared/numbers/dtype.h"
#include "shared/numbers/units.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/workload.h"

static double fewer(double a, double b)
{
    return a < b ? a : b;
}

/* First module of stage q + 1, where stage q begins at `begin`; beyond the head where the blocks
 * end before. */
static double next_by_cost(const struct lw_model_dims *d, const struct lw_strategy *s, int64_t q,
                           double begin)
{
    double h = (double)d->hidden, block = 4 * h * h + 3 * (double)d->ffn * h;
    double share = ((double)d->layers * block + (double)d->vocab * h) * (double)(q + 1) /
                   (double)s->pp;
    double next = floor(share / block) + 2; /* block b is module b, from 1 on */

    return next > begin ? next : begin + 1;
}

static double next_even(const struct lw_model_dims *d, const struct lw_strategy *s, int64_t q,
                        double begin)
{
    int64_t n = s->pp * s->chunks, blocks = d->layers;
    bool ends_count = blocks % n != 0 && (blocks + 2) % n == 0;

    return begin + (q == 0) +
           (double)(ends_count ? (blocks + 2) / n - (q == 0) : blocks / n + (q < blocks % n));
}

/* `before` layers are module 0. The first stage ends in a block at the earliest. */
static double next_of_parts(const struct lw_model_dims *d, const struct lw_strategy *s, int64_t q,
                            int64_t before, double begin)
{
    int64_t parts = before + d->layers + 1, more = parts % s->pp;
    int64_t end = (q + 1) * (parts / s->pp) + (q + 1 < more ? q + 1 : more);
    double next = (double)(end - before + 1);

    return next > begin ? next : begin + 1;
}

/* Blocks of part q, the rest in the last; -1 = the parts are too many. */
static int64_t blocks_rest_last(int64_t blocks, int64_t n, int64_t q)
{
    int64_t each = blocks / n + (blocks % n != 0), last = blocks - each * (n - 1);
    int64_t first = last > 0 ? each : blocks - each * (n - 2);

    if (first < 1)
        return -1;
    return q == 0 ? first : q + 1 < n ? each : last > 0 ? last : 0;
}

static bool leaves_rest(const struct lw_framework *f, const struct lw_model_dims *d,
                        const struct lw_strategy *s)
{
    int64_t n = s->pp * s->chunks;

    return lw_fact(f->rest_last) && d->layers % n != 0 && (d->layers + 2) % n != 0 &&
           blocks_rest_last(d->layers, n, 0) > 0;
}

/* First module of part q + 1, where part q begins at `begin`. */
static double next_part(const struct lw_framework *f, const struct lw_model_dims *d,
                        const struct lw_strategy *s, int64_t q, double begin)
{
    double last = (double)(d->layers + 3 + q - s->pp);
    int64_t before = (int64_t)lw_fact_value(f->parts_before, 0);

    if (before > 0 && s->chunks == 1)
        return fewer(next_of_parts(d, s, q, before, begin), last);
    if (leaves_rest(f, d, s))
        return begin + (q == 0) + (double)blocks_rest_last(d->layers, s->pp * s->chunks, q);
    return lw_fact(f->blocks_by_cost) ? fewer(next_by_cost(d, s, q, begin), last)
                                      : next_even(d, s, q, begin);
}

static bool has_rule(const struct lw_framework *f, const struct lw_model_dims *d,
                     const struct lw_strategy *s)
{
    bool known = s->schedule == LW_SCHEDULE_1F1B || s->schedule == LW_SCHEDULE_GPIPE ||
                 s->schedule == LW_SCHEDULE_INTERLEAVED_1F1B;

    bool rule = lw_fact(f->blocks_by_cost) || lw_fact(f->even_blocks) ||
                lw_fact_value(f->parts_before, 0) > 0;

    return rule && s->pp > 1 && d->layers > 0 &&
           d->layers >= s->pp * s->chunks - 2 && known && s->compat == LW_COMPAT_NONE &&
           !lw_strategy_given(s, lw_strategy_find("partition"));
}

/* ",61" at list + used, ended by a zero; returns the new end, `size` where it has no room. A search
 * lists the stages of each of its strategies: snprintf takes a tenth of its time. */
static size_t put_module(char *list, size_t used, size_t size, int64_t module)
{
    char digits[24];
    size_t n = 0;

    do
        digits[n++] = (char)('0' + module % 10);
    while ((module /= 10) > 0);
    if (used + n + 2 > size)
        return size;
    list[used++] = ',';
    while (n > 0)
        list[used++] = digits[--n];
    list[used] = '\0';
    return used;
}

bool lw_framework_stages(const struct lw_framework *f, const struct lw_model_dims *d,
                         const struct lw_strategy *s, char *list, size_t size)
{
    size_t used = 1;
    double begin = 0;

    if (size < 2 || !has_rule(f, d, s))
        return false;
    memcpy(list, "0", 2);
    for (int64_t q = 0; q < s->pp * s->chunks - 1 && used < size; q++) {
        begin = next_part(f, d, s, q, begin);
        used = put_module(list, used, size, (int64_t)begin);
    }
    return used < size;
}

const char *lw_framework_refusal(const struct lw_framework *f, const struct lw_model_dims *d,
                                 const struct lw_strategy *s)
{
    int64_t of_head = 0;
    double spare = lw_fact_value(f->most_spare_stages, INFINITY);

    if (s->pp < 2 || d->layers == 0)
        return NULL;
    if (lw_fact(f->blocks_by_cost))
        for (double begin = 0; of_head < s->pp - 1; of_head++)
            if ((begin = next_by_cost(d, s, of_head, begin)) > (double)d->layers + 1)
                break;
    if (lw_fact(f->blocks_by_cost) && (double)of_head + spare < (double)(s->pp - 1))
        return "it leaves a stage without a block, and does not start (stages.blocks_by_cost)";
    if (lw_fact(f->fills_pipeline) && lw_strategy_run_batches(s) < s->pp - 1)
        return "its 1F1B asks for as many micro-batches as stages less one "
               "(stages.fills_pipeline)";
    if (lw_fact(f->whole_chunks) && s->chunks > 1 && d->layers % s->pp == 0 &&
        s->chunks <= d->layers / s->pp && d->layers / s->pp % s->chunks != 0 &&
        !lw_strategy_given(s, lw_strategy_find("partition")))
        return "its chunks divide the blocks of a stage (stages.whole_chunks)";
    return NULL;
}

/* A gradient keeps its place in the backward of its module, which has become longer, as it does
 * where the host is what a module waits for. */
static void move_ready(struct lw_workload *w, int32_t module, lw_ps more)
{
    const lw_ps length = lw_module_backward(&w->modules[module]);
    lw_ps begin = 0;

    for (int32_t m = w->n_modules - 1; m > module; m--)
        begin += lw_module_backward(&w->modules[m]);
    for (int32_t i = 0; i < w->n_params; i++) {
        lw_ps *at = &w->params[i].ready_ps;
        if (*at <= begin)
            continue;
        *at += *at - begin > length ? more : (lw_ps)((__int128)more * (*at - begin) / length);
    }
}

/* Each rank of a tensor group waits for its host: a plan divides what a module has, under sequence
 * parallelism its whole part too. */
static void wait_in(struct lw_workload *w, int32_t module, const struct lw_strategy *s,
                    lw_ps forward, lw_ps backward)
{
    int64_t ranks = s->sequence_parallel ? s->tp : 1;
    struct lw_module *m = &w->modules[module];

    move_ready(w, module, backward * ranks);
    m->forward_ps += forward * ranks;
    m->whole_forward_ps += forward * ranks;
    m->backward_input_ps += backward * ranks;
    m->whole_input_ps += backward * ranks;
    m->bound_ps[0][LW_BOUND_HOST] += forward;
    m->bound_ps[1][LW_BOUND_HOST] += backward;
}

enum { HEADERS = 2 };

void lw_framework_stage_waits(const struct lw_framework *f, const struct lw_strategy *s,
                              const char *list, struct lw_workload *w)
{
    lw_ps backward = HEADERS * (lw_ps)lw_fact_value(f->header_poll_ps, 0);
    lw_ps forward = lw_mul_sat(backward, (lw_ps)lw_fact_value(f->stage_tensors, 1));

    for (const char *at = strchr(list, ','); backward > 0 && at; at = strchr(at + 1, ',')) {
        long first = strtol(at + 1, NULL, 10);
        if (first < 1 || first >= w->n_modules)
            continue;
        wait_in(w, (int32_t)first - 1, s, forward, backward);
        wait_in(w, (int32_t)first, s, forward, backward);
    }
}

enum { MOST_KEPT = 32 << 20 };

/* glibc (malloc/malloc.c, DEFAULT_MMAP_THRESHOLD_MAX on 64 bits) gives more than 32 MiB fresh pages
 * each time, which the kernel clears before the host fills them; less it keeps for the next. */
static lw_ps fill_time(const struct lw_device *d, int64_t bytes)
{
    double written = (double)bytes * (bytes > MOST_KEPT ? 2 : 1);

    return lw_ps_from_seconds(written / d->host_core_bytes_per_s.value +
                              (double)bytes / d->pageable_bytes_per_s.value);
}

void lw_framework_stage_fills(const struct lw_framework *f, const struct lw_strategy *s,
                              const struct lw_device *d, const char *list, struct lw_workload *w)
{
    enum { F32 = 4 };
    bool known = lw_figure_is_set(d->host_core_bytes_per_s) &&
                 lw_figure_is_set(d->pageable_bytes_per_s);
    int64_t item = lw_dtype_size(lw_workload_main_dtype(w));

    if (!known || !lw_fact(f->stage_fills))
        return;
    for (const char *at = strchr(list, ','); at; at = strchr(at + 1, ',')) {
        long first = strtol(at + 1, NULL, 10);
        if (first < 1 || first >= w->n_modules || w->modules[first - 1].output_bytes <= 0)
            continue;
        lw_ps fill = fill_time(d, w->modules[first - 1].output_bytes / item * F32);
        wait_in(w, (int32_t)first - 1, s, 0, fill);
        wait_in(w, (int32_t)first, s, fill, 0);
    }
}
