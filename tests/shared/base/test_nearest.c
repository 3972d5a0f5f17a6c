/* What somebody probably meant. */
#include "tests/lib/unit.h"

#include "shared/base/nearest.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

static const char *nearest(const char *word)
{
    static const char *const words[] = {"sim", "simulate", "compare", "recommend", "gpt2",
                                        "gpt2-medium", "dgx-a100", "dgx-h100", "bucket-cap",
                                        "llama-13b", "llama-2-13b"};
    struct lw_nearest n = lw_nearest_begin(word);

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        lw_nearest_try(&n, words[i]);
    return n.best ? n.best : "";
}

TEST(the_nearest_word_within_a_third_is_meant)
{
    static const struct {
        const char *word, *meant;
    } cases[] = {
        {"compair", "compare"},       /* 2 of 7 letters */
        {"comapre", "compare"},       /* a swap is one edit */
        {"reccomend", "recommend"},   /* one inserted, one left out */
        {"GPT2", "gpt2"},             /* case */
        {"gpt2-med", "gpt2-medium"},  /* the beginning */
        {"llama", "llama-13b"},       /* of two: the shorter */
        {"dgx-h10", "dgx-h100"},      {"bucketcap", "bucket-cap"}, {"siml", "sim"},
        {"llama2-13b", "llama-2-13b"}, /* the same letters and digits */
        {"frobnicate", ""},           {"xy", ""},
        {"", ""},                     {"s", ""}, /* one letter of three is right: too far */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(nearest(cases[i].word), cases[i].meant);
}

TEST_WITH(commands_options_models_and_clusters_are_suggested, fixture_open, fixture_close)
{
    expect("compair", 2, "no command 'compair' (did you mean 'compare'?)");
    expect("sim --bukcet-cap 5MiB", 2, "did you mean '--bucket-cap'?");
    expect("model gpt2-smal", 1, "did you mean");
    expect("cluster dgx-a10", 1, "did you mean 'dgx-a100'?");
    expect("model mlp --device dgx-a100 -o w.json", 0, "");
    expect("exec -w w.json --dp 2 --backend cuda --no-db", 2, "did you mean 'nccl'?");
    expect("exec -w w.json --dp 2 --backend cpu --no-db", 2, "did you mean 'threads'?");
    expect("cost allreduce", 2, "unexpected 'allreduce' (did you mean '--op all_reduce'?)");
    expect("cost send -c dgx-a100", 2, "(did you mean '--op send'?)");
    expect("cost frobnicate", 2, "unexpected 'frobnicate'; see");
    expect("frobnicate", 2, "no command 'frobnicate'; see");
}

TEST_WITH(misplaced_argument_is_named, fixture_open, fixture_close)
{
    lapwing("model mlp --device dgx-a100 -o w.json", NULL);
    expect("sim w.json -c dgx-a100", 1, "'w.json' is a workload, not a plan: give it with -w");
    expect("sim w.json --dp 2 -c dgx-a100", 1, "give it with -w");
    expect("tune w.json -c dgx-a100", 2, "'w.json' is a workload: give it with -w");
    expect("plan diff w.json w.json", 2, "takes two plan files, and 'w.json' is a workload");
    expect("sim -w w.json --dp 2 -c dgx-a100 --bucket-cap 5 --no-db", 0,
           "--bucket-cap 5 means 5 bytes; write 5MiB for mebibytes");
}

/* A pipe is read once: nothing looks at what it is before. */
TEST_WITH(a_plan_file_may_be_a_pipe, fixture_open, fixture_close)
{
    int rc;

    lapwing("plan -w mlp -c dgx-a100 --dp 2 -o p.json", NULL);
    shell("mkfifo a b", NULL);
    has(shell("cat p.json >a & $L sim a -c dgx-a100 --no-db 2>&1", &rc), "step ");
    assert_int_equal(rc, 0);
    has(shell("cat p.json >a & cat p.json >b & $L plan diff a b 2>&1", &rc), "decide the same");
    assert_int_equal(rc, 0);
}

TEST_WITH(a_newcomers_wrong_command_is_answered_with_the_next, fixture_open, fixture_close)
{
    static const struct {
        const char *args;
        int rc;
        const char *says;
    } cases[] = {
        {"predict gpt2", 2, "did you mean 'sim'?"},
        {"run gpt2", 2, "did you mean 'exec'?"},
        {"sim gpt2", 1, "'gpt2' is a model, not a plan file: give it with -w"},
        {"sim llama-2-13b", 1, "'llama-2-13b' is a model, not a plan file: give it with -w"},
        {"plan llama-2-13b", 1, "'llama-2-13b' is a model, not a plan file: give it with -w"},
        {"exec gpt2", 1, "'gpt2' is a model, not a plan file: give it with -w"},
        {"tune gpt2 -c dgx-h100", 2, "'gpt2' is a model: give it with -w; see 'lapwing help tune'"},
        {"tune gptt2 -c dgx-h100", 2, "unexpected 'gptt2'"},
        {"tune -w gpt2 mlp -c dgx-h100", 2, "'mlp' is a model: give it with -w"},
        {"plan diff gpt2 p1.json", 2, "diff takes two plan files, and 'gpt2' is a model: 'lapwing "
                                      "plan -w gpt2 -o FILE' writes a plan of it"},
        {"sim -w $P/docs -c dgx-h100", 1,
         "/docs/config.json: cannot open: No such file or directory (a folder is read as a "
         "model's, by its config.json)"},
        {"sim gptt2", 1, "gptt2: no such file; as a model: no model 'gptt2' (did you mean 'gpt2'"},
        {"sim -w gpt2 --gpus 8", 2, "did you mean '--ranks'?"},
        {"sim -w gpt2 --fsdp", 2, "did you mean '--zero'?"},
        {"search -w gpt2", 2, "did you mean 'tune'?"},
        {"sim -w gpt2 --tensor-model-parallel-size 2", 2, "did you mean '--tp'?"},
        {"sim -w gpt2 --micro-batch-size 2", 2, "did you mean '--batch'?"}, /* not micro-batches */
        {"sim -w gpt2 --num_layers=4", 2, "did you mean '--layers'?"},
        {"sim -w gpt2 --json", 2, "did you mean '--format'?"},
        {"sim -w gpt2 -c h100", 1, "systems with this device: dgx-h100, p5, a3-mega, nd-h100-v5"},
        {"sim -w gpt2 -c a100 --dp 8", 1, "systems with this device: dgx-a100, p4d"},
        {"sim -w gpt2 --no-db", 0,
         "this machine; -c NAME takes another (`lapwing cluster` lists them)"},
        {"sim $R/gpt6__gloo2__cap5.rank0.json.gz", 1, "`lapwing sim --replay`"},
        {"cluster --list", 0, "dgx-h100"},
        {"help bucket-cap", 2, "see 'lapwing help strategy'"},
        {"validate here", 2, "unexpected 'here' (did you mean '--here'?)"},
        {"-v", 0, "lapwing "},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i].args, cases[i].rc, cases[i].says);
}

/* A reader that has enough ends the program without a word. */
TEST_WITH(a_closed_pipe_is_silent, fixture_open, fixture_close)
{
    shell("$L help strategy | head -1 >/dev/null; $L model --list | true", NULL);
    assert_string_equal(shell_err(), "");
}
