/* The kernels of a model's workload as a table: modules that are alike share theirs, which are
 * shown once. */
#include "traces/models/model_kernels.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "shared/text/wrap.h"

struct row {
    const char *module;
    int32_t n_modules, kernel;
    int kind, split;
    char shape[64];
    int64_t forward, input, weight; /* ns; -1 = none, or not timed */
    int bound;                      /* of the forward, else of the backward; -1 = not timed */
};

#define AT(field) offsetof(struct row, field)
/* Names and shapes align right: such columns are never cut. */
static const struct lw_column columns[] = {
    {"module", ">module", LW_COLUMN_STRING, AT(module)},
    {"n_modules", ">n", LW_COLUMN_INT32, AT(n_modules)},
    {"kernel", NULL, LW_COLUMN_INT32, AT(kernel)},
    {"kind", "kind", LW_COLUMN_WORD, AT(kind), .word = lw_kernel_kind_word},
    {"split", "split", LW_COLUMN_WORD, AT(split), .word = lw_kernel_split_word},
    {"shape", ">whole shape", LW_COLUMN_CHARS, AT(shape)},
    {"bound", "forward bound by", LW_COLUMN_WORD, AT(bound), .word = lw_bound_word},
    {"forward_ns", ">forward", LW_COLUMN_NS, AT(forward)},
    {"input_ns", ">input", LW_COLUMN_NS, AT(input)},
    {"weight_ns", ">weight", LW_COLUMN_NS, AT(weight)},
};
#undef AT

/* Of megabytes: at least three, and no exponent. */
static int digits(int64_t bytes)
{
    int n = 3;

    for (int64_t least = 1000000000; n < 12 && bytes >= least; least *= 10)
        n++;
    return n;
}

/* GEMM: m, n, k, after a batch or experts; attention: sequences and tokens, heads and those of keys
 * and values; traffic: bytes of the phases. */
static void put_shape(const struct lw_kernel *k, char *buf, size_t size)
{
    if (k->kind == LW_KERNEL_GEMM && k->experts > 0)
        snprintf(buf, size, "%" PRId64 "x%" PRId64 ",%" PRId64 ",%" PRId64, k->experts,
                 k->m / k->experts, k->n, k->k);
    else if (k->kind == LW_KERNEL_GEMM && k->batch > 1)
        snprintf(buf, size, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, k->batch, k->m, k->n,
                 k->k);
    else if (k->kind == LW_KERNEL_GEMM)
        snprintf(buf, size, "%" PRId64 ",%" PRId64 ",%" PRId64, k->m, k->n, k->k);
    else if (k->kind == LW_KERNEL_ATTENTION)
        snprintf(buf, size, "%" PRId64 "x%" PRId64 ", %" PRId64 "/%" PRId64, k->batch, k->m,
                 k->heads, k->kv_heads);
    else
        snprintf(buf, size, "%.*g/%.*g/%.*g MB", digits(k->bytes[0]), (double)k->bytes[0] / 1e6,
                 digits(k->bytes[1]), (double)k->bytes[1] / 1e6, digits(k->bytes[2]),
                 (double)k->bytes[2] / 1e6);
}

/* A module without kernels may begin where another's begin. */
static bool shares(const struct lw_module *a, const struct lw_module *b)
{
    return a->n_kernels > 0 && a->first_kernel == b->first_kernel;
}

static struct row row_of(const struct lw_workload *w, const struct lw_module *m, int32_t k)
{
    const struct lw_kernel_times *t = &w->kernel_times[m->first_kernel + k];
    const struct lw_kernel *kernel = &w->kernels[m->first_kernel + k];
    bool timed = w->from.device[0] != '\0';
    struct row r = {.module = m->name, .kernel = k, .kind = kernel->kind, .split = kernel->split,
                    .forward = -1, .input = -1, .weight = -1, .bound = -1};
    int64_t *const of[LW_N_PRODUCT_PHASES] = {&r.forward, &r.input, &r.weight};

    put_shape(kernel, r.shape, sizeof r.shape);
    for (int phase = LW_N_PRODUCT_PHASES - 1; timed && phase >= 0; phase--)
        if (t->ps[phase] > 0) {
            *of[phase] = lw_ps_to_ns(t->ps[phase]);
            r.bound = (int)t->bound[phase];
        }
    for (int32_t i = 0; i < w->n_modules; i++)
        r.n_modules += shares(&w->modules[i], m);
    return r;
}

/* Not shared with a module before it. */
static bool is_first(const struct lw_workload *w, const struct lw_module *m)
{
    for (const struct lw_module *x = w->modules; x < m; x++)
        if (shares(x, m))
            return false;
    return true;
}

static int of_group(int64_t n)
{
    return n > 0 ? (int)n : 1;
}

/* What the times are of. */
static void put_head(const struct lw_workload *w, const struct lw_framework_choice *framework)
{
    const struct lw_made_for *m = &w->from.made_for;

    lw_printf_paragraph(stdout, "%s, %s%s, a rank of --tp %d --cp %d --ep %d; n modules have the "
                                "kernel, shapes are whole", w->name,
                        w->from.device[0] ? "on " : "without a device: no times",
                        w->from.device, of_group(m->tp), of_group(m->cp), of_group(m->ep));
    if (framework)
        lw_framework_choice_print(framework, stdout);
    fputc('\n', stdout);
}

enum lw_status traces_model_print_kernels(const struct lw_workload *w,
                                          const struct lw_framework_choice *framework,
                                          enum lw_format format, struct lw_err *err)
{
    struct row *rows;
    int32_t n = 0;

    LW_NEW(rows, w->n_kernels, err);
    for (int32_t i = 0; i < w->n_modules; i++)
        for (int32_t k = 0; k < w->modules[i].n_kernels && is_first(w, &w->modules[i]); k++)
            rows[n++] = row_of(w, &w->modules[i], k);
    if (format == LW_FORMAT_TEXT)
        put_head(w, framework);
    enum lw_status s =
        lw_records_print(&LW_RECORDS("kernels", columns, rows, n), format, stdout, err);
    lw_free(rows);
    return s;
}
