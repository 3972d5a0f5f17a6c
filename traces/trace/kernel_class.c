/* Kernel classes by marks in names: a user's, then the table below, the first that fits. The class
 * tells communication from compute for every figure, and which rate of a device bounds a kernel for
 * the what-if of another device. A name is all there is: a small matrix product may be bound by
 * memory and is called compute nevertheless. Names seen in the traces of ../shared and in the
 * libraries' sources (NCCL, RCCL, DeepEP, NVSHMEM, cuBLAS, cuDNN, CUTLASS, Tensile,
 * FlashAttention). */
#include "traces/trace/kernel_class.h"

#include <string.h>

#include "shared/io/input.h"

#define COMM(m)                                                                                    \
    {                                                                                              \
        LW_KERNEL_COMM, m, false, LW_F32                                                           \
    }
#define COMPUTE(m)                                                                                 \
    {                                                                                              \
        LW_KERNEL_COMPUTE, m, false, LW_F32                                                        \
    }
#define TYPED(m, t)                                                                                \
    {                                                                                              \
        LW_KERNEL_COMPUTE, m, true, t                                                              \
    }
#define MEMORY(m)                                                                                  \
    {                                                                                              \
        LW_KERNEL_MEMORY, m, false, LW_F32                                                         \
    }

/* Communication first: lw_kernel_is_comm stops after it. Figures of traces are compared between
 * tools, so this is the published definition of ../shared/traces (nccl, rccl, deep_ep, deepep,
 * internode, intranode) and NVSHMEM; other libraries are a user's line each. */
static const struct lw_kernel_mark builtin[] = {
    COMM("nccl"),
    COMM("rccl"),
    COMM("deep_ep"),
    COMM("deepep"),
    COMM("internode"),
    COMM("intranode"),
    COMM("nvshmem"),
    /* memory-bound kernels whose names hold a mark of the next group */
    MEMORY("im2col"),
    MEMORY("nchwToNhwc"),
    MEMORY("nhwcToNchw"),
    MEMORY("convertTensor"),
    MEMORY("splitKreduce"),
    MEMORY("gemvNSP"),
    MEMORY("gemv"),
    MEMORY("conv_depthwise"),
    /* type by the library's own letters */
    TYPED("bf16gemm", LW_BF16),
    TYPED("bf16_s", LW_BF16),
    TYPED("hgemm", LW_F16),
    TYPED("h884", LW_F16),
    TYPED("h16816", LW_F16),
    TYPED("h1688", LW_F16),
    TYPED("f16_s", LW_F16),
    TYPED("fp16", LW_F16),
    TYPED("sgemm", LW_F32),
    TYPED("scudnn", LW_F32),
    TYPED("dgemm", LW_F64),
    COMPUTE("gemm"),
    COMPUTE("cutlass"),
    COMPUTE("xmma"),
    COMPUTE("wgrad"),
    COMPUTE("dgrad"),
    COMPUTE("fprop"),
    COMPUTE("implicit_con"),
    COMPUTE("convolve"),
    COMPUTE("winograd"),
    COMPUTE("conv2d"),
    COMPUTE("Cijk_"),
    COMPUTE("miopenSp3AsmConv"),
    COMPUTE("igemm"),
    COMPUTE("flash_fwd"),
    COMPUTE("flash_bwd"),
    COMPUTE("fmha"),
    COMPUTE("nvjet"),
    COMPUTE("_mm_"),
    COMPUTE("matmul"),
    MEMORY("elementwise"),
    MEMORY("reduce"),
    MEMORY("norm"),
    MEMORY("softmax"),
    MEMORY("bn_fw"),
    MEMORY("bn_bw"),
    MEMORY("dropout"),
    MEMORY("pool"),
    MEMORY("copy"),
    MEMORY("transpose"),
    MEMORY("embedding"),
    MEMORY("index"),
    MEMORY("scatter"),
    MEMORY("gather"),
    MEMORY("CatArray"),
    MEMORY("multi_tensor"),
    MEMORY("fill"),
    MEMORY("adam"),
    MEMORY("sgd"),
    MEMORY("triton_"),
    MEMORY("cub::"),
    MEMORY("thrust::"),
    MEMORY("sort"),
    MEMORY("nll_loss"),
};

static const char *const class_names[LW_N_KERNEL_CLASSES] = {"other", "comm", "compute", "memory"};

const char *lw_kernel_class_name(enum lw_kernel_class c)
{
    return class_names[c];
}

const struct lw_kernel_mark *lw_kernel_mark_of(const struct lw_kernel_table *user, const char *name)
{
    for (int32_t i = 0; user && i < user->n; i++)
        if (strcasestr(name, user->marks[i].mark))
            return &user->marks[i];
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++)
        if (strcasestr(name, builtin[i].mark))
            return &builtin[i];
    return NULL;
}

bool lw_kernel_is_comm(const char *name)
{
    for (const struct lw_kernel_mark *m = builtin; m->class == LW_KERNEL_COMM; m++)
        if (strcasestr(name, m->mark))
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
    if (m.has_dtype && lw_dtype_parse(dtype, &m.dtype, err) != LW_OK)
        return lw_err_context(err, "%s:%lld", file, (long long)line);
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
    if (status != LW_OK)
        lw_kernel_table_free(&t);
    else
        *out = t;
    return status;
}

LW_FREE_BY_ARENA(lw_kernel_table_free, struct lw_kernel_table)
