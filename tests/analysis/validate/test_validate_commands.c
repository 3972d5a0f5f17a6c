/* Every case of a table of runs has a command: run as a process, it predicts the same step and
 * memory. Random rows of all families, or one of each without LAPWING_MANY. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/validate/validate_kinds.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/prng.h"

static const char *const tables[] = {
    "gpu-tables/mpt_fsdp", "gpu-tables/bloom_3d_a100", "gpu-tables/simumax_real_runs",
    "gpu-tables/internevo_zero1_scaling", "gpu-tables/megatron_h100_scaling",
    "gpu-tables/mlperf_training_steps", "gpu-tables/dgxc_weak_scaling",
    "gpu-tables/megatron_bridge_performance", "gpu-tables/nemo_performance",
    "gpu-tables/nanotron_ultrascale", "gpu-tables/misc_training_tables",
    "papers/narayanan2021_table1_weak_scaling", "papers/narayanan2021_table2_vs_zero3",
    "papers/korthikanti2022_tables3_5", "papers/vtrain_ground_truth_single",
    "papers/vtrain_ground_truth_multi", "papers/llama3_table4",
    "papers/dlperf_gpt_v100_oneflow_megatron", "gpu-tables/nanotron_scaling_curves",
    "gpu-tables/ablations_moe_recompute_fp8", "gpu-tables/nanotron_ultrascale_failed",
};

/* A table with its titles and n random rows. */
static char *sample(const char *path, int n, struct prng *r)
{
    char *text = fixture_get(path), *out = calloc(1, strlen(text) + 2), *lines[2000];
    int n_lines = 0;

    assert_non_null(out);
    for (char *at = strtok(text, "\n"); at && n_lines < 2000; at = strtok(NULL, "\n"))
        lines[n_lines++] = at;
    sprintf(out, "%s\n", lines[0]);
    for (int i = 0; i < n; i++) {
        int k = 1 + (int)(prng_next(r) % (uint64_t)(n_lines - 1));
        if (lines[k])
            strcat(strcat(out, lines[k]), "\n");
        lines[k] = NULL;
    }
    free(text);
    return out;
}

static double member(const char *json, const char *key)
{
    char quoted[64];

    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(json, quoted);
    return at ? strtod(at + strlen(quoted), NULL) : NAN;
}

/* Whether sim prints the bytes, of the kind that the table shows, for its fullest rank or rank 0. */
static bool prints_bytes(const char *json, const char *kind, double bytes)
{
    const char *memory = strstr(json, "\"framework_memory\""), *first;
    char key[32];

    assert_non_null(memory);
    first = strstr(memory, "\"rank_0\"");
    assert_non_null(first);
    snprintf(key, sizeof key, "%s_bytes", kind);
    return member(memory, key) == bytes || member(first, key) == bytes;
}

static void run_case(const struct lw_case *c)
{
    char line[1400];

    assert_int_equal(strncmp(c->command, "lapwing sim ", 12), 0);
    int rc;
    snprintf(line, sizeof line, "%s --no-db --format json", c->command + 8);
    const char *json = lapwing(line, &rc);
    assert_int_equal(rc, 0);
    if (member(json, "step_ns") != floor(c->predicted + 0.5))
        fail_msg("%s: %.17g ns, its command %.17g: %s", c->id, c->predicted,
                 member(json, "step_ns"), c->command);
    if (member(json, "needed_bytes") != floor(c->needed_bytes + 0.5) ||
        !prints_bytes(json, c->memory_kind, floor(c->predicted_bytes + 0.5)))
        fail_msg("%s: other memory than %.17g (%s): %s", c->id, c->predicted_bytes,
                 c->memory_kind, c->command);
}

TEST_GROUP(fixture_open, fixture_close)

TEST(commands_of_random_rows_predict_the_same)
{
    struct prng r = prng_start("rows");
    int n_run = 0, n_seen = 0;

    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) {
        char path[128];
        snprintf(path, sizeof path, "../shared/%s.csv", tables[k]);
        FILE *f = fopen(path, "r");
        if (!f) {
            print_message("SKIP no %s\n", path);
            continue;
        }
        fclose(f);
        n_seen++;
        char *text = sample(path, unit_cases(1, 14), &r);
        struct lw_input in = {.name = path, .text = text, .len = strlen(text)};
        struct lw_validation v = {0};
        struct lw_err err = {0};
        assert_ok(lw_validate_table(&in, &v, &err), err);
        for (int32_t i = 0; i < v.n_cases; i++)
            if (!v.cases[i].refused) {
                run_case(&v.cases[i]);
                n_run++;
            }
        lw_validation_free(&v);
        free(text);
    }
    print_message("%d commands\n", n_run);
    if (n_seen == 0)
        skip();
}
