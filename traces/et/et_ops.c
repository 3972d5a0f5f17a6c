/* Products by op. The backward of a convolution is two of them: for its input and its weight. */
#include "traces/et/et_ops.h"

#include <string.h>

static int64_t product_of(const struct et_shape *s, int32_t from)
{
    int64_t n = 1;

    for (int32_t i = from; i < s->n; i++)
        if (__builtin_mul_overflow(n, s->dim[i], &n))
            return -1;
    return n;
}

static bool matrix(const struct et_shape *a, const struct et_shape *b, bool batched,
                   struct lw_product *p)
{
    int32_t n = batched ? 3 : 2;

    if (a->n != n || b->n != n)
        return false;
    p->batch = batched ? a->dim[0] : 1;
    p->m = a->dim[n - 2];
    p->k = a->dim[n - 1];
    p->n = b->dim[n - 1];
    return true;
}

/* input N x C x pixels, weight K x C/groups x window: output pixels x (C/groups window) x K. */
static bool convolution(const struct et_shape *out, const struct et_shape *weight,
                        struct lw_product *p)
{
    if (out->n < 3 || weight->n != out->n || out->dim[1] < 1)
        return false;
    p->batch = 1;
    p->m = product_of(out, 0) / out->dim[1];
    p->n = out->dim[1];
    p->k = product_of(weight, 1);
    return true;
}

bool et_product(const char *name, const struct et_shape in[ET_INPUTS],
                const struct et_shape out[ET_INPUTS], enum lw_dtype dtype, struct lw_product *p,
                int32_t *times)
{
    static const struct {
        const char *name;
        int32_t first;
        bool batched;
    } products[] = {{"aten::mm", 0, false},
                    {"aten::addmm", 1, false},
                    {"aten::bmm", 0, true},
                    {"aten::baddbmm", 1, true}};
    bool found = false;

    *p = (struct lw_product){.dtype = dtype};
    *times = 1;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (strcmp(name, products[i].name) == 0)
            found =
                matrix(&in[products[i].first], &in[products[i].first + 1], products[i].batched, p);
    if (strcmp(name, "aten::convolution_backward") == 0) {
        found = convolution(&in[0], &in[2], p);
        *times = 2;
    } else if (strncmp(name, "aten::", 6) == 0 && strstr(name, "convolution") && !found) {
        found = convolution(&out[0], &in[1], p);
    }
    return found && lw_product_check(p, 0, NULL) == LW_OK;
}
