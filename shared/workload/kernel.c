/* Words of kernels' kinds, splits, bounds and sources of times, as files and tables write them,
 * what a file's kernel may hold, and how many scores attention has. A number that is no such kind
 * has no word. */
#include "shared/workload/kernel.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "shared/numbers/checked.h"

#define MOST_FLOPS (INT64_C(1) << 58)
#define MOST_BYTES (INT64_C(1) << 50)
#define MOST_ELEMENTS (INT64_C(1) << 44)
#define MOST_LAUNCHES (1 << 16)

static const char *word_of(const char *const *words, int n, int k)
{
    return k >= 0 && k < n ? words[k] : NULL;
}

const char *lw_kernel_kind_word(int kind)
{
    static const char *const words[LW_N_KERNEL_KINDS] = {
        [LW_KERNEL_TRAFFIC] = "traffic", [LW_KERNEL_GEMM] = "gemm",
        [LW_KERNEL_ATTENTION] = "attention", [LW_KERNEL_COUNTED] = "counted"};

    return word_of(words, LW_N_KERNEL_KINDS, kind);
}

const char *lw_kernel_split_word(int split)
{
    static const char *const words[LW_N_KERNEL_SPLITS] = {
        [LW_SPLIT_NONE] = "none",   [LW_SPLIT_GROUP] = "bytes", [LW_SPLIT_COLUMN] = "column",
        [LW_SPLIT_ROW] = "row",     [LW_SPLIT_VOCAB] = "vocab", [LW_SPLIT_HEADS] = "heads",
        [LW_SPLIT_EXPERTS] = "experts"};

    return word_of(words, LW_N_KERNEL_SPLITS, split);
}

const char *lw_kernel_tokens_word(int tokens)
{
    static const char *const words[] = {"stay", "sent_before", "back_after"};

    return word_of(words, sizeof words / sizeof *words, tokens);
}

const char *lw_kernel_only_word(int only)
{
    static const char *const words[] = {"all", "forward", "backward"};

    return word_of(words, sizeof words / sizeof *words, only);
}

const char *lw_kernel_layer_word(int layer)
{
    static const char *const words[LW_N_KERNEL_LAYERS] = {
        [LW_LAYER_SPLIT] = "split", [LW_LAYER_WHOLE] = "whole", [LW_LAYER_JOINED] = "joined",
        [LW_LAYER_NONE] = "none"};

    return word_of(words, LW_N_KERNEL_LAYERS, layer);
}

const char *lw_bound_word(int bound)
{
    static const char *const words[LW_N_BOUNDS] = {
        [LW_BOUND_COMPUTE] = "products", [LW_BOUND_MEMORY] = "memory",
        [LW_BOUND_LAUNCH] = "launch", [LW_BOUND_HOST] = "host"};

    return word_of(words, LW_N_BOUNDS, bound);
}

const char *lw_time_source_word(int source)
{
    static const char *const words[LW_N_TIME_SOURCES] = {
        [LW_TIME_GIVEN] = "given", [LW_TIME_SHAPE] = "shape", [LW_TIME_TABLE] = "table",
        [LW_TIME_ROOFLINE] = "roofline", [LW_TIME_SCALED] = "scaled"};

    return word_of(words, LW_N_TIME_SOURCES, source);
}

int64_t lw_counted_scores(int64_t tokens, int64_t window, bool causal)
{
    if (!lw_is_window(window, tokens))
        return tokens * tokens;
    return causal ? window * (2 * tokens - window) : tokens * window;
}

int64_t lw_expert_copies(int64_t copies, double capacity)
{
    double rows = capacity * (double)copies;

    return capacity == 0 ? copies : rows < 1 ? 1 : llround(rows);
}

/* --- check ------------------------------------------------------------------------------------ */

struct found {
    const char *name;
    int64_t value, least, most;
};

static enum lw_status check_all(const struct found *of, size_t n, int32_t i, struct lw_err *err)
{
    for (size_t f = 0; f < n; f++)
        if (of[f].value < of[f].least || of[f].value > of[f].most)
            return lw_fail(err, LW_EFORMAT, "at kernels[%" PRId32 "].%s: found %" PRId64
                           ", allowed: %" PRId64 " to %" PRId64,
                           i, of[f].name, of[f].value, of[f].least, of[f].most);
    return LW_OK;
}

static int64_t times(int64_t a, int64_t b, int64_t c)
{
    return lw_mul_sat(a, lw_mul_sat(b, c));
}

static enum lw_status too_large(struct lw_err *err, int32_t i, const char *what, int64_t found,
                                const char *most)
{
    return lw_fail(err, LW_EFORMAT, "at kernels[%" PRId32 "]: its dimensions give %s%" PRId64
                   " %s, allowed: %s in one kernel; give smaller ones, or cut it into several",
                   i, found == INT64_MAX ? "more than " : "", found, what, most);
}

static enum lw_status check_work(int32_t i, int64_t elements, int64_t flops, struct lw_err *err)
{
    if (elements > MOST_ELEMENTS)
        return too_large(err, i, "elements of an operand", elements, "2^44");
    return flops > MOST_FLOPS ? too_large(err, i, "FLOPs", flops, "2^58") : LW_OK;
}

static int64_t largest(int64_t a, int64_t b, int64_t c)
{
    return a > b ? (a > c ? a : c) : b > c ? b : c;
}

/* Of experts, m counts the copies of tokens of all of them. */
static enum lw_status check_gemm(const struct lw_kernel *k, int32_t i, struct lw_err *err)
{
    const bool grouped = k->experts > 0;
    const int64_t batch = grouped ? 1 : k->batch, weights = grouped ? k->experts : k->batch;
    const struct found of[] = {{"batch", k->batch, !grouped, grouped ? 0 : INT32_MAX},
                               {"m", k->m, 1, INT32_MAX}, {"n", k->n, 1, INT32_MAX},
                               {"k", k->k, 1, INT32_MAX}, {"sum_bytes", k->sum_bytes, 0, 64},
                               {"out_size", k->out_size, 0, 8},
                               {"experts", k->experts, 0, INT32_MAX}};

    LW_TRY(check_all(of, sizeof of / sizeof *of, i, err));
    if (k->capacity < 0 || k->capacity > 1e6 || k->capacity * (double)k->m > INT32_MAX)
        return lw_fail(err, LW_EFORMAT, "at kernels[%" PRId32 "].capacity: found %g, allowed: 0 to "
                       "1e6, and times m to %d", i, k->capacity, INT32_MAX);
    double more = k->capacity > 1 ? k->capacity : 1;
    int64_t m = lw_round_sat(more * (double)k->m) + (grouped ? weights : 0);
    return check_work(i, largest(times(batch, m, k->k), times(weights, k->n, k->k),
                                 times(batch, m, k->n)),
                      lw_mul_sat(2 * batch, times(m, k->n, k->k)), err);
}

static enum lw_status check_attention(const struct lw_kernel *k, int32_t i, struct lw_err *err)
{
    const struct found of[] = {{"batch", k->batch, 1, INT32_MAX}, {"m", k->m, 1, INT32_MAX},
                               {"n", k->n, 0, INT32_MAX}, {"heads", k->heads, 1, INT32_MAX},
                               {"kv_heads", k->kv_heads, 1, INT32_MAX},
                               {"qk_width", k->qk_width, 1, INT32_MAX},
                               {"v_width", k->v_width, 1, INT32_MAX}};

    LW_TRY(check_all(of, sizeof of / sizeof *of, i, err));
    int64_t tokens = k->batch * k->m, widths = k->qk_width + k->v_width;
    int64_t heads = k->heads > k->kv_heads ? k->heads : k->kv_heads;
    return check_work(i, times(tokens, heads, widths),
                      lw_mul_sat(2 * k->m, times(tokens, k->heads, widths)), err);
}

enum lw_status lw_kernel_check(const struct lw_kernel *k, int32_t i, struct lw_err *err)
{
    const struct found of[] = {
        {"forward_flops", k->flops[0], 0, MOST_FLOPS}, {"input_flops", k->flops[1], 0, MOST_FLOPS},
        {"weight_flops", k->flops[2], 0, MOST_FLOPS}, {"forward_bytes", k->bytes[0], 0, MOST_BYTES},
        {"input_bytes", k->bytes[1], 0, MOST_BYTES}, {"weight_bytes", k->bytes[2], 0, MOST_BYTES},
        {"gathered_bytes", k->gathered, 0, MOST_BYTES}, {"summed_bytes", k->summed, 0, MOST_BYTES},
        {"gathered_operand_bytes", k->gathered_operand, 0, MOST_BYTES},
        {"summed_operand_bytes", k->summed_operand, 0, MOST_BYTES},
        {"blocks", k->blocks, 0, INT32_MAX},
        {"forward_launches", k->n_forward, 0, MOST_LAUNCHES},
        {"backward_launches", k->n_backward, 0, MOST_LAUNCHES},
        {"experts", k->experts, 0, INT32_MAX}};

    LW_TRY(check_all(of, sizeof of / sizeof *of, i, err));
    return k->kind == LW_KERNEL_GEMM        ? check_gemm(k, i, err)
           : k->kind == LW_KERNEL_ATTENTION ? check_attention(k, i, err)
                                            : LW_OK;
}

