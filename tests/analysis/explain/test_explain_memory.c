/* `explain --memory`: parts add up to what sim prints, changes are what sim predicts with them. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/prng.h"

TEST_GROUP(fixture_open, fixture_close)

#define SMALL "-w gpt2 --hidden 128 --heads 4 --vocab 1024 --layers 4 --seq 64 -c dgx-h100 "
#define LLAMA \
    "-w decoder --layers 4 --hidden 256 --heads 4 --ffn 512 --vocab 2048 --seq 128 --batch 16 " \
    "-c dgx-h100 "

static long long bytes_of(const char *text, const char *key)
{
    char word[64];

    snprintf(word, sizeof word, "\"%s\": ", key);
    const char *at = strstr(text, word);
    if (!at)
        fail_msg("no %s in:\n%s", key, text);
    return atoll(at + strlen(word));
}

/* The sum of all parts. */
static long long sum_of(const char *text)
{
    const char *at = strstr(text, "\"parts\""), *end = strstr(text, "\"changes\"");
    long long sum = 0;

    assert_non_null(at);
    while ((at = strstr(at, "\"bytes\": ")) != NULL && at < end) {
        at += strlen("\"bytes\": ");
        sum += atoll(at);
    }
    return sum;
}

static void check_sum(const char *options)
{
    char *sim = strdup(lapwingf("sim %s --no-db -q --format json", options));
    const char *text = lapwingf("explain --memory %s --format json", options);
    long long device = bytes_of(strstr(sim, "\"framework_memory\""), "device_bytes");

    if (sum_of(text) != device || bytes_of(text, "device_bytes") != device)
        fail_msg("%s: parts are %lld, explain says %lld, sim %lld:\n%s", options, sum_of(text),
                 bytes_of(text, "device_bytes"), device, text);
    free(sim);
}

TEST(parts_add_up_to_the_bytes_that_sim_prints)
{
    static const char *const strategies[] = {
        SMALL "--dp 2", SMALL "--dp 4 --zero 1", SMALL "--dp 2 --zero 3",
        SMALL "--pp 2 --micro-batches 4 --dp 2", SMALL "--tp 2 --sequence-parallel on",
        SMALL "--pp 2 --chunks 2 --schedule interleaved-1f1b --micro-batches 4",
        SMALL "--dp 2 --framework deepspeed --zero 1", SMALL "--dp 2 --framework internevo",
        SMALL "--dp 2 --zero 1 --framework nanotron --grad-dtype f32", LLAMA "--cp 2",
        LLAMA "--tp 2 --pp 2 --micro-batches 2 --recompute full --framework megatron-lm",
        LLAMA "--dp 2 --optimizer momentum", LLAMA "--framework ideal",
    };

    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
        check_sum(strategies[i]);
}

/* In f32, adam: 4 bytes of a parameter, 8 of its states; 16 x 128 tokens with 2048 scores, of which
 * the loss of the ideal framework keeps 4 bytes. */
TEST(kinds_have_their_bytes)
{
    const char *text = lapwing("explain --memory " LLAMA "--dtype f32 --framework ideal --format "
                               "csv", NULL);

    has(text, "\nlogits,16777216,"); /* 16 * 128 * 2048 * 4 */
    has(text, "activations of model.layers.0 to model.layers.3 (4 modules),1,4,4\n");
    long long params = 0, states = 0;
    const char *p = strstr(text, "\nparameters,"), *o = strstr(text, "\noptimizer,");
    assert_non_null(p);
    assert_non_null(o);
    params = atoll(p + strlen("\nparameters,"));
    states = atoll(o + strlen("\noptimizer,"));
    /* embedding and head 2 * 2048 * 256; a block 4 * 256 * 256 + 3 * 256 * 512 + 2 * 256; 256;
     * and 32 frequencies of rotation, which have no gradient */
    long long n = 2 * 2048 * 256 + 4 * (4 * 256 * 256 + 3 * 256 * 512 + 2 * 256) + 256;
    assert_int_equal(states, 8 * n);
    assert_int_equal(params, 4 * (n + 32));
}

/* Layers M and E take turns: 3 and 2 of 5, of which a row each, beside embedding and head. */
TEST(equal_modules_that_are_no_neighbours_are_one_part)
{
#define HYBRID "-w nemotron-3-nano --layer-pattern MEMEM --experts 8 --seq 1024 -c dgx-b200 "
    const char *text = lapwing("explain --memory " HYBRID "--dp 8 --ep 8 --zero 1 --format csv",
                               NULL);
    int n = 0;

    has(text, "\"activations of 3 equal modules, backbone.layers.0 to backbone.layers.4\","
              "1,5,3\n");
    has(text, "\"activations of 2 equal modules, backbone.layers.1 to backbone.layers.3\","
              "2,4,2\n");
    for (const char *at = text; (at = strstr(at, "activations of backbone.layers")) != NULL; at++)
        n++;
    assert_int_equal(n, 0);
    check_sum(HYBRID "--dp 8 --ep 8 --zero 1");
#undef HYBRID
}

/* Each change, as sim predicts it with the options that are printed. */
TEST(a_change_is_what_sim_predicts_with_its_options)
{
    const char *base = LLAMA "--dp 4 --micro-batches 2 ";
    char *text = strdup(lapwingf("explain --memory %s --format json", base)), options[128];
    const char *at = strstr(text, "\"changes\"");
    int n = 0;

    for (; (at = strstr(at, "\"options\": \"")) != NULL && at < strstr(text, "\"not_possible\"");
         n++) {
        at += strlen("\"options\": \"");
        snprintf(options, sizeof options, "%.*s", (int)strcspn(at, "\""), at);
        const char *sim;
        if (strstr(options, "--batch 8"))
            sim = lapwing("sim " LLAMA "--batch 8 --dp 4 --micro-batches 4 --no-db -q "
                          "--format json", NULL);
        else
            sim = lapwingf("sim " LLAMA "%s %s %s --no-db -q --format json",
                           strstr(options, "--micro-batches") ? "" : "--micro-batches 2",
                           strstr(options, "--dp") ? "" : "--dp 4", options);
        assert_int_equal(bytes_of(strstr(sim, "\"framework_memory\""), "device_bytes"),
                         bytes_of(at, "device_bytes"));
        assert_int_equal(bytes_of(sim, "step_ns"), bytes_of(at, "step_ns"));
        assert_true(bytes_of(at, "saved_bytes") > 0);
        assert_int_equal(bytes_of(at, "saved_bytes"),
                         bytes_of(text, "device_bytes") - bytes_of(at, "device_bytes"));
    }
    free(text);
    assert_true(n >= 3);
}

/* A stored run: its plan, and changes of the command line that made it. */
TEST(a_stored_run_is_explained_as_its_options_are)
{
    lapwing("sim " LLAMA "--dp 4 --db runs.db -q", NULL);
    char *run = strdup(shell("$L explain --memory 1 --db runs.db --format json 2> note", NULL));
    char *options = strdup(lapwing("explain --memory " LLAMA "--dp 4 --format json", NULL));

    assert_string_equal(run, options);
    assert_string_equal(shell("$L explain --memory --db runs.db --format json 2> note", NULL),
                        options);
    free(run);
    free(options);
    lapwing("plan " LLAMA "--dp 4 -o plan.json", NULL);
    const char *text = lapwing("explain --memory plan.json -c dgx-h100", NULL);
    has(text, "changes are not tried: a plan file holds no model");
    has(text, "optimizer states");
}

TEST(what_cannot_be_explained_is_refused)
{
    EXPECT("explain",
           {"--memory --db none.db", 1, "none.db"},
           {"--memory " LLAMA "--dp 2 --tp 3", 1, "--tp"},
           {"--memory missing.json", 1, "missing.json"},
           {"1 --memory --step 1", 2, "--step changes nothing with --memory: leave one out"},
           {"--rank=0 1 --memory", 2, "--rank changes nothing with --memory"},
           {"--memory --replay x.json", 2, "--memory is of a plan"},
           {"--dp 2", 2, "--dp"});
}
