/* Integer gradients. A table of pseudo-random whole numbers is drawn once from a fixed seed; block
 * b of a gradient is a stretch of it that begins where a hash of (parameter, block, step, pass,
 * rank) says. So filling is a copy, at memory speed, and yet an element that lands one place off,
 * in another block, another parameter or from another rank is found: any two streams agree in an
 * element by chance only, about once in 2 * largest.
 *
 * Exactness. With d = divisor = odd * 2^k: values are odd * v, |v| <= largest. A sum of n_terms of
 * them is at most n_terms * odd * largest <= limit, hence exact in every order and grouping; its
 * quotient by d is a whole number over 2^k, exact as well. Dividing before summing gives v / 2^k
 * terms, equally exact. */
#include "exec/cpu/gradients.h"

#include "exec/backend/element.h"

enum { TABLE = EXEC_GRADIENT_TABLE, BLOCK = EXEC_GRADIENT_BLOCK, CAP = 1000 };

static uint32_t block_start(const struct exec_gradient *g, int64_t block)
{
    return exec_gradient_start(g->param, g->rank, g->step, g->pass, block);
}

enum lw_status exec_gradient_table_init(struct exec_gradient_table *t, int64_t n_terms,
                                        int32_t divisor, int64_t limit, struct lw_err *err)
{
    int32_t odd = divisor > 0 ? divisor : 1;

    while (odd % 2 == 0)
        odd /= 2;
    int64_t largest = limit / n_terms / odd;
    if (largest < 1)
        return lw_fail(err, LW_EINVAL,
                       "%lld gradients that are multiples of %d do not add up exactly in a type "
                       "that holds whole numbers to %lld: at most %lld can be verified",
                       (long long)n_terms, odd, (long long)limit, (long long)(limit / odd));
    t->multiple = odd;
    t->largest = largest < CAP ? (int32_t)largest : CAP;
    for (uint32_t i = 0; i < TABLE + BLOCK; i++) {
        uint64_t h = exec_mix(i);
        float v = (float)((int64_t)(h % (uint64_t)t->largest + 1) * odd);
        t->value[i] = h >> 63 ? -v : v;
    }
    return LW_OK;
}

double exec_gradient_at(const struct exec_gradient *g, int64_t element)
{
    return (double)g->table->value[block_start(g, element / BLOCK) + element % BLOCK];
}

void exec_gradient_fill(const struct exec_gradient *g, enum lw_dtype t, void *to, int64_t first,
                        int64_t n, bool add)
{
    int64_t size = lw_dtype_size(t);

    for (int64_t at = 0; at < n;) {
        int64_t element = first + at, inside = element % BLOCK;
        int64_t some = BLOCK - inside < n - at ? BLOCK - inside : n - at;
        const float *from = g->table->value + block_start(g, element / BLOCK) + inside;
        char *here = (char *)to + at * size;
        if (!add)
            exec_convert(t, here, LW_F32, from, some, 1);
        else if (t == LW_F32)
            exec_add(LW_F32, here, from, some);
        else
            for (int64_t i = 0; i < some; i++)
                exec_put(t, here, i, (double)from[i] + exec_get(t, here, i));
        at += some;
    }
}

/* want[BLOCK] = block b of the gradient, or of the sum, as far as it goes. */
static void expected_block(const struct exec_part *p, int64_t b, double *want)
{
    struct exec_gradient g = p->gradient;
    int64_t n = p->count - b * BLOCK < BLOCK ? p->count - b * BLOCK : BLOCK;

    for (int32_t k = 0; k == 0 || k < p->n_ranks; k++) {
        g.rank = p->n_ranks > 0 ? p->ranks[k] : g.rank;
        const float *from = g.table->value + block_start(&g, b);
        for (int64_t i = 0; i < n; i++)
            want[i] = (double)from[i] + (k > 0 ? want[i] : 0);
    }
}

void exec_gradient_expect(const struct exec_part *p)
{
    double want[BLOCK];

    for (int64_t i = 0; i < p->count; i++) {
        double got = exec_get(p->from_dtype, p->from, i);
        if (i % BLOCK == 0)
            expected_block(p, i / BLOCK, want);
        if (got == want[i % BLOCK])
            continue;
        *p->found = (struct exec_mismatch){.place = i + 1, .got = got};
        for (int64_t k = 0; k < EXEC_SEEN && k < p->count; k++)
            p->found->seen[k] = exec_get(p->from_dtype, p->from, k);
        return;
    }
}

void exec_gradient_carry(const struct exec_part *p)
{
    const float *own = NULL;

    for (int64_t i = 0, k = 0; i < p->count; i++, k = k + 1 < p->n_from ? k + 1 : 0) {
        if (k % BLOCK == 0)
            own = p->gradient.table->value + block_start(&p->gradient, k / BLOCK);
        double more = exec_get(p->from_dtype, p->from, k) - (double)own[k % BLOCK];
        exec_put(p->to_dtype, p->to, i, exec_get(p->to_dtype, p->to, i) + more);
    }
}
