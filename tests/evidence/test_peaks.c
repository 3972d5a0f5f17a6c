/* Peaks of Megatron-LM's functional tests, in place in ../shared: tests/evidence/peaks.py. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

TEST_GROUP(fixture_open, fixture_close)

#define PEAKS "PYTHONDONTWRITEBYTECODE=1 python3 $P/tests/evidence/peaks.py "

/* On the mean within 2 %, 90 % of the rows within 3 %. */
TEST(peaks_of_megatron_are_within_two_percent)
{
    int rc;
    const char *out = shell(PEAKS "$L $P/../shared", &rc);

    if (rc == 4) {
        print_message("SKIP peaks: ../shared has no megatron-golden/memory.csv\n");
        skip();
    }
    if (rc != 0)
        fail_msg("exit %d:\n%s", rc, out);
}

/* The command of a row prints the peak that the row is judged by. Workspaces: 100,664,320 bytes of
 * libraries, and 2 of each element of a block's products, 4 x 512^2 + 2 x 512 x 2048. */
TEST(a_row_is_a_command)
{
    static const char *const says[] = {"\"rank\":3", "\"workspaces_bytes\":106955776"};
    const char *out =
        shell("$L sim -w decoder --layers 12 --hidden 512 --heads 8 --ffn 2048 --seq 1024 "
              "--vocab 50304 --positions 1024 --plain-ffn --layer-norm --biases --dropout --tied "
              "--dtype bf16 --attention full --deterministic --batch 4 --pp 4 --micro-batches 4 "
              "--partition megatron --first-layers 2 --last-layers 2 --framework megatron-lm "
              "-c dgx-h100 --no-db -q --format json | tr -d ' \\n'",
              NULL);

    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (!strstr(out, says[i]))
            fail_msg("no %s in %s", says[i], out);
}

/* TransformerEngine 1.2 of the lts container before November 2025 has no fused attention for a
 * deterministic run before Hopper. A backend that is named decides. */
TEST(older_deterministic_runs_on_a100_store_scores)
{
    static const struct {
        const char *cells, *expected;
    } cases[] = {
        {"'env': 'lts', 'recipe_lists_it': '0', 'gpu': 'A100', 'deterministic-mode': 'true'",
         "full"},
        {"'env': 'dev', 'recipe_lists_it': '0', 'gpu': 'A100', 'deterministic-mode': 'true'",
         "flash"},
        {"'env': 'lts', 'recipe_lists_it': '1', 'gpu': 'A100', 'deterministic-mode': 'true'",
         "flash"},
        {"'env': 'lts', 'recipe_lists_it': '0', 'gpu': 'A100'", "flash"},
        {"'env': 'lts', 'recipe_lists_it': '0', 'gpu': 'A100', 'deterministic-mode': 'true', "
         "'attention-backend': 'flash'",
         "flash"},
        {"'env': 'lts', 'recipe_lists_it': '0', 'gpu': 'H100', 'deterministic-mode': 'true'",
         "flash"},
    };
    char script[500];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(
            script, sizeof script,
            "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$P/tests/evidence python3 -c \"import megatron;"
            "print(megatron.attention_of(megatron.Arguments({%s})))\"",
            cases[i].cells);
        const char *out = shell(script, NULL);
        if (strcspn(out, "\n") != strlen(cases[i].expected) ||
            strncmp(out, cases[i].expected, strlen(cases[i].expected)) != 0)
            fail_msg("{%s}: expected %s, found %s", cases[i].cells, cases[i].expected, out);
    }
}
