/* The strategy's one table: shared/strategy/strategy.h. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/strategy/strategy.h"

TEST(words_are_taken_with_dash_or_underscore)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};

    assert_int_equal(lw_strategy_set(&s, "bucket_policy", "per_tensor", &err), LW_OK);
    assert_int_equal(s.bucket_policy, LW_BUCKET_PER_TENSOR);
    assert_int_equal(lw_strategy_set(&s, "bucket-policy", "c10d", &err), LW_OK);
    assert_int_equal(s.bucket_policy, LW_BUCKET_C10D_2);
    assert_int_equal(lw_strategy_set(&s, "bucket-cap", "25MiB", &err), LW_OK);
    assert_int_equal(s.bucket_cap_bytes, 26214400);
    assert_int_equal(lw_strategy_set(&s, "overlap", "off", &err), LW_OK);
    assert_false(s.overlap);
}

TEST(an_old_name_is_read)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};
    int option = lw_strategy_find("collective-algorithm");

    assert_true(option >= 0);
    assert_int_equal(lw_strategy_find("reducer"), option);
    assert_string_equal(lw_strategy_option(option)->name, "collective-algorithm");
    assert_ok(lw_strategy_set(&s, "reducer", "tree", &err), err);
    assert_int_equal(s.reducer, LW_REDUCER_TREE);
}

TEST(a_short_word_means_the_full_one)
{
    static const char *const cases[][3] = {
        {"bucket-policy", "c10d", "c10d-2"},
        {"launch-order", "completion", "completion-order"},
        {"launch-order", "completion_order", "completion-order"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s = lw_strategy_default();
        struct lw_err err = {0};
        char buf[LW_STRATEGY_TEXT];
        assert_int_equal(lw_strategy_set(&s, cases[i][0], cases[i][1], &err), LW_OK);
        assert_string_equal(lw_strategy_get(&s, lw_strategy_find(cases[i][0]), buf), cases[i][2]);
    }
}

TEST(a_wrong_word_lists_the_right_ones)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};

    assert_int_equal(lw_strategy_set(&s, "launch-order", "random", &err), LW_EINVAL);
    assert_string_equal(err.msg, "--launch-order: unknown value 'random'; expected one of "
                                 "in-order, completion-order, completion");
    assert_int_equal(lw_strategy_set(&s, "cp-comm-type", "rings", &err), LW_EINVAL);
    assert_string_equal(err.msg, "--cp-comm-type: unknown value 'rings' (did you mean 'ring'?); "
                                 "expected one of all-gather, p2p, allgather, ring");
    assert_int_equal(lw_strategy_set(&s, "dp", "0", &err), LW_EINVAL);
    assert_string_equal(err.msg, "--dp: '0' is not a whole number from 1 to 4194304");
    assert_int_equal(lw_strategy_set(&s, "nope", "1", &err), LW_EINVAL);
}

TEST(gradients_of_8_bits_are_refused_with_the_reason)
{
    static const char *const options[] = {"grad-dtype", "comm-hook"};
    static const char *const words[] = {"fp8", "FP8", "f8", "float8_e4m3", "e4m3", "e5m2", "mxfp8"};

    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
            struct lw_strategy s = lw_strategy_default();
            struct lw_err err = {0};
            char said[128];
            assert_int_equal(lw_strategy_set(&s, options[i], words[k], &err), LW_EINVAL);
            snprintf(said, sizeof said, "--%s: gradients are not summed in 8 bits ('%s')",
                     options[i], words[k]);
            if (!strstr(err.msg, said) || !strstr(err.msg, "; expected one of "))
                fail_msg("%s", err.msg);
        }
}

/* Each word of each closed list without one of its letters. */
TEST(a_misspelt_word_is_answered_with_the_right_one)
{
    struct lw_strategy s = lw_strategy_default();
    int n = 0;

    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const struct lw_strategy_option *o = lw_strategy_option(i);
        for (int v = 0; o->values && o->values[v]; v++) {
            const char *word = o->values[v];
            size_t len = strlen(word);
            struct lw_err err = {0};
            char wrong[64], said[128];
            if (len < 5 || strchr(word, ':'))
                continue;
            snprintf(wrong, sizeof wrong, "%.*s%s", (int)len / 2, word, word + len / 2 + 1);
            if (lw_strategy_set(&s, o->name, wrong, &err) == LW_OK)
                continue; /* another word of the list */
            snprintf(said, sizeof said, "--%s: unknown value '%s' (did you mean '", o->name, wrong);
            if (strncmp(err.msg, said, strlen(said)) != 0)
                fail_msg("'%s' for '%s': %s", wrong, word, err.msg);
            n++;
        }
    }
    assert_true(n > 40);
    struct lw_err err = {0};
    assert_int_equal(lw_strategy_set(&s, "schedule", "1f2b", &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "did you mean '1f1b'?"));
    assert_int_equal(lw_strategy_set(&s, "bucket-policy", "picotrn", &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "did you mean 'picotron'?"));
}

TEST(every_option_reads_back_what_it_was_given)
{
    struct lw_strategy a = lw_strategy_default(), b = lw_strategy_default();
    struct lw_err err = {0};
    char buf[LW_STRATEGY_TEXT], again[LW_STRATEGY_TEXT];

    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const struct lw_strategy_option *o = lw_strategy_option(i);
        const char *value = "3";
        if (o->values) /* the last word: no default is last but for two-word options */
            for (int v = 0; o->values[v]; v++)
                value = o->values[v];
        assert_int_equal(lw_strategy_set(&a, o->name, value, &err), LW_OK);
        assert_string_equal(lw_strategy_get(&a, i, buf), value);
        assert_int_equal(lw_strategy_set(&b, o->name, lw_strategy_get(&a, i, again), &err), LW_OK);
    }
    b.partition_list = a.partition_list;
    assert_memory_equal(&a.bucket_policy, &b.bucket_policy, sizeof a.bucket_policy);
    for (int i = 0; i < lw_strategy_n_options(); i++)
        assert_string_equal(lw_strategy_get(&a, i, buf), lw_strategy_get(&b, i, again));
}

/* torch's names of hooks, and one that sends no sums. */
TEST(hooks_of_torch_are_taken_or_refused_by_name)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};

    assert_int_equal(lw_strategy_set(&s, "comm-hook", "fp16_compress_hook", &err), LW_OK);
    assert_int_equal(s.comm_hook, LW_HOOK_FP16);
    assert_int_equal(lw_strategy_set(&s, "comm-hook", "bf16_compress_hook", &err), LW_OK);
    assert_int_equal(s.comm_hook, LW_HOOK_BF16);
    assert_int_equal(lw_strategy_set(&s, "comm-hook", "powerSGD_hook", &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "PowerSGD sends factors of low rank"));
}
