/* --units: shared/lower_part/unit_names.c. The workload is that of tests/lib/plans/tiny_workload.h
 * (a.weight 100 elements, b.weight 200, b.bias 2, c.weight 300), its modules called x.0, x.1 and
 * y. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/lower/lower.h"
#include "shared/lower_part/unit_names.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/plans/tiny_build.h"

enum { ROOM = 4096 };

static void expect_units(const char *words, const char *units, const char *ops)
{
    struct tiny t;
    struct lw_strategy s = strategy(words);
    struct lw_err err = {0};
    char text[ROOM];

    tiny_init(&t);
    t.modules[0].name = "x.0";
    t.modules[1].name = "x.1";
    t.modules[2].name = "y";
    assert_ok(lw_strategy_set(&s, "units", units, &err), err);
    struct lw_plan p = build(&t, &s);
    assert_string_equal(tiny_ops(&p, "first", text, sizeof text), ops);
    lw_plan_free(&p);
}

static int key(const char *units, const char *name)
{
    return lw_unit_key(units, name);
}

TEST(a_key_ends_where_the_longest_prefix_does)
{
    assert_int_equal(key("children", "1.fc"), 1);
    assert_int_equal(key("children", "head"), 4);
    assert_int_equal(key("blocks.*", "blocks.10.fc.weight"), 9);
    assert_int_equal(key("blocks", "blocks.10.fc"), 6);
    assert_int_equal(key("blocks,blocks.*", "blocks.10.fc"), 9);
    assert_int_equal(key("1", "10.fc"), LW_UNIT_OF_ROOT);
    assert_int_equal(key("1.fc", "1"), LW_UNIT_OF_ROOT);
    assert_int_equal(key("*.fc", "1.fc"), 4);
    assert_true(lw_unit_same("blocks.*", "blocks.1.fc", "blocks.1.norm"));
    assert_false(lw_unit_same("blocks.*", "blocks.1.fc", "blocks.2.fc"));
    assert_true(lw_unit_same("blocks.*", "embed", "head")); /* both the root's */
}

/* x.0 and x.1 are one unit of 302 elements (bucket 1, weights 3): gathered before the first of
 * them, freed after the last; again before the last's backward, freed after the first's. */
TEST(children_are_gathered_around_all_their_modules)
{
    expect_units("dp 2 zero 3 prefetch 0", "children",
               "+03/1208 AG03/1208 Ew F0:1 F1:2 -03/1208 +22/1200 AG22/1200 Ew F2:3 +0/1200 B2:5 "
               "Ci/1200 RS0/1200 -0/1200 B2:1 -22/1200 +03/1208 AG03/1208 Ew +1/1208 B1:2 Ci/8 "
               "B1:2 Ci/800 B0:2 -03/1208 Ci/400 RS1/1208 -1/1208 Ew O:3");
}

/* One unit ahead is the next unit, not the next module. */
TEST(a_prefetch_is_of_units)
{
    expect_units("dp 2 zero 3", "children",
               "+03/1208 AG03/1208 +22/1200 AG22/1200 Ew F0:1 F1:2 -03/1208 Ew F2:3 +03/1208 "
               "AG03/1208 +0/1200 B2:5 Ci/1200 RS0/1200 -0/1200 B2:1 -22/1200 Ew +1/1208 B1:2 Ci/8 "
               "B1:2 Ci/800 B0:2 -03/1208 Ci/400 RS1/1208 -1/1208 Ew O:3");
}

/* y is a unit; x.0 and x.1 are the root's, which stays until the end of the backward. */
TEST(what_no_prefix_matches_is_the_roots_unit)
{
    expect_units("dp 2 zero 3 prefetch 0", "y",
               "+03/1208 AG03/1208 Ew F0:1 F1:2 +22/1200 AG22/1200 Ew F2:3 +0/1200 B2:5 Ci/1200 "
               "RS0/1200 -0/1200 B2:1 -22/1200 +1/1208 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 RS1/1208 "
               "-1/1208 -03/1208 Ew O:3");
}

/* Shares of 604 bytes go in, 1208 bytes come out (FSDP2). */
TEST(weights_are_copied_into_what_is_gathered_and_out_of_it)
{
    expect_units("dp 2 zero 3 prefetch 0 unit-copies on reshard off", "children",
               "C/604 +03/1208 AG03/1208 Ew C/1208 F0:1 F1:2 C/600 +22/1200 AG22/1200 Ew "
               "C/1200 F2:3 +0/1200 B2:5 Ci/1200 RS0/1200 -0/1200 B2:1 -22/1200 +1/1208 B1:2 Ci/8 "
               "B1:2 Ci/800 B0:2 -03/1208 Ci/400 RS1/1208 -1/1208 Ew O:3");
}

static void refused(const char *words, const char *units, const char *says)
{
    struct tiny t;
    struct lw_strategy s = strategy(words);
    struct lw_err err = {0};

    tiny_init(&t);
    assert_ok(lw_strategy_set(&s, "units", units, &err), err);
    expect_refusal(&t, &s, LW_EINVAL, says);
}

TEST(prefixes_that_match_nothing_are_refused)
{
    refused("dp 2 zero 3", "layers.*",
            "--units: no module of workload 'tiny' begins with 'layers.*'");
    refused("dp 2 zero 3", "a,", "begins with ''");
    refused("dp 2 zero 3", "", "--units: found nothing");
    refused("dp 2 zero 3 root-unit on", "a", "leave out --root-unit");
    refused("dp 2", "children", "--units needs --zero 3");
}

