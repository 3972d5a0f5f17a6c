/* Expert parallelism: shared/lower_ops/lower_forward.c, lower_backward.c, lower_ranks.c,
 * docs/design/lower_expert.md. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/plan/op.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/traces/model_help.h"
#include "tests/lib/plans/plan_words.h"

enum { LAYERS = 2, HIDDEN = 16, TOKENS = 32, TOP = 2 };

static bool is_expert(const char *name)
{
    return strstr(name, "mlp") != NULL;
}

/* A llama whose linear pairs are experts: each token goes to two. */
static struct lw_workload model_of(int64_t hidden, int64_t heads)
{
    struct lw_workload w =
        model_build("llama-7b", (struct traces_model_shape){.batch = 1,
                                                            .layers = LAYERS,
                                                            .hidden = hidden,
                                                            .heads = heads,
                                                            .ffn = 32,
                                                            .seq = TOKENS,
                                                            .vocab = 32,
                                                            .dtype = "f32",
                                                            .optimizer = "adam"});
    int n = 0;

    for (int32_t i = 0; i < w.n_params; i++) {
        w.params[i].expert = is_expert(w.params[i].name);
        n += w.params[i].expert;
        if (w.params[i].expert)
            w.modules[w.params[i].module].dispatch_bytes = TOP * TOKENS * hidden * 4;
    }
    assert_int_equal(n, 3 * LAYERS);
    return w;
}

static struct lw_workload model(void)
{
    return model_of(HIDDEN, 4);
}

static const struct lw_comm *comm_of(const struct lw_plan *p, const struct lw_op *o)
{
    return o->comm < 0 ? NULL : &p->comms[o->comm];
}

/* 2 x 32 tokens of 16 f32: 4096 bytes to the experts and back, in forward and in backward. */
TEST(tokens_go_to_experts_and_back)
{
    struct lw_workload w = model();
    struct lw_plan p = plan_of_words(&w, "dp 4 ep 2");
    struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
    static const char *const order[] = {"dispatch", "combine", "dispatch", "combine",
                                        "combine", "dispatch", "combine", "dispatch"};
    size_t n = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p.ops[i];
        if (o->kind != LW_OP_ALL_TO_ALL)
            continue;
        assert_true(n < sizeof order / sizeof *order);
        assert_string_equal(o->name, order[n++]);
        assert_int_equal(o->bytes, 4096);
        assert_int_equal(comm_of(&p, o)->purpose, LW_COMM_EXPERT);
        const struct lw_group *group = lw_plan_group(&p, o->comm, 3);
        assert_int_equal(group->n_members, 2);
        assert_int_equal(p.members[group->first_member], 2);
    }
    assert_int_equal(n, 4 * LAYERS);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* 598 bytes of weights beside the tokens to the experts and the gradients that come back from them,
 * and in each forward 200 of indexes, whole elements of f32: 800 and 600; before each forward, also
 * the second, two ranks gather 101 bytes each: 104. */
TEST(weights_go_with_the_tokens_after_a_map_of_all)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } order[] = {{"routing map", 208}, {"dispatch", 4896}, {"combine", 4096}},
      back[] = {{"routing map", 208}, {"dispatch", 4896}, {"combine", 4096}, {"combine", 4096},
                {"dispatch", 4696}};
    struct lw_workload w = model();
    size_t n = 0;

    for (int32_t m = 0; m < w.n_modules; m++)
        if (w.modules[m].dispatch_bytes > 0) {
            w.modules[m].dispatch_weight_bytes = 598;
            w.modules[m].dispatch_index_bytes = 200;
            w.modules[m].routing_map_bytes = 101;
        }
    struct lw_plan p = plan_of_words(&w, "dp 4 ep 2 recompute full");
    struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p.ops[i];
        if (!comm_of(&p, o) || comm_of(&p, o)->purpose != LW_COMM_EXPERT)
            continue;
        bool forward = n < LAYERS * 3;
        assert_string_equal(o->name, forward ? order[n % 3].name : back[(n - 6) % 5].name);
        assert_int_equal(o->bytes, forward ? order[n % 3].bytes : back[(n - 6) % 5].bytes);
        assert_int_equal(o->kind, strcmp(o->name, "routing map") == 0 ? LW_OP_ALL_GATHER
                                                                      : LW_OP_ALL_TO_ALL);
        n++;
    }
    assert_int_equal(n, LAYERS * (3 + 5));
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* Ranks 1 and 3 of 4 hold the same half of the experts: their gradients are reduced over these
 * two, all others over four. No bucket has both. */
TEST(experts_are_reduced_over_their_own_group)
{
    static const char *const words[] = {"dp 4 ep 2", "dp 4 ep 2 zero 1", "dp 4 ep 2 zero 2",
                                        "dp 4 ep 2 zero 3"};
    struct lw_workload w = model();

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct lw_plan p = plan_of_words(&w, words[i]);
        struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 1);
        int n_expert = 0, n_other = 0;
        for (int32_t a = 0; a < p.n_params; a++)
            assert_int_equal(p.params[a].numel,
                             w.params[a].numel / (is_expert(p.params[a].name) ? 2 : 1));
        for (int32_t k = g.first_op; k < g.first_op + g.n_ops; k++) {
            const struct lw_op *o = &p.ops[k];
            if (!comm_of(&p, o) || o->bucket < 0)
                continue;
            const struct lw_bucket *b = &p.buckets[o->bucket];
            bool expert = p.params[p.slots[b->first_slot]].expert;
            const struct lw_group *group = lw_plan_group(&p, o->comm, 1);
            for (int32_t s = 0; s < b->n_slots; s++)
                assert_int_equal(p.params[p.slots[b->first_slot + s]].expert, expert);
            assert_int_equal(group->n_members, expert ? 2 : 4);
            assert_int_equal(p.members[group->first_member + 1], expert ? 3 : 1);
            n_expert += expert;
            n_other += !expert;
        }
        assert_true(n_expert > 0 && n_other > 0);
        lw_plan_free(&p);
    }
    lw_workload_free(&w);
}

static void members_are(const struct lw_plan *p, enum lw_comm_purpose purpose, int32_t rank,
                        const int32_t *members, int32_t n)
{
    const struct lw_group *g = NULL;

    for (int32_t c = 0; c < p->n_comms; c++)
        if (p->comms[c].purpose == purpose)
            g = lw_plan_group(p, c, rank);
    assert_non_null(g);
    assert_int_equal(g->n_members, n);
    assert_memory_equal(p->members + g->first_member, members, (size_t)n * sizeof *members);
}

/* Megatron-LM's expert ranks with --expert-tensor-parallel-size 1: ranks of a stage in order,
 * tensor ranks first. TP 4, DP 4, EP 8: ranks 0 to 7 share the experts, 0 and 8 hold the same
 * eighth, whole. TP 4, DP 2, EP 2: ranks 0 and 1 share them, and tensor ranks 0 and 2 hold the
 * same. */
TEST(experts_are_folded_over_the_tensor_group)
{
    static const int32_t eight[] = {0, 1, 2, 3, 4, 5, 6, 7}, same[] = {5, 13};
    static const int32_t two[] = {4, 5}, halves[] = {1, 3, 5, 7};
    struct lw_workload w = model();
    struct lw_plan p = plan_of_words(&w, "dp 4 tp 4 ep 8 etp 1 zero 1");

    members_are(&p, LW_COMM_EXPERT, 5, eight, 8);
    members_are(&p, LW_COMM_EXPERT_DATA, 5, same, 2);
    for (int32_t a = 0; a < p.n_params; a++)
        if (is_expert(p.params[a].name))
            assert_int_equal(p.params[a].numel, w.params[a].numel / 8);
    for (int32_t i = 0; i < p.n_ops; i++)
        if (p.ops[i].kind == LW_OP_ALL_TO_ALL)
            assert_int_equal(p.ops[i].bytes, 4096 / 4); /* of a tensor rank's own tokens */
    lw_plan_free(&p);
    p = plan_of_words(&w, "dp 2 tp 4 ep 2 etp 1");
    members_are(&p, LW_COMM_EXPERT, 4, two, 2);
    members_are(&p, LW_COMM_EXPERT_DATA, 3, halves, 4);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* More of a wide tensor group hold the same experts than there are data, pipeline or tensor ranks:
 * 4 x 16 / 2, and both directions of a pipeline, 2 x 4 x 8 / 2. */
TEST(many_ranks_hold_the_same_folded_experts)
{
    static const char *const words[] = {
        "dp 4 tp 16 ep 2 etp 1",
        "dp 4 tp 8 pp 2 ep 2 etp 1 micro-batches 8 schedule dualpipe"};
    struct lw_workload w = model_of(4 * HIDDEN, 16);

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct lw_plan p = plan_of_words(&w, words[i]);
        for (int32_t c = 0; c < p.n_comms; c++)
            if (p.comms[c].purpose == LW_COMM_EXPERT_DATA)
                assert_int_equal(lw_plan_group(&p, c, 1)->n_members, 32);
        lw_plan_free(&p);
    }
    lw_workload_free(&w);
}

TEST(all_of_it_runs_and_is_verified)
{
    static const char *const words[] = {
        "dp 2 ep 2",
        "dp 4 ep 2",
        "dp 4 ep 2 zero 1",
        "dp 4 ep 2 zero 2 micro-batches 2",
        "dp 4 ep 2 zero 3",
        "dp 4 ep 4 zero 3",
        "cp 2 dp 2 ep 2",
        "dp 2 ep 2 tp 2 sequence-parallel on",
        "dp 2 ep 2 pp 2 micro-batches 2 schedule zb-h1 zero 1",
        "dp 2 ep 2 pp 2 micro-batches 4 schedule dualpipe recompute full",
        /* folded over the tensor group: as many as it, more, fewer */
        "dp 2 tp 2 ep 2 etp 1",
        "dp 4 tp 2 ep 4 etp 1 zero 1",
        "dp 2 tp 4 ep 2 etp 1 zero 3",
        "dp 2 tp 2 ep 4 etp 1 sequence-parallel on zero 2 micro-batches 2",
        "dp 2 tp 2 ep 4 etp 1 pp 2 micro-batches 2 zero 1",
        "dp 2 tp 2 ep 2 etp 1 pp 2 micro-batches 4 schedule dualpipe",
        "dp 2 tp 2 ep 2 etp 2",
        "tp 2 ep 2 etp 1",
        "dp 2 tp 4 ep 2 etp 1 zero 1 bucket-cap 1000",
        /* whole parameters to the ranks that hold them */
        "dp 4 ep 2 zero 1 shard-policy lpt",
        "dp 4 ep 4 zero 1 shard-policy ping-pong",
        "dp 4 ep 2 pp 2 micro-batches 2 zero 1 shard-policy ping-pong",
        "dp 4 tp 2 ep 4 etp 1 zero 1 shard-policy ping-pong",
        "dp 2 tp 2 ep 2 zero 1 shard-policy lpt",
        /* shards on groups */
        "dp 4 ep 2 zero 3 zero-group 2",
        "dp 4 ep 2 zero 1 zero-group 2",
        "dp 8 ep 2 zero 3 zero-group 4 micro-batches 2",
        "dp 8 ep 2 zero 3 zero-group 4 micro-batches 2 sync-each-micro-batch on",
        "dp 4 tp 2 ep 4 etp 1 zero 3 zero-group 2"};
    struct lw_workload w = model();

    exec_expect_verified(&w, words, sizeof words / sizeof *words);
    lw_workload_free(&w);
}

static int32_t owner_of(const struct lw_plan *p, const char *name)
{
    for (int32_t i = 0; i < p->n_shards; i++)
        if (strstr(p->params[p->shards[i].param].name, name))
            return p->shards[i].owner;
    fail_msg("no shard of %s", name);
    return -1;
}

/* Experts: six of 256 elements on a rank, to its 2 members 0 1 1 0 0 1, 768 each. All others to 4
 * members there and back: five norms of 16 to 0 1 2 3 3, two products of 256 to 2 and 1, embedding
 * and head of 512 to 0, queries, keys and values of 768 to 1 and 2. So members have 1040, 1040,
 * 1040 and 32 elements, ranks 768 more, and the last one 1008 elements of Adam's 8 bytes less. */
TEST(whole_experts_go_to_the_ranks_that_hold_them)
{
    static const struct {
        const char *name;
        int32_t owner;
    } owners[] = {{"embed_tokens", 0}, {"lm_head", 0}, {"layers.0.self_attn.q_proj", 1},
                  {"layers.0.self_attn.v_proj", 1}, {"layers.1.self_attn.k_proj", 2},
                  {"layers.0.self_attn.o_proj", 2}, {"layers.1.self_attn.o_proj", 1},
                  {"layers.0.mlp.gate", 0}, {"layers.0.mlp.up", 1}, {"layers.0.mlp.down", 1},
                  {"layers.1.mlp.gate", 0}, {"layers.1.mlp.up", 0}, {"layers.1.mlp.down", 1}};
    struct lw_workload w = model();
    struct lw_plan p = plan_of_words(&w, "dp 4 ep 2 zero 1 shard-policy ping-pong");

    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++)
        if (owner_of(&p, owners[i].name) != owners[i].owner)
            fail_msg("%s: owner %d", owners[i].name, owner_of(&p, owners[i].name));
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_OPTIMIZER], (1040 + 768) * 8);
    assert_int_equal(p.last_spares, 1008 * 8);
    lw_plan_free(&p);
    /* one rank for each expert: all of 2 x 3 of 128 elements stay with it */
    p = plan_of_words(&w, "dp 4 ep 4 zero 1 shard-policy ping-pong");
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_OPTIMIZER], (1040 + 6 * 128) * 8);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

TEST(contradictory_options_are_refused)
{
    struct lw_workload w = model();

    plan_refused(&w, "dp 4 ep 3", "--ep 3 does not divide the 4 ranks");
    plan_refused(&w, "dp 2 ep 2 clip 1", "--ep 2 with --clip");
    plan_refused(&w, "dp 2 ep 2 zero 1 shard-policy oss-greedy",
                 "no rule is known that gives experts to owners by this policy");
    plan_refused(&w, "dp 5 ep 5", "not a multiple of 5");
    plan_refused(&w, "dp 4 tp 4 ep 8", "--ep 8 does not divide the 4 ranks of --dp and --cp that "
                                       "would share the experts, each split over --tp; --etp 1 "
                                       "shares them over it too");
    plan_refused(&w, "dp 1 tp 4 ep 8 etp 1", "--ep 8 does not divide the 4 ranks of --dp and --cp "
                                             "and --tp");
    plan_refused(&w, "dp 1 tp 4 ep 2 etp 1", "--etp 1 --ep 2 with one data-parallel rank");
    plan_refused(&w, "dp 2 tp 4 ep 2 etp 2", "experts that a part of the tensor group splits are "
                                             "not planned: --etp 1, or 4 as --tp");
    plan_refused(&w, "dp 2 tp 4 ep 2 etp 3", "an expert is split over 1 rank, or over the 4");
    plan_refused(&w, "dp 4 ep 4 zero 3 zero-group 2", "does not divide the 2 ranks of "
                                                      "--zero-group");
    plan_refused(&w, "dp 2 tp 2 etp 1", "it needs --ep of more than 1");
    plan_refused(&w, "dp 2 dispatcher deepep", "--dispatcher deepep needs --ep of at least 2");
    plan_refused(&w, "dp 2 ep 2 dispatcher hybridep",
                 "sends a token once to each node and rank: give --dispatch-once K too");
    plan_refused(&w, "dp 2 ep 2 dispatcher deepep", "give --dispatch-once K too, the experts of a "
                                                    "token (--topk)");
    plan_refused(&w, "dp 2 ep 2 dispatcher alltoall dispatch-once 2",
                 "--dispatcher all-to-all sends every copy of a token: leave out --dispatch-once "
                 "2, or give --dispatcher deepep or hybridep");
    plan_refused(&w, "dp 2 ep 2 dispatcher all-to-all",
                 "what workload 'llama-7b' sends beside tokens is in its file and not computed");
    for (int32_t i = 0; i < w.n_params; i++)
        w.params[i].expert = false;
    plan_refused(&w, "dp 2 etp 1", "--etp 1: workload 'llama-7b' has no parameter of experts: "
                                   "leave it out, or choose a model with experts");
    plan_refused(&w, "dp 2 tp 2 etp 2", "--etp 2: workload 'llama-7b' has no parameter of experts");
    lw_workload_free(&w);
}
