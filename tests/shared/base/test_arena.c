/* Memory and its failing hook: shared/base/arena.h. */
#include <string.h>
#include "tests/lib/unit.h"
#include <malloc.h>

#include "shared/base/arena.h"
#include "shared/base/hash.h"
#include "shared/plan/op.h"
#include "shared/plan/plan_builder.h"
#include "tests/lib/failing_alloc.h"

TEST(memory_from_an_arena_is_zero_and_aligned)
{
    struct lw_arena a = {0};

    for (int i = 1; i < 2000; i += 37) {
        unsigned char *p = lw_arena_alloc(&a, i, 3);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (int k = 0; k < i * 3; k++)
            assert_int_equal(p[k], 0);
        memset(p, 0xff, (size_t)i * 3);
    }
    lw_arena_free(&a);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(a_growing_array_keeps_its_elements)
{
    struct lw_arena a = {0};
    int32_t *v = NULL;

    for (int32_t n = 0; n < 1000; n++) {
        v = lw_arena_more(&a, v, n, sizeof *v);
        assert_non_null(v);
        v[n] = 3 * n;
    }
    for (int32_t n = 0; n < 1000; n++)
        assert_int_equal(v[n], 3 * n);
    lw_alloc_fail_at(1); /* 2^20 elements: a block of its own */
    assert_null(lw_arena_more(&a, v, 1 << 19, sizeof *v));
    lw_alloc_fail_at(0);
    assert_null(lw_arena_more(&a, v, 1 << 30, sizeof *v));
    lw_arena_free(&a);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(an_overflowing_size_is_refused)
{
    struct lw_arena a = {0};

    assert_null(lw_arena_alloc(&a, INT64_MAX, 16));
    assert_null(lw_arena_alloc(&a, -1, 1));
    lw_arena_free(&a);
}

static enum lw_status small_plan(struct lw_plan *p, struct lw_err *err)
{
    struct lw_builder *b = lw_builder_new("two ranks", 2);
    int32_t both[] = {0, 1};

    if (!b)
        return lw_fail_nomem(err);
    int32_t role = lw_builder_role(b, &(struct lw_role){.name = "all"});
    if (role >= 0) {
        lw_builder_rank(b, 0, role, 0, 0, 0);
        lw_builder_rank(b, 1, role, 1, 0, 0);
    }
    int32_t stream = lw_builder_stream(b, "comm", LW_STREAM_COMM, 1);
    int32_t comm = lw_builder_comm(b, "data", LW_COMM_DATA, LW_REDUCER_RING, stream);
    lw_builder_group(b, comm, both, 2);
    int32_t v = lw_builder_variant(b, "steady", "", true);
    lw_builder_program(b, v, role);
    struct lw_op op = lw_builder_blank(LW_OP_ALL_REDUCE, stream);
    op.comm = comm;
    op.bytes = 64;
    lw_builder_op(b, &op, NULL, 0);
    lw_builder_pass(b, v);
    return lw_builder_finish(b, p, err);
}

static void check_small_plan(struct lw_plan *p)
{
    assert_int_equal(p->n_ops, 1);
    assert_int_equal(p->roles[0].n_ranks, 2);
    assert_int_equal(p->index_in_role[1], 1);
    assert_int_equal(strlen(p->hash), 32);
    lw_plan_free(p);
}

TEST(every_failing_allocation_of_a_build_is_reported_and_leaks_nothing)
{
    struct lw_plan p = {0};

    EACH_ALLOCATION_FAILS(10, small_plan(&p, NULL), p, check_small_plan(&p));
}

TEST(the_hash_sees_decisions_and_not_their_notes)
{
    struct lw_plan a = {0}, b = {0};
    struct lw_err err = {0};
    char first[33];

    assert_int_equal(small_plan(&a, &err), LW_OK);
    assert_int_equal(small_plan(&b, &err), LW_OK);
    assert_string_equal(a.hash, b.hash);
    memcpy(first, a.hash, sizeof first);
    a.workload_hash = "other";
    assert_int_equal(lw_plan_hash(&a, &err), LW_OK);
    assert_string_equal(a.hash, first);
    a.ops[0].bytes++;
    assert_int_equal(lw_plan_hash(&a, &err), LW_OK);
    assert_string_not_equal(a.hash, first);
    lw_plan_free(&a);
    lw_plan_free(&b);
}

TEST(strings_stand_close_and_what_follows_is_aligned)
{
    struct lw_arena a = {0};

    char *first = lw_arena_strdup(&a, "ab"), *second = lw_arena_strdup(&a, "cd");
    int64_t *number = lw_arena_alloc(&a, 1, sizeof *number);
    assert_ptr_equal(second, first + 3);
    assert_int_equal((uintptr_t)number % 16, 0);
    assert_string_equal(first, "ab");
    assert_string_equal(second, "cd");
    lw_arena_free(&a);
}

TEST(an_adopted_block_goes_with_its_arena)
{
    struct lw_arena a = {0};
    int64_t before = lw_alloc_live();
    void *block = lw_alloc(100);

    lw_alloc_fail_at(1); /* an arena without a block needs one for its note */
    assert_int_equal(lw_arena_adopt(&a, block), -1);
    lw_alloc_fail_at(0);
    assert_int_equal(lw_alloc_live(), before + 1);
    assert_int_equal(lw_arena_adopt(&a, block), 0);
    lw_arena_free(&a);
    assert_int_equal(lw_alloc_live(), before);
}

/* 5,000 numbers are 40,000 bytes, more than the stream gathers at once; strings of many lengths
 * move the place where it is full. */
TEST(a_hash_does_not_depend_on_how_it_is_fed)
{
    enum { N = 5000 };
    static unsigned char bytes[N * 8 + 3 * N];
    size_t at = 0;
    char streamed[33], whole[33];
    struct lw_hash *h = lw_hash_new();

    for (int64_t i = 0; i < N; i++) {
        uint64_t v = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
        lw_hash_int(h, (int64_t)v);
        for (int k = 0; k < 8; k++)
            bytes[at++] = (unsigned char)(v >> 8 * k);
        lw_hash_bytes(h, "abc", (size_t)(i % 4));
        memcpy(bytes + at, "abc", (size_t)(i % 4));
        at += (size_t)(i % 4);
    }
    lw_hash_finish(h, streamed);
    lw_hash_of(bytes, at, whole);
    assert_string_equal(streamed, whole);
    h = lw_hash_new();
    lw_hash_bytes(h, bytes, 1);
    lw_hash_bytes(h, bytes + 1, at - 1); /* longer than all it gathers */
    lw_hash_finish(h, streamed);
    assert_string_equal(streamed, whole);
}

/* Thousands of files are read at a time, each with arenas that hold a few bytes. */
TEST(an_arena_of_few_bytes_takes_one_page_at_most)
{
    enum { N = 1000 };
    static struct lw_arena arenas[N];
    size_t before = mallinfo2().uordblks;

    for (int i = 0; i < N; i++)
        assert_non_null(lw_arena_strdup(&arenas[i], "rank"));
    size_t taken = mallinfo2().uordblks - before;
    for (int i = 0; i < N; i++)
        lw_arena_free(&arenas[i]);
    if (taken == 0) {
        print_message("SKIP: this allocator does not count\n");
        skip();
    }
    assert_true(taken < (size_t)N * 4400);
}

TEST(a_text_of_any_length_is_printed)
{
    struct lw_arena a = {0};

    for (int n = 0; n < 700; n++) {
        char expected[800];
        snprintf(expected, sizeof expected, "%d:%*d", n, n, 7);
        assert_string_equal(lw_arena_printf(&a, "%d:%*d", n, n, 7), expected);
    }
    lw_arena_free(&a);
}

/* KiB of the heap for which no large pages are asked; -1: the system does not say. */
static long heap_in_small_pages(void)
{
    char line[512];
    bool heap = false;
    long kib = 0, small = 0;
    FILE *f = fopen("/proc/self/smaps", "r");

    if (!f)
        return -1;
    while (fgets(line, sizeof line, f)) {
        if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
            heap = strstr(line, "[heap]") != NULL;
        sscanf(line, "Size: %ld", &kib);
        if (heap && strncmp(line, "VmFlags:", 8) == 0 && !strstr(line, " hg"))
            small += kib;
    }
    fclose(f);
    return small;
}

static void fill_heap(void)
{
    enum { N = 40 };
    void *blocks[N];

    for (int i = 0; i < N; i++)
        assert_non_null(blocks[i] = lw_alloc(2 << 20));
    for (int i = N; i-- > 0;)
        lw_free(blocks[i]);
}

TEST(a_heap_that_grows_again_after_a_trim_has_large_pages)
{
    fill_heap();
    long before = heap_in_small_pages();
    lw_alloc_trim();
    fill_heap();
    long after = heap_in_small_pages();
    if (before < 0 || before > 8 << 10) {
        print_message("SKIP: this heap has no large pages\n");
        skip();
    }
    assert_true(after < 8 << 10);
}
