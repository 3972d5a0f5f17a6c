/* Words of kernels' kinds, splits, bounds and sources of times, as files and tables write them. A
 * number that is no such kind has none. */
#include "shared/plan/kernel.h"

#include <stddef.h>

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

const char *lw_bound_word(int bound)
{
    static const char *const words[LW_N_BOUNDS] = {
        [LW_BOUND_COMPUTE] = "compute", [LW_BOUND_MEMORY] = "memory",
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
