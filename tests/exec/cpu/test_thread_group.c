/* Collectives between threads: exec/cpu/thread_group.h, docs/design/backend_threads.md. */
#include <pthread.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/backend/element.h"
#include "exec/cpu/clock_wait.h"
#include "exec/cpu/thread_group.h"
#include "shared/base/arena.h"

enum { MEMBERS_MAX = 12 };

struct job {
    struct exec_group *group;
    int32_t i, n;
    enum lw_op_kind op;
    enum lw_dtype dtype;
    int64_t count;
    int32_t root, times;
    void *mem;
    enum lw_status status;
    struct lw_err err;
    int64_t all_in_ns, began, ended;
};

static const atomic_bool never = false;

static double value_of(int32_t member, int64_t element, int32_t time)
{
    return (double)((element * 7 + member * 3 + time) % 11 - 5);
}

static void *run_job(void *arg)
{
    struct job *j = arg;
    struct exec_message m = {j->mem, j->count, j->dtype, j->root};

    for (int32_t t = 0; t < j->times && j->status == LW_OK; t++) {
        for (int64_t e = 0; e < j->count; e++)
            exec_put(j->dtype, j->mem, e, value_of(j->i, e, t));
        j->status = exec_group_run(j->group, j->i, j->op, &m, &j->all_in_ns, &j->err);
    }
    return NULL;
}

static double sum_of(int32_t n, int64_t e, int32_t t)
{
    double sum = 0;

    for (int32_t i = 0; i < n; i++)
        sum += value_of(i, e, t);
    return sum;
}

/* Element e on member i after the last time; false: undefined there. */
static bool expected(const struct job *j, int64_t e, double *v)
{
    int64_t first, n;
    int32_t t = j->times - 1;

    switch (j->op) {
    case LW_OP_ALL_REDUCE: *v = sum_of(j->n, e, t); return true;
    case LW_OP_BROADCAST: *v = value_of(j->root, e, t); return true;
    case LW_OP_REDUCE: *v = sum_of(j->n, e, t); return j->i == j->root;
    case LW_OP_REDUCE_SCATTER:
        exec_range(j->count, j->n, j->i, &first, &n);
        *v = sum_of(j->n, e, t);
        return e >= first && e < first + n;
    case LW_OP_ALL_TO_ALL: /* block k came from member k */
        n = j->count / j->n;
        *v = value_of((int32_t)(e / n), j->i * n + e % n, t);
        return true;
    default:
        for (int32_t i = 0; i < j->n; i++) {
            exec_range(j->count, j->n, i, &first, &n);
            if (e >= first && e < first + n)
                *v = value_of(i, e, t);
        }
        return true;
    }
}

static void run_all(struct job *jobs, int32_t n)
{
    pthread_t threads[MEMBERS_MAX];

    for (int32_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
    for (int32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static struct exec_shape ring_of(int32_t n)
{
    return (struct exec_shape){LW_REDUCER_RING, n, 1};
}

static void check_shape(struct exec_shape shape, enum lw_op_kind op, int64_t count,
                        enum lw_dtype dtype)
{
    struct job jobs[MEMBERS_MAX];
    int32_t n = shape.n_nodes * shape.per_node;
    struct exec_group *group;
    atomic_bool stop = false;

    assert_int_equal(exec_group_new(&shape, (struct exec_pace){0}, &stop, NULL, &group, NULL),
                     LW_OK);
    for (int32_t i = 0; i < n; i++) {
        jobs[i] = (struct job){.group = group, .i = i, .n = n, .op = op, .dtype = dtype,
                               .count = count, .root = n - 1, .times = 4};
        jobs[i].mem = lw_alloc((size_t)(count * lw_dtype_size(dtype)));
    }
    run_all(jobs, n);
    for (int32_t i = 0; i < n; i++) {
        if (jobs[i].status != LW_OK)
            fail_msg("%s", jobs[i].err.msg);
        for (int64_t e = 0; e < count; e++) {
            double v = 0, got = exec_get(dtype, jobs[i].mem, e);
            if (expected(&jobs[i], e, &v) && got != v)
                fail_msg("%s by %s of %lld %s on %d x %d: member %d, element %lld: %g, not %g",
                         lw_op_name(op), lw_reducer_name(shape.reducer), (long long)count,
                         lw_dtype_name(dtype), shape.n_nodes, shape.per_node, i, (long long)e, got,
                         v);
        }
        lw_free(jobs[i].mem);
    }
    exec_group_free(group);
}

static void check(enum lw_op_kind op, int32_t n, int64_t count, enum lw_dtype dtype)
{
    check_shape(ring_of(n), op, count, dtype);
}

TEST(every_collective_gives_the_sums_of_one_thread)
{
    static const enum lw_op_kind ops[] = {LW_OP_ALL_REDUCE, LW_OP_REDUCE_SCATTER, LW_OP_ALL_GATHER,
                                          LW_OP_BROADCAST, LW_OP_REDUCE};
    static const int64_t counts[] = {1, 2, 5, 1000, 70001}; /* fewer than members; uneven */

    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (int32_t n = 1; n <= 5; n++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                check(ops[o], n, counts[c], LW_F32);
}

/* Blocks of 1 to 70 001 elements: longer than what changes places at once. */
TEST(blocks_go_to_the_member_of_their_number)
{
    static const int64_t blocks[] = {1, 7, 1000, 70001};

    for (int32_t n = 1; n <= 6; n++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
            check(LW_OP_ALL_TO_ALL, n, blocks[b] * n, LW_F32);
    check(LW_OP_ALL_TO_ALL, 3, 3 * 501, LW_BF16);
    check(LW_OP_ALL_TO_ALL, 4, 4 * 501, LW_F64);
}

TEST(every_element_type_is_summed)
{
    for (int t = 0; t < LW_U8; t++)
        check(LW_OP_ALL_REDUCE, 3, 501, (enum lw_dtype)t);
}

/* 300 000 f32 on 2 members: ranges of 600 000 bytes are three chunks of 256 KiB each */
TEST(long_messages_go_in_chunks)
{
    check(LW_OP_ALL_REDUCE, 2, 300000, LW_F32);
    check(LW_OP_ALL_REDUCE, 3, 300001, LW_F32);
    check(LW_OP_BROADCAST, 4, 300000, LW_F32);
}

/* Every algorithm on every layout up to 12 members: one node, a member per node, both. 200 001
 * elements of 4 bytes: a half of the buffer is two chunks of 256 KiB. */
TEST(every_reducer_gives_the_sums_of_one_thread)
{
    static const enum lw_reducer_kind reducers[] = {LW_REDUCER_TREE, LW_REDUCER_HIERARCHICAL,
                                                    LW_REDUCER_HFREDUCE};
    static const int64_t counts[] = {1, 5, 1000, 200001};
    const int long_to = unit_cases(6, MEMBERS_MAX); /* members with messages of several chunks */

    for (int r = 0; r < 3; r++)
        for (int32_t nodes = 1; nodes <= MEMBERS_MAX; nodes++)
            for (int32_t each = 1; nodes * each <= MEMBERS_MAX; each++)
                for (int c = 0; c < (nodes * each <= long_to ? 4 : 3); c++)
                    check_shape((struct exec_shape){reducers[r], nodes, each}, LW_OP_ALL_REDUCE,
                                counts[c], LW_I32);
}

/* Of a group with a tree, what has no tree goes round the ring. */
TEST(other_collectives_do_not_mind_the_reducer)
{
    check_shape((struct exec_shape){LW_REDUCER_HFREDUCE, 2, 3}, LW_OP_BROADCAST, 70001, LW_F32);
    check_shape((struct exec_shape){LW_REDUCER_HIERARCHICAL, 3, 2}, LW_OP_ALL_GATHER, 70001,
                LW_F32);
    check_shape((struct exec_shape){LW_REDUCER_TREE, 5, 1}, LW_OP_REDUCE_SCATTER, 70001, LW_F32);
}

TEST(members_that_disagree_are_told)
{
    struct exec_shape shape = ring_of(2);
    struct job jobs[2];
    struct exec_group *group;
    atomic_bool stop = false;
    float mem[2][8] = {{0}};

    assert_int_equal(exec_group_new(&shape, (struct exec_pace){0}, &stop, NULL, &group, NULL),
                     LW_OK);
    for (int32_t i = 0; i < 2; i++)
        jobs[i] = (struct job){.group = group, .i = i, .n = 2, .op = LW_OP_ALL_REDUCE,
                               .dtype = LW_F32, .count = 8 - i, .times = 1, .mem = mem[i]};
    run_all(jobs, 2);
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(jobs[i].status, LW_EFAILED);
        assert_non_null(strstr(jobs[i].err.msg, "all_reduce of 8 f32"));
        assert_non_null(strstr(jobs[i].err.msg, "all_reduce of 7 f32"));
    }
    exec_group_free(group);
}

TEST(a_stop_ends_a_wait)
{
    struct exec_shape shape = ring_of(2);
    struct exec_group *group;
    atomic_bool stop = true; /* the other member never comes */
    float mem[4] = {0};
    struct exec_message m = {mem, 4, LW_F32, -1};
    int64_t all_in;
    struct lw_err err = {0};

    assert_int_equal(exec_group_new(&shape, (struct exec_pace){0}, &stop, NULL, &group, NULL),
                     LW_OK);
    assert_int_equal(exec_group_run(group, 0, LW_OP_ALL_REDUCE, &m, &all_in, &err), LW_EFAILED);
    exec_group_free(group);
}

/* Each member sends its number to the right and receives from the left, in one call: with a plain
 * send followed by a receive all would wait for each other. */
static void *exchange(void *arg)
{
    struct job *j = arg;
    int32_t sent = j->i * 10, *got = j->mem;
    struct exec_transfer x[2] = {{LW_OP_SEND, {&sent, 1, LW_I32, (j->i + 1) % j->n}, NULL},
                                 {LW_OP_RECV, {got, 1, LW_I32, (j->i + j->n - 1) % j->n}, NULL}};

    for (int t = 0; t < 50 && j->status == LW_OK; t++)
        j->status = exec_group_exchange(j->group, j->i, x, 2, &j->all_in_ns, &j->err);
    return NULL;
}

TEST(sends_and_receives_of_a_call_complete_together)
{
    struct exec_shape shape = ring_of(4);
    struct job jobs[4];
    pthread_t threads[4];
    int32_t got[4] = {0};
    struct exec_group *group;
    atomic_bool stop = false;

    assert_int_equal(exec_group_new(&shape, (struct exec_pace){0}, &stop, NULL, &group, NULL),
                     LW_OK);
    for (int32_t i = 0; i < 4; i++) {
        jobs[i] = (struct job){.group = group, .i = i, .n = 4, .mem = &got[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, exchange, &jobs[i]), 0);
    }
    for (int32_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].status, LW_OK);
        assert_int_equal(got[i], (i + 3) % 4 * 10);
    }
    exec_group_free(group);
}

enum { PACED = 1000 };

/* Member 0 sends PACED numbers to member 1, who comes first. */
static void *one_way(void *arg)
{
    struct job *j = arg;
    struct exec_transfer x = {
        j->i == 0 ? LW_OP_SEND : LW_OP_RECV, {j->mem, PACED, LW_I32, 1 - j->i}, NULL};

    if (j->i == 0)
        exec_sleep_until(exec_now_ns() + 20000000, &never);
    j->began = exec_now_ns();
    j->status = exec_group_exchange(j->group, j->i, &x, 1, &j->all_in_ns, &j->err);
    j->ended = exec_now_ns();
    return NULL;
}

/* 4000 bytes at 1e6 bytes/s take 4 ms from the sender's coming on, and 1 ms more to arrive. */
TEST(a_message_says_when_both_were_there_and_takes_its_links_time)
{
    struct exec_shape shape = ring_of(2);
    struct exec_pace pace = {.bytes_per_s = 1e6, .latency_ns = 1000000};
    static int32_t mem[2][PACED];
    struct exec_group *group;
    struct job jobs[2];
    pthread_t threads[2];

    for (int32_t e = 0; e < PACED; e++)
        mem[0][e] = e;
    assert_int_equal(exec_group_new(&shape, pace, &never, NULL, &group, NULL), LW_OK);
    for (int32_t i = 0; i < 2; i++) {
        jobs[i] = (struct job){.group = group, .i = i, .n = 2, .mem = mem[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, one_way, &jobs[i]), 0);
    }
    for (int32_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(jobs[i].status, LW_OK);
        assert_true(jobs[i].all_in_ns >= jobs[0].began && jobs[i].all_in_ns >= jobs[1].began);
        assert_true(jobs[i].ended - jobs[i].all_in_ns >= 5000000);
    }
    assert_true(jobs[0].all_in_ns == jobs[1].all_in_ns);
    assert_memory_equal(mem[0], mem[1], sizeof mem[0]);
    exec_group_free(group);
}
