/* Memory of streams under FSDP2, of plans with gathers: what an allocator's pools hold. */
#include "tests/lib/unit.h"

#include "tests/lib/traces/model_help.h"
#include "shared/cluster/cluster.h"
#include "shared/files/files.h"
#include "shared/framework/framework_memory.h"
#include "shared/lower/lower.h"
#include "shared/timeline/param_memory.h"

enum { LAYERS = 6, UNIT = 2 * (4 * 4 + 4), PEAK = 10000 };

static struct lw_plan plan_of(int zero)
{
    struct lw_workload w = model_build("mlp", (struct traces_model_shape){
                                                  .batch = 1, .width = 4, .layers = LAYERS,
                                                  .dtype = "bf16", .optimizer = "adam"});
    struct lw_strategy s = lw_strategy_default();
    struct lw_plan p = {0};
    struct lw_err err = {0};

    s.dp = 2;
    s.zero = zero;
    s.grad_dtype = LW_GRAD_F32;
    assert_ok(lw_plan_build(&w, &s, NULL, &p, &err), err);
    lw_workload_free(&w);
    return p;
}

static struct lw_framework_bytes bytes_of(struct lw_plan *p, bool pools)
{
    const struct lw_device device = {0};
    const struct lw_measure m = {.peak_memory_bytes = PEAK};
    struct lw_framework f;
    struct lw_framework_bytes out;
    struct lw_err err = {0};

    assert_ok(lw_framework_find("torchtitan-compile", &f, &err), err);
    f.freed_scores.value = 0;
    f.stream_pools.value = pools;
    lw_framework_hold(&f, p);
    lw_framework_bytes_of(&f, p, &device, &m, &out);
    lw_framework_free(&f);
    return out;
}

/* Modules of 4 x 4 weights and 4 biases of 16 bits are units of 40 bytes: two neighbours are
 * gathered at most, and the two ranks share 20 f32 gradients of each of 6, 40 bytes a rank. Tensors
 * are the same; without shards of weights nothing is gathered. */
TEST(gathers_and_reduced_shards_have_their_own_pools)
{
    static const struct {
        int zero;
        int64_t pools;
    } cases[] = {{3, 2 * UNIT + LAYERS * UNIT}, {2, 0}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_plan p = plan_of(cases[i].zero);
        struct lw_framework_bytes with = bytes_of(&p, true), without = bytes_of(&p, false);
        assert_true(with.allocated == without.allocated);
        assert_true(with.needed == without.needed);
        assert_true(with.reserved - without.reserved == (double)cases[i].pools);
        lw_plan_free(&p);
    }
}

/* The master of a 16-bit weight is its shard: 12 bytes of an element's share and not 14. Under
 * ZeRO-2 the weights are whole. */
TEST(a_shard_of_a_weight_is_its_master)
{
    for (int zero = 2; zero <= 3; zero++) {
        struct lw_plan p = plan_of(zero);
        int64_t weights = p.roles[0].static_bytes[LW_MEM_PARAMS];
        p.dims.layers = LAYERS;
        p.dims.hidden = 4;
        bytes_of(&p, true);
        assert_int_equal(weights, zero == 3 ? LAYERS * UNIT / 2 : LAYERS * UNIT);
        assert_int_equal(p.roles[0].static_bytes[LW_MEM_PARAMS], zero == 3 ? 0 : weights);
        assert_int_equal(p.roles[0].static_bytes[LW_MEM_OPTIMIZER], 12 * LAYERS * UNIT / 2 / 2);
        lw_plan_free(&p);
    }
}
