/* DeepSpeed's buckets: shared/bucket/bucket_deepspeed.c, docs/design/bucket.md. */
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/bucket/policy.h"

enum { N_MAX = 8 };

struct asked {
    struct lw_grad grads[N_MAX];
    int32_t order[N_MAX], param_of[N_MAX];
    struct lw_param params[N_MAX];
    struct lw_workload w;
    struct lw_strategy s;
    struct lw_arena room, kept;
    struct lw_bucket_task task;
    struct lw_bucket_answer answer;
};

/* n gradients of one dtype that become ready last registered first. */
static void begin(struct asked *q, const int64_t *numel, int32_t n, int64_t cap_bytes)
{
    memset(q, 0, sizeof *q);
    q->s = lw_strategy_default();
    q->s.bucket_policy = LW_BUCKET_DEEPSPEED;
    q->s.bucket_cap_bytes = cap_bytes;
    for (int32_t i = 0; i < n; i++) {
        q->grads[i] = (struct lw_grad){.numel = numel[i], .dtype = LW_BF16};
        q->order[i] = n - 1 - i;
        q->param_of[i] = i;
        q->params[i] = (struct lw_param){.name = i ? "later" : "first", .numel = numel[i]};
    }
    q->w.params = q->params;
    q->w.n_params = n;
    q->task = (struct lw_bucket_task){.s = &q->s, .w = &q->w, .grads = q->grads, .n_grads = n,
                                      .param_of = q->param_of, .order = q->order,
                                      .n_members = 2, .room = &q->room};
    q->answer.arena = &q->kept;
}

static enum lw_status assign(struct asked *q, struct lw_err *err)
{
    return lw_bucket_policy(LW_BUCKET_DEEPSPEED)->assign(&q->task, &q->answer, err);
}

static void end(struct asked *q)
{
    lw_bucketing_free(&q->answer.buckets);
    lw_arena_free(&q->room);
    lw_arena_free(&q->kept);
}

/* 20 bytes of bf16 are 10 elements. Ready order 3 4 4 11 2: 3 + 4 = 7, and 7 + 4 exceeds 10; 4, and
 * 4 + 11 exceeds 10; 11 alone is larger than any bucket; 2. */
TEST(a_bucket_goes_before_the_gradient_that_would_overflow_it)
{
    static const int64_t numel[] = {2, 11, 4, 4, 3};
    static const int32_t first[] = {0, 2, 3, 4, 5}, items[] = {4, 3, 2, 1, 0};
    struct asked q;
    struct lw_err err = {0};

    begin(&q, numel, 5, 20);
    assert_int_equal(assign(&q, &err), LW_OK);
    assert_int_equal(q.answer.buckets.n_buckets, 4);
    assert_memory_equal(q.answer.buckets.first, first, sizeof first);
    assert_memory_equal(q.answer.buckets.items, items, sizeof items);
    for (int32_t b = 0; b < 4; b++)
        assert_int_equal(q.answer.buckets.limit_bytes[b], 20);
    assert_int_equal(q.answer.buckets.next_cap, 22); /* takes 3 + 4 + 4 elements */
    assert_non_null(strstr(q.answer.why, "10 elements"));
    end(&q);
}

/* 3 + 4 + 3 = 10: not above the limit. A gradient without elements opens no bucket. */
TEST(an_exact_fit_stays_in_the_bucket)
{
    static const int64_t numel[] = {1, 3, 0, 4, 3};
    struct asked q;
    struct lw_err err = {0};

    begin(&q, numel, 5, 20);
    assert_int_equal(assign(&q, &err), LW_OK);
    assert_int_equal(q.answer.buckets.n_buckets, 2);
    assert_int_equal(q.answer.buckets.first[1], 4);
    end(&q);
}

/* reduce_bucket_size of DeepSpeed: 500,000,000 elements, 10^9 bytes of bf16. */
TEST(the_default_limit_is_500_million_elements)
{
    static const int64_t numel[] = {1, 250000000, 250000000};
    struct asked q;
    struct lw_err err = {0};

    begin(&q, numel, 3, -1);
    assert_int_equal(assign(&q, &err), LW_OK);
    assert_int_equal(q.answer.buckets.n_buckets, 2);
    assert_int_equal(q.answer.buckets.first[1], 2);
    assert_int_equal(q.answer.buckets.limit_bytes[0], 1000000000);
    end(&q);
}

/* 500 elements: 1 + 300, then 200. */
TEST(a_limit_may_be_given_in_elements)
{
    static const int64_t numel[] = {200, 300, 1};
    struct asked q;
    struct lw_err err = {0};

    begin(&q, numel, 3, -1);
    q.s.reduce_elements = 500;
    assert_int_equal(assign(&q, &err), LW_OK);
    assert_int_equal(q.answer.buckets.n_buckets, 2);
    end(&q);
}

/* Two bf16 around one f32: each type has a bucket, listed as they are complete. */
TEST(each_dtype_has_a_bucket_of_its_own)
{
    static const int64_t numel[] = {1, 1, 1};
    struct asked q;
    struct lw_err err = {0};

    begin(&q, numel, 3, 20);
    q.grads[1].dtype = LW_F32;
    assert_int_equal(assign(&q, &err), LW_OK);
    assert_int_equal(q.answer.buckets.n_buckets, 2);
    for (int b = 0; b < 2; b++)
        for (int32_t i = q.answer.buckets.first[b] + 1; i < q.answer.buckets.first[b + 1]; i++)
            assert_int_equal(q.grads[q.answer.buckets.items[i]].dtype,
                             q.grads[q.answer.buckets.items[i - 1]].dtype);
    assert_int_equal(q.answer.buckets.n_items, 3);
    end(&q);
}
