/* Runs that save their state, and runs that go on from it by other plans: docs/design/state.md. The
 * model is the chain of tests/lib/exec_chain.h. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "exec/backend/element.h"
#include "exec/cpu/gradients.h"
#include "tests/lib/exec_chain.h"
#include "tests/lib/prng.h"

static struct lw_exec_options state_options(enum exec_optimizer_kind kind, int32_t n_steps,
                                            const struct lw_exec_state *load)
{
    struct lw_exec_options o = options();

    o.optimizer = exec_optimizer_of(kind);
    o.n_warmup = n_steps > 1;
    o.n_steps = n_steps - o.n_warmup;
    o.load = load;
    o.save = true;
    return o;
}

/* Runs, is verified, and leaves its state. */
static struct lw_exec_state train(const struct lw_plan *p, const struct lw_exec_options *o)
{
    struct lw_exec_result r;
    struct lw_err err = {0};

    if (lw_exec_run(p, o, &r, &err) != LW_OK)
        fail_msg("%s: %s", p->name, err.msg);
    assert_int_equal(r.verified, LW_EXEC_VERIFIED);
    assert_int_equal(r.n_loaded_bytes, o->load ? o->load->n_bytes : 0);
    struct lw_exec_state s = r.state;
    r.state = (struct lw_exec_state){0};
    lw_exec_result_free(&r);
    return s;
}

static struct lw_exec_state train_words(const struct chain *c, const char *words,
                                        enum exec_optimizer_kind kind, int32_t n_steps,
                                        const struct lw_exec_state *load)
{
    struct lw_plan p = build(c, words);
    struct lw_exec_options o = state_options(kind, n_steps, load);
    struct lw_exec_state s = train(&p, &o);

    lw_plan_free(&p);
    return s;
}

static void refused(const struct chain *c, const char *words, enum exec_optimizer_kind kind,
                    const struct lw_exec_state *load, const char *says)
{
    struct lw_plan p = build(c, words);
    struct lw_exec_options o = state_options(kind, 2, load);
    struct lw_exec_result r;
    struct lw_err err = {0};

    assert_int_equal(lw_exec_run(&p, &o, &r, &err), LW_EINVAL);
    if (strcmp(err.msg, says) != 0)
        fail_msg("'%s' instead of '%s'", err.msg, says);
    lw_plan_free(&p);
}

/* --- the arithmetic, once more, by hand ------------------------------------------------------- */

struct by_hand {
    int32_t param;
    int64_t numel;
    float value[3][16]; /* weights, first and second moment */
};

static struct by_hand first_values(int32_t param, int64_t numel)
{
    struct by_hand h = {.param = param, .numel = numel};

    exec_initial_weights(h.value[0], param, numel);
    return h;
}

/* Steps first .. first + n - 1 of adam, with the mean of the gradients of ranks from, from +
 * stride, ..., n_ranks of them, in a plan that adds up n_terms. */
static void steps_by_hand(struct by_hand *h, int32_t n_terms, int32_t from, int32_t stride,
                          int32_t n_ranks, int32_t first, int32_t n)
{
    static struct exec_gradient_table table;
    struct exec_optimizer adam = exec_optimizer_of(EXEC_ADAM);

    assert_int_equal(
        exec_gradient_table_init(&table, n_terms, n_terms, exec_exact_limit(LW_F32), NULL), LW_OK);
    for (int32_t step = first; step < first + n; step++) {
        struct exec_update u = exec_update_of(&adam, step);
        for (int64_t e = 0; e < h->numel; e++) {
            double sum = 0;
            for (int32_t r = from; r < from + n_ranks * stride; r += stride)
                sum += exec_gradient_at(&(struct exec_gradient){&table, h->param, r, step, 0}, e);
            exec_update_one(&u, &h->value[0][e], &h->value[1][e], &h->value[2][e],
                            (float)(sum / n_ranks));
        }
    }
}

static void same_as_by_hand(const struct lw_exec_state *s, int32_t piece, const struct by_hand *h)
{
    float got[16];

    for (int32_t k = 0; k < 3; k++) {
        lw_exec_state_get(s, &(struct lw_exec_state_range){h->param, piece, k, 0, h->numel}, got);
        for (int64_t e = 0; e < h->numel; e++)
            if (memcmp(&got[e], &h->value[k][e], sizeof *got) != 0)
                fail_msg("array %d of w%d, piece %d, element %lld: %.9g, by hand %.9g", k, h->param,
                         piece, (long long)e, (double)got[e], (double)h->value[k][e]);
    }
}

/* Four steps on two ranks, then three on four with ZeRO-2. */
static void a_state_goes_on_at_another_world_size(void **state)
{
    struct chain c;

    (void)state;
    chain_init(&c, 4);
    struct lw_exec_state half = train_words(&c, "dp 2", EXEC_ADAM, 4, NULL);
    assert_int_equal(half.n_steps, 4);
    struct lw_exec_state whole = train_words(&c, "dp 4 zero 2", EXEC_ADAM, 3, &half);
    assert_int_equal(whole.n_steps, 7);
    assert_int_equal(whole.n_params, 4);
    for (int32_t i = 0; i < 4; i++) {
        struct by_hand h = first_values(i, 10 + i);
        steps_by_hand(&h, 2, 0, 1, 2, 0, 4);
        same_as_by_hand(&half, 0, &h);
        steps_by_hand(&h, 4, 0, 1, 4, 4, 3);
        same_as_by_hand(&whole, 0, &h);
        assert_string_equal(whole.params[i].name, c.names[i]);
    }
    lw_exec_state_free(&half);
    lw_exec_state_free(&whole);
}

/* The example of docs/design/state.md: flat shares of 23 elements, then of 16. */
static void flat_shares_are_cut_anew(void **state)
{
    struct chain c;

    (void)state;
    chain_init(&c, 4);
    struct lw_exec_state two =
        train_words(&c, "dp 2 zero 1 shard-policy flat-contiguous", EXEC_ADAM, 3, NULL);
    struct lw_exec_state three =
        train_words(&c, "dp 3 zero 1 shard-policy flat-contiguous", EXEC_ADAM, 2, &two);
    assert_int_equal(two.n_bytes, 48 + 4 * 28 + 46 * 3 * 4 + 32);
    assert_int_equal(three.n_bytes, 744);
    for (int32_t i = 0; i < 4; i++) {
        struct by_hand h = first_values(i, 10 + i);
        steps_by_hand(&h, 2, 0, 1, 2, 0, 3);
        same_as_by_hand(&two, 0, &h);
        steps_by_hand(&h, 3, 0, 1, 3, 3, 2);
        same_as_by_hand(&three, 0, &h);
    }
    lw_exec_state_free(&two);
    lw_exec_state_free(&three);
}

/* --- nothing is lost on the way --------------------------------------------------------------- */

static void same_state(const struct lw_exec_state *a, const struct lw_exec_state *b,
                       const char *words)
{
    if (a->n_bytes != b->n_bytes || memcmp(a->bytes, b->bytes, (size_t)a->n_bytes) != 0)
        fail_msg("%s: the states differ", words);
}

/* Two data ranks, so that the gradients are the same: three steps by one plan and two by another
 * leave, byte for byte, what five steps by a third one do. */
static void two_runs_end_like_one(void **state)
{
    static const char *const words[] = {
        "dp 2",
        "dp 2 zero 1",
        "dp 2 zero 1 shard-policy lpt",
        "dp 2 zero 1 shard-policy flat-contiguous",
        "dp 2 zero 2",
        "dp 2 zero 2 shard-policy per-tensor",
        "dp 2 zero 3",
        "dp 2 bucket-policy per-tensor",
        "dp 2 bucket-policy picotron",
        "dp 2 bucket-cap 64 first-bucket 64",
    };
    enum { N = sizeof words / sizeof *words };
    static const enum lw_dtype types[] = {LW_F32, LW_BF16, LW_F16, LW_F64};
    struct chain c;

    (void)state;
    for (int kind = 0; kind < EXEC_N_OPTIMIZERS; kind++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            enum exec_optimizer_kind k = (enum exec_optimizer_kind)kind;
            chain_init(&c, 4);
            for (int i = 0; i < 4; i++)
                c.params[i].dtype = types[t];
            struct lw_exec_state once = train_words(&c, words[0], k, 5, NULL);
            for (size_t i = 0; i < N; i++) {
                struct lw_exec_state first = train_words(&c, words[i], k, 3, NULL);
                struct lw_exec_state both =
                    train_words(&c, words[(i + (size_t)kind + t + 1) % N], k, 2, &first);
                same_state(&both, &once, words[i]);
                lw_exec_state_free(&first);
                lw_exec_state_free(&both);
            }
            lw_exec_state_free(&once);
        }
}

static const char *draw(struct prng *r, const char *const *list, int n)
{
    return list[prng_in(r, 0, n - 1)];
}

/* A plan of six modules that the strategy's rules may refuse. */
static void draw_words(struct prng *r, bool half, char *words, size_t room)
{
    static const char *const pipelines[] = {
        "",
        "",
        "pp 2 micro-batches 2",
        "pp 3 micro-batches 3",
        "pp 2 micro-batches 4 schedule gpipe",
        "pp 2 micro-batches 4 schedule zb-h1",
        "pp 2 micro-batches 4 chunks 2 schedule zbv",
        "pp 2 micro-batches 4 chunks 3 schedule interleaved-1f1b",
        "pp 6 micro-batches 6",
        "pp 4 micro-batches 8 schedule dualpipe",
        "pp 2 micro-batches 2 partition uniform"};
    static const char *const shards[] = {"",
                                         "",
                                         "zero 1",
                                         "zero 1 shard-policy lpt",
                                         "zero 1 shard-policy flat-contiguous",
                                         "zero 1 shard-policy per-tensor",
                                         "zero 2",
                                         "zero 2 shard-policy oss-greedy",
                                         "zero 3",
                                         "zero 3 persist 12",
                                         "zero 1 broadcast-dtype bf16",
                                         "zero 2 grad-dtype bf16"};
    static const char *const buckets[] = {"",
                                          "bucket-policy per-tensor",
                                          "bucket-policy picotron",
                                          "bucket-policy single",
                                          "bucket-cap 100 first-bucket 50",
                                          "no-sync 1", "clip 3"};

    snprintf(words, room, "dp %d %s %s %s", (int)prng_in(r, 1, half ? 2 : 4),
             draw(r, pipelines, sizeof pipelines / sizeof *pipelines),
             draw(r, shards, sizeof shards / sizeof *shards),
             draw(r, buckets, sizeof buckets / sizeof *buckets));
}

static struct lw_plan draw_plan(struct prng *r, const struct chain *c, bool half, char *words,
                                size_t room)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};

    for (int tries = 0; tries < 1000; tries++) {
        draw_words(r, half, words, room);
        struct lw_strategy s = strategy(words);
        if (lw_plan_build(&c->w, &s, NULL, &p, &err) == LW_OK)
            return p;
    }
    fail_msg("no plan: %s", err.msg);
    return p;
}

/* Two parameters are tied, one is frozen, types are mixed. */
static void draw_chain(struct prng *r, struct chain *c, bool half)
{
    chain_init(c, 6);
    for (int i = 0; half && i < 6; i++)
        c->params[i].dtype = prng_in(r, 0, 1) ? LW_BF16 : LW_F32;
    if (prng_in(r, 0, 1)) {
        c->params[5].tied = 0;
        c->params[5].numel = c->params[0].numel;
        c->params[5].dtype = c->params[0].dtype;
        chain_without(c, 5);
    }
    if (prng_in(r, 0, 1)) {
        c->params[3].trainable = false;
        chain_without(c, 3);
    }
}

/* Three runs each, every one verified against a one-rank run from where the one before it ended. */
static void any_plan_goes_on_from_any_other(void **state)
{
    struct prng r = prng_start("any_plan_goes_on_from_any_other");
    char words[256];
    struct chain c;

    (void)state;
    for (int round = 0; round < 40; round++) {
        bool half = prng_in(&r, 0, 3) == 0;
        enum exec_optimizer_kind kind = (enum exec_optimizer_kind)prng_in(&r, 0, 2);
        struct lw_exec_state s = {0};
        int32_t taken = 0;
        draw_chain(&r, &c, half);
        for (int run = 0; run < 3; run++) {
            struct lw_plan p = draw_plan(&r, &c, half, words, sizeof words);
            struct lw_exec_options o =
                state_options(kind, (int32_t)prng_in(&r, 1, 3), run > 0 ? &s : NULL);
            struct lw_exec_result x;
            struct lw_err err = {0};
            if (lw_exec_run(&p, &o, &x, &err) != LW_OK)
                fail_msg("round %d, run %d, %s: %s", round, run, words, err.msg);
            taken += o.n_warmup + o.n_steps;
            assert_int_equal(x.state.n_steps, taken);
            lw_exec_state_free(&s);
            s = x.state;
            x.state = (struct lw_exec_state){0};
            lw_exec_result_free(&x);
            lw_plan_free(&p);
        }
        lw_exec_state_free(&s);
    }
}

/* --- what parameters may be ------------------------------------------------------------------- */

/* Pieces of tensor ranks stay apart: of ranks 0 and 2, and of 1 and 3. Whoever has the same groups
 * goes on from them. */
static void tensor_groups_keep_their_pieces(void **state)
{
    struct chain c;

    (void)state;
    chain_init(&c, 4);
    for (int i = 0; i < 4; i++) {
        c.modules[i].tp_split = i % 2 ? LW_TP_ROW : LW_TP_COLUMN;
        c.params[i].tp_split = i < 2 ? LW_TP_COLUMN : LW_TP_REPLICATED;
        c.params[i].numel = 12;
        c.modules[i].tp_calls = 1;
        c.modules[i].tp_forward_bytes = i % 2 ? 40 : 0;
        c.modules[i].tp_backward_bytes = i % 2 ? 0 : 40;
    }
    struct lw_exec_state a = train_words(&c, "dp 2 tp 2", EXEC_ADAM, 3, NULL);
    assert_int_equal(a.n_tensor, 2);
    assert_int_equal(a.params[0].numel, 6);
    assert_int_equal(a.params[3].numel, 12);
    for (int32_t i = 0; i < 8; i++) {
        struct by_hand h = first_values(i / 2, i < 4 ? 6 : 12);
        steps_by_hand(&h, 2, i % 2, 2, 2, 0, 3);
        same_as_by_hand(&a, i % 2, &h);
    }
    struct lw_exec_state b = train_words(&c, "dp 1 pp 2 tp 2 micro-batches 2", EXEC_ADAM, 2, &a);
    struct lw_exec_state d = train_words(&c, "dp 3 tp 2 zero 3", EXEC_ADAM, 2, &b);
    refused(&c, "dp 2", EXEC_ADAM, &d,
            "the state in memory: was saved by tensor groups of 2, this plan has groups of 1: "
            "pieces of "
            "parameters are not cut anew (--tp 2)");
    lw_exec_state_free(&a);
    lw_exec_state_free(&b);
    lw_exec_state_free(&d);
}

/* Without data parallelism of its own, every rank trains a copy, and they differ. */
static void ranks_that_train_alone_keep_their_copies(void **state)
{
    struct chain c;

    (void)state;
    chain_init(&c, 4);
    c.params[2].ignored = true;
    struct lw_exec_state a = train_words(&c, "dp 2", EXEC_ADAM, 3, NULL);
    struct lw_exec_state b = train_words(&c, "dp 2 bucket-policy single", EXEC_ADAM, 2, &a);
    assert_int_equal(a.params[2].n_copies, 2);
    assert_int_equal(a.params[1].n_copies, 1);
    for (int32_t rank = 0; rank < 2; rank++) {
        struct by_hand h = first_values(2, 12);
        steps_by_hand(&h, 2, rank, 1, 1, 0, 3);
        same_as_by_hand(&a, rank, &h);
        steps_by_hand(&h, 2, rank, 1, 1, 3, 2);
        same_as_by_hand(&b, rank, &h);
    }
    lw_exec_state_free(&b);
    b = train_words(&c, "dp 2 pp 2 micro-batches 2", EXEC_ADAM, 2, &a);
    assert_int_equal(b.params[2].n_copies, 2);
    refused(&c, "dp 3", EXEC_ADAM, &b,
            "the state in memory: parameter 'w2' has copies of 2 ranks that train it apart, in this plan of "
            "3: load it with the --dp, --clip and ignored parameters it was saved with");
    lw_exec_state_free(&a);
    lw_exec_state_free(&b);
}

/* Each of them clips by a norm of its own: so all parameters differ from rank to rank. */
static void ranks_that_clip_apart_keep_copies_of_all(void **state)
{
    struct chain c;
    float one[11], two[11];

    (void)state;
    chain_init(&c, 4);
    c.params[2].ignored = true;
    struct lw_exec_state once = train_words(&c, "dp 2 clip 2", EXEC_ADAM, 5, NULL);
    struct lw_exec_state a = train_words(&c, "dp 2 clip 2", EXEC_ADAM, 3, NULL);
    struct lw_exec_state b = train_words(&c, "dp 2 clip 2", EXEC_ADAM, 2, &a);
    assert_int_equal(b.params[1].n_copies, 2);
    lw_exec_state_get(&b, &(struct lw_exec_state_range){1, 0, 0, 0, 11}, one);
    lw_exec_state_get(&b, &(struct lw_exec_state_range){1, 1, 0, 0, 11}, two);
    assert_memory_not_equal(one, two, sizeof one);
    same_state(&b, &once, "dp 2 clip 2");
    lw_exec_state_free(&once);
    lw_exec_state_free(&b);
    b = train_words(&c, "dp 2 pp 2 micro-batches 2 clip 2", EXEC_ADAM, 2, &a);
    refused(&c, "dp 2", EXEC_ADAM, &b,
            "the state in memory: parameter 'w0' has copies of 2 ranks that train it apart, in this "
            "plan of 1: load it with the --dp, --clip and ignored parameters it was saved with");
    lw_exec_state_free(&a);
    lw_exec_state_free(&b);
}

/* Copies of a tied parameter at several stages are equal: one is kept. */
static void tied_copies_are_kept_once(void **state)
{
    struct chain c;

    (void)state;
    chain_init(&c, 4);
    c.params[3].numel = c.params[0].numel;
    c.params[3].tied = 0;
    chain_without(&c, 3);
    struct lw_exec_state a = train_words(&c, "dp 2 pp 2 micro-batches 2", EXEC_ADAM, 3, NULL);
    assert_int_equal(a.params[3].shares, 0);
    assert_int_equal(a.params[3].n_copies, 0);
    struct lw_exec_state b = train_words(&c, "dp 2", EXEC_ADAM, 3, &a);
    struct lw_exec_state d = train_words(&c, "pp 4 micro-batches 4 zero 1 dp 2", EXEC_ADAM, 3, &b);
    assert_int_equal(d.n_bytes, a.n_bytes);
    lw_exec_state_free(&b);
    lw_exec_state_free(&d);
    chain_init(&c, 4);
    c.params[3].numel = c.params[0].numel;
    refused(&c, "dp 2", EXEC_ADAM, &a,
            "the state in memory: parameter 'w3' is tied to 'w0'; in this plan to none: load the "
            "state with "
            "the workload it was saved with");
    lw_exec_state_free(&a);
}

/* Rows that a step does not touch keep their weights; with momentum they move on. */
static void sparse_gradients_go_on(void **state)
{
    static const struct lw_sparse rows = {.param = 1, .row_numel = 2, .touched_rows = 2};
    struct chain c;

    (void)state;
    for (int kind = EXEC_SGD; kind <= EXEC_MOMENTUM; kind++) {
        enum exec_optimizer_kind k = (enum exec_optimizer_kind)kind;
        struct lw_sparse x = rows;
        chain_init(&c, 3);
        c.params[1].sparse = true;
        c.params[1].numel = 12;
        c.w.sparse = &x;
        c.w.n_sparse = 1;
        struct lw_exec_state once = train_words(&c, "dp 2", k, 5, NULL);
        struct lw_exec_state half = train_words(&c, "dp 2", k, 3, NULL);
        struct lw_exec_state both = train_words(&c, "dp 2", k, 2, &half);
        same_state(&both, &once, "sparse");
        lw_exec_state_free(&both);
        both = train_words(&c, "dp 3", k, 2, &half);
        lw_exec_state_free(&once);
        lw_exec_state_free(&half);
        lw_exec_state_free(&both);
    }
}

/* The second run does not use a parameter: nobody updates it, although its momentum is not zero. */
static void a_parameter_without_a_gradient_takes_no_step(void **state)
{
    struct chain c;
    float before[12], after[12];

    (void)state;
    chain_init(&c, 4);
    for (int kind = EXEC_SGD; kind < EXEC_N_OPTIMIZERS; kind++) {
        enum exec_optimizer_kind k = (enum exec_optimizer_kind)kind;
        chain_init(&c, 4);
        struct lw_exec_state a = train_words(&c, "dp 2", k, 3, NULL);
        c.params[2].used = false;
        chain_without(&c, 2);
        struct lw_exec_state b = train_words(&c, "", k, 2, &a);
        for (int32_t array = 0; array < 1 + exec_optimizer_states(k); array++) {
            const struct lw_exec_state_range r = {2, 0, array, 0, 12};
            lw_exec_state_get(&a, &r, before);
            lw_exec_state_get(&b, &r, after);
            assert_memory_equal(before, after, sizeof before);
        }
        lw_exec_state_free(&b);
        b = train_words(&c, "dp 2 find-unused on", k, 2, &a); /* reduced: a step by zeros */
        lw_exec_state_free(&a);
        lw_exec_state_free(&b);
    }
}

/* --- what does not fit ------------------------------------------------------------------------ */

static void what_does_not_match_is_named(void **state)
{
    static const char load_it[] = ": load the state with the workload it was saved with";
    char says[300];
    struct chain c;

    (void)state;
    chain_init(&c, 3);
    struct lw_exec_state a = train_words(&c, "dp 2", EXEC_ADAM, 2, NULL);
    refused(
        &c, "dp 2", EXEC_SGD, &a,
        "the state in memory: holds what adam keeps, this run updates with sgd: --optimizer adam");
    c.params[1].name = "other";
    snprintf(says, sizeof says,
             "the state in memory: has no parameter 'other', which this plan has%s", load_it);
    refused(&c, "dp 2", EXEC_ADAM, &a, says);
    c.params[1].name = "w0";
    refused(&c, "dp 2", EXEC_ADAM, &a,
            "the state in memory: two parameters of this plan are called 'w0': a state knows them "
            "by name");
    c.params[1].name = c.names[1];
    c.params[1].numel = 12;
    snprintf(says, sizeof says,
             "the state in memory: parameter 'w1' has 11 elements, in this plan 12%s", load_it);
    refused(&c, "dp 2", EXEC_ADAM, &a, says);
    c.params[1].numel = 11;
    c.params[1].dtype = LW_BF16;
    snprintf(says, sizeof says,
             "the state in memory: parameter 'w1' is f32; in this plan it is bf16%s", load_it);
    refused(&c, "dp 2", EXEC_ADAM, &a, says);
    c.params[1].dtype = LW_F32;
    c.params[1].trainable = false;
    chain_without(&c, 1);
    snprintf(says, sizeof says,
             "the state in memory: parameter 'w1' is trained; in this plan it is frozen%s",
             load_it);
    refused(&c, "dp 2", EXEC_ADAM, &a, says);
    struct lw_exec_state frozen = train_words(&c, "dp 2", EXEC_ADAM, 2, NULL);
    chain_init(&c, 3);
    snprintf(says, sizeof says,
             "the state in memory: parameter 'w1' is frozen; in this plan it is trained%s",
             load_it);
    refused(&c, "dp 2", EXEC_ADAM, &frozen, says);
    chain_init(&c, 2);
    snprintf(says, sizeof says, "the state in memory: has parameter 'w2', which this plan lacks%s",
             load_it);
    refused(&c, "dp 2", EXEC_ADAM, &a, says);
    lw_exec_state_free(&a);
    lw_exec_state_free(&frozen);
}

static void names_and_steps_have_their_limits(void **state)
{
    struct chain c;

    (void)state;
    chain_init(&c, 3);
    struct lw_exec_state a = train_words(&c, "dp 2", EXEC_SGD, 2, NULL);
    a.n_steps = INT32_MAX - 3;
    struct lw_exec_state last = train_words(&c, "dp 2", EXEC_SGD, 2, &a);
    assert_int_equal(last.n_steps, INT32_MAX - 1);
    a.n_steps++;
    refused(
        &c, "dp 2", EXEC_SGD, &a,
        "the state in memory: 2147483645 steps were taken: at most 2147483644 can be gone on from");
    c.params[2].name = "w0";
    refused(&c, "dp 2", EXEC_SGD, NULL,
            "the state of this plan: parameters 0 and 2 have one name, 'w0'");
    lw_exec_state_free(&a);
    lw_exec_state_free(&last);
}

/* Without its last shard, the check finds the plan wrong. */
static void a_run_that_is_not_verified_leaves_no_state(void **state)
{
    struct chain c;
    struct lw_exec_result r;
    struct lw_err err = {0};

    (void)state;
    chain_init(&c, 2);
    struct lw_plan p = build(&c, "dp 2 zero 1");
    struct lw_exec_options o = state_options(EXEC_ADAM, 2, NULL);
    p.n_shards--;
    assert_int_equal(lw_exec_run(&p, &o, &r, &err), LW_ENO);
    assert_int_equal(r.state.n_bytes, 0);
    lw_exec_result_free(&r);
    lw_plan_free(&p);
}

static void running_out_of_memory_leaves_nothing(void **state)
{
    struct chain c;
    enum lw_status s = LW_ENOMEM;

    (void)state;
    chain_init(&c, 2);
    struct lw_exec_state a = train_words(&c, "dp 2", EXEC_ADAM, 2, NULL);
    struct lw_plan p = build(&c, "pp 2 dp 2 micro-batches 2 zero 1");
    struct lw_exec_options o = state_options(EXEC_ADAM, 2, &a);
    int64_t before = lw_alloc_live();
    for (int64_t n = 1; s != LW_OK; n += 3) { /* every third: threads take theirs, too */
        struct lw_exec_result r = {0};
        struct lw_err err = {0};
        lw_alloc_fail_at(n);
        s = lw_exec_run(&p, &o, &r, &err);
        lw_alloc_fail_at(0);
        if (s != LW_OK && s != LW_ENOMEM && s != LW_EFAILED)
            fail_msg("allocation %lld: %s", (long long)n, err.msg);
        lw_exec_result_free(&r);
        assert_int_equal(lw_alloc_live(), before);
    }
    lw_plan_free(&p);
    lw_exec_state_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_goes_on_at_another_world_size),
        cmocka_unit_test(flat_shares_are_cut_anew),
        cmocka_unit_test(two_runs_end_like_one),
        cmocka_unit_test(any_plan_goes_on_from_any_other),
        cmocka_unit_test(tensor_groups_keep_their_pieces),
        cmocka_unit_test(ranks_that_train_alone_keep_their_copies),
        cmocka_unit_test(ranks_that_clip_apart_keep_copies_of_all),
        cmocka_unit_test(tied_copies_are_kept_once),
        cmocka_unit_test(sparse_gradients_go_on),
        cmocka_unit_test(a_parameter_without_a_gradient_takes_no_step),
        cmocka_unit_test(what_does_not_match_is_named),
        cmocka_unit_test(names_and_steps_have_their_limits),
        cmocka_unit_test(a_run_that_is_not_verified_leaves_no_state),
        cmocka_unit_test(running_out_of_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
