/* FLOPs and bytes of a recorded op: of a product or attention from its shape, of others as counted.
 * Results larger than int64_t are its largest value, which the check refuses. */
#include "shared/workload/recorded_op.h"

#include <inttypes.h>

#include "shared/numbers/checked.h"
#include "shared/numbers/dtype.h"

#define MOST_WORK (INT64_C(1) << 58)

static int64_t product_of(int64_t a, int64_t b, int64_t c)
{
    return lw_mul_sat(lw_mul_sat(a, b), c);
}

static struct lw_op_work gemm_work(const struct lw_recorded_op *op)
{
    const int64_t operands = lw_add_sat(product_of(op->batch, op->m, op->k),
                                        lw_add_sat(product_of(op->batch, op->k, op->n),
                                                   product_of(op->batch, op->m, op->n)));

    return (struct lw_op_work){
        lw_mul_sat(product_of(2, op->batch, op->m), lw_mul_sat(op->n, op->k)),
        lw_mul_sat(operands, lw_dtype_size((enum lw_dtype)op->dtype))};
}

/* As kernel_share.c has it, of one rank. */
static struct lw_op_work attention_work(const struct lw_recorded_op *op)
{
    const int64_t tokens = lw_mul_sat(op->batch, op->m), widths = op->qk_width + op->v_width;
    const int64_t flops = lw_mul_sat(product_of(2, tokens, op->m), lw_mul_sat(op->heads, widths));
    const int64_t rows = product_of(tokens, lw_add_sat(op->heads, op->kv_heads), widths);
    const int64_t bytes = lw_add_sat(lw_mul_sat(rows, lw_dtype_size((enum lw_dtype)op->dtype)),
                                     product_of(4, tokens, op->heads));

    return op->backward ? (struct lw_op_work){lw_mul_sat(flops / 2, 5), lw_mul_sat(bytes, 2)}
                        : (struct lw_op_work){flops, bytes};
}

struct lw_op_work lw_recorded_op_work(const struct lw_recorded_op *op)
{
    if (op->kind == LW_KERNEL_GEMM)
        return gemm_work(op);
    if (op->kind == LW_KERNEL_ATTENTION)
        return attention_work(op);
    return (struct lw_op_work){op->flops, op->bytes};
}

struct lw_kernel lw_recorded_kernel(const struct lw_recorded_op *op)
{
    const int phase = op->backward ? LW_PRODUCTS_INPUT : LW_PRODUCTS_FORWARD;
    struct lw_kernel k = {.kind = op->kind, .batch = op->batch, .m = op->m, .n = op->n, .k = op->k,
                          .heads = op->heads, .kv_heads = op->kv_heads, .qk_width = op->qk_width,
                          .v_width = op->v_width, .dtype = op->dtype, .causal = op->causal,
                          .only = op->backward ? LW_ONLY_BACKWARD : LW_ONLY_FORWARD};

    if (op->kind == LW_KERNEL_TRAFFIC || op->kind == LW_KERNEL_COUNTED) {
        k.flops[phase] = op->flops;
        k.bytes[phase] = op->bytes;
    }
    return k;
}

enum lw_status lw_recorded_op_check(const struct lw_recorded_op *op, int32_t i,
                                    struct lw_err *err)
{
    const bool gemm = op->kind == LW_KERNEL_GEMM, attention = op->kind == LW_KERNEL_ATTENTION;
    const struct {
        const char *name;
        int64_t value;
        bool used;
    } sizes[] = {{"batch", op->batch, gemm || attention}, {"m", op->m, gemm || attention},
                 {"n", op->n, gemm}, {"k", op->k, gemm}, {"heads", op->heads, attention},
                 {"kv_heads", op->kv_heads, attention}, {"qk_width", op->qk_width, attention},
                 {"v_width", op->v_width, attention}};

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        if (sizes[s].used && (sizes[s].value < 1 || sizes[s].value > INT32_MAX))
            return lw_fail(err, LW_EFORMAT, "at ops[%" PRId32 "].%s: found %" PRId64
                           ", allowed: 1 to %d", i, sizes[s].name, sizes[s].value, INT32_MAX);
    const struct lw_op_work work = lw_recorded_op_work(op);
    if (work.flops < 0 || work.bytes < 0 || work.flops > MOST_WORK || work.bytes > MOST_WORK)
        return lw_fail(err, LW_EFORMAT, "at ops[%" PRId32 "]: %" PRId64 " FLOPs and %" PRId64
                       " bytes, allowed: 0 to 2^58", i, work.flops, work.bytes);
    return LW_OK;
}
