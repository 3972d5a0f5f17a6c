/* Gathered weights that take turns in the same memory: exec/tensors/weight_turns.h. */
#include "tests/lib/unit.h"

#include "exec/run/memory_fit.h"
#include "exec/tensors/weight_turns.h"
#include "shared/plan/op.h"
#include "tests/lib/exec/exec_chain.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/plans/find_op.h"
#include "tests/lib/plans/random_strategy.h"

/* --- closed forms --- */

/* A module has 600 f32: 2400 bytes take 2432, and half of them 1216. */
enum { BLOCK = 2432, SHARE = 1216 };

static void lay_out(const struct lw_plan *p, bool compares, struct exec_tensors *m)
{
    struct lw_err err = {0};

    *m = (struct exec_tensors){.plan = p, .backend = &exec_backend_threads, .compares = compares,
                               .optimizer = exec_optimizer_of(EXEC_SGD)};
    if (exec_tensors_lay_out(m, &err) != LW_OK)
        fail_msg("%s", err.msg);
}

static int64_t marks(int64_t n)
{
    return (8 * n + 63) / 64 * 64;
}

static void blocks(struct chain *c, int32_t n)
{
    chain_init(c, n);
    for (int32_t i = 0; i < n; i++)
        c->params[i].numel = 600;
}

/* Weights of a rank, in so many slots. */
static int64_t weights_of(int32_t n, const char *words, int32_t n_slots)
{
    struct chain c;
    struct exec_tensors m;

    blocks(&c, n);
    struct lw_plan p = build(&c, words);
    lay_out(&p, false, &m);
    int64_t bytes = m.weight_bytes;
    if (m.weights.n_slots != n_slots)
        fail_msg("%s, %d modules: %d slots", words, (int)n, (int)m.weights.n_slots);
    exec_tensors_free(&m);
    lay_out(&p, true, &m);
    assert_int_equal(m.weight_bytes, bytes); /* verified or not */
    exec_tensors_free(&m);
    lw_plan_free(&p);
    return bytes;
}

/* The unit in use and those gathered ahead: prefetch + 1 slots, units one after another in turn, so
 * that n / slots of them share each. */
TEST(weights_grow_with_what_is_gathered_ahead)
{
    for (int32_t n = 16; n <= 64; n *= 2) {
        assert_int_equal(weights_of(n, "dp 2 zero 3", 2),
                         2 * BLOCK + n * SHARE + 2 * marks(n / 2));
        assert_int_equal(weights_of(n, "dp 2 zero 3 prefetch 0", 1),
                         BLOCK + n * SHARE + marks(n));
        assert_int_equal(weights_of(n, "dp 2 zero 3 prefetch 3", 4),
                         4 * BLOCK + n * SHARE + 4 * marks(n / 4));
        assert_int_equal(weights_of(n, "dp 2 zero 3 micro-batches 3", 2),
                         2 * BLOCK + n * SHARE + 2 * marks(n / 2));
    }
}

/* What stays from the forward to the backward shares with nothing, and takes no more than its
 * size. */
TEST(weights_that_stay_have_memory_of_their_own)
{
    assert_int_equal(weights_of(8, "dp 2 zero 3 reshard off", 0), 8 * BLOCK);
    assert_int_equal(weights_of(8, "dp 2 zero 2", 0), 8 * 2400); /* in one flat buffer */
    assert_int_equal(weights_of(8, "dp 2", 0), 8 * BLOCK);
}

/* On two ranks two halves are as much as what a slot of two saves. On four ranks they are not. */
TEST(a_slot_that_saves_nothing_is_dissolved)
{
    assert_int_equal(weights_of(4, "dp 2 zero 3", 0), 4 * BLOCK);
    assert_int_equal(weights_of(4, "dp 4 zero 3", 2), 2 * BLOCK + 4 * 640 + 2 * marks(2));
}

/* The least memory that a run of 16 modules needs here. */
static int64_t needed(const char *words)
{
    int64_t low = 0, high = INT64_C(1) << 30; /* too little, enough */
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_err err = {0};
    struct chain c;

    blocks(&c, 16);
    struct lw_plan p = build(&c, words);
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (exec_fits_in(&p, &o, 2, (double)middle, &err) == LW_OK)
            high = middle;
        else
            low = middle;
    }
    lw_plan_free(&p);
    return high;
}

/* Two ranks. All else is the same. */
TEST(a_run_fits_where_its_slots_do)
{
    assert_int_equal(needed("dp 2 zero 3 reshard off") - needed("dp 2 zero 3"),
                     2 * (16 * BLOCK - (2 * BLOCK + 16 * SHARE + 2 * marks(8))));
}

static enum lw_status fits(const struct lw_plan *p)
{
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_err err = {0};

    return exec_fits_in(p, &o, 2, 1e9, &err);
}

TEST(without_memory_nothing_is_laid_out)
{
    struct chain c;

    blocks(&c, 8);
    struct lw_plan p = build(&c, "dp 2 zero 3");
    EACH_ALLOCATION_FAILS_IN(40, fits(&p));
    lw_plan_free(&p);
}

/* --- random plans --- */

enum { MOST_OPS = 3000, MOST_BUCKETS = 200 };

struct order { /* which ops of a program have ended when another begins, found op by op */
    const struct lw_plan *p;
    struct lw_program g;
    uint64_t *ended; /* [n_ops * words] */
    int64_t words;
};

static bool has_ended(const struct order *o, int32_t a, int32_t b)
{
    int64_t i = a - o->g.first_op, k = b - o->g.first_op;

    return o->ended[k * o->words + i / 64] >> (i % 64) & 1;
}

static void learn(struct order *o, int32_t op, int32_t before)
{
    int64_t k = op - o->g.first_op, i = before - o->g.first_op;

    for (int64_t w = 0; w < o->words; w++)
        o->ended[k * o->words + w] |= o->ended[i * o->words + w];
    o->ended[k * o->words + i / 64] |= UINT64_C(1) << (i % 64);
}

static void follow(struct order *o, const struct lw_plan *p, struct lw_program g)
{
    *o = (struct order){.p = p, .g = g, .words = g.n_ops / 64 + 1};
    o->ended = calloc((size_t)(g.n_ops * o->words) + 1, sizeof *o->ended);
    assert_non_null(o->ended);
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        for (int32_t k = i - 1; k >= g.first_op; k--)
            if (p->ops[k].stream == op->stream) {
                learn(o, i, k);
                break;
            }
        for (int32_t k = i - 1; op->comm >= 0 && k >= g.first_op; k--)
            if (p->ops[k].comm == op->comm) {
                learn(o, i, k);
                break;
            }
        for (int32_t d = 0; d < op->n_deps; d++)
            learn(o, i, p->deps[op->first_dep + d]);
    }
}

/* The op reads or writes the gathered weights of the bucket. */
static bool touches(const struct exec_tensors *m, int32_t op, int32_t bucket)
{
    const struct lw_plan *p = m->plan;
    const struct lw_op *o = &p->ops[op];

    if (o->bucket == bucket)
        return true;
    for (int32_t i = 0; lw_op_uses_weights(o) && i < p->n_params; i++)
        if (p->params[i].module == o->module &&
            m->weights.flat[p->params[i].tied >= 0 ? p->params[i].tied : i] == bucket)
            return true;
    return false;
}

/* Whenever b takes the memory, a's weights there are not used any more: every use of a after that
 * follows another alloc of a. */
static void expect_turns(const struct exec_tensors *m, const struct order *o, int32_t a, int32_t b)
{
    const struct lw_plan *p = m->plan;
    int32_t first = o->g.first_op, end = first + o->g.n_ops;

    for (int32_t w = first; w < end; w++) {
        if (p->ops[w].bucket != b || p->ops[w].kind != LW_OP_ALLOC)
            continue;
        for (int32_t u = first; u < end; u++) {
            if (!touches(m, u, a) || has_ended(o, u, w))
                continue;
            bool again = false;
            for (int32_t x = w + 1; x <= u && !again; x++)
                again = p->ops[x].bucket == a && p->ops[x].kind == LW_OP_ALLOC &&
                        has_ended(o, w, x) && (x == u || has_ended(o, x, u));
            if (!again)
                fail_msg("op %d uses bucket %d in the memory that bucket %d takes in op %d", (int)u,
                         (int)a, (int)b, (int)w);
        }
    }
}

static bool apart(int64_t a, int64_t n, int64_t b, int64_t k)
{
    return a + n <= b || b + k <= a;
}

static int32_t stage_of(const struct lw_plan *p, int32_t b)
{
    return p->params[p->slots[p->buckets[b].first_slot]].stage;
}

/* Shares, and flat buffers that do not take turns, have memory of their own. */
static int expect_places(const struct exec_tensors *m, int32_t a, int32_t b)
{
    const struct exec_weight_places *w = &m->weights;
    const struct lw_plan *p = m->plan;
    int64_t n = p->buckets[a].bytes, k = p->buckets[b].bytes;

    if (w->turns[a].slot >= 0) {
        int64_t share = n / w->turns[a].n_members;
        assert_true(w->turns[a].share_at + share <= m->weight_bytes);
        assert_true(apart(w->turns[a].share_at, share, w->bucket_at[b], k));
        assert_true(w->turns[b].slot < 0 || a == b ||
                    apart(w->turns[a].share_at, share, w->turns[b].share_at,
                          k / w->turns[b].n_members));
    }
    if (a == b || apart(w->bucket_at[a], n, w->bucket_at[b], k))
        return 0;
    assert_true(w->turns[a].slot >= 0);
    assert_int_equal(w->turns[a].slot, w->turns[b].slot);
    assert_int_not_equal(w->turns[a].turn, w->turns[b].turn);
    return 1;
}

static int expect_plan(const struct lw_plan *p)
{
    struct exec_tensors m;
    struct order o;
    int n = 0;

    lay_out(p, true, &m);
    for (int32_t g = 0; g < p->n_variants * p->n_roles; g++) {
        follow(&o, p, p->programs[g]);
        for (int32_t a = 0; a < p->n_buckets; a++)
            for (int32_t b = 0; b < p->n_buckets; b++)
                if (m.weights.bucket_at[a] >= 0 && m.weights.bucket_at[b] >= 0 &&
                    stage_of(p, a) == stage_of(p, b) && expect_places(&m, a, b)) {
                    expect_turns(&m, &o, a, b);
                    n++;
                }
        free(o.ended);
    }
    exec_tensors_free(&m);
    return n;
}

TEST(who_takes_the_memory_waits_for_who_had_it)
{
    struct prng r;
    struct random_model *k = calloc(1, sizeof *k);
    int n_shared = 0, n_plans = 0;

    assert_non_null(k);
    r = prng_start("turns");
    for (int i = 0; i < 400; i++) {
        struct lw_strategy s;
        struct lw_plan p = {0};
        struct lw_err err = {0};
        random_model(&r, k);
        random_strategy(&r, k, &s);
        random_fsdp(&r, &s);
        if (s.zero != 3 || lw_plan_build(&k->w, &s, NULL, &p, &err) != LW_OK)
            continue;
        if (p.n_ops <= MOST_OPS && p.n_buckets <= MOST_BUCKETS) {
            n_shared += expect_plan(&p) > 0;
            n_plans++;
        }
        lw_plan_free(&p);
    }
    free(k);
    print_message("%d plans, %d share memory\n", n_plans, n_shared);
    assert_true(n_shared > 5);
}

/* --- runs --- */

TEST(runs_end_like_one_rank)
{
    static const char *const words[] = {
        "dp 2 zero 3", "dp 3 zero 3 prefetch 0", "dp 2 zero 3 prefetch 2 micro-batches 3",
        "dp 4 zero 3 zero-group 2", "dp 4 zero 3 zero-group 2 late-replicas on",
        "dp 3 pp 2 micro-batches 4 zero 3",
        "dp 2 zero 3 no-sync 1", "dp 2 zero 3 shard-policy rows"};
    struct chain c;
    struct lw_exec_options o = exec_asleep(3, EXEC_ADAM);

    chain_init(&c, 8);
    for (int32_t i = 0; i < 8; i++) {
        c.params[i].numel = 600 + 10 * i;
        c.params[i].rows = 10;
    }
    for (size_t t = 0; t < 2; t++) {
        for (int32_t i = 0; i < 8; i++)
            c.params[i].dtype = t ? LW_BF16 : LW_F32;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            struct lw_plan p = build(&c, words[i]);
            struct exec_tensors m;
            lay_out(&p, true, &m);
            if (m.weights.n_slots == 0)
                fail_msg("%s: no weights take turns", words[i]);
            exec_tensors_free(&m);
            assert_true(exec_verified(&p, &o, words[i], NULL) > 0);
            lw_plan_free(&p);
        }
    }
}

/* --- two that overlap --- */

static struct lw_plan *changed;
static int32_t kept; /* the bucket that is not freed between its first turn and its last */

static void forget(struct lw_op *op)
{
    op->kind = LW_OP_EVENT_RECORD;
    op->bucket = op->comm = -1;
    op->bytes = 0;
}

static void keep(struct lw_plan *p, int32_t bucket)
{
    int32_t n_frees = 0;
    bool between = false;

    for (int32_t i = 0; i < p->n_ops; i++)
        n_frees += p->ops[i].bucket == bucket && p->ops[i].kind == LW_OP_FREE;
    for (int32_t i = 0; i < p->n_ops && n_frees > 0; i++) {
        struct lw_op *op = &p->ops[i];
        if (op->bucket != bucket)
            continue;
        if (op->kind == LW_OP_FREE && --n_frees > 0)
            between = true;
        else if (op->kind == LW_OP_FREE)
            break;
        if (between)
            forget(op);
    }
}

/* Memory is taken when all places are known. */
static enum lw_status take_and_change(struct exec_world *w, int32_t rank, int64_t bytes, void **mem,
                                      struct lw_err *err)
{
    if (changed)
        keep(changed, kept);
    changed = NULL;
    return exec_backend_threads.mem_alloc(w, rank, bytes, mem, err);
}

/* A plan whose weights stay until their last use, in the memory of a plan that frees them: who used
 * them last finds that another took their place. */
TEST(weights_that_share_and_overlap_are_found)
{
    struct exec_backend b = exec_backend_threads;
    struct lw_exec_options o = exec_asleep(2, EXEC_SGD);
    struct chain c;

    b.mem_alloc = take_and_change;
    o.backend = &b;
    blocks(&c, 8);
    for (int32_t i = 0; i < 6; i++) { /* of the last two none in their slot comes between */
        struct lw_plan p = build(&c, "dp 2 zero 3");
        struct lw_exec_result r;
        struct lw_err err = {0};
        int32_t a = p.ops[find_op(&p, LW_OP_ALLOC, i)].bucket;
        keep(&p, a);
        if (lw_exec_run(&p, &o, &r, &err) != LW_OK) /* right, where it has memory of its own */
            fail_msg("%s", err.msg);
        lw_exec_result_free(&r);
        lw_plan_free(&p);
        p = build(&c, "dp 2 zero 3");
        changed = &p;
        kept = a;
        enum lw_status s = lw_exec_run(&p, &o, &r, &err);
        assert_null(changed);
        if (s != LW_EFAILED || !strstr(err.msg, "are used after they were freed"))
            fail_msg("bucket %d: %s", (int)a, s == LW_OK ? "not found" : err.msg);
        lw_exec_result_free(&r);
        lw_plan_free(&p);
    }
}
