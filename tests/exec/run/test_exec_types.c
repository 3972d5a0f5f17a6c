/* Element types on the executor: gradients of another type than their parameter (--grad-dtype),
 * hooks that compress (--comm-hook), weights narrowed on the wire (--broadcast-dtype). Every run
 * is compared with the one-rank run bit by bit. The model is a chain of modules with a parameter
 * each: parameter i has 12 * (i + 1) elements. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/run/run.h"
#include "shared/lower/lower.h"
#include "shared/workload/buffer.h"
#include "tests/lib/exec/exec_chain.h"
#include "tests/lib/plans/drawn_words.h"
#include "tests/lib/prng.h"

enum { MODULES = 6 };

struct model {
    struct chain c;
    struct lw_buffer buffers[3];
};

static void model_init(struct model *k, enum lw_dtype dtype)
{
    memset(k, 0, sizeof *k);
    chain_init(&k->c, MODULES);
    for (int32_t i = 0; i < MODULES; i++) {
        k->c.params[i].name = "w";
        k->c.params[i].numel = 12 * (i + 1);
        k->c.params[i].dtype = (uint8_t)dtype;
    }
    k->c.w.buffers = k->buffers;
}

static bool sends_buffers(const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        if (strcmp(p->ops[i].name, "buffers") == 0)
            return true;
    return false;
}

static int64_t verified(const struct lw_plan *p, enum exec_optimizer_kind kind, const char *words)
{
    struct lw_exec_options o = exec_asleep(3, kind);
    int64_t messages, bytes = exec_verified(p, &o, words, &messages);

    assert_true(messages > 0 || !sends_buffers(p));
    return bytes;
}

static int64_t runs(enum lw_dtype dtype, const char *words, enum exec_optimizer_kind kind)
{
    struct model k;

    model_init(&k, dtype);
    struct lw_plan p = plan_of_words(&k.c.w, words);
    int64_t bytes = verified(&p, kind, words);
    lw_plan_free(&p);
    return bytes;
}

/* --- gradients -------------------------------------------------------------------------------- */

/* 12 + 24 + ... + 72 = 252 elements on 2 ranks; weights of 2 bytes with masters of 4, or of 4. */
TEST(gradients_of_another_type_end_like_one)
{
    assert_int_equal(runs(LW_BF16, "dp 2 grad-dtype f32", EXEC_SGD), 252 * (2 + 4) * 2);
    assert_int_equal(runs(LW_F32, "dp 2 grad-dtype bf16", EXEC_SGD), 252 * 4 * 2);
    assert_int_equal(runs(LW_BF16, "dp 2 grad-dtype f32 compat picotron", EXEC_ADAM),
                     252 * (2 + 4 + 8) * 2);
    assert_int_equal(runs(LW_F16, "dp 2 grad-dtype f64 no-sync 2", EXEC_MOMENTUM),
                     252 * (2 + 4 + 4) * 2);
}

/* 4 ranks, 80 backwards each: 320 terms. bf16 holds whole numbers to 256, f32 beyond. */
TEST(exactness_is_of_the_gradients_types_not_of_the_weights)
{
    struct lw_exec_options o = exec_asleep(3, EXEC_SGD);
    struct lw_exec_result r;
    struct lw_err err = {0};
    struct model k;

    runs(LW_BF16, "dp 4 micro-batches 80 grad-dtype f32", EXEC_SGD);
    model_init(&k, LW_F32);
    struct lw_plan p = plan_of_words(&k.c.w, "dp 4 micro-batches 80 grad-dtype bf16");
    assert_int_equal(lw_exec_run(&p, &o, &r, &err), LW_EINVAL);
    if (!strstr(err.msg, "320 gradients") || !strstr(err.msg, "at most 256 can be verified"))
        fail_msg("%s", err.msg);
    lw_plan_free(&p);
}

/* f32 weights keep 2^24 for their gradients although they travel as bf16. */
TEST(narrowed_weights_do_not_narrow_gradients)
{
    runs(LW_F32, "dp 4 micro-batches 80 zero 1 broadcast-dtype bf16", EXEC_SGD);
}

/* --- hooks and weights ------------------------------------------------------------------------ */

TEST(every_hook_ends_like_one)
{
    const struct lw_strategy_option *hook = lw_strategy_option(lw_strategy_find("comm-hook"));
    static const char *const with[] = {"", " compat c10d", " bucket-policy c10d-2020",
                                       " bucket-policy picotron", " zero 2", " zero 3",
                                       " grad-dtype f32"};
    char words[120];
    int n = 0;

    for (int h = 0; hook->values[h]; h++)
        for (size_t i = 0; i < sizeof with / sizeof *with; i++, n++) {
            snprintf(words, sizeof words, "dp 3 comm-hook %s%s", hook->values[h], with[i]);
            runs(n % 2 ? LW_BF16 : LW_F32, words, EXEC_MOMENTUM);
        }
    assert_int_equal(n, 3 * 7);
}

/* Weights of 252 elements, f32: on every rank, the owner too; as shards have no masters, nothing
 * but state is left on owners. */
TEST(narrowed_weights_end_like_one)
{
    static const char *const shards[] = {"oss-greedy", "lpt", "flat-contiguous", "per-tensor"};
    char words[120];

    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++)
        for (int k = 0; k < 2; k++) {
            snprintf(words, sizeof words, "dp 3 zero 1 shard-policy %s broadcast-dtype %s",
                     shards[i], k ? "f16" : "bf16");
            assert_int_equal(runs(LW_F32, words, EXEC_ADAM), 252 * 4 * 3 + 252 * 4 * 2);
        }
    assert_int_equal(runs(LW_F64, "dp 2 zero 1 broadcast-dtype f16", EXEC_SGD),
                     252 * 8 * 2 + 252 * 4); /* weights everywhere, masters on owners */
}

/* Running averages, a counter, a mask: a broadcast for each type. */
static void give_buffers(struct model *k)
{
    k->buffers[0] = (struct lw_buffer){"mean", 5, LW_F32, true};
    k->buffers[1] = (struct lw_buffer){"count", 1, LW_I64, true};
    k->buffers[2] = (struct lw_buffer){"mask", 300, LW_U8, true};
    k->c.w.n_buffers = 3;
}

/* 5 * 4 + 8 + 300 bytes on 2 ranks in each of 3 steps. */
TEST(buffers_are_compared_whatever_their_type)
{
    struct lw_exec_options o = exec_asleep(3, EXEC_SGD);
    struct model k;
    int64_t messages;

    model_init(&k, LW_F32);
    give_buffers(&k);
    struct lw_plan p = plan_of_words(&k.c.w, "dp 2");
    exec_verified(&p, &o, "dp 2", &messages);
    assert_int_equal(messages, 3 * (5 * 4 + 8 + 300) * 2);
    lw_plan_free(&p);
}

/* --- faults ----------------------------------------------------------------------------------- */

static void expect_fault(const struct lw_plan *p, const char *words)
{
    struct lw_exec_options o = exec_asleep(3, EXEC_SGD);

    exec_expect_fault(p, &o, words);
}

/* The n-th cast of every program waits instead. */
static void lose_cast(const struct lw_plan *p, int n)
{
    for (int32_t v = 0; v < p->n_variants * p->n_roles; v++) {
        const struct lw_program *g = &p->programs[v];
        for (int32_t i = g->first_op, k = 0; i < g->first_op + g->n_ops; i++)
            if (p->ops[i].kind == LW_OP_CAST && k++ == n) {
                p->ops[i].kind = LW_OP_EVENT_WAIT;
                p->ops[i].bucket = -1;
            }
    }
}

TEST(casts_left_out_are_named)
{
    static const struct {
        const char *plan;
        int cast;
        const char *words;
    } cases[] = {
        {"dp 2 comm-hook fp16", 0,
         "(all_reduce, bucket 0) of 'first' for role 'data' takes f16, and nothing has cast the "
         "bucket's f32"},
        {"dp 2 comm-hook fp16", 1, "bucket 0 comes back as f16 and is never cast to f32"},
        {"dp 2 zero 1 shard-policy oss-greedy broadcast-dtype bf16", 0,
         "(broadcast, bucket 2) of 'first' for role 'data' takes bf16, and nothing has "
         "cast the bucket's f32"},
        {"dp 2 zero 1 shard-policy oss-greedy broadcast-dtype bf16", 3,
         "bucket 3 comes back as bf16 and is never cast to f32"},
    };
    struct model k;

    model_init(&k, LW_F32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_plan p = plan_of_words(&k.c.w, cases[i].plan);
        lose_cast(&p, cases[i].cast);
        expect_fault(&p, cases[i].words);
        lw_plan_free(&p);
    }
}

/* The gradients say f32 and the buckets were made for bf16. */
TEST(a_type_that_no_cast_makes_is_refused)
{
    struct lw_exec_options o = exec_asleep(3, EXEC_SGD);
    struct model k;

    model_init(&k, LW_BF16);
    struct lw_plan p = plan_of_words(&k.c.w, "dp 2");
    p.strategy->grad_dtype = LW_GRAD_F32;
    exec_ends(&p, &o, LW_EPLAN,
              "is of bf16 and holds the gradient of 'w', which is of f32, without a cast");
    lw_plan_free(&p);
}

/* --- random grids ----------------------------------------------------------------------------- */

static void draw_zero(struct prng *r, char *words, size_t room)
{
    int64_t zero = prng_in(r, 0, 3);
    const char *shard = zero == 1 ? ONE_OF(r, "oss-greedy", "lpt", "flat-contiguous", "per-tensor")
                        : zero == 2 ? ONE_OF(r, "oss-greedy", "flat-contiguous", "per-tensor")
                                    : "";
    char stage[2] = {(char)('0' + zero), 0};

    add_word(words, room, "zero", stage);
    add_word(words, room, "shard-policy", shard);
    if (zero == 1 || zero == 2)
        add_word(words, room, "broadcast-dtype", ONE_OF(r, "", "f16", "bf16"));
    if (zero < 2)
        add_word(words, room, "bucket-policy",
            ONE_OF(r, "c10d-2", "c10d-1.13", "c10d-2020", "picotron", "colossal", "per-tensor",
                   "single"));
}

static void draw(struct prng *r, char *words, size_t room)
{
    *words = '\0';
    add_word(words, room, "dp", ONE_OF(r, "2", "3", "4"));
    add_word(words, room, "pp", ONE_OF(r, "", "", "2"));
    draw_zero(r, words, room);
    add_word(words, room, "grad-dtype", ONE_OF(r, "", "f32", "f64", "f16", "bf16"));
    add_word(words, room, "comm-hook", ONE_OF(r, "", "", "fp16", "bf16"));
    add_word(words, room, "micro-batches", ONE_OF(r, "", "2", "4"));
    add_word(words, room, "no-sync", ONE_OF(r, "", "", "1", "2"));
    add_word(words, room, "overlap", ONE_OF(r, "on", "on", "off"));
}

TEST(random_grids_end_like_one)
{
    static const enum lw_dtype types[] = {LW_F32, LW_F64, LW_F16, LW_BF16};
    struct prng r = prng_start("types");
    const int grids = unit_cases(30, 150);
    int made = 0, mixed = 0, narrowed = 0, hooked = 0;
    char words[400];

    for (int tries = 0; made < grids; tries++) {
        struct model k;
        struct lw_plan p;
        struct lw_err err = {0};
        model_init(&k, types[prng_in(&r, 0, 3)]);
        for (int32_t i = 0; prng_in(&r, 0, 2) == 0 && i < MODULES; i++)
            k.c.params[i].dtype = (uint8_t)types[prng_in(&r, 0, 3)];
        if (prng_in(&r, 0, 2) == 0)
            give_buffers(&k);
        enum exec_optimizer_kind kind =
            (enum exec_optimizer_kind)prng_in(&r, 0, EXEC_N_OPTIMIZERS - 1);
        draw(&r, words, sizeof words);
        struct lw_strategy s = strategy(words);
        if (tries > 20 * grids)
            fail_msg("only %d of %d drawn plans can be built", made, tries);
        if (lw_plan_build(&k.c.w, &s, NULL, &p, &err) != LW_OK)
            continue;
        verified(&p, kind, words);
        mixed += p.strategy->grad_dtype != LW_GRAD_AS_PARAM;
        narrowed += p.strategy->broadcast_dtype != LW_F32;
        hooked += p.strategy->comm_hook != LW_HOOK_NONE;
        lw_plan_free(&p);
        made++;
    }
    printf("%d plans run: %d with a gradient type of their own, %d with narrowed weights, %d with "
           "hooks\n",
           made, mixed, narrowed, hooked);
    assert_true(mixed > grids / 3 && narrowed > grids / 10 && hooked > grids / 10);
}
