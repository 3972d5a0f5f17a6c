/* Outside a terminal no line of text is wider than 100 columns: prose is broken at blanks. The
 * inputs are the widest that the program makes by itself; lines of names of files are left out. */
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/text/wrap.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

static int columns(const char *line, size_t n)
{
    int columns = 0;

    for (size_t i = 0; i < n; i++)
        columns += ((unsigned char)line[i] & 0xc0) != 0x80;
    return columns;
}

static int most = LW_TEXT_COLUMNS;

static void text_fits(const char *args, const char *text)
{
    assert_true(*text);
    while (*text) {
        size_t n = strcspn(text, "\n");
        if (columns(text, n) > most)
            fail_msg("lapwing %s: %d columns: %.*s", args, columns(text, n), (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static void fits(const char *args)
{
    int rc;
    const char *text = lapwing(args, &rc);

    if (rc != 0 && rc != 3)
        fail_msg("lapwing %s: exit %d: %s", args, rc, text);
    text_fits(args, text);
}

/* In order: later ones read what earlier ones wrote. Cases of ../shared are left out where that is
 * absent. */
static const struct {
    const char *command, *args;
} cases[] = {
    {"help", ""},
    {"help", "strategy"},
    {"version", "-v"},
    {"doctor", ""},
    {"model", "--list"},
    {"model", "gpt-175b --device dgx-h100 -o w.json"},
    {"model", "resnet50 --device dgx-h100 -o r.json"},
    {"model", "mlp --layers 4 --width 64 -o m.json"},
    {"cluster", ""},
    {"cluster", "dgx-h100"},
    {"cluster", "gb200"},
    {"framework", ""},
    {"framework", "nemo"},
    {"cost", ""},
    {"cost", "-c dgx-h100 --op all_reduce --ranks 64 --nodes 8 --bytes 1KiB..1GiB"},
    {"cost", "-c dgx-h100 --gemm 4096,4096,4096"},
    {"cost", "-c dgx-h100 --measured $P/tests/fuzz/corpus/bench/old.txt"},
    {"plan", "-w w.json -c dgx-h100 --pp 16 --tp 8 --dp 8 --micro-batches 16 -o p.json"},
    {"plan", "-w r.json -c dgx-h100 --dp 8 -o q.json"},
    {"plan", "-w r.json -c dgx-h100 --dp 8 --zero 3"},
    {"plan", "p.json"},
    {"plan", "--schedule zbv --pp 4 --micro-batches 64"},
    {"plan", "--schedule colossal-interleaved --pp 4 --micro-batches 32"},
    {"sim", "p.json -c dgx-h100 --db r.db --all --name "
            "'a name that is as long as names of runs can be when every option is in it'"},
    {"sim", "q.json -c dgx-h100 --db r.db --spans --samples 3 --noise 0.01"},
    {"sim", "-w r.json -c dgx-h100 --dp 8 --bucket-cap 5MiB --db r.db --spans"},
    {"sim", "-w m.json --dp 2 --db r.db --spans"},
    {"sim", "--replay $P/traces/recorded/gpt6__gloo2__cap5.rank0.json.gz "
            "$P/traces/recorded/gpt6__gloo2__cap5.rank1.json.gz --db r.db"},
    {"exec", "-w m.json --dp 2 --steps 2 --warmup 1 --compute sleep --db r.db"},
    {"exec", "--list-backends"},
    {"runs", "--db r.db"},
    {"runs", "2 --db r.db"},
    {"compare", "2 3 --db r.db"},
    {"compare", "4 6 --db r.db"},
    {"compare", "--db r.db"},
    {"explain", "3 --db r.db"},
    {"explain", "2 --db r.db"},
    {"plot", "timeline 2 --db r.db -o t.png"},
    {"report", "2 3 --db r.db -o r.html"},
    {"export", "2 --db r.db --format chrome -o c.json"},
    {"recommend", "m.json --dp 2"},
    {"tune", "-w gpt2 -c dgx-a100 --ranks 8 --global-batch 8 --batch 1 --schedule 1f1b --no-db"},
    {"import",
     "$P/traces/recorded/gpt6__gloo2__cap5.rank0.json.gz -o i.json --cluster-out ic.json"},
    {"import", "$P/tests/fuzz/corpus/bench/today.txt --cluster-out d.json"},
    {"inspect", "$P/traces/recorded/gpt6__gloo2__cap5.rank0.json.gz"},
    {"inspect", "$P/../shared/traces/kineto/dlrm_8gpu_rank0.json.gz "
                "$P/../shared/traces/kineto/dlrm_8gpu_rank1.json.gz"},
    {"inspect", "$P/../shared/traces/kineto/ddp_resnet50_2xA100_rank0.json.gz"},
    {"inspect", "$P/tests/fuzz/corpus/bench/today.txt"},
    {"validate", "$P/../shared/groundtruth/gpt*.json"},
    {"validate", "$P/tests/fuzz/corpus/groundtruth/*"},
    {"golden", "$P/../shared/golden/picotron_buckets.jsonl"},
    {"bench", "w-ar --ranks 8"},
    {"calibrate", "--help"}, /* it measures for minutes */
};

static bool has_case(const char *command)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].command, command) == 0)
            return true;
    return false;
}

TEST_WITH(outputs_fit_the_width, fixture_open, fixture_close)
{
    char args[512];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strstr(cases[i].args, "../shared") && access("../shared", F_OK) != 0) {
            print_message("../shared is absent: lapwing %s is left out\n", cases[i].command);
            continue;
        }
        snprintf(args, sizeof args, "%s %s", cases[i].command, cases[i].args);
        fits(args);
    }
}

TEST_WITH(text_fits_a_terminal_of_60_columns, fixture_open, fixture_close)
{
    setenv("COLUMNS", "60", 1);
    most = 60;
    fits("model gpt2");
    fits("model gpt2 --device dgx-a100 -o g.json");
    fits("cluster");
    fits("cluster dgx-a100");
    fits("sim -w g.json -c dgx-a100 --dp 64 --no-db");
    fits("sim -w g.json -c dgx-a100 --pp 4 --micro-batches 8 --noise 0.01 --seed 3 --no-db");
    fits("import $P/traces/recorded/gpt6__gloo2__cap5.rank0.json.gz -o i.json");
    static const char *const wrong[] = {"sim gpt2-smal", "sim -w gpt2 -c h100", "plot x",
                                        "frobnicate", "sim -w gpt2 --dp 4096 -c host"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        text_fits(wrong[i], lapwing(wrong[i], &(int){0}));
    unsetenv("COLUMNS");
    most = LW_TEXT_COLUMNS;
}

TEST_WITH(every_command_has_a_case_and_its_help_fits, fixture_open, fixture_close)
{
    char *commands = strdup(lapwing("help --format csv", NULL)), args[64];

    assert_non_null(commands);
    strtok(commands, "\n"); /* the titles */
    for (const char *line; (line = strtok(NULL, "\n"));) {
        int n = (int)strcspn(line, ",");
        snprintf(args, sizeof args, "%.*s", n, line);
        if (!has_case(args))
            fail_msg("'%s' has no case in this file", args);
        snprintf(args, sizeof args, "help %.*s", n, line);
        fits(args);
        setenv("COLUMNS", "60", 1);
        most = 60;
        fits(args);
        unsetenv("COLUMNS");
        most = LW_TEXT_COLUMNS;
    }
    free(commands);
}

TEST(words_are_counted_in_columns)
{
    char text[256] = "";
    FILE *f = tmpfile();

    lw_put_wrapped(f, "a\u00e9 b cc", 0, 4); /* "aé b" has four columns and five bytes */
    lw_put_paragraph(f, "  note: ", "x");
    rewind(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_string_equal(text, "a\u00e9 b\ncc\n  note: x\n");
}
