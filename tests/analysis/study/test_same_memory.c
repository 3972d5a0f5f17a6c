/* The memory of a plan is one figure, whoever prints it: sim, plan, recommend and exec say the same
 * bytes for the same options. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/strategy/policies.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/prng.h"

enum { N_OPTIONS = 400, N_MEASURES = 5 };

#define ONE_OF(r, ...) \
    ((const char *const[]){__VA_ARGS__}[prng_below( \
        r, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))])

/* Small, because exec runs it: on threads, with real tensors. recommend needs two data ranks. */
static void draw(struct prng *r, char out[N_OPTIONS])
{
    const char *layers = ONE_OF(r, "4", "5", "6"), *batch = ONE_OF(r, "1", "2");
    const char *seq = ONE_OF(r, "32", "64"), *cluster = ONE_OF(r, "dgx-a100", "dgx-h100", "p5");
    const char *groups = ONE_OF(r, "", "", "--pp 2", "--tp 2", "--cp 2",
                                "--tp 2 --sequence-parallel on");
    const char *zero = ONE_OF(r, "", "", "--zero 1", "--zero 2");
    const char *gradients = ONE_OF(r, "", "--grad-dtype f32");
    const char *framework =
        ONE_OF(r, "", "", "", "", "--framework megatron-lm", "--framework nanotron",
               "--framework internevo", "--framework torchtune", "--framework oneflow");

    snprintf(out, N_OPTIONS,
             "-w gpt2 --hidden 128 --heads 4 --vocab 1024 --layers %s --batch %s --seq %s -c %s "
             "--dp 2 --micro-batches 4 %s %s %s %s", layers, batch, seq, cluster, groups, zero,
             gradients, framework);
}

/* Of the first object behind `after`: peak_memory_bytes, then the framework's. */
static void measures(const char *text, const char *after, long long v[N_MEASURES])
{
    static const char *const keys[N_MEASURES] = {"peak_memory_bytes", "allocated_bytes",
                                                 "reserved_bytes", "device_bytes", "needed_bytes"};
    const char *at = after ? strstr(text, after) : text;

    for (int k = 0; k < N_MEASURES; k++) {
        char word[64];
        snprintf(word, sizeof word, "\"%s\": ", keys[k]);
        const char *found = at ? strstr(at, word) : NULL;
        if (!found)
            fail_msg("no %s in:\n%s", keys[k], text);
        v[k] = atoll(found + strlen(word));
    }
}

static void same(const long long a[N_MEASURES], const long long b[N_MEASURES], const char *command,
                 const char *options)
{
    for (int k = 0; k < N_MEASURES; k++)
        if (a[k] != b[k])
            fail_msg("sim and %s differ in measure %d, %lld and %lld, of: %s", command, k, a[k],
                     b[k], options);
}

static long long number_after(const char *text, const char *after, const char *key)
{
    const char *at = strstr(text, after);

    at = at ? strstr(at, key) : NULL;
    if (!at)
        fail_msg("no %s after %s in:\n%s", key, after, text);
    return atoll(at + strlen(key));
}

TEST_WITH(four_commands_print_the_same_memory, fixture_open, fixture_close)
{
    struct prng r = prng_start("strategies");
    long long sim[N_MEASURES], other[N_MEASURES];
    char options[N_OPTIONS];

    for (int i = 0; i < unit_cases(10, 30); i++) {
        draw(&r, options);
        print_message("strategy %d: %s\n", i, options);
        measures(lapwingf("sim %s --no-db --format json", options), NULL, sim);
        assert_true(sim[0] > 0);
        measures(lapwingf("plan %s --format json", options), NULL, other);
        same(sim, other, "plan", options);
        lapwingf("plan %s -o p.json --force", options);
        measures(lapwing("sim p.json -c p5 --as-recorded --no-db --format json", NULL), NULL,
                 other);
        assert_int_equal(other[0], sim[0]);
        measures(lapwingf("exec %s --steps 1 --warmup 0 --compute sleep --no-verify --no-db "
                          "--format json", options), "\"predicted_memory\"", other);
        same(sim, other, "exec", options);
        const char *text = lapwingf("recommend %s --quiet --format json", options);
        assert_int_equal(number_after(text, "\"reference\"", "\"peak_memory_bytes\": "), sim[0]);
        assert_int_equal(number_after(text, "\"reference\"", "\"device_bytes\": "), sim[3]);
    }
}

/* "framework_memory": { ... } of a simulation, with rank 0 and the last rank. */
static void copy_memory(const char *json, char *out, size_t room)
{
    const char *at = strstr(json, "\"framework_memory\"");
    const char *end = at ? strstr(at, "\"last_rank\"") : NULL;

    end = end ? strchr(end, '}') : NULL;
    if (!end || (size_t)(end - at) >= room)
        fail_msg("no framework_memory in:\n%s", json);
    snprintf(out, room, "%.*s", (int)(end - at), at);
}

/* Three or five data ranks: the last one's shard is smaller than the others'. */
TEST_WITH(a_plan_and_its_file_have_the_same_memory, fixture_open, fixture_close)
{
    struct prng r = prng_start("files");
    char made[1000], read[1000];
    int n_differ = 0;

    for (int i = 0; i < unit_cases(10, 30); i++) {
        const char *cluster = ONE_OF(&r, "dgx-a100", "dgx-h100");
        const char *options = ONE_OF(&r, "--zero 1", "--zero 2", "--zero 3", "--zero 1 --pp 2",
                                     "--zero 1 --tp 2", "--zero 1 --offload optimizer",
                                     "--zero 1 --optimizer muon --shard-policy lpt");
        const char *framework = ONE_OF(&r, "ideal", "megatron-lm", "deepspeed", "torchtune",
                                       "nemo-automodel");
        char words[N_OPTIONS];
        snprintf(words, sizeof words,
                 "-w gpt2 --hidden 128 --heads 4 --vocab 1027 --layers 4 --seq 64 --dtype bf16 "
                 "--dp %s %s --framework %s -c %s", ONE_OF(&r, "3", "5"), options, framework,
                 cluster);
        print_message("strategy %d: %s\n", i, words);
        copy_memory(lapwingf("sim %s --no-db --format json", words), made, sizeof made);
        lapwingf("plan %s -o p.json --force", words);
        copy_memory(lapwingf("sim p.json -c %s --no-db --format json", cluster), read, sizeof read);
        assert_string_equal(read, made);
        n_differ += strncmp(strstr(made, "\"rank_0\"") + strlen("\"rank_0\""),
                            strstr(made, "\"last_rank\"") + strlen("\"last_rank\""), 60) != 0;
    }
    assert_true(n_differ > 0);
}

/* What a framework usually does is no reason to refuse what the user chose. */
TEST_WITH(no_schedule_is_refused_for_the_usual_framework, fixture_open, fixture_close)
{
    static const char *const groups[] = {"--tp 2", "--cp 2", "--tp 2 --cp 2"};
    char ideal[N_OPTIONS];
    int rc, n = 0;

    for (int k = 0; k < LW_N_SCHEDULES * 6; k++) {
        const char *schedule = lw_schedule_name((enum lw_schedule)(k / 6));
        snprintf(ideal, sizeof ideal,
                 "plan -w gpt2 --hidden 128 --heads 4 --vocab 1024 --layers 8 --seq 64 -c dgx-a100 "
                 "--pp 2 --micro-batches 4 --schedule %s %s --chunks %d --format csv", schedule,
                 groups[k / 2 % 3], k % 2 + 1);
        lapwing(strcat(ideal, " --framework ideal"), &rc);
        if (rc != 0)
            continue; /* the schedule takes another number of chunks, or a grid from a file */
        *strstr(ideal, " --framework ideal") = '\0';
        expect(ideal, 0, "");
        n++;
    }
    assert_true(n >= 3 * (LW_N_SCHEDULES - 2));
}
