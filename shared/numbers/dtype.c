/* Element types of parameters, gradients and messages, in one table. */
#include "shared/numbers/dtype.h"

#include <string.h>
#include <strings.h>

#include "shared/base/nearest.h"

static const struct {
    const char *name, *torch, *kineto; /* ours; torch.<name>; the word in a collective's args */
    int64_t size;
    const char *other; /* as many write it; NULL = none */
} dtypes[LW_N_DTYPES] = {
    [LW_F32] = {"f32", "float32", "Float", 4, "fp32"},
    [LW_F64] = {"f64", "float64", "Double", 8, "fp64"},
    [LW_F16] = {"f16", "float16", "Half", 2, "fp16"},
    [LW_BF16] = {"bf16", "bfloat16", "BFloat16", 2},
    [LW_I64] = {"i64", "int64", "Long", 8},        [LW_I32] = {"i32", "int32", "Int", 4},
    [LW_U8] = {"u8", "uint8", "Byte", 1},
};

int64_t lw_dtype_size(enum lw_dtype t)
{
    return dtypes[t].size;
}

const char *lw_dtype_word(int t)
{
    return t >= 0 && t < LW_N_DTYPES ? dtypes[t].name : NULL;
}

enum lw_dtype lw_dtype_of_most(const int64_t n[LW_N_DTYPES])
{
    int best = 0;

    for (int k = 1; k < LW_N_DTYPES; k++)
        best = n[k] > n[best] ? k : best;
    return (enum lw_dtype)best;
}

const char *lw_dtype_name(enum lw_dtype t)
{
    return dtypes[t].name;
}

static enum lw_status unknown(const char *name, struct lw_err *err)
{
    struct lw_nearest near = lw_nearest_begin(name);
    char all[64] = "", hint[96];

    for (int i = 0; i < LW_N_DTYPES; i++) {
        lw_nearest_try(&near, dtypes[i].name);
        lw_err_word(all, sizeof all, dtypes[i].name);
    }
    return lw_fail(err, LW_EINVAL, "unknown dtype '%s'%s; expected one of %s", name,
                   lw_nearest_hint(&near, "", hint, sizeof hint), all);
}

enum lw_status lw_dtype_parse(const char *name, enum lw_dtype *t, struct lw_err *err)
{
    const char *bare = strncmp(name, "torch.", 6) == 0 ? name + 6 : name;

    for (int i = 0; i < LW_N_DTYPES; i++) {
        if (!strcasecmp(bare, dtypes[i].name) || !strcasecmp(bare, dtypes[i].torch) ||
            !strcasecmp(bare, dtypes[i].kineto) ||
            (dtypes[i].other && !strcasecmp(bare, dtypes[i].other))) {
            *t = (enum lw_dtype)i;
            return LW_OK;
        }
    }
    return unknown(name, err);
}
