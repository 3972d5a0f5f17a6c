/* Strategy files: the documented example, every option, and what is refused. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/files/file_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "shared/base/arena.h"
#include "shared/files/files.h"

TEST(documented_example_reads_as_described)
{
    char *text = fixture_example("docs/formats/strategy.md");
    struct lw_arena arena = {0};
    struct lw_strategy s;
    struct lw_err err = {0};
    fixture_put(fixture_path("s.json"), text);
    assert_ok(lw_strategy_read(fixture_path("s.json"), &arena, &s, &err), err);
    assert_int_equal(s.dp, 4);
    assert_int_equal(s.pp, 2);
    assert_int_equal(s.tp, 1);
    assert_int_equal(s.micro_batches, 8);
    assert_int_equal(s.partition, LW_PARTITION_EXPLICIT);
    assert_string_equal(s.partition_list, "0,8");
    assert_int_equal(s.bucket_cap_bytes, 10485760);
    assert_int_equal(s.launch_order, LW_LAUNCH_COMPLETION);
    assert_int_equal(lw_strategy_grad_dtype(&s, LW_F32), LW_BF16);
    assert_true(s.clip == 1.5);
    assert_false(s.overlap);
    free(text);
    lw_arena_free(&arena);
}

TEST(text_numbers_and_booleans_mean_the_same)
{
    struct lw_arena arena = {0};
    struct lw_strategy s;
    struct lw_err err = {0};
    fixture_put(fixture_path("s.json"),
                "{\"lapwing\":1,\"kind\":\"strategy\",\"options\":{\"bucket-cap\":\"10MiB\","
                "\"dp\":\"4\",\"overlap\":false,\"static-graph\":true}}");
    assert_int_equal(lw_strategy_read(fixture_path("s.json"), &arena, &s, &err), LW_OK);
    assert_int_equal(s.bucket_cap_bytes, 10485760);
    assert_int_equal(s.dp, 4);
    assert_false(s.overlap);
    assert_true(s.static_graph);
    lw_arena_free(&arena);
}

/* Each option's last word, or a number of its own, alone in a file. */
/* As on the command line, and a name with both is one option. */
TEST(names_may_have_underscores)
{
    struct lw_arena arena = {0};
    struct lw_strategy s;
    struct lw_err err = {0};

    fixture_put(fixture_path("s.json"),
                "{\"lapwing\":1,\"kind\":\"strategy\",\"options\":{\"bucket_cap\":\"10MiB\","
                "\"micro_batches\":4}}");
    assert_ok(lw_strategy_read(fixture_path("s.json"), &arena, &s, &err), err);
    assert_int_equal(s.bucket_cap_bytes, 10485760);
    assert_int_equal(s.micro_batches, 4);
    fixture_put(fixture_path("s.json"),
                "{\"lapwing\":1,\"kind\":\"strategy\",\"options\":{\"bucket_cap\":\"10MiB\","
                "\"bucket-cap\":\"10MiB\"}}");
    assert_int_equal(lw_strategy_read(fixture_path("s.json"), &arena, &s, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "option given twice"));
    lw_arena_free(&arena);
}

TEST(every_option_is_read_from_a_file)
{
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const struct lw_strategy_option *o = lw_strategy_option(i);
        struct lw_strategy s = lw_strategy_default(), r;
        struct lw_arena arena = {0};
        struct lw_err err = {0};
        char a[LW_STRATEGY_TEXT], b[LW_STRATEGY_TEXT], text[200];
        const char *value = strcmp(o->name, "zero") == 0 ? "3"
                            : strcmp(o->name, "etp") == 0 ? "1" : "7";
        for (int k = 0; o->values && o->values[k]; k++)
            value = o->values[k];
        if (strcmp(value, "explicit") == 0 || strcmp(o->name, "chunks") == 0)
            continue; /* need another option; the example has the first */
        assert_int_equal(lw_strategy_set(&s, o->name, value, &err), LW_OK);
        snprintf(text, sizeof text,
                 "{\"lapwing\": 1, \"kind\": \"strategy\", \"options\": {\"%s\": \"%s\"}}",
                 o->name, value);
        fixture_put(fixture_path("s.json"), text);
        if (lw_strategy_read(fixture_path("s.json"), &arena, &r, &err) != LW_OK)
            fail_msg("%s: %s", o->name, err.msg);
        assert_string_equal(lw_strategy_get(&r, i, a), lw_strategy_get(&s, i, b));
        lw_arena_free(&arena);
    }
}

TEST(wrong_options_are_refused_by_place)
{
    static const struct {
        const char *options, *message;
    } cases[] = {
        {"{\"bucket_size\":1}",
         "at options.bucket_size (byte 56): unknown option; 'lapwing help strategy' lists all"},
        {"{\"dp\":1,\"dp\":2}", "at options.dp (byte 54): option given twice"},
        {"{\"dp\":0}", NULL},
        {"{\"dp\":1.5}", NULL},
        {"{\"dp\":[]}", "at options.dp (byte 47): found an array, expected a string"},
        {"{\"launch-order\":\"none\"}",
         "at options.launch-order (byte 57): --launch-order: "
         "unknown value 'none'; expected one of in-order, completion-order, completion"},
        {"{\"zero\":4}",
         "at options.zero (byte 49): --zero: '4' is not a whole number from 0 to 3"},
        {"[]", "at options (byte 41): found an array, expected an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300], expected[500];
        struct lw_arena arena = {0};
        struct lw_strategy s = {.dp = 99};
        struct lw_err err = {0};
        const char *path = fixture_path("s.json");
        snprintf(text, sizeof text, "{\"lapwing\":1,\"kind\":\"strategy\",\"options\":%s}",
                 cases[i].options);
        fixture_put(path, text);
        assert_int_not_equal(lw_strategy_read(path, &arena, &s, &err), LW_OK);
        snprintf(expected, sizeof expected, "%s: %s", path,
                 cases[i].message ? cases[i].message : "at options.dp (byte 47): --dp: ");
        if (cases[i].message)
            assert_string_equal(err.msg, expected);
        else
            assert_memory_equal(err.msg, expected, strlen(expected));
        assert_int_equal(s.dp, 99);
        lw_arena_free(&arena);
    }
}

static enum lw_status read_and_free(const char *path)
{
    struct lw_arena arena = {0};
    struct lw_strategy s;
    enum lw_status st = lw_strategy_read(path, &arena, &s, NULL);

    lw_arena_free(&arena);
    return st;
}

TEST(failing_allocations_leave_nothing)
{
    char *text = fixture_example("docs/formats/strategy.md");

    fixture_put(fixture_path("s.json"), text);
    free(text);
    EACH_ALLOCATION_FAILS_IN(3, read_and_free(fixture_path("s.json")));
}

TEST_GROUP(fixture_open, fixture_close)
