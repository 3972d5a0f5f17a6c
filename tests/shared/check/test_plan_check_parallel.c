/* lw_plan_check on plans of pipelines with data and tensor parallelism: one change each, and the
 * fault names the op. Docs: docs/design/plan.md. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/base/arena.h"
#include "shared/lower/lower.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/plans/tiny_workload.h"

/* dp 2, pp 2, tp 2: a, b | c, and d.weight in c is a copy of a.weight. */
struct parallel {
    struct tiny t;
    struct lw_param params[5];
    struct lw_plan p;
};

enum { COPY = 4 };

static void make_sharded(struct parallel *k, int zero)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};

    tiny_init(&k->t);
    for (int m = 0; m < 3; m++) {
        k->t.modules[m].output_bytes = 1000;
        k->t.modules[m].tp_split = LW_TP_COLUMN;
        k->t.modules[m].tp_forward_bytes = 100;
    }
    memcpy(k->params, k->t.params, sizeof k->t.params);
    k->params[COPY] = tiny_param("d.weight", 100, 2, 12);
    k->params[COPY].tied = A_WEIGHT;
    k->params[COPY].ready_ps = -1;
    k->t.w.params = k->params;
    k->t.w.n_params = 5;
    s.dp = s.pp = s.tp = 2;
    s.micro_batches = 2;
    s.zero = zero;
    assert_ok(lw_plan_build(&k->t.w, &s, NULL, &k->p, &err), err);
}

static void make(struct parallel *k)
{
    make_sharded(k, 0);
}

/* The n-th op of a kind and, unless -1, class of a role's program in the last variant. */
static struct lw_op *find(struct parallel *k, int32_t role, enum lw_op_kind kind,
                          enum lw_comm_purpose purpose, int n)
{
    struct lw_plan *p = &k->p;
    struct lw_program g = p->programs[(int64_t)(p->n_variants - 1) * p->n_roles + role];

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        struct lw_op *o = &p->ops[i];
        if (o->kind == kind && (o->comm < 0 || p->comms[o->comm].purpose == purpose) && n-- == 0)
            return o;
    }
    fail_msg("no such op");
    return NULL;
}

static void expect(struct parallel *k, const char *part, const char *more)
{
    struct lw_err err = {0};

    assert_int_equal(lw_plan_check(&k->p, &err), LW_EPLAN);
    if (!strstr(err.msg, part) || !strstr(err.msg, more))
        fail_msg("'%s' does not say '%s' and '%s'", err.msg, part, more);
    lw_plan_free(&k->p);
}

static const char *number(const struct parallel *k, const struct lw_op *o, char *text)
{
    snprintf(text, 32, "op %d (", (int)(o - k->p.ops));
    return text;
}

TEST(as_made_it_passes)
{
    struct parallel k;
    struct lw_err err = {0};

    make(&k);
    assert_int_equal(lw_plan_check(&k.p, &err), LW_OK);
    assert_int_equal(k.p.n_ranks, 8);
    assert_int_equal(k.p.n_roles, 2);
    lw_plan_free(&k.p);
}

TEST(two_sends_that_change_places_are_named)
{
    struct parallel k;
    char text[32];

    make(&k);
    struct lw_op *a = find(&k, 0, LW_OP_SEND, LW_COMM_FORWARD, 0);
    struct lw_op *b = find(&k, 0, LW_OP_SEND, LW_COMM_FORWARD, 1);
    int32_t mb = a->micro_batch;
    a->micro_batch = b->micro_batch;
    b->micro_batch = mb;
    expect(&k, number(&k, a, text),
           "(forward, module 1) of 'steady' for role 'stage 0', which writes its message");
}

TEST(a_send_less_is_named_by_its_receive)
{
    struct parallel k;
    char text[32];

    make(&k);
    struct lw_op *a = find(&k, 1, LW_OP_RECV, LW_COMM_FORWARD, 1);
    find(&k, 0, LW_OP_SEND, LW_COMM_FORWARD, 1)->kind = LW_OP_RECV;
    expect(&k, number(&k, a, text), "never sends it");
}

/* Peers of one rank alone differ: roles no longer stand for ranks, and the words are those of
 * ranks. */
/* An op that has operands says the most of them itself, or nothing: no other check sees that it
 * does not. */
TEST(a_message_that_says_other_bytes_than_it_has_is_named)
{
    static const int64_t sizes[] = {1, 2000, INT64_MAX};
    struct parallel k;
    char text[32], words[64];

    for (int i = 0; i < 3; i++) {
        make(&k);
        struct lw_op *o = find(&k, 1, LW_OP_RECV, LW_COMM_FORWARD, 1);
        struct lw_op *sent = find(&k, 0, LW_OP_SEND, LW_COMM_FORWARD, 1);
        o->bytes = sizes[i];
        snprintf(words, sizeof words, "says %lld bytes, but its row of operands",
                 (long long)sizes[i]);
        struct lw_err err = {0};
        assert_int_equal(lw_plan_check(&k.p, &err), LW_EPLAN);
        assert_non_null(strstr(err.msg, number(&k, o, text)));
        assert_non_null(strstr(err.msg, " 1000, and so it meets op "));
        expect(&k, number(&k, sent, text), words);
    }
}

TEST(a_message_to_another_rank_is_named)
{
    struct parallel k;

    make(&k);
    struct lw_op *a = find(&k, 0, LW_OP_SEND, LW_COMM_FORWARD, 0);
    struct lw_operand *d = &k.p.operands[k.p.operand_first[a->operand]];
    d[1].peer = d[0].peer;
    expect(&k, "send", "is not in its group of communicator 'forward'");
}

/* Receives before the sends that they wait for, both ways. */
TEST(two_stages_that_wait_for_each_other_are_found)
{
    struct parallel k;

    make(&k);
    struct lw_op *b = find(&k, 1, LW_OP_BACKWARD, LW_COMM_DATA, 0);
    struct lw_op *r = find(&k, 0, LW_OP_RECV, LW_COMM_BACKWARD, 0);
    struct lw_op *s = find(&k, 0, LW_OP_SEND, LW_COMM_FORWARD, 0);
    /* stage 0 sends its first activation when it has a gradient, which stage 1 makes of it */
    assert_non_null(b);
    s->stream = r->stream;
    struct lw_op moved = *r;
    memmove(s + 1, s, (size_t)(r - s) * sizeof *s);
    *s = moved;
    for (struct lw_op *o = s + 1; o <= r; o++) /* dependencies inside the range move with it */
        for (int32_t d = 0; d < o->n_deps; d++)
            if (k.p.deps[o->first_dep + d] >= s - k.p.ops)
                k.p.deps[o->first_dep + d]++;
    for (struct lw_op *o = r + 1; o < k.p.ops + k.p.n_ops; o++)
        for (int32_t d = 0; d < o->n_deps; d++) {
            int32_t *dep = &k.p.deps[o->first_dep + d];
            if (*dep == r - k.p.ops)
                *dep = (int32_t)(s - k.p.ops);
            else if (*dep >= s - k.p.ops && *dep < r - k.p.ops)
                ++*dep;
        }
    expect(&k, "deadlock", "stage");
}

TEST(a_dependency_less_is_named)
{
    struct parallel k;
    char text[32];

    make(&k);
    struct lw_op *a = find(&k, 1, LW_OP_ALL_REDUCE, LW_COMM_DATA, 0);
    a->n_deps = 0;
    expect(&k, number(&k, a, text), "does not wait for");
}

/* The copy of b.bias into its bucket now says that it copies a.weight. */
TEST(a_gradient_that_is_moved_is_named)
{
    struct parallel k;

    make(&k);
    for (int n = 0;; n++) {
        struct lw_op *copy = find(&k, 0, LW_OP_COPY_IN, LW_COMM_DATA, n);
        if (k.p.ready[copy->first_ready] != B_BIAS)
            continue;
        k.p.ready[copy->first_ready] = A_WEIGHT;
        break;
    }
    expect(&k, "(all_reduce, bucket 0)", "the gradient of parameter 2 'b.bias' is never");
}

/* --- copies ----------------------------------------------------------------------------------- */

TEST(copies_are_summed_before_the_optimizer)
{
    struct parallel k;

    make(&k);
    struct lw_op *a = find(&k, 0, LW_OP_ALL_REDUCE, LW_COMM_EMBEDDING, 0);
    struct lw_op *b = find(&k, 1, LW_OP_ALL_REDUCE, LW_COMM_EMBEDDING, 0);
    assert_int_equal(a->bytes, 400);
    assert_int_equal(b->bytes, 400);
    assert_string_equal(a->name, "a.weight");
    assert_string_equal(b->name, "d.weight");
    const struct lw_group *g = lw_plan_group(&k.p, a->comm, 5);
    assert_int_equal(g->n_members, 2);
    assert_int_equal(k.p.members[g->first_member], 1); /* data 0, tensor 1: ranks 1 and 5 */
    assert_int_equal(k.p.members[g->first_member + 1], 5);
    lw_plan_free(&k.p);
}

TEST(a_sum_that_comes_too_early_is_named)
{
    struct parallel k;
    char text[32];

    make(&k);
    struct lw_op *a = find(&k, 1, LW_OP_ALL_REDUCE, LW_COMM_EMBEDDING, 0);
    a->n_deps = 0;
    expect(&k, number(&k, a, text), "which writes the gradient of parameter 4 'd.weight'");
}

TEST(an_optimizer_that_does_not_wait_for_the_sum_is_named)
{
    struct parallel k;
    char text[32];

    make(&k);
    struct lw_op *o = find(&k, 0, LW_OP_OPTIMIZER, LW_COMM_DATA, 0);
    o->n_deps--; /* the sum stands last */
    expect(&k, number(&k, o, text), "does not wait for");
}

TEST(a_copy_that_is_not_summed_is_named)
{
    struct parallel k;

    make(&k);
    for (int32_t s = 0; s < k.p.n_sets; s++)
        if (k.p.sets[s].kind == LW_BUCKET_TIED && k.p.sets[s].stage == 1)
            k.p.slots[k.p.buckets[k.p.sets[s].first_bucket].first_slot] = A_WEIGHT;
    expect(&k, "two buckets of set 'tied'", "parameter 0 'a.weight'");
    make(&k);
    k.p.params[COPY].tied = B_BIAS; /* b.bias has no bucket of its own for it */
    expect(&k, "tied", "parameter");
}

/* Under ZeRO-2 and 3 the bucket of a copy is reduced to all members, the others to their shares. */
TEST(a_copy_that_is_reduced_to_shares_is_named)
{
    struct parallel k;
    char text[32];

    for (int zero = 2; zero <= 3; zero++) {
        make_sharded(&k, zero);
        struct lw_op *o = find(&k, 0, LW_OP_ALL_REDUCE, LW_COMM_DATA, 0);
        o->kind = LW_OP_REDUCE_SCATTER;
        expect(&k, number(&k, o, text), "leaves a member with a part");
    }
}
