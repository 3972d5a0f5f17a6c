/* Megatron-LM's stages: shared/partition/partition_megatron.c. Item 0 is the embedding, the last
 * one the head. */
#include <stdio.h>
#include <string.h>

#include "shared/partition/partition.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/unit.h"

/* First item of each part, in the order of parts. */
static const char *begins_of(struct lw_megatron_stages m)
{
    static char text[1024];
    struct lw_partitioning p;
    struct lw_err err;
    size_t at = 0;

    m.n_items = m.n_items ? m.n_items : m.n_blocks + 2;
    if (lw_partition_megatron(&m, &p, &err) != LW_OK) {
        snprintf(text, sizeof text, "%s", err.msg);
        return text;
    }
    for (int32_t q = 0; q < m.n_stages * m.n_chunks; q++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", q ? "," : "",
                               lw_partition_part(&p, q % m.n_stages, q / m.n_stages)->begin);
    lw_partition_free(&p);
    return text;
}

TEST(blocks_are_even_between_embedding_and_head)
{
    assert_string_equal(begins_of((struct lw_megatron_stages){0, 12, 4, 1}), "0,4,7,10");
    assert_string_equal(begins_of((struct lw_megatron_stages){0, 12, 2, 3}), "0,3,5,7,9,11");
}

TEST(blocks_for_further_tokens_are_the_last_part_s)
{
    assert_string_equal(begins_of((struct lw_megatron_stages){15, 12, 4, 1}), "0,4,7,10");
}

TEST(ends_have_their_own_numbers)
{
    assert_string_equal(
        begins_of((struct lw_megatron_stages){0, 12, 4, 1, .first = 2, .last = 2}), "0,3,7,11");
    assert_string_equal(begins_of((struct lw_megatron_stages){0, 14, 4, 1, .first = 2}),
                        "0,3,7,11");
    assert_string_equal(begins_of((struct lw_megatron_stages){0, 8, 2, 1, .first = 3, .last = 5}),
                        "0,4");
}

/* 10 blocks and both ends are 12: three each, of which the first and the last have two blocks. */
TEST(ends_count_as_blocks)
{
    assert_string_equal(begins_of((struct lw_megatron_stages){
                            0, 10, 4, 1, .count_embedding = true, .count_loss = true}),
                        "0,3,6,9");
    assert_string_equal(
        begins_of((struct lw_megatron_stages){0, 11, 4, 1, .count_embedding = true}), "0,3,6,9");
    assert_string_equal(begins_of((struct lw_megatron_stages){0, 11, 4, 1, .count_loss = true}),
                        "0,4,7,10");
}

TEST(what_does_not_divide_is_refused_with_the_remedy)
{
    static const struct {
        struct lw_megatron_stages m;
        const char *says;
    } cases[] = {
        {{0, 13, 4, 1}, "13 layers do not divide into 4 stages: give --first-layers"},
        {{0, 12, 4, 2}, "3 blocks of the first stage do not divide into --chunks 2"},
        {{0, 12, 2, 1, .first = 3, .last = 3}, "do not add up to the 12 layers on 2 stages"},
        {{0, 12, 4, 1, .first = 13}, "do not add up to the 12 layers"},
        {{0, 12, 4, 1, .first = 3, .count_loss = true}, "contradict --count-embedding"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strstr(begins_of(cases[i].m), cases[i].says))
            fail_msg("case %zu: %s", i, begins_of(cases[i].m));
}

TEST(failing_allocations_leak_nothing)
{
    struct lw_partitioning p = {0};
    struct lw_megatron_stages m = {14, 12, 4, 1};
    struct lw_err err;

    EACH_ALLOCATION_FAILS(1, lw_partition_megatron(&m, &p, &err), p, lw_partition_free(&p));
}
