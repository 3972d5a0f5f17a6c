/* Every case of measured runs has a command: run as a process, it predicts the same step and
 * memory. Random rows of published tables, or one of each without LAPWING_MANY. */
#include "tests/lib/unit.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/evidence/runs_file.h"
#include "analysis/validate/validate_kinds.h"
#include "shared/base/arena.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/python_server.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/prng.h"

static const char *const folders[] = {"gpu-tables", "papers", "runs-2025"};

/* A published table as a file of runs: its titles and n random rows. NULL: a table of no runs. */
static char *sample(const char *path, int n, struct prng *r)
{
    char words[400], *lines[2000];
    int n_lines = 0, rc;

    snprintf(words, sizeof words, "convert.py $P/%s", path);
    char *all = strdup(python(words, &rc)), *out = calloc(1, strlen(all) + 2);

    assert_non_null(out);
    for (char *at = strtok(all, "\n"); at && n_lines < 2000; at = strtok(NULL, "\n"))
        lines[n_lines++] = at;
    if (rc != 0 || n_lines < 2) {
        free(out);
        free(all);
        return NULL;
    }
    sprintf(out, "%s\n", lines[0]);
    for (int i = 0; i < n; i++) {
        int k = 1 + (int)(prng_next(r) % (uint64_t)(n_lines - 1));
        if (lines[k])
            strcat(strcat(out, lines[k]), "\n");
        lines[k] = NULL;
    }
    free(all);
    return out;
}

static double member(const char *json, const char *key)
{
    char quoted[64];

    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(json, quoted);
    return at ? strtod(at + strlen(quoted), NULL) : NAN;
}

/* Whether sim prints the bytes, of the kind that the row names, for its fullest, first or last
 * rank. */
static bool prints_bytes(const char *json, const char *kind, double bytes)
{
    const char *memory = strstr(json, "\"framework_memory\""), *first, *last;
    char key[32];

    assert_non_null(memory);
    first = strstr(memory, "\"rank_0\"");
    last = strstr(memory, "\"last_rank\"");
    assert_non_null(first);
    assert_non_null(last);
    snprintf(key, sizeof key, "%s_bytes", kind);
    return member(memory, key) == bytes || member(first, key) == bytes ||
           member(last, key) == bytes;
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

TEST_GROUP(fixture_open, python_close)

/* How many commands were run. */
static int run_table(const char *path, int n, struct prng *r)
{
    char *text = sample(path, n, r);
    struct lw_input in = {.name = path, .text = text};
    struct lw_validation v = {0};
    struct lw_runs *runs;
    struct lw_err err = {0};
    int n_run = 0;

    if (!text)
        return 0;
    in.len = strlen(text);
    assert_ok(lw_validate_read_runs(&in, &v, &runs, &err), err);
    assert_ok(lw_validate_runs(runs, &v, &err), err);
    assert_int_equal(v.n_refusals, 0);
    lw_runs_free(runs);
    lw_free(runs);
    for (int32_t i = 0; i < v.n_cases; i++)
        if (!v.cases[i].refused) {
            run_case(&v.cases[i]);
            n_run++;
        }
    lw_validation_free(&v);
    free(text);
    return n_run;
}

TEST(commands_of_random_rows_predict_the_same)
{
    struct prng r = prng_start("rows");
    int n_run = 0, n_families = 0;

    for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
        char path[320];
        struct dirent **files;
        snprintf(path, sizeof path, "../shared/%s", folders[k]);
        int n_files = scandir(path, &files, NULL, alphasort);
        if (n_files < 0)
            print_message("SKIP no %s\n", path);
        for (int i = 0; i < n_files; i++) {
            const char *name = files[i]->d_name, *end = strrchr(name, '.');
            snprintf(path, sizeof path, "../shared/%s/%s", folders[k], name);
            int n = end && strcmp(end, ".csv") == 0 ? run_table(path, unit_cases(1, 16), &r) : 0;
            n_run += n;
            n_families += n > 0;
            free(files[i]);
        }
        if (n_files >= 0)
            free(files);
    }
    print_message("%d commands of %d families\n", n_run, n_families);
    if (n_families == 0)
        skip();
    assert_true(n_run >= unit_cases(1, 200));
}

/* Predictions that no framework changes refuse one, before anything is measured. */
TEST(a_framework_is_refused_where_it_changes_nothing)
{
    fixture_put(fixture_path("zero.csv"),
                "model,dp_degree,P_os,P_os_g,P_os_g_p\n7.5B,64,31.4,16.6,1.9\n");
    fixture_put(fixture_path("bubble.csv"),
                "model,layers,heads,hidden,seq,p,m,micro_batch,T_F,T_B,T_W,T_comm,bubble_1f1b\n"
                "m,8,8,64,64,4,8,1,1,1,1,0,0.27\n");
    fixture_put(fixture_path("nccl.csv"),
                "op,algo,nranks,nnodes,gpu,intra,inter,size_bytes,time_us,source\n"
                "all_reduce,auto,8,1,A100,NVLink,none,1048576,50,x\n");
    fixture_put(fixture_path("ddp.json"), "{\"schema\": \"lapwing-groundtruth/1\"}");
    EXPECT("validate --framework fsdp",
           {"zero.csv", 1, "zero.csv: --framework is for tables of training runs", {"formula"}},
           {"bubble.csv", 1, "bubble.csv: --framework is for", {"times of passes"}},
           {"nccl.csv", 1, "nccl.csv: --framework is for", {"without a training program"}},
           {"ddp.json", 1, "ddp.json: --framework is for", {"records times"}},
           {"--here", 2, "--framework does not go with --here: the rows run in Lapwing's own"},
           {"nccl.csv --fit-curves x.c", 2, "--framework does not go with --fit-curves"});
}
