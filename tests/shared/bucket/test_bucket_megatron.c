/* Megatron-LM's buckets: shared/bucket/bucket_megatron.c, docs/design/bucket.md. */
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/bucket/bucket_megatron.h"
#include "shared/bucket/policy.h"

enum { N_MAX = 8 };

struct asked {
    struct lw_grad grads[N_MAX];
    int32_t order[N_MAX];
    struct lw_strategy s;
    struct lw_arena room, kept;
    struct lw_bucket_task task;
    struct lw_bucket_answer answer;
};

/* n bf16 gradients, ready as registered: the order does not count. */
static void begin(struct asked *q, const int64_t *numel, int32_t n, int64_t cap_bytes, int64_t zero)
{
    memset(q, 0, sizeof *q);
    q->s = lw_strategy_default();
    q->s.bucket_policy = LW_BUCKET_MEGATRON;
    q->s.bucket_cap_bytes = cap_bytes;
    q->s.zero = zero;
    q->s.shard_policy = LW_SHARD_FLAT;
    for (int32_t i = 0; i < n; i++) {
        q->grads[i] = (struct lw_grad){.numel = numel[i], .dtype = LW_BF16};
        q->order[i] = i;
    }
    q->task = (struct lw_bucket_task){.s = &q->s, .grads = q->grads, .n_grads = n,
                                      .order = q->order, .n_members = 2, .first_part = true,
                                      .room = &q->room};
    q->answer.arena = &q->kept;
}

static void assign(struct asked *q)
{
    struct lw_err err = {0};

    assert_ok(lw_bucket_policy(LW_BUCKET_MEGATRON)->assign(&q->task, &q->answer, &err), err);
}

static void end(struct asked *q)
{
    lw_bucketing_free(&q->answer.buckets);
    lw_arena_free(&q->room);
    lw_arena_free(&q->kept);
}

/* 20 bytes of bf16 are 10 elements. From the last registered: 3 + 4 + 4 = 11 closes, 11 closes
 * alone, 2 is what is left. */
TEST(a_bucket_closes_once_it_has_the_elements)
{
    static const int64_t numel[] = {2, 11, 4, 4, 3};
    static const int32_t first[] = {0, 3, 4, 5}, items[] = {4, 3, 2, 1, 0};
    struct asked q;

    begin(&q, numel, 5, 20, 0);
    assign(&q);
    assert_int_equal(q.answer.buckets.n_buckets, 3);
    assert_memory_equal(q.answer.buckets.first, first, sizeof first);
    assert_memory_equal(q.answer.buckets.items, items, sizeof items);
    assert_int_equal(q.answer.buckets.next_cap, 24); /* 12 elements: neither 11 closes */
    assert_true(q.answer.in_place);
    end(&q);
}

/* An exact hit closes: 3 + 7. */
TEST(an_exact_hit_closes)
{
    static const int64_t numel[] = {1, 7, 3};
    struct asked q;

    begin(&q, numel, 3, 20, 0);
    assign(&q);
    assert_int_equal(q.answer.buckets.n_buckets, 2);
    assert_int_equal(q.answer.buckets.first[1], 2);
    end(&q);
}

/* max(40e6, 1e6 ranks) elements: of 60 ranks 60e6. */
TEST(the_limit_grows_with_the_ranks)
{
    static const int64_t numel[] = {1, 1, 19999999, 40000000};
    static const int32_t members[] = {2, 40, 60, 100}, buckets[] = {2, 2, 2, 1};
    struct asked q;

    for (int i = 0; i < 4; i++) {
        begin(&q, numel, 4, -1, 0);
        q.task.n_members = members[i];
        assign(&q);
        assert_int_equal(q.answer.buckets.n_buckets, buckets[i]);
        end(&q);
    }
}

/* Starts at multiples of 64: the second of 5 begins at 64, the third would at 128; 69 close. */
TEST(the_distributed_optimizer_aligns_what_it_cuts)
{
    static const int64_t numel[] = {5, 5, 5};
    struct asked q;

    begin(&q, numel, 3, 40, 1); /* 20 elements */
    assign(&q);
    assert_int_equal(q.answer.buckets.n_buckets, 2);
    assert_int_equal(q.answer.buckets.first[1], 2);
    assert_int_equal(lw_megatron_start(&q.s, 5), 64);
    assert_int_equal(lw_megatron_start(&q.s, 64), 64);
    assert_int_equal(lw_megatron_end(&q.s, 69, 2), 128);
    assert_int_equal(lw_megatron_end(&q.s, 129, 3), 384);   /* lcm(3, 128) */
    assert_int_equal(lw_megatron_end(&q.s, 129, 256), 256); /* lcm(256, 128) */
    end(&q);
    begin(&q, numel, 3, 40, 0);
    assign(&q);
    assert_int_equal(q.answer.buckets.n_buckets, 1); /* 15 elements, none aligned */
    assert_int_equal(lw_megatron_start(&q.s, 5), 5);
    assert_int_equal(lw_megatron_end(&q.s, 69, 2), 69);
    end(&q);
}

TEST(later_parts_and_no_overlap_have_one_bucket)
{
    static const int64_t numel[] = {50000000, 50000000, 50000000};
    struct asked q;

    for (int i = 0; i < 3; i++) {
        begin(&q, numel, 3, -1, 1);
        q.task.first_part = i != 1;
        q.s.overlap = i != 2;
        assign(&q);
        assert_int_equal(q.answer.buckets.n_buckets, i == 0 ? 3 : 1);
        end(&q);
    }
}

/* Experts and other dtypes fill buckets of their own. */
TEST(each_kind_has_a_buffer)
{
    static const int64_t numel[] = {6, 6, 6, 6};
    struct asked q;

    begin(&q, numel, 4, 24, 0); /* 12 elements */
    q.grads[1].device = q.grads[2].device = 128;
    assign(&q);
    assert_int_equal(q.answer.buckets.n_buckets, 2);
    assert_int_equal(q.answer.buckets.items[0], 2); /* complete first */
    assert_int_equal(q.answer.buckets.items[1], 1);
    assert_int_equal(q.answer.buckets.items[2], 3);
    end(&q);
}
