/* The descriptor of a plan's tables, and the check that runs along it: every field with a range is
 * set outside it, on either side. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/files/files.h"
#include "shared/plan/op.h"
#include "shared/plan/plan_builder.h"
#include "shared/plan/plan_tables.h"
#include "shared/workload/buffer.h"
#include "shared/workload/product.h"
#include "shared/workload/sparse.h"

/* Three rows or so of everything, that need not make sense. */
static struct lw_plan everything(void)
{
    struct lw_builder *b = lw_builder_new("all", 3);
    struct lw_operand entries[] = {{8, 0, 1}, {8, 8, 2}, {8, 16, 0}};
    struct lw_slot slots[] = {{0, 0}, {1, 64}};
    struct lw_plan p;
    struct lw_err err = {0};

    lw_builder_role(b, &(struct lw_role){.name = "r"});
    for (int32_t r = 0; r < 3; r++)
        lw_builder_rank(b, r, 0, r, 0, 0);
    lw_builder_stream(b, "s", LW_STREAM_COMM, 1);
    for (int32_t c = 0; c < 2; c++)
        lw_builder_comm(b, "c", LW_COMM_DATA, LW_REDUCER_AUTO, 0);
    lw_builder_group(b, 1, (int32_t[]){2, 0}, 2);
    lw_builder_module(b, 0);
    for (int32_t i = 0; i < 3; i++)
        lw_builder_param(b, &(struct lw_plan_param){.name = "p", .numel = 64, .tied = -1});
    lw_builder_buffer(b, &(struct lw_buffer){.name = "b", .numel = 4});
    lw_builder_whole(b, 1);
    lw_builder_sparse(b, &(struct lw_sparse){1, 8, 2});
    lw_builder_set(b, LW_BUCKET_GRADIENTS, "initial", 0);
    lw_builder_set(b, LW_BUCKET_GRADIENTS, "rebuilt", 0);
    for (int32_t i = 0; i < 2; i++)
        lw_builder_bucket(b, &(struct lw_bucket){.dtype = LW_F32, .bytes = 512}, slots, 2);
    lw_builder_shard(b, &(struct lw_shard){2, -1, 0, 64});
    lw_builder_product(b, &(struct lw_product){.batch = 1, .m = 2, .n = 3, .k = 4});
    lw_builder_work(b, &(struct lw_work){.ps = 5, .flops = -1, .bytes = -1});
    lw_builder_work_product(b, 0);
    lw_builder_operand_row(b, entries, 3);
    lw_builder_variant(b, "v", "initial", true);
    lw_builder_pass(b, 0);
    lw_builder_program(b, 0, 0);
    for (int32_t i = 0; i < 3; i++) {
        struct lw_op o = lw_builder_blank(LW_OP_COPY_IN, 0);
        o.work = 0;
        lw_builder_op(b, &o, (int32_t[]){i - 1}, i > 0);
        lw_builder_ready(b, 0);
    }
    assert_ok(lw_builder_finish(b, &p, &err), err);
    assert_ok(lw_plan_check_ranges(&p, LW_EPLAN, &err), err);
    return p;
}

static void store(void *at, size_t size, int64_t v)
{
    int32_t four = (int32_t)v;
    int16_t two = (int16_t)v;
    int8_t one = (int8_t)v;
    const void *from = size == 8 ? (void *)&v : size == 4 ? (void *)&four
                       : size == 2 ? (void *)&two : &one;

    memcpy(at, from, size);
}

static int64_t most(const struct lw_plan *p, const struct lw_plan_field *f)
{
    return f->earlier ? 0 : f->refers ? lw_plan_count_at(p, f->refers) - 1 : f->most;
}

static void assert_refused(struct lw_plan *p, const char *key, void *at, size_t size, int64_t v)
{
    char old[8], found[32];
    struct lw_err err = {0};

    memcpy(old, at, size);
    store(at, size, v);
    snprintf(found, sizeof found, ": found %" PRId64, v);
    assert_int_equal(lw_plan_check_ranges(p, LW_EFORMAT, &err), LW_EFORMAT);
    if (!strstr(err.msg, key) || !strstr(err.msg, found))
        fail_msg("%s at %s: %s", found, key, err.msg);
    memcpy(at, old, size);
    assert_ok(lw_plan_check_ranges(p, LW_EFORMAT, &err), err);
}

TEST(every_field_is_refused_outside_its_range)
{
    struct lw_plan p = everything();
    int n = 0;

    for (int t = 0; t < LW_N_TABLES; t++)
        for (const struct lw_plan_field *f = lw_plan_tables[t].fields; f->name; f++) {
            int64_t row = f->earlier, high = most(&p, f);
            char *rows = *(char **)(void *)((char *)&p + lw_plan_tables[t].at);
            char *at = rows + (size_t)row * lw_plan_tables[t].size + f->at;
            size_t size = f->n_list ? sizeof(int32_t) : f->size;
            const char *key = f->key ? f->key : f->name;
            if (!f->ranged)
                continue;
            assert_true(lw_table_rows(&lw_plan_tables[t], &p) > row);
            if (f->n_list)
                at = (char *)(*(int32_t **)(void *)((char *)&p + f->list) + *(int32_t *)(void *)at);
            assert_refused(&p, key, at, size, f->least - 1);
            if (high < INT64_MAX >> (64 - 8 * size))
                assert_refused(&p, key, at, size, high + 1);
            n++;
        }
    assert_in_range(n, 60, 90);
    lw_plan_free(&p);
}

static void assert_place(struct lw_plan *p, int32_t *word, int32_t v, const char *message)
{
    int32_t old = *word;
    struct lw_err err = {0};

    *word = v;
    assert_int_equal(lw_plan_check_ranges(p, LW_EPLAN, &err), LW_EPLAN);
    assert_string_equal(err.msg, message);
    *word = old;
}

/* Where a person finds the number in a plan file. */
TEST(places_are_those_of_a_plan_file)
{
    struct lw_plan p = everything();

    assert_place(&p, &p.operands[2].peer, 3,
                 "at operands[0].of_ranks[2].peer: found 3, allowed: -1 to 2");
    assert_place(&p, &p.slots[3], 7, "at bucket_sets[1].buckets[1].params: found 7, allowed: 0 to "
                                     "2");
    assert_place(&p, &p.buckets[1].set, 2, "at buckets[1].set: found 2, allowed: 0 to 1");
    assert_place(&p, &p.comm_group[5], 1, "at comms[1].groups, rank 2: found 1, allowed: -1 to 0");
    assert_place(&p, &p.members[1], 3, "at groups[0].members: found 3, allowed: 0 to 2");
    assert_place(&p, &p.pass_variant[0], 1, "at passes[0]: found 1, allowed: 0 to 0");
    lw_plan_free(&p);
}

TEST(lists_lie_in_their_table_and_belong_to_one_row)
{
    struct lw_plan p = everything();

    assert_place(&p, &p.groups[0].n_members, 3,
                 "at groups[0].members: 3 items from 0 on lie outside a list of 2");
    assert_place(&p, &p.ops[1].first_dep, -1,
                 "at ops[1].deps: 1 items from -1 on lie outside a list of 2");
    assert_place(&p, &p.ops[1].n_deps, 2, "at ops[1].deps: found 1, allowed: 0 to 0");
    p.deps[1] = 0;
    assert_place(&p, &p.ops[1].n_deps, 2, "at ops[2].deps: its items belong to another one too");
    assert_place(&p, &p.n_deps, -1, "at ops.deps: found -1, expected at least 0");
    lw_plan_free(&p);
}

static char *file_of(const struct lw_plan *p)
{
    struct lw_err err = {0};
    char *text;
    size_t n;

    assert_ok(lw_plan_write_text(p, &text, &n, &err), err);
    return text;
}

/* Another value of a field of row 0; of a list, another item. */
static void change(const struct lw_plan *p, const struct lw_plan_field *f, char *row)
{
    if (f->kind == LW_PF_TEXT) {
        *(const char **)(void *)(row + f->at) = "another";
    } else if (f->kind == LW_PF_LIST) {
        int32_t n;
        int32_t *list = (int32_t *)lw_field_list(f, p, row, &n);
        assert_true(n > 0);
        list[0]++;
    } else {
        int64_t v = lw_field_number(f, row);
        store(row + f->at, f->size, f->kind == LW_PF_BIT ? !v : f->word && !f->word((int)v + 1)
                                                                ? v - 1 : v + 1);
    }
}

TEST(every_field_stands_in_plan_files)
{
    int n = 0;

    for (int t = 0; t < LW_N_TABLES; t++)
        for (const struct lw_plan_field *f = lw_plan_tables[t].fields; f->name; f++) {
            struct lw_plan p = everything();
            char *row = *(char **)(void *)((char *)&p + lw_plan_tables[t].at);
            char *before = file_of(&p);
            row += (size_t)f->earlier * lw_plan_tables[t].size;
            if (!f->derived) {
                change(&p, f, row);
                char *after = file_of(&p);
                if (strcmp(before, after) == 0)
                    fail_msg("%s %s is not in the file", lw_plan_tables[t].row, f->name);
                free(after);
                n++;
            }
            free(before);
            lw_plan_free(&p);
        }
    assert_in_range(n, 75, 110);
}
