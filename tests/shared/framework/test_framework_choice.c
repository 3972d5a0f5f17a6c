/* The framework that such a strategy is usually run with, and what a command says of it. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/cluster/cluster.h"
#include "shared/files/files.h"
#include "shared/framework/framework_choice.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/sql_file.h"

static struct lw_framework_choice usual(const char *const options[][2], const char *device,
                                        bool transformer)
{
    const struct lw_device d = {.kind = device};
    struct lw_strategy s = lw_strategy_default();
    struct lw_framework_choice c;
    struct lw_err err = {0};

    for (int i = 0; options[i][0]; i++)
        assert_ok(lw_strategy_set(&s, options[i][0], options[i][1], &err), err);
    lw_framework_usual(&s, &d, transformer, &c);
    return c;
}

/* The table of docs/design/frameworks.md, its rows in order: each wins over those below it. */
TEST(the_first_row_that_fits_names_the_framework)
{
    static const struct {
        const char *options[4][2], *device, *name;
        bool other_model;
    } cases[] = {
        {{{"tp", "2"}, {"zero", "3"}}, "cpu core", "ideal", false},
        {{{"zero", "1"}, {"compat", "picotron"}}, "A100-SXM4-80GB", "ideal", false},
        {{{"tp", "2"}, {"zero", "3"}}, "A100-SXM4-80GB", "megatron-lm", false},
        {{{"pp", "2"}}, "H100-SXM5-80GB", "megatron-lm", false},
        {{{"cp", "2"}}, "H100-SXM5-80GB", "megatron-lm", false},
        {{{"dp", "2"}, {"ep", "2"}}, "H100-SXM5-80GB", "megatron-lm", false},
        {{{"pp", "2"}}, "H100-SXM5-80GB", "ideal", true},
        {{{"dp", "8"}, {"zero", "3"}}, "H100-SXM5-80GB", "torch-fsdp2", false},
        {{{"dp", "8"}, {"zero", "2"}}, "H100-SXM5-80GB", "deepspeed", false},
        {{{"dp", "8"}, {"zero", "1"}}, "H100-SXM5-80GB", "deepspeed", true},
        {{{"dp", "8"}}, "H100-SXM5-80GB", "torch-ddp", false},
        {{{NULL}}, "a chip of ours", "torch-ddp", true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_framework_choice c =
            usual(cases[i].options, cases[i].device, !cases[i].other_model);
        assert_string_equal(c.name, cases[i].name);
        assert_int_equal(c.from, LW_FRAMEWORK_USUAL);
    }
}

TEST(every_usual_framework_is_known)
{
    static const char *const names[] = {"ideal", "megatron-lm", "torch-fsdp2", "deepspeed",
                                        "torch-ddp"};
    struct lw_framework f;
    struct lw_err err = {0};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_ok(lw_framework_find(names[i], &f, &err), err);
        lw_framework_free(&f);
    }
}

/* Strategies that differ in the schedule alone differ in no kernel. */
TEST(a_schedule_changes_no_framework_and_is_named)
{
    static const char *const zb[][2] = {{"pp", "2"}, {"schedule", "zb-h1"}, {NULL, NULL}};
    struct lw_framework_choice c = usual(zb, "H100-SXM5-80GB", true);

    assert_string_equal(c.name, "megatron-lm");
    assert_string_equal(c.why, "usual but for zb-h1");
}

#define GPU "-w gpt2 --layers 2 -c dgx-a100"

TEST_WITH(commands_name_the_framework_in_one_line, fixture_open, fixture_close)
{
    static const char ddp[] = "): usual without --zero; --framework ideal|NAME for another";
    static const char *const schedules[] = {"1f1b", "zb-h1", "zb-auto-1p"};

    EXPECT("sim --no-db", {GPU " --dp 2", 0, ddp},
           {GPU " --dp 2 --format json", 0, "\"framework\": \"torch-ddp\"",
            {"\"framework_from\": \"strategy\""}},
           {GPU " --dp 2 --framework ideal", 0, "framework ideal, as given"},
           {"-w gpt2 --layers 2 --dp 2", 0, "ideal: known ones are of GPUs, this is a CPU"},
           {"-w resnet50 -c dgx-a100 --pp 2", 0, "known ones split transformers alone"});
    expect("plan " GPU " --dp 2", 0, ddp);
    expect("model gpt2 --layers 2 --device dgx-a100", 0, ddp);
    expect("recommend " GPU " --dp 2", 0, ddp);
    expect("exec " GPU " --hidden 64 --heads 2 --vocab 256 --dp 2 --steps 1 --warmup 0 --no-db "
           "--no-verify", 0, ddp);
    expect("model gpt2 --format json", 0, "\"framework\": ");
    for (int i = 0; i < 3; i++) {
        const char *out = lapwingf("sim " GPU " --pp 2 --micro-batches 4 --schedule %s --no-db",
                                   schedules[i]);
        const char *second = strchr(out, '\n') + 1, *third = strchr(second, '\n') + 1;
        assert_memory_equal(second, "framework megatron-lm (", 23);
        assert_memory_equal(third, "step ", 5);
    }
}

/* A recording has nothing added. */
TEST_WITH(recorded_times_are_ideal, fixture_open, fixture_close)
{
    recording_of_model("gpt2 --layers 2 --device dgx-a100", "r.json");
    EXPECT("sim --no-db",
           {"-w r.json -c dgx-a100 --dp 2", 0,
            "framework ideal: times and memory are of the file, nothing is added"},
           {"-w r.json -c dgx-a100 --framework nemo", 0,
            "framework nemo: its usual options, and gradients that stay; times and memory are "
            "of the file"});
    expect("recommend r.json -c dgx-a100 --dp 2 --format json", 0,
           "\"framework_from\": \"recording\"");
}

static void same_prediction(const char *a, const char *b)
{
    char *one = strdup(shellf("$L sim %s -c dgx-a100 --no-db --format csv 2>log", a));

    assert_string_equal(one, shellf("$L sim %s -c dgx-a100 --no-db --format csv 2>log", b));
    free(one);
}

/* The file of a model that nobody named a framework for is the model. */
TEST_WITH(a_model_file_follows_the_rule_unless_a_framework_was_named, fixture_open, fixture_close)
{
    static const char *const strategies[] = {"--dp 2", "--dp 2 --zero 1", "--dp 2 --zero 3",
                                             "--dp 2 --tp 2 --grad-dtype f32"};
    char file[200], named[200];

    lapwing("model gpt2 --layers 2 --device dgx-a100 -o usual.json", NULL);
    lapwing("model gpt2 --layers 2 -o here.json", NULL);
    lapwing("model gpt2 --layers 2 --device dgx-a100 --framework nemo -o nemo.json", NULL);
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof file, "-w usual.json %s", strategies[i]);
        snprintf(named, sizeof named, "-w gpt2 --layers 2 %s", strategies[i]);
        same_prediction(file, named);
        snprintf(file, sizeof file, "-w here.json %s", strategies[i]);
        same_prediction(file, named);
        snprintf(file, sizeof file, "-w nemo.json %s", strategies[i]);
        snprintf(named, sizeof named, "-w gpt2 --layers 2 --framework nemo %s", strategies[i]);
        same_prediction(file, named);
    }
    EXPECT("sim --no-db -c dgx-a100", {"-w nemo.json --dp 2", 0, "): as the workload file says"},
           {"-w nemo.json --dp 2 --framework ideal", 0, "computed again",
            {", framework nemo)", "framework ideal, as given"}},
           {"-w nemo.json --dp 2 --framework ideal --as-recorded", 1, "give only one of them"});
    /* edits keep the file's times and its framework */
    shell("sed 's/\"name\": \"gpt2\"/\"name\": \"edited\"/;0,/forward_ns/s/forward_ns\": /&1/' "
          "usual.json >edited.json", NULL);
    expect("sim -w edited.json -c dgx-a100 --dp 2 --zero 1 --no-db", 0, "framework torch-ddp (");
    /* a framework that is not known any more, or whose facts are others */
    shell("sed 's/\"framework\": \"nemo\"/\"framework\": \"gone\"/' nemo.json >gone.json; "
          "sed 's/\"framework\": \"nemo\"/\"framework\": \"oneflow\"/' nemo.json >other.json",
          NULL);
    EXPECT("sim --no-db -c dgx-a100 --dp 2",
           {"-w gone.json", 1, "framework 'gone'", {"does not know", "--framework"}},
           {"-w other.json", 1, "framework 'oneflow'", {"has with other facts"}});
}

TEST_WITH(a_plan_file_names_its_framework, fixture_open, fixture_close)
{
    lapwing("plan " GPU " --dp 2 -o ddp.json", NULL);
    lapwing("plan " GPU " --dp 2 --framework ideal -o ideal.json", NULL);
    lapwing("framework nemo -o nemo.json", NULL);
    shell("sed -i 's/\"name\": \"nemo\"/\"name\": \"mine\"/;s/1.056/1.25/' nemo.json", NULL);
    lapwing("plan " GPU " --dp 2 --framework nemo.json -o mine.json", NULL);
    expect("plan ddp.json", 0, "): as the plan file says");
    shell("grep -q '\"framework\": \"torch-ddp\",' ddp.json && "
          "grep -q '\"framework\": \"ideal\",' ideal.json", NULL);
    EXPECT("sim --no-db -c dgx-a100", {"ddp.json", 0, "framework torch-ddp ("},
           {"ddp.json --framework torch-ddp", 0, "framework torch-ddp ("},
           {"ideal.json", 0, "framework ideal: as the plan file says"},
           {"ideal.json --framework ideal", 0, "framework ideal: as the plan file says"},
           {"ideal.json --framework nemo", 1, "'ideal.json' was made with framework 'ideal'",
            {"leave the option out, or make the plan again"}},
           {"ddp.json --framework nemo", 1, "was made with framework 'torch-ddp' ("},
           {"mine.json", 0, "'mine' (", {"is not known here", "--framework FILE gives them"}},
           {"mine.json --framework nemo.json", 0, "framework mine ("},
           {"mine.json --framework nemo", 1, "was made with framework 'mine' ("},
           {"ddp.json --batch 2", 2, "--batch is of a model"});
    expect("exec ddp.json -c dgx-a100 --framework nemo --no-db", 1, "was made with framework");
}

/* What ops keep is in a plan file, by the rules of the program that planned it. */
TEST_WITH(an_older_plan_file_says_that_its_rules_are_older, fixture_open, fixture_close)
{
    lapwing("plan " GPU " --dp 2 -o ddp.json", NULL);
    lapwing("plan " GPU " --dp 2 --framework ideal -o ideal.json", NULL);
    shell("grep -q '\"rules\": 1,' ddp.json && ! grep -q '\"rules\"' ideal.json && "
          "grep -v '\"rules\": 1,' ddp.json >older.json", NULL);
    EXPECT("", {"plan ddp.json", 0, "as the plan file says", .lacks = "older lapwing"},
           {"sim ddp.json -c dgx-a100 --no-db", 0, "torch-ddp", .lacks = "older lapwing"},
           {"sim ideal.json -c dgx-a100 --no-db", 0, "ideal", .lacks = "older lapwing"},
           {"plan older.json", 0,
            "as the plan file says; planned by an older lapwing, whose rules of memory and times "
            "differ: plan it again for those of today"},
           {"sim older.json -c dgx-a100 --no-db", 0, "planned by an older lapwing"});
}

/* Facts of a shipped framework change from version to version: the rules of today hold then. */
TEST_WITH(an_older_plan_file_has_the_facts_of_today, fixture_open, fixture_close)
{
    char *memory;

    lapwing("plan " GPU " --dp 2 --zero 1 -o p.json", NULL);
    shell("sed 's/\\(\"framework_hash\": \"\\)[0-9a-f]*/\\140f14e37/' p.json >older.json && "
          "! cmp -s p.json older.json", NULL);
    EXPECT("sim --no-db -c dgx-a100",
           {"older.json", 0, "): in place of (40f14e37) that the file was planned with: its facts"},
           {"older.json --framework deepspeed", 0, "): in place of (40f14e37)"},
           {"older.json --framework nemo", 1, "was made with framework 'deepspeed' (40f14e37)"},
           {"older.json --framework ideal", 1, "was made with framework 'deepspeed' (40f14e37)"});
    memory = strdup(shell("$L sim p.json --no-db -c dgx-a100 --format csv 2>log", NULL));
    assert_string_equal(memory,
                        shell("$L sim older.json --no-db -c dgx-a100 --format csv 2>log", NULL));
    free(memory);
    /* a file of the user that has the name, and a name that is the user's own, stay as they are */
    lapwing("framework deepspeed -o own.json", NULL);
    shell("sed 's/\"framework\": \"deepspeed\"/\"framework\": \"mine\"/' older.json >mine.json",
          NULL);
    EXPECT("sim --no-db -c dgx-a100",
           {"older.json --framework own.json", 1, "was made with framework 'deepspeed' (40f14e37)"},
           {"mine.json", 0, "'mine' (40f14e37) of the plan file is not known here"});
}

TEST_WITH(a_stored_run_of_older_facts_has_those_of_today, fixture_open, fixture_close)
{
    expect("sim " GPU " --dp 2 --zero 1 --db r.db", 0, "stored as run 1");
    sql_do(fixture_path("r.db"), "UPDATE run SET framework_hash = '40f14e37'");
    expect("sim --run 1 --db r.db --no-db -c dgx-a100", 0, "): in place of (40f14e37) that");
}

/* The same decisions with and without the name: it is not hashed. A file of before has none. */
TEST_WITH(the_name_is_outside_the_hash, fixture_open, fixture_close)
{
    lapwing("plan " GPU " --dp 2 --framework ideal -o p.json", NULL);
    shell("grep -v '\"framework\":' p.json | "
          "sed '/^  \"dims\": {/,/^  },/d' >old.json && ! grep -q dims old.json", NULL);
    expect("plan diff p.json old.json", 0, "the plans decide the same");
    expect("sim old.json -c dgx-a100 --no-db", 0, "framework ideal: the plan file names none");
}

/* Recorded times are of no framework that Lapwing knows, whatever options were given. */
TEST_WITH(runs_say_that_times_are_recorded, fixture_open, fixture_close)
{
    lapwing("import $P/tests/fuzz/corpus/kineto/cpu_ddp.json -o r.json", NULL);
    lapwing("sim -w r.json --dp 2 --framework torch-ddp --as-recorded -c host --db r.db", NULL);
    lapwing("sim " GPU " --dp 2 --framework ideal --db r.db -c dgx-a100", NULL);
    const char *list = lapwing("runs --db r.db", NULL);
    const char *first = strstr(list, "\n  1  sim   ok");

    assert_non_null(first);
    assert_non_null(strstr(first, "  recorded "));
    assert_null(strstr(strstr(first, "\n  2  sim"), "recorded"));
}
