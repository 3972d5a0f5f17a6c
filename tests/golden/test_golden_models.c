/* What the kernels of every model add up to, as it was committed: tests/golden/models.txt, one line
 * per model,
 *
 *     NAME N = HASH
 *
 * over N workloads: devices timed by shape, by roofline and by tables measured over sizes;
 * frameworks; tensor, context and expert groups; sequence parallelism, 8-bit operands, adapters.
 * Transformers have three blocks. LAPWING_GOLDEN=update (`make golden-update`) writes them anew. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/hash.h"
#include "shared/files/files.h"
#include "shared/framework/framework.h"
#include "shared/strategy/strategy.h"
#include "traces/models/model_workload.h"
#include "traces/models/models.h"

#define MODELS "tests/golden/models.txt"
enum { BLOCKS = 3, LINE = 200 };

static struct lw_cluster clusters[3];
static struct lw_framework frameworks[4];

static const int64_t sizes[] = {1 << 20, 1 << 26, INT64_C(1) << 32, INT64_C(1) << 40};
static const lw_ps times[] = {5000000, 8000000, 60000000, 9000000000};
/* kind, type, type that is read, rows */
static struct lw_work_table tables[] = {
    {LW_WORK_GEMM, LW_F32, LW_F32, 4, sizes, times, NULL, "test"},
    {LW_WORK_GEMM, LW_BF16, LW_BF16, 4, sizes, times, NULL, "test"},
    {LW_WORK_COPY, LW_F32, LW_F32, 3, sizes, times, NULL, "test"},
    {LW_WORK_ADAM, LW_F32, LW_F32, 3, sizes, times, NULL, "test"},
};

static const char *const groups[] = {
    "", "tp=2", "tp=4 sequence-parallel=on", "tp=3", "cp=2", "tp=2 cp=2 sequence-parallel=on",
    "dp=2 ep=2", "dp=4 cp=2 tp=2 ep=8", "dp=2 grad-dtype=f32",
};

static const struct lw_model_request options[] = {
    {0}, {.fp8 = true}, {.lora = 16}, {.mtp_layers = 1}, {.expert_capacity = 1.3},
    {.expert_whole = true}, {.attention = "full"}, {.attention = "flash"},
    {.dtype = "f32", .batch = 3},
};

#define N(x) (sizeof(x) / sizeof *(x))

static struct lw_strategy strategy_of(const char *words)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};
    char cut[100];

    snprintf(cut, sizeof cut, "%s", words);
    for (char *rest = cut, *o; (o = strtok_r(rest, " ", &rest));) {
        char *value = strchr(o, '=');
        *value++ = '\0';
        assert_ok(lw_strategy_set(&s, o, value, &err), err);
    }
    return s;
}

static void hash_module(struct lw_hash *h, const struct lw_module *m)
{
    struct lw_module copy = *m;
    int64_t *fields[LW_N_TOKEN_FIELDS];

    lw_module_token_fields(&copy, fields);
    for (int f = 0; f < LW_N_TOKEN_FIELDS; f++)
        lw_hash_int(h, *fields[f]);
    lw_hash_int(h, m->kv_bytes);
    for (int phase = 0; phase < LW_N_PRODUCT_PHASES; phase++) {
        lw_hash_int(h, m->n_products[phase]);
        lw_hash_ints32(h, m->products[phase], m->n_products[phase]);
    }
}

static void hash_product(struct lw_hash *h, const struct lw_product *p)
{
    const int64_t of[] = {p->batch, p->m, p->n, p->k, p->dtype, p->fp8, p->accumulate, p->out_size,
                          p->grouped};

    lw_hash_ints(h, of, N(of));
}

static void hash_workload(struct lw_hash *h, const struct lw_workload *w)
{
    for (int32_t i = 0; i < w->n_modules; i++)
        hash_module(h, &w->modules[i]);
    for (int32_t i = 0; i < w->n_products; i++)
        hash_product(h, &w->products[i]);
    for (int32_t i = 0; i < w->n_params; i++)
        lw_hash_int(h, w->params[i].ready_ps);
    lw_hash_ints32(h, w->ready_order, w->n_ready);
    lw_hash_int(h, w->optimizer_ps);
    lw_hash_int(h, w->gradients_ps);
}

/* 0: the model or the device does not have it. A context group divides tokens. */
static int add_workload(struct lw_hash *h, const struct traces_model *m,
                        const struct lw_model_request *option,
                        const struct lw_model_target *target)
{
    struct lw_model_request r = *option;
    struct lw_workload w;

    r.name = m->name;
    r.layers = m->defaults.layers == 0 ? 0 : m->defaults.width > 0 ? BLOCKS + 1 : BLOCKS;
    if (target->strategy->cp > 1 && m->defaults.seq == 0)
        return 0;
    if (traces_model_workload(&r, target, &w, NULL) != LW_OK)
        return 0;
    hash_workload(h, &w);
    lw_workload_free(&w);
    return 1;
}

static int hash_of(const struct traces_model *m, char hash[33])
{
    struct lw_hash *h = lw_hash_new();
    int n = 0;

    assert_non_null(h);
    for (size_t c = 0; c < N(clusters); c++)
        for (size_t f = 0; f < N(frameworks); f++)
            for (size_t g = 0; g < N(groups); g++)
                for (size_t o = 0; o < N(options); o++) {
                    const struct lw_strategy s = strategy_of(groups[g]);
                    const struct lw_model_target target = {
                        .strategy = &s, .cluster = &clusters[c], .framework = &frameworks[f]};
                    if (g == 0 || o == 0 || (g + o + c + f) % 3 == 0)
                        n += add_workload(h, m, &options[o], &target);
                }
    lw_hash_finish(h, hash);
    return n;
}

static void open_inputs(void)
{
    static const char *const names[] = {"ideal", "megatron-lm", "nanotron", "torchtitan"};
    struct lw_err err = {0};

    assert_ok(lw_cluster_find("dgx-h100", &clusters[0], &err), err);
    assert_ok(lw_cluster_find("a10g", &clusters[1], &err), err);
    assert_ok(lw_cluster_find("dgx-h100", &clusters[2], &err), err);
    clusters[2].device.work = tables;
    clusters[2].device.n_work = N(tables);
    for (size_t f = 0; f < N(names); f++)
        assert_ok(lw_framework_find(names[f], &frameworks[f], &err), err);
}

static void write_all(void)
{
    const struct traces_model *m;
    FILE *f = fopen(MODELS ".new", "w");
    char hash[33];

    assert_non_null(f);
    for (int k = 0; (m = traces_model_at(k)) != NULL; k++) {
        int n = hash_of(m, hash);
        fprintf(f, "%s %d = %s\n", m->name, n, hash);
    }
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(MODELS ".new", MODELS), 0);
}

/* "" where the file does not have the model. */
static void committed(const char *name, char line[LINE])
{
    FILE *f = fopen(MODELS, "r");
    size_t length = strlen(name);

    assert_non_null(f);
    while (fgets(line, LINE, f))
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            break;
    if (feof(f))
        line[0] = '\0';
    fclose(f);
}

TEST(workloads_of_all_models_are_as_committed)
{
    const char *how = getenv("LAPWING_GOLDEN");
    const struct traces_model *m;
    char hash[33], is[LINE], was[LINE];
    int differ = 0, all = 0;

    open_inputs();
    if (how && strcmp(how, "update") == 0)
        write_all();
    for (int k = 0; (m = traces_model_at(k)) != NULL; k++) {
        int n = hash_of(m, hash);
        snprintf(is, sizeof is, "%s %d = %s\n", m->name, n, hash);
        committed(m->name, was);
        all += n;
        if (strcmp(is, was) == 0)
            continue;
        differ++;
        print_message("%s instead of %s\n", is, was);
    }
    for (size_t c = 0; c < N(clusters); c++) {
        clusters[c].device.n_work = 0;
        lw_cluster_free(&clusters[c]);
    }
    for (size_t f = 0; f < N(frameworks); f++)
        lw_framework_free(&frameworks[f]);
    assert_true(all > 1000);
    if (differ)
        fail_msg("%d models differ; if they are meant to, run 'make golden-update'", differ);
}
