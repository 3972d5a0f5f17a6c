/* Kernel classes by marks in names: a user's, then the table below, the first that fits. The class
 * tells communication from compute for every figure, and which rate of a device bounds a kernel for
 * the what-if of another device. A name is all there is: a small matrix product may be bound by
 * memory and is called compute nevertheless. Names seen in the traces of ../shared and in the
 * libraries' sources (NCCL, RCCL, DeepEP, NVSHMEM, cuBLAS, cuDNN, CUTLASS, Tensile,
 * FlashAttention). */
#include "traces/trace/kernel_class.h"

#include <string.h>

#include "shared/io/input.h"

/* Communication first: lw_kernel_is_comm stops after it. NCCL, RCCL; DeepEP (deepseek-ai/DeepEP
 * csrc/kernels: namespaces internode, intranode); NVSHMEM (nvshmemi_*, nvshmemx_*); one-shot and
 * two-shot all-reduces: cross_device_reduce_1stage, _2stage (vllm csrc/custom_all_reduce.cuh, the
 * same in sglang and aiter), multimem_* and {one,two}_shot_all_reduce of symmetric memory (pytorch
 * torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu), {one,two}ShotAllReduceKernel and
 * allreduce_fusion_kernel (TensorRT-LLM cpp/tensorrt_llm/kernels/customAllReduceKernels.cu,
 * communicationKernels), allreduce_prototype (vllm csrc/quickreduce). Barriers of NVSHMEM and of
 * symmetric memory: traces/trace/comm_facts.c. Other libraries are a user's line each. Memory-bound
 * kernels whose names hold a mark of a later group come next, then those whose library's own
 * letters tell the type. */
static const struct {
    struct lw_kernel_mark is;
    const char *marks[28];
} builtin[] = {
    {{LW_KERNEL_COMM},
     {"nccl", "rccl", "deep_ep", "deepep", "internode", "intranode", "nvshmem",
      "cross_device_reduce", "multimem_", "one_shot_all_reduce", "two_shot_all_reduce",
      "oneShotAllReduce", "twoShotAllReduce", "allreduce_fusion_kernel",
      "allreduce_prototype", "barrier_on_stream_kernel", "barrier_all_on_stream_kernel",
      "barrier_kernel(unsigned int**"}},
    {{LW_KERNEL_MEMORY},
     {"im2col", "nchwToNhwc", "nhwcToNchw", "convertTensor", "splitKreduce", "gemvNSP", "gemv",
      "conv_depthwise"}},
    {{LW_KERNEL_COMPUTE, .has_dtype = true, .dtype = LW_BF16}, {"bf16gemm", "bf16_s"}},
    {{LW_KERNEL_COMPUTE, .has_dtype = true, .dtype = LW_F16},
     {"hgemm", "h884", "h16816", "h1688", "f16_s", "fp16"}},
    {{LW_KERNEL_COMPUTE, .has_dtype = true, .dtype = LW_F32}, {"sgemm", "scudnn"}},
    {{LW_KERNEL_COMPUTE, .has_dtype = true, .dtype = LW_F64}, {"dgemm"}},
    {{LW_KERNEL_COMPUTE},
     {"gemm", "cutlass", "xmma", "wgrad", "dgrad", "fprop", "implicit_con", "convolve", "winograd",
      "conv2d", "Cijk_", "miopenSp3AsmConv", "igemm", "flash_fwd", "flash_bwd", "fmha", "nvjet",
      "_mm_", "matmul", "grouped_conv", "triton_tem", "addmm", "sdpa_sm", "_bmm_"}},
    {{LW_KERNEL_MEMORY},
     {"elementwise", "reduce", "norm", "softmax", "bn_fw", "bn_bw", "dropout", "pool", "copy",
      "transpose", "embedding", "index", "scatter", "gather", "CatArray", "multi_tensor", "fill",
      "adam", "sgd", "triton_", "cub::", "thrust::", "sort", "nll_loss"}},
};

/* Types of products in names. Sources: cuBLAS and cuDNN kernels of the traces ("bf16bf16",
 * "f16f16", "tf32f32"), nvjet of cuBLAS 12.6 and later (the letters of A, B, C, D: t = bf16, h =
 * f16, s = f32, q = e4m3), CUTLASS (cutlass/numeric_types.h, emitted names: library/util.cu),
 * Tensile (Cijk_..._BBS_BH: ROCm Tensile, Tensile/DataType.py), Itanium mangling of CK's types
 * (DF16b, DF16_, Composable Kernel data_type.hpp). tf32 products have f32 inputs. */
static const struct {
    const char *mark, *library; /* library: the name begins with it; NULL = any */
    struct lw_kernel_type is;
} types[] = {
    {"e4m3", NULL, {true, true, LW_BF16}},
    {"e5m2", NULL, {true, true, LW_BF16}},
    {"fp8", NULL, {true, true, LW_BF16}},
    {"float8", NULL, {true, true, LW_BF16}},
    {"nvjet_qq", "nvjet", {true, true, LW_BF16}},
    {"_F8", "Cijk_", {true, true, LW_BF16}},
    {"nvjet_t", "nvjet", {true, false, LW_BF16}},
    {"nvjet_h", "nvjet", {true, false, LW_F16}},
    {"nvjet_s", "nvjet", {true, false, LW_F32}},
    {"_BBS", "Cijk_", {true, false, LW_BF16}},
    {"_BSS", "Cijk_", {true, false, LW_BF16}},
    {"_BB", "Cijk_", {true, false, LW_BF16}},
    {"_HHS", "Cijk_", {true, false, LW_F16}},
    {"_HSS", "Cijk_", {true, false, LW_F16}},
    {"_HB_", "Cijk_", {true, false, LW_F16}},
    {"_HH", "Cijk_", {true, false, LW_F16}},
    {"_SB_", "Cijk_", {true, false, LW_F32}},
    {"_SS", "Cijk_", {true, false, LW_F32}},
    {"_DB_", "Cijk_", {true, false, LW_F64}},
    {"bf16", NULL, {true, false, LW_BF16}},
    {"bfloat16", NULL, {true, false, LW_BF16}},
    {"DF16b", NULL, {true, false, LW_BF16}},
    {"tf32", NULL, {true, false, LW_F32}},
    {"DF16_", NULL, {true, false, LW_F16}},
    {"fp16", NULL, {true, false, LW_F16}},
    {"f16", NULL, {true, false, LW_F16}},
    {"hgemm", NULL, {true, false, LW_F16}},
    {"_half", NULL, {true, false, LW_F16}},
    {"half_t", NULL, {true, false, LW_F16}},
    {"h884", NULL, {true, false, LW_F16}},
    {"h1688", NULL, {true, false, LW_F16}},
    {"fp32", NULL, {true, false, LW_F32}},
    {"f32", NULL, {true, false, LW_F32}},
    {"sgemm", NULL, {true, false, LW_F32}},
    {"scudnn", NULL, {true, false, LW_F32}},
    {"f64", NULL, {true, false, LW_F64}},
    {"dgemm", NULL, {true, false, LW_F64}},
};

static const char *const class_names[LW_N_KERNEL_CLASSES] = {"other", "comm", "compute", "memory"};

const char *lw_kernel_class_name(enum lw_kernel_class c)
{
    return class_names[c];
}

/* A name to look for marks in, whatever their case. Looking in small letters is several times
 * faster than strcasestr. */
struct searched {
    const char *name;
    char small[2048]; /* empty: a longer name */
};

static void small_letters(const char *from, char *to)
{
    while ((*to++ = (char)(*from >= 'A' && *from <= 'Z' ? *from + ('a' - 'A') : *from)))
        from++;
}

static void search(struct searched *s, const char *name)
{
    s->name = name;
    s->small[0] = 0;
    if (strlen(name) < sizeof s->small)
        small_letters(name, s->small);
}

static bool holds(const struct searched *s, const char *mark)
{
    char small[64];

    if (!s->small[0] || strlen(mark) >= sizeof small)
        return strcasestr(s->name, mark);
    small_letters(mark, small);
    return strstr(s->small, small);
}

const struct lw_kernel_mark *lw_kernel_mark_of(const struct lw_kernel_table *user, const char *name)
{
    struct searched s;

    search(&s, name);
    for (int32_t i = 0; user && i < user->n; i++)
        if (holds(&s, user->marks[i].mark))
            return &user->marks[i];
    for (size_t g = 0; g < sizeof builtin / sizeof *builtin; g++)
        for (const char *const *mark = builtin[g].marks; *mark; mark++)
            if (holds(&s, *mark))
                return &builtin[g].is;
    return NULL;
}

struct lw_kernel_type lw_kernel_type_of(const struct lw_kernel_table *user, const char *name)
{
    for (int32_t i = 0; user && i < user->n; i++)
        if (user->marks[i].has_dtype && strcasestr(name, user->marks[i].mark))
            return (struct lw_kernel_type){true, false, user->marks[i].dtype};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *library = types[i].library;
        if (library && strncmp(name, library, strlen(library)) != 0)
            continue;
        if (library ? strstr(name, types[i].mark) : strcasestr(name, types[i].mark))
            return types[i].is;
    }
    return (struct lw_kernel_type){.dtype = LW_F32};
}

struct lw_kernel_type lw_kernel_type_named(const char *type)
{
    struct lw_kernel_type is = {.dtype = LW_F32};

    if (strcasestr(type, "float8"))
        return (struct lw_kernel_type){true, true, LW_BF16};
    type += strncmp(type, "c10::", 5) == 0 ? 5 : 0;
    is.known = lw_dtype_parse(type, &is.dtype, NULL) == LW_OK;
    is.known = is.known && (is.dtype == LW_F32 || is.dtype == LW_F64 || is.dtype == LW_F16 ||
                            is.dtype == LW_BF16);
    return is;
}

bool lw_kernel_is_comm(const char *name)
{
    for (const char *const *mark = builtin[0].marks; *mark; mark++)
        if (strcasestr(name, *mark))
            return true;
    return false;
}

enum lw_kernel_class lw_kernel_class_of(const struct lw_kernel_table *user, const char *name)
{
    const struct lw_kernel_mark *m = lw_kernel_mark_of(user, name);

    return m ? m->class : LW_KERNEL_OTHER;
}

/* ---- a user's table ---- */

static enum lw_status parse_class(const char *word, enum lw_kernel_class *class)
{
    for (int i = 0; i < LW_N_KERNEL_CLASSES; i++)
        if (strcmp(word, class_names[i]) == 0) {
            *class = (enum lw_kernel_class)i;
            return LW_OK;
        }
    return LW_EFORMAT;
}

static enum lw_status parse_line(const char *file, int64_t line, char *text,
                                 struct lw_kernel_table *t, struct lw_err *err)
{
    static const char blanks[] = " \t\r";
    struct lw_kernel_mark m = {.dtype = LW_F32};
    char *rest, *class = strtok_r(text, blanks, &rest), *mark, *dtype;

    if (!class || *class == '#')
        return LW_OK;
    if (parse_class(class, &m.class) != LW_OK)
        return lw_fail_at(err, LW_EFORMAT, file, line,
                          "unknown kernel class '%s'; expected comm, compute, memory or other",
                          class);
    mark = strtok_r(NULL, blanks, &rest);
    dtype = strtok_r(NULL, blanks, &rest);
    if (!mark || *mark == '#')
        return lw_fail_at(err, LW_EFORMAT, file, line,
                          "class '%s': missing text; expected a part of the kernels' names after "
                          "it", class);
    m.has_dtype = dtype && *dtype != '#';
    if (m.has_dtype)
        LW_TRY(lw_err_context(err, lw_dtype_parse(dtype, &m.dtype, err), "%s:%lld", file,
                              (long long)line));
    m.mark = lw_arena_strdup(&t->arena, mark);
    if (!m.mark)
        return lw_fail_nomem(err);
    t->marks[t->n++] = m;
    return LW_OK;
}

static enum lw_status parse(const struct lw_input *in, struct lw_kernel_table *t,
                            struct lw_err *err)
{
    int64_t n = 1, line = 1;

    if (memchr(in->text, 0, in->len))
        return lw_fail_at(err, LW_EFORMAT, in->name, 0, "a table of kernels is text, found a zero");
    for (size_t i = 0; i < in->len; i++)
        n += in->text[i] == '\n';
    LW_TAKE(&t->arena, t->marks, n, err);
    for (char *at = in->text, *end; at && *at; at = end, line++) {
        end = strchr(at, '\n');
        if (end)
            *end++ = 0;
        LW_TRY(parse_line(in->name, line, at, t, err));
    }
    return LW_OK;
}

enum lw_status lw_kernel_table_read(const char *file, struct lw_kernel_table *out,
                                    struct lw_err *err)
{
    struct lw_kernel_table t = {0};
    struct lw_input in;

    LW_TRY(lw_input_read(file, 1 << 20, &in, err));
    enum lw_status status = parse(&in, &t, err);
    lw_input_free(&in);
    LW_GIVE(status, out, t, lw_kernel_table_free(&t));
}

LW_FREE_BY_ARENA(lw_kernel_table_free, struct lw_kernel_table)
