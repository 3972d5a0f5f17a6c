/* Frameworks as data: every known one is read and checked, what is wrong is named with its place,
 * and the rules that the facts switch on. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/files/files.h"
#include "shared/files/files_field.h"
#include "shared/framework/framework.h"
#include "shared/framework/framework_rates.h"
#include "shared/framework/framework_stages.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/workload.h"

static enum lw_status read_text(const char *text, struct lw_framework *f, struct lw_err *err)
{
    char padded[4096] = {0};
    struct lw_framework read = {0};

    snprintf(padded, sizeof padded - 64, "%s", text);
    enum lw_status s = lw_text_read("own.json", padded, strlen(padded), "framework",
                                    lw_framework_file_fields, &read.arena, &read, err);
    s = s == LW_OK ? lw_framework_check(&read, err) : s;
    LW_GIVE(s, f, read, lw_framework_free(&read));
}

#define HEAD "{\"lapwing\": 1, \"kind\": \"framework\", \"name\": \"own\""

TEST(every_known_framework_has_its_files_name_and_a_source_for_each_fact)
{
    struct lw_err err = {0};
    struct lw_framework f;
    struct lw_framework_fact fact;
    char name[64];
    int n = 0;

    for (; lw_framework_known(n, name); n++) {
        assert_ok(lw_framework_find(name, &f, &err), err);
        assert_string_equal(f.name, name);
        assert_true(f.about[0]);
        for (int k = 0; lw_framework_fact(&f, k, &fact); k++)
            assert_true(!lw_figure_is_set(fact.figure) || fact.figure.source[0]);
        lw_framework_free(&f);
    }
    assert_true(n >= 28);
}

/* The second of each pair lacks one fact of the first, and has all others. */
TEST(programs_of_one_layout_differ_in_transposes_alone)
{
    static const char *const pairs[][2] = {
        {"megatron-bridge", "megatron-bridge-one-layout"},
        {"megatron-mlperf", "megatron-mlperf-one-layout"},
    };
    struct lw_err err = {0};
    struct lw_framework whole, one;
    char hashes[3][33];

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_ok(lw_framework_find(pairs[i][0], &whole, &err), err);
        assert_ok(lw_framework_find(pairs[i][1], &one, &err), err);
        assert_ok(lw_framework_hash(&whole, hashes[0], &err), err);
        whole.fp8_transposes = (struct lw_figure){0};
        assert_ok(lw_framework_hash(&whole, hashes[1], &err), err);
        assert_ok(lw_framework_hash(&one, hashes[2], &err), err);
        assert_string_not_equal(hashes[0], hashes[2]);
        assert_string_equal(hashes[1], hashes[2]);
        lw_framework_free(&whole);
        lw_framework_free(&one);
    }
}

TEST(ideal_has_no_fact)
{
    struct lw_err err = {0};
    struct lw_framework f;
    struct lw_framework_fact fact;

    assert_ok(lw_framework_find(LW_IDEAL_FRAMEWORK, &f, &err), err);
    for (int k = 0; lw_framework_fact(&f, k, &fact); k++)
        assert_false(lw_figure_is_set(fact.figure));
    assert_int_equal(f.n_usual, 0);
    lw_framework_free(&f);
}

TEST(what_is_wrong_in_a_file_is_named_with_its_place)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {HEAD ", \"memory\": {\"own_gradiens\": {\"value\": 1, \"source\": \"x\"}}}",
         "memory.own_gradiens (byte 78): unknown field (did you mean 'own_gradients'?); allowed: "},
        {HEAD ", \"step\": {\"step_zero\": {\"value\": 2, \"source\": \"x\"}}}",
         "step.step_zero.value: found 2, allowed: 0 or 1"},
        {HEAD ", \"step\": {\"step_zero\": {\"value\": 1}}}", "source"},
        {HEAD ", \"usual\": [{\"option\": \"zerro\", \"value\": \"1\", \"source\": \"x\"}]}",
         "at usual[0]: unknown strategy option 'zerro' (did you mean 'zero'?)"},
        {HEAD ", \"usual\": [{\"option\": \"zero\", \"value\": \"7\", \"source\": \"x\"}]}",
         "at usual[0]: --zero: '7' is not a whole number from 0 to 3"},
        {HEAD ", \"usual\": [{\"option\": \"dp\", \"value\": \"7\", \"source\": \"x\"}]}",
         "at usual[0].option: found 'dp', which is a size of the job"},
        {HEAD ", \"usual\": [{\"option\": \"zero\", \"value\": \"1\", \"source\": \"x\"}, "
              "{\"option\": \"zero\", \"value\": \"3\", \"source\": \"x\"}]}",
         "at usual[1].option: 'zero' is given twice"},
        {HEAD ", \"usual\": [{\"option\": \"zero\", \"value\": \"1\", \"source\": \"\"}]}",
         "at usual[0].source: it cannot be empty"},
        {HEAD ", \"memory\": {\"reserved\": {\"value\": 0.5, \"source\": \"x\"}}}",
         "at memory.reserved.value: found 0.5, allowed: 1 or more"},
        {HEAD ", \"memory\": {\"state_bytes\": {\"value\": 0, \"source\": \"x\"}}}",
         "at memory.state_bytes.value: found 0, allowed: a whole number from 1 to 100"},
        {HEAD ", \"memory\": {\"state_bytes\": {\"value\": 101, \"source\": \"x\"}}}",
         "at memory.state_bytes.value: found 101, allowed: a whole number from 1 to 100"},
        {HEAD ", \"step\": {\"host_bytes_zero3\": {\"value\": 101, \"source\": \"x\"}}}",
         "at step.host_bytes_zero3.value: found 101, allowed: a whole number from 1 to 100"},
        {HEAD ", \"host\": {\"host_op_ns\": {\"value\": 2000000000, \"source\": \"x\"}}}",
         "at host.host_op_ns.value: found 2000000000 ns, allowed: whole picoseconds, at most "
         "10^9 ns"},
        {"{\"lapwing\": 1, \"kind\": \"framework\", \"name\": \"\"}",
         "at name: it cannot be empty"},
        {HEAD ", \"stages\": {\"even_blocks\": {\"value\": 1, \"source\": \"x\"}, "
              "\"blocks_by_cost\": {\"value\": 1, \"source\": \"x\"}}}", "one of them"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_framework f;
        struct lw_err err = {0};
        assert_int_not_equal(read_text(cases[i].text, &f, &err), LW_OK);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("case %zu: %s", i, err.msg);
    }
}

static enum lw_status read_fact(const struct lw_framework_fact *fact, int64_t value,
                                struct lw_err *err)
{
    struct lw_framework f;
    char text[512];

    *err = (struct lw_err){0};
    snprintf(text, sizeof text,
             HEAD ", \"%s\": {\"%s\": {\"value\": %lld, \"source\": \"x\"}}}", fact->group,
             fact->name, (long long)value);
    enum lw_status status = read_text(text, &f, err);
    if (status == LW_OK)
        lw_framework_free(&f);
    return status;
}

/* Of every fact of a group, however many there are. */
TEST(a_fact_is_given_once)
{
    struct lw_framework ideal, f;
    struct lw_framework_fact fact;
    struct lw_err err = {0};
    char text[700];
    int n = 0;

    assert_ok(lw_framework_find(LW_IDEAL_FRAMEWORK, &ideal, &err), err);
    for (int k = 0; lw_framework_fact(&ideal, k, &fact); k++) {
        const char *one = "\"value\": 1, \"source\": \"x\"";
        snprintf(text, sizeof text, HEAD ", \"%s\": {\"%s\": {%s}, \"%s\": {%s}}}", fact.group,
                 fact.name, one, fact.name, one);
        assert_int_equal(read_text(text, &f, &err), LW_EFORMAT);
        if (!strstr(err.msg, "given twice"))
            fail_msg("%s: %s", fact.name, err.msg);
        n += strcmp(fact.group, "kernels") == 0;
    }
    assert_true(n > 64);
    lw_framework_free(&ideal);
}

/* At its limit a count or factor is taken, one more is refused: what holds it cannot wrap. */
TEST(counts_and_factors_have_a_limit)
{
    struct lw_framework ideal;
    struct lw_framework_fact fact;
    struct lw_err err = {0};
    char says[128];
    int n = 0;

    assert_ok(lw_framework_find(LW_IDEAL_FRAMEWORK, &ideal, &err), err);
    for (int k = 0; lw_framework_fact(&ideal, k, &fact); k++) {
        bool large = strcmp(fact.unit, "elements") == 0 || strncmp(fact.name, "own_", 4) == 0;
        int64_t most = large ? 1000000000000 : 1000000;
        if (strcmp(fact.name, "state_bytes") == 0 || strncmp(fact.name, "host_bytes", 10) == 0)
            continue; /* of an element: their own limit, above */
        if (strcmp(fact.unit, "ns") == 0 || read_fact(&fact, 2, &err) != LW_OK) /* or a flag */
            continue;
        n++;
        assert_ok(read_fact(&fact, most, &err), err);
        assert_int_equal(read_fact(&fact, most + 1, &err), LW_EFORMAT);
        snprintf(says, sizeof says, "at %s.%s.value: found %lld, allowed: ", fact.group, fact.name,
                 (long long)most + 1);
        if (!strstr(err.msg, says) || !strstr(err.msg, most > 1000000 ? "10^12" : "10^6"))
            fail_msg("%s: %s", fact.name, err.msg);
    }
    assert_int_equal(n, 30);
    lw_framework_free(&ideal);
}

TEST(an_unknown_name_gets_the_nearest_one)
{
    struct lw_framework f;
    struct lw_err err = {0};

    assert_int_equal(lw_framework_find("nanotrn", &f, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "did you mean 'nanotron'?"));
}

/* The hash is of what a framework does: texts may be mended. */
TEST(the_hash_is_of_facts_and_usual_options)
{
    static const char *const texts[] = {
        HEAD ", \"step\": {\"step_zero\": {\"value\": 1, \"source\": \"x\"}}}",
        HEAD ", \"about\": \"a\", \"step\": {\"step_zero\": {\"value\": 1, \"source\": \"y\"}}}",
        HEAD ", \"step\": {\"step_copy\": {\"value\": 1, \"source\": \"x\"}}}",
        HEAD ", \"usual\": [{\"option\": \"zero\", \"value\": \"1\", \"source\": \"x\"}]}",
    };
    char hash[4][33];

    for (size_t i = 0; i < 4; i++) {
        struct lw_framework f;
        struct lw_err err = {0};
        assert_ok(read_text(texts[i], &f, &err), err);
        assert_ok(lw_framework_hash(&f, hash[i], &err), err);
        lw_framework_free(&f);
    }
    assert_string_equal(hash[0], hash[1]);
    assert_string_not_equal(hash[0], hash[2]);
    assert_string_not_equal(hash[0], hash[3]);
}

static struct lw_strategy under_for(struct lw_usual_for times, const char *framework,
                                    const char *const (*options)[2], int n)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_framework f;
    struct lw_err err = {0};

    for (int i = 0; i < n; i++)
        assert_ok(lw_strategy_set(&s, options[i][0], options[i][1], &err), err);
    assert_ok(lw_framework_find(framework, &f, &err), err);
    assert_ok(lw_framework_strategy(&f, times, &s, &err), err);
    lw_framework_free(&f);
    return s;
}

static struct lw_strategy under(const char *framework, const char *const (*options)[2], int n)
{
    return under_for((struct lw_usual_for){0}, framework, options, n);
}

TEST(usual_options_hold_unless_the_user_chose)
{
    static const char *const groups[][2] = {{"tp", "8"}, {"dp", "4"}};
    static const char *const chosen[][2] = {{"tp", "8"}, {"dp", "4"}, {"zero", "0"},
                                            {"tp-overlap", "off"}, {"cp", "2"}};
    struct lw_strategy s = under("nemo", groups, 2);

    assert_int_equal(s.zero, 1);
    assert_int_equal(s.tp_overlap, LW_TP_OVERLAP_PIECES);
    assert_int_equal(s.grad_dtype, LW_GRAD_BF16);
    assert_false(lw_options_has(&s.given, lw_strategy_find("zero")));
    s = under("nemo", chosen, 5);
    assert_int_equal(s.zero, 0);
    assert_int_equal(s.tp_overlap, LW_TP_OVERLAP_OFF);
    assert_int_equal(s.cp_comm, LW_CP_P2P);
    s = under("nemo", groups, 0); /* one device: no group to overlap, nothing to shard */
    assert_int_equal(s.zero, 0);
    assert_int_equal(s.tp_overlap, LW_TP_OVERLAP_OFF);
}

/* Of shares of buckets alone: not without ZeRO-1, nor with owners of whole parameters, nor beside
 * buckets that the user chose. */
TEST(parameters_are_gathered_ahead_where_buckets_are_shared)
{
    static const struct {
        const char *options[3][2];
        int n;
        bool ahead;
    } cases[] = {{{{"dp", "4"}}, 1, true},
                 {{{"dp", "4"}, {"zero", "2"}}, 2, true},
                 {{{"dp", "4"}, {"zero", "0"}}, 2, false},
                 {{{"dp", "4"}, {"zero", "3"}}, 2, false},
                 {{{"tp", "4"}}, 1, false},
                 {{{"dp", "4"}, {"shard-policy", "lpt"}}, 2, false},
                 {{{"dp", "4"}, {"bucket-policy", "c10d"}}, 2, false},
                 {{{"dp", "4"}, {"overlap-param-gather", "off"}}, 2, false}};
    static const char *const names[] = {"nemo", "megatron-bridge"};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (size_t f = 0; f < 2; f++)
            assert_int_equal(under(names[f], cases[k].options, cases[k].n).overlap_param_gather,
                             cases[k].ahead);
}

/* NeMo fuses the loss: 16-bit scores and two f32 tensors, with tensor groups too. */
TEST(programs_of_nemo_hold_a_compiled_loss)
{
    static const char *const names[] = {"megatron-mlperf", "megatron-mlperf-one-layout", "nemo"};

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct lw_framework f;
        struct lw_err err;
        assert_ok(lw_framework_find(names[k], &f, &err), err);
        assert_int_equal((int)lw_fact_value(f.loss_scores, 0), 2 + 4 + 4);
        assert_int_equal((int)lw_fact_value(f.loss_scores_split, 0), 2 + 4 + 4);
        lw_framework_free(&f);
    }
}

/* Megatron-LM changes one f32 copy of the scores in place, whatever its year. */
TEST(losses_of_megatron_change_their_scores_in_place)
{
    static const char *const names[] = {"megatron-lm", "megatron-lm-local", "megatron-lm-23e00ed",
                                        "megatron-lm-simumax"};

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct lw_framework f;
        struct lw_err err;
        assert_ok(lw_framework_find(names[k], &f, &err), err);
        assert_true(lw_fact(f.kept_loss_in_place));
        lw_framework_free(&f);
    }
}

/* Megatron-LM's programs and DeepSpeed close buckets by rules of their own. */
TEST(a_frameworks_buckets_are_its_own)
{
    static const char *const megatrons[] = {
        "megatron-lm", "megatron-lm-local", "megatron-lm-23e00ed", "megatron-lm-simumax",
        "megatron-bridge", "megatron-bridge-bf16-moments", "megatron-bridge-eager",
        "megatron-bridge-graph", "nemo", "megatron-mlperf"};
    static const char *const plain[][2] = {{"dp", "8"}, {"zero", "1"}};
    static const struct {
        const char *name, *value;
        enum lw_bucket_policy_id policy;
    } cases[] = {
        {"zero", "0", LW_BUCKET_MEGATRON},
        {"zero", "2", LW_BUCKET_MEGATRON},
        {"zero", "3", LW_BUCKET_C10D_2},
        {"bucket-cap", "10MiB", LW_BUCKET_MEGATRON},
        {"shard-policy", "flat-contiguous", LW_BUCKET_MEGATRON},
        {"bucket-policy", "single", LW_BUCKET_SINGLE},
        {"bucket-policy", "c10d-2", LW_BUCKET_C10D_2},
        {"first-bucket", "1MiB", LW_BUCKET_C10D_2},
        {"last-bucket-cap", "on", LW_BUCKET_C10D_2},
        {"static-graph", "on", LW_BUCKET_C10D_2},
        {"find-unused", "on", LW_BUCKET_C10D_2},
        {"gradient-as-bucket-view", "on", LW_BUCKET_C10D_2},
        {"reduce-bucket-size", "1000", LW_BUCKET_C10D_2},
        {"shard-policy", "oss-greedy", LW_BUCKET_C10D_2},
        {"compat", "c10d", LW_BUCKET_C10D_2},
    };

    for (size_t i = 0; i < sizeof megatrons / sizeof *megatrons; i++)
        assert_int_equal(under(megatrons[i], plain, 2).bucket_policy, LW_BUCKET_MEGATRON);
    assert_int_equal(under("deepspeed", plain, 1).bucket_policy, LW_BUCKET_DEEPSPEED);
    assert_int_equal(under("torch-ddp", plain, 1).bucket_policy, LW_BUCKET_C10D_2);
    assert_int_equal(under("ideal", plain, 1).bucket_policy, LW_BUCKET_C10D_2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const options[][2] = {{"dp", "8"}, {cases[i].name, cases[i].value}};
        assert_int_equal(under("megatron-lm", options, 2).bucket_policy, cases[i].policy);
    }
}

/* Of modules with kernels a plan has both, where the ring is given. */
TEST(a_ring_that_is_given_runs_beside_overlapped_products)
{
    const char *const options[][2] = {{"tp", "2"}, {"cp", "2"}, {"cp-comm-type", "p2p"}};
    struct lw_strategy s = under("megatron-lm", options, 3);

    assert_int_equal(s.tp_overlap, LW_TP_OVERLAP_BACKWARD);
    assert_int_equal(s.cp_comm, LW_CP_P2P);
    s = under("megatron-lm", options, 2);
    assert_int_equal(s.tp_overlap, LW_TP_OVERLAP_BACKWARD);
    assert_int_equal(s.cp_comm, LW_CP_ALL_GATHER);
}

/* Of measured modules no plan has a ring's attention among overlapped products: what the user gives
 * stays, and of two usual options the overlap; the other is named. */
TEST(a_usual_option_that_is_left_out_is_named)
{
    static const struct {
        const char *options[1][2];
        enum lw_tp_overlap overlap;
        enum lw_cp_comm comm;
        const char *left_out;
    } cases[] = {
        {{{"tp", "2"}}, LW_TP_OVERLAP_BACKWARD, LW_CP_ALL_GATHER,
         "its usual --cp-comm-type p2p is left out beside --tp-overlap backward"},
        {{{"cp-comm-type", "p2p"}}, LW_TP_OVERLAP_OFF, LW_CP_P2P,
         "its usual --tp-overlap backward is left out beside --cp-comm-type p2p"},
        {{{"tp-overlap", "off"}}, LW_TP_OVERLAP_OFF, LW_CP_P2P, ""},
        {{{"cp-comm-type", "all-gather"}}, LW_TP_OVERLAP_BACKWARD, LW_CP_ALL_GATHER, ""},
        {{{"tp-overlap", "pieces"}}, LW_TP_OVERLAP_PIECES, LW_CP_ALL_GATHER,
         "its usual --cp-comm-type p2p is left out beside --tp-overlap pieces"},
        {{{"tp", "1"}}, LW_TP_OVERLAP_OFF, LW_CP_P2P, ""},
        {{{"cp", "1"}}, LW_TP_OVERLAP_BACKWARD, LW_CP_ALL_GATHER, ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const(*o)[2] = cases[i].options;
        const char *const options[][2] = {{"dp", "4"}, {"tp", "2"}, {"cp", "2"},
                                          {o[0][0], o[0][1]}};
        struct lw_strategy s =
            under_for((struct lw_usual_for){.measured = true}, "megatron-lm", options, 4);
        struct lw_framework f;
        struct lw_err err = {0};
        char text[128];

        assert_int_equal(s.tp_overlap, cases[i].overlap);
        assert_int_equal(s.cp_comm, cases[i].comm);
        assert_ok(lw_framework_find("megatron-lm", &f, &err), err);
        lw_framework_left_out(&f, &s, text, sizeof text);
        assert_string_equal(text, cases[i].left_out);
        lw_framework_free(&f);
    }
}

/* torchtitan: every tensor group has sequence parallelism, and fully_shard reduces in f32. */
TEST(torchtitan_shards_sequences_and_reduces_in_f32)
{
    static const char *const groups[][2] = {{"dp", "4"}, {"tp", "8"}};
    static const char *const names[] = {"torchtitan", "torchtitan-compile"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct lw_strategy s = under(names[i], groups, 1);
        assert_false(s.sequence_parallel); /* no group */
        assert_int_equal(s.grad_dtype, LW_GRAD_F32);
        s = under(names[i], groups, 2);
        assert_true(s.sequence_parallel);
    }
}

static const char *stages(const char *framework, struct lw_model_dims d, const char *pp, char *list,
                          size_t size)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_framework f;
    struct lw_err err = {0};

    assert_ok(lw_strategy_set(&s, "pp", pp, &err), err);
    assert_ok(lw_framework_find(framework, &f, &err), err);
    if (!lw_framework_stages(&f, &d, &s, list, size))
        list[0] = '\0';
    lw_framework_free(&f);
    return list;
}

/* 11 blocks on 4 stages: 3, 3, 3, 2; 6 on 4 with both ends counted as blocks: 1, 2, 2, 1. */
TEST(blocks_are_spread_evenly)
{
    char list[64];

    assert_string_equal(stages("megatron-lm", (struct lw_model_dims){.layers = 11}, "4", list,
                               sizeof list), "0,4,7,10");
    assert_string_equal(stages("megatron-lm", (struct lw_model_dims){.layers = 6}, "4", list,
                               sizeof list), "0,2,4,6");
    assert_string_equal(stages("ideal", (struct lw_model_dims){.layers = 10}, "4", list,
                               sizeof list), "");
}

/* Stages of 61 blocks (DeepSeek-V3, Kimi K2) as the recipes have them: 16, 16, 16 and 13 with the
 * loss; in 32 parts 1, 30 x 2 and none (Megatron-Bridge's deepseek_v3.py and "Et|(tt|)*30mL"). 36
 * divide, 94 and both ends do. */
TEST(the_last_stage_has_what_the_others_leave)
{
    const struct lw_model_dims deepseek = {.layers = 61};
    char list[256], expected[256] = "0,2";
    size_t used = strlen(expected);

    assert_string_equal(stages("megatron-bridge", deepseek, "4", list, sizeof list), "0,17,33,49");
    assert_string_equal(stages("nemo", deepseek, "8", list, sizeof list), "0,9,17,25,33,41,49,57");
    assert_string_equal(stages("megatron-mlperf", deepseek, "16", list, sizeof list),
                        "0,5,9,13,17,21,25,29,33,37,41,45,49,53,57,61");
    for (int begin = 4; begin <= 62; begin += 2)
        used += (size_t)snprintf(expected + used, sizeof expected - used, ",%d", begin);
    assert_string_equal(stages("megatron-bridge", deepseek, "32", list, sizeof list), expected);
    assert_string_equal(stages("megatron-bridge", (struct lw_model_dims){.layers = 36}, "4", list,
                               sizeof list), "0,10,19,28");
    assert_string_equal(stages("megatron-bridge", (struct lw_model_dims){.layers = 94}, "4", list,
                               sizeof list), "0,24,48,72");
    assert_string_equal(stages("megatron-lm", deepseek, "4", list, sizeof list), "0,17,32,47");
}

/* Three layers of the pipeline before the blocks and one after them: 28 on 4 stages are 7 each, so
 * 4, 7, 7 and 6 blocks; 14 on 4 are 4, 4, 3 and 3, so 1, 4, 3 and 2. */
TEST(layers_of_a_pipeline_module_are_shared_evenly)
{
    char list[64];

    assert_string_equal(stages("megatron-deepspeed-sailor", (struct lw_model_dims){.layers = 24},
                               "4", list, sizeof list), "0,5,12,19");
    assert_string_equal(stages("megatron-deepspeed-sailor", (struct lw_model_dims){.layers = 24},
                               "2", list, sizeof list), "0,12");
    assert_string_equal(stages("megatron-deepspeed-sailor", (struct lw_model_dims){.layers = 10},
                               "4", list, sizeof list), "0,2,6,9");
}

/* 28 blocks of 3B on 4 stages: 8, 8, 8 and 4 with the head (docs/design/gpu_accuracy.md). */
TEST(blocks_are_spread_by_cost)
{
    const struct lw_model_dims d = {
        .layers = 28, .hidden = 3072, .ffn = 8192, .vocab = 131072};
    char list[64];

    assert_string_equal(stages("nanotron", d, "4", list, sizeof list), "0,9,17,25");
}

/* 24 blocks on 4 stages are 6 a stage: 5 chunks do not divide them, 3 do, and a partition of the
 * user's is taken as it is. */
TEST(megatron_refuses_chunks_that_do_not_divide_a_stage)
{
    const struct lw_model_dims d = {.layers = 24, .hidden = 2048, .ffn = 8192, .vocab = 32000};
    struct lw_strategy s = lw_strategy_default();
    struct lw_framework f;
    struct lw_err err = {0};

    assert_ok(lw_framework_find("megatron-lm", &f, &err), err);
    s.pp = s.micro_batches = 4;
    s.chunks = 5;
    assert_non_null(strstr(lw_framework_refusal(&f, &d, &s), "(stages.whole_chunks)"));
    s.chunks = 3;
    assert_null(lw_framework_refusal(&f, &d, &s));
    s.chunks = 5;
    assert_ok(lw_strategy_set(&s, "partition", "uniform", &err), err);
    assert_null(lw_framework_refusal(&f, &d, &s));
    lw_framework_free(&f);
}

/* Two sleeps of 0.1 s on either side for each of two tensors forward and one backward: 0.4 s and
 * 0.2 s in the modules at a stage's end. A tensor group divides what a module has. */
TEST(nanotron_of_december_sleeps_between_stages)
{
    const lw_ps forward = 4 * LW_PS_PER_S / 10, backward = 2 * LW_PS_PER_S / 10;
    struct lw_strategy s = lw_strategy_default();
    struct lw_framework f;
    struct lw_err err = {0};

    for (int tp = 1; tp <= 2; tp++) {
        struct lw_module modules[5] = {{.forward_ps = 7}};
        struct lw_workload w = {.modules = modules, .n_modules = 5};
        assert_ok(lw_framework_find("nanotron-67c5ebb6", &f, &err), err);
        s.tp = tp;
        s.sequence_parallel = tp > 1;
        lw_framework_stage_waits(&f, &s, "0,2", &w);
        lw_framework_free(&f);
        assert_int_equal(modules[0].forward_ps, 7);
        for (int i = 1; i <= 2; i++) {
            assert_int_equal(modules[i].forward_ps, tp * forward);
            assert_int_equal(modules[i].whole_forward_ps, tp * forward);
            assert_int_equal(modules[i].backward_input_ps, tp * backward);
        }
        assert_int_equal(modules[3].forward_ps, 0);
        assert_int_equal(modules[4].backward_input_ps, 0);
        assert_ok(lw_framework_find("nanotron", &f, &err), err);
        lw_framework_stage_waits(&f, &s, "0,2", &w);
        lw_framework_free(&f);
        assert_int_equal(modules[1].forward_ps, tp * forward);
    }
}

/* A core that writes 32 MiB/s and a copy of 64 MiB/s: 32 MiB take 1 + 0.5 s, and 64 MiB, whose
 * pages the kernel clears first, 4 + 1 s. Module 0's output crosses to module 1, module 2's to
 * module 3: forward of what gets it, backward of what gets its gradient. The tensors are of f32,
 * also where messages are of 16 bits, half as many bytes. */
TEST(sailors_host_fills_a_tensor_for_each_message)
{
    const lw_ps small = 3 * LW_PS_PER_S / 2, large = 5 * LW_PS_PER_S;
    const int64_t mib = 1 << 20;
    const struct lw_device device = {.host_core_bytes_per_s = {32 * 1048576.0, "test"},
                                     .pageable_bytes_per_s = {64 * 1048576.0, "test"}};
    const struct lw_device unknown = {.host_core_bytes_per_s = device.host_core_bytes_per_s};
    struct lw_framework f;
    struct lw_err err = {0};

    for (int k = 0; k < 4; k++) {
        struct lw_strategy s = lw_strategy_default();
        int64_t parts = k % 2 + 1;
        struct lw_param param = {.numel = 1, .dtype = parts == 2 ? LW_BF16 : LW_F32};
        struct lw_module modules[4] = {{.output_bytes = 32 * mib / parts},
                                       {.output_bytes = mib},
                                       {.output_bytes = 64 * mib / parts},
                                       {.forward_ps = 7}};
        struct lw_workload w = {.modules = modules, .n_modules = 4, .params = &param,
                                .n_params = 1};
        s.tp = k < 2 ? 1 : 4;
        assert_ok(lw_framework_find("megatron-deepspeed-sailor", &f, &err), err);
        lw_framework_stage_fills(&f, &s, &unknown, "0,1,3", &w);
        assert_int_equal(modules[1].forward_ps, 0);
        lw_framework_stage_fills(&f, &s, &device, "0,1,3", &w);
        lw_framework_free(&f);
        const lw_ps forward[] = {0, small, 0, large + 7}, backward[] = {small, 0, large, 0};
        for (int i = 0; i < 4; i++) {
            assert_int_equal(modules[i].forward_ps, forward[i]);
            assert_int_equal(modules[i].backward_input_ps, backward[i]);
            assert_int_equal(modules[i].whole_input_ps, backward[i]);
        }
        assert_ok(lw_framework_find("megatron-deepspeed", &f, &err), err);
        lw_framework_stage_fills(&f, &s, &device, "0,1,3", &w);
        lw_framework_free(&f);
        assert_int_equal(modules[1].forward_ps, small);
    }
}

/* Backward runs module 2, 1, 0, each for 1 s. Stage 1 begins with module 1: modules 0 and 1 sleep
 * 0.2 s each: a gradient in the middle of module 1, at 1.5 s, is ready at 1 + 0.5 x 1.2 s; one at
 * the end of module 0 at 3.4 s; one of module 2 as before. */
TEST(a_gradient_keeps_its_place_in_a_module_that_sleeps)
{
    const lw_ps s = LW_PS_PER_S;
    const lw_ps before[] = {3 * s, 5 * s / 2, 2 * s, 3 * s / 2, s, s / 2, -1};
    const lw_ps after[] = {34 * s / 10, 28 * s / 10, 22 * s / 10, 16 * s / 10, s, s / 2, -1};
    const struct lw_strategy strategy = lw_strategy_default();
    struct lw_module modules[3] = {{.backward_weight_ps = s}, {.backward_input_ps = s},
                                   {.backward_input_ps = s / 4, .backward_weight_ps = 3 * s / 4}};
    struct lw_param params[7] = {{.ready_ps = 0}};
    struct lw_workload w = {.modules = modules, .n_modules = 3, .params = params, .n_params = 7};
    struct lw_framework f;
    struct lw_err err = {0};

    for (int i = 0; i < 7; i++)
        params[i].ready_ps = before[i];
    assert_ok(lw_framework_find("nanotron-67c5ebb6", &f, &err), err);
    lw_framework_stage_waits(&f, &strategy, "0,1", &w);
    lw_framework_free(&f);
    for (int i = 0; i < 7; i++)
        assert_int_equal(params[i].ready_ps, after[i]);
}

TEST(nanotron_refuses_a_stage_without_a_block)
{
    const struct lw_model_dims d = {.layers = 4, .hidden = 2048, .ffn = 8192, .vocab = 32000};
    struct lw_strategy s = lw_strategy_default();
    struct lw_framework f;
    struct lw_err err = {0};

    assert_ok(lw_framework_find("nanotron", &f, &err), err);
    s.pp = 4;
    s.micro_batches = 2;
    assert_non_null(strstr(lw_framework_refusal(&f, &d, &s), "as many micro-batches"));
    s.micro_batches = 3;
    assert_null(lw_framework_refusal(&f, &d, &s));
    s.pp = s.micro_batches = 16;
    assert_non_null(strstr(lw_framework_refusal(&f, &d, &s), "without a block"));
    lw_framework_free(&f);
}

/* On GB200, where they were measured, a layer's figures are those of the source: Linear in BF16
 * 59.19 us forward and 311.30 with its backward, in MXFP8 114.51 and 440.93. */
TEST(a_layers_figures_are_the_sources_on_its_host)
{
    static const double us[2][2] = {{59.19, 311.30 - 59.19}, {114.51, 440.93 - 114.51}};
    struct lw_framework f;
    struct lw_cluster c;
    struct lw_err err = {0};

    assert_ok(lw_framework_find("megatron-bridge-eager", &f, &err), err);
    assert_ok(lw_cluster_find("gb200", &c, &err), err);
    const struct lw_kernel_rates rates = lw_framework_rates(&f, &c.device);
    for (int narrow = 0; narrow < 2; narrow++)
        for (int back = 0; back < 2; back++)
            assert_float_equal((double)rates.host_layer_ps[narrow][back] / 1e6, us[narrow][back],
                               1e-3);
    assert_false(rates.captured);
    lw_framework_free(&f);
    assert_ok(lw_framework_find("megatron-bridge", &f, &err), err);
    assert_true(lw_framework_rates(&f, &c.device).captured);
    lw_framework_free(&f);
    assert_ok(lw_framework_find("megatron-bridge-graph", &f, &err), err);
    assert_int_equal(lw_framework_rates(&f, &c.device).host_layer_ps[0][0], 0);
    lw_framework_free(&f);
    lw_cluster_free(&c);
}

/* 28.9 us, and 1.28 times that on GB200's hosts. */
TEST(a_launch_takes_the_hosts_time)
{
    static const struct {
        const char *cluster;
        int64_t ns;
    } cases[] = {{"dgx-h100", 28900}, {"dgx-b200", 28900}, {"gb200", 36992}, {"jupiter", 33235}};
    struct lw_framework f;
    struct lw_err err = {0};

    assert_ok(lw_framework_find("megatron-bridge", &f, &err), err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cluster c;
        assert_ok(lw_cluster_find(cases[i].cluster, &c, &err), err);
        assert_int_equal(lw_framework_host_op(&f, &c.device), cases[i].ns * LW_PS_PER_NS);
        assert_int_equal(lw_framework_rates(&f, &c.device).host_op_ps, cases[i].ns * LW_PS_PER_NS);
        lw_cluster_free(&c);
    }
    lw_framework_free(&f);
}
