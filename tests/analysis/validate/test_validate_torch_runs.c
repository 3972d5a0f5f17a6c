/* Measured runs of torch.distributed: that a prediction knows nothing of the result, that its
 * command predicts the same, and that the visible model is within its bars. */
#include "tests/lib/unit.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/validate/validate_kinds.h"
#include "shared/cluster/measured.h"
#include "shared/files/files.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

#define FOLDER "../shared/groundtruth-torch"

static const char *const nets[] = {"1g", "500m"};

static void needs_files(void)
{
    if (access(FOLDER "/gpt__1g.json", R_OK) != 0) {
        print_message("SKIP no " FOLDER "\n");
        skip();
    }
}

static const char *file_of(const char *net)
{
    static char name[128];

    snprintf(name, sizeof name, FOLDER "/gpt__%s.json", net);
    return name;
}

static void add_file(const char *name, struct lw_validation *v)
{
    struct lw_validate_file f;
    struct lw_err err = {0};

    assert_ok(lw_validate_open(name, v, &f, &err), err);
    assert_ok(lw_validate_add(&f, v, &err), err);
    lw_validate_close(&f);
}

static void validated(const char *file, struct lw_validation *v)
{
    struct lw_err err = {0};

    *v = (struct lw_validation){0};
    add_file(file, v);
    assert_ok(lw_validation_judge(v, &err), err);
}

/* --- bars --- */

TEST(the_visible_model_is_within_its_bars_and_in_order)
{
    struct lw_validation v = {0};
    struct lw_err err = {0};

    needs_files();
    for (size_t i = 0; i < 2; i++)
        add_file(file_of(nets[i]), &v);
    assert_ok(lw_validation_judge(&v, &err), err);
    assert_int_equal(v.n_cases, 29);
    assert_int_equal(v.n_misses, 0);
    assert_true(v.families[0].n_pairs >= 14);
    assert_int_equal(v.families[0].n_right, v.families[0].n_pairs);
    assert_true(v.families[0].mean_abs_pct < 3);
    assert_true(v.families[0].max_abs_pct < 7);
    /* peaks of the processes: without communication, and DDP with 25 MiB, on both nets */
    assert_string_equal(v.families[1].name, "torch runs, peak RSS");
    assert_int_equal(v.families[1].n, 4);
    assert_true(v.families[1].mean_abs_pct < 1.2);
    assert_true(v.families[1].max_abs_pct < 2.1);
    lw_validation_free(&v);
}

/* --- nothing measured enters --- */

/* Every number after this key is doubled, in place of the file's. */
static char *doubled(const char *text, const char *key)
{
    char *out = calloc(2, strlen(text) + 1);
    size_t used = 0, n = strlen(key);
    const char *at = text, *next;

    assert_non_null(out);
    while ((next = strstr(at, key)) != NULL) {
        char *end;
        double x = strtod(next + n, &end);
        memcpy(out + used, at, (size_t)(next + n - at));
        used += (size_t)(next + n - at);
        if (end != next + n)
            used += (size_t)sprintf(out + used, "%.15g", 2 * x);
        at = end;
    }
    strcpy(out + used, at);
    return out;
}

/* The steps by configuration. */
static char *doubled_steps(const char *text)
{
    char *out = calloc(2, strlen(text) + 1), *end;
    const char *from = strstr(text, "\"step_s\""), *to = from ? strchr(from, '}') : NULL;
    const char *at = from;

    assert_non_null(to);
    assert_non_null(out);
    memcpy(out, text, (size_t)(from - text));
    char *put = out + (from - text);
    while (at < to) {
        double x = at[-1] == ' ' && isdigit((unsigned char)*at) ? strtod(at, &end) : -1;
        if (x < 0)
            *put++ = *at++;
        else {
            put += sprintf(put, "%.9g", 2 * x);
            at = end;
        }
    }
    strcpy(put, to);
    return out;
}

TEST(doubled_measurements_move_no_prediction)
{
    struct lw_validation a, b;

    needs_files();
    for (size_t i = 0; i < 2; i++) {
        char *text = fixture_get(file_of(nets[i]));
        char *once = doubled_steps(text), *steps = doubled(once, "\"median\": ");
        char *all = doubled(steps, "\"peak_rss_bytes\": ");
        shell("rm -rf d && mkdir d && ln -s $P/" FOLDER "/local $P/" FOLDER "/*.json d/ && "
              "rm d/gpt__*", NULL);
        char name[64];
        snprintf(name, sizeof name, "d/gpt__%s.json", nets[i]);
        fixture_put(fixture_path(name), all);
        validated(file_of(nets[i]), &a);
        validated(fixture_path(name), &b);
        assert_int_equal(a.n_cases, b.n_cases);
        for (int32_t k = 0; k < a.n_cases; k++) {
            assert_string_equal(a.cases[k].id, b.cases[k].id);
            assert_true(a.cases[k].predicted == b.cases[k].predicted);
            double twice = b.cases[k].measured / a.cases[k].measured;
            assert_true(twice > 1.9999 && twice < 2.0001);
        }
        lw_validation_free(&a);
        lw_validation_free(&b);
        free(all);
        free(steps);
        free(once);
        free(text);
    }
}

/* --- commands --- */

static double step_of(const char *json)
{
    const char *at = strstr(json, "\"step_ns\": ");

    assert_non_null(at);
    return strtod(at + strlen("\"step_ns\": "), NULL);
}

/* "lapwing" becomes $L, and the folder the project's. */
static void put_command(const char *command, char *out, size_t size)
{
    size_t used = 0;

    for (const char *at = command; *at && used + 16 < size;) {
        bool word = at == command || at[-1] == ' ';
        const char *with = word && strncmp(at, "lapwing ", 8) == 0           ? "$L"
                           : word && strncmp(at, FOLDER, strlen(FOLDER)) == 0 ? "$P/" FOLDER
                                                                              : NULL;
        if (with) {
            used += (size_t)snprintf(out + used, size - used, "%s", with);
            at += with[1] == 'L' ? 7 : strlen(FOLDER);
        } else {
            out[used++] = *at++;
        }
    }
    snprintf(out + used, size - used, " --no-db --format json");
}

TEST(each_cases_command_predicts_the_same_step)
{
    struct lw_validation v;
    char line[2048];

    needs_files();
    for (size_t i = 0; i < 2; i++) {
        validated(file_of(nets[i]), &v);
        double planned = 0, predicted = 0; /* peaks: what one has more than the other */
        for (int32_t k = 0; k < v.n_cases; k++) {
            bool peak = strcmp(v.cases[k].unit, "B") == 0;
            put_command(v.cases[k].command, line, sizeof line);
            const char *out = shell(line, NULL), *json = strstr(out, "{\n");
            if (!json || (!peak && step_of(json) != v.cases[k].predicted))
                fail_msg("%s: predicted %.0f, but %s", v.cases[k].id, v.cases[k].predicted, line);
            if (peak) {
                planned = number_after(json, "\"peak_memory_bytes\": ") - planned;
                predicted = v.cases[k].predicted - predicted;
            }
        }
        assert_true(planned == predicted && planned > 23e6 && planned < 24e6);
        lw_validation_free(&v);
    }
}

TEST(commands_are_printed)
{
    int rc;

    needs_files();
    const char *json = lapwing("validate $P/" FOLDER "/gpt__1g.json --format json", &rc);
    assert_int_equal(rc, 0);
    assert_non_null(strstr(json, "\"command\": \"lapwing import "));
    assert_non_null(strstr(json, "--framework torch-fsdp2 --dp 2 --units children"));
}

/* The four operations as CSV make the cluster that the JSON makes. */
TEST(links_as_csv_predict_the_same)
{
    static const char *const strategies[] = {
        "-w w.json --framework torch-ddp --dp 2 --bucket-cap 1MiB",
        "-w w.json --framework torch-fsdp2 --dp 2",
        "-w w.json --framework torch-pipelining --pp 2 --micro-batches 4",
    };
    struct lw_cluster c;
    struct lw_err err = {0};
    int rc;

    needs_files();
    shell("$L import $P/" FOLDER "/local/gpt_b2.rank0.json.gz -o w.json --force && "
          "$L import $P/" FOLDER "/net__1g.json --ranks 2 --nodes 2 --cluster-out c.json --force",
          NULL);
    assert_ok(lw_cluster_read(fixture_path("c.json"), &c, &err), err);
    FILE *f = fopen(fixture_path("net.csv"), "w");
    assert_non_null(f);
    fprintf(f, "op,nranks,nnodes,size_bytes,time_us\n");
    for (int32_t i = 0; i < c.n_tables; i++)
        for (int32_t k = 0; k < c.tables[i].n_rows; k++)
            fprintf(f, "%s,2,2,%lld,%.6f\n",
                    c.tables[i].op == LW_OP_SEND ? "send_recv" : lw_op_name(c.tables[i].op),
                    (long long)c.tables[i].bytes[k], (double)c.tables[i].time_ps[k] / 1e6);
    fclose(f);
    lw_cluster_free(&c);
    shell("$L import net.csv --cluster-out csv.json --force", NULL);
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        double step[2];
        for (int csv = 0; csv < 2; csv++) {
            char line[256];
            snprintf(line, sizeof line, "sim %s -c %s --no-db --format json", strategies[i],
                     csv ? "csv.json" : "c.json");
            step[csv] = step_of(lapwing(line, &rc));
            assert_int_equal(rc, 0);
        }
        assert_true(step[0] == step[1]);
    }
}

/* A configuration that no plan has is passed over with its reason, and the others are predicted. */
TEST(what_cannot_be_planned_is_passed_over)
{
    struct lw_validation v;

    needs_files();
    char *text = fixture_get(file_of("1g"));
    char *other = fixture_replaced(text, "\"schedule\": \"gpipe\"", "\"schedule\": \"spiral\"");
    shell("rm -rf d && mkdir d && ln -s $P/" FOLDER "/local $P/" FOLDER "/*.json d/ && "
          "rm d/gpt__*", NULL);
    fixture_put(fixture_path("d/gpt__1g.json"), other);
    validated(fixture_path("d/gpt__1g.json"), &v);
    assert_int_equal(v.n_cases, 16);
    assert_int_equal(v.n_skips, 1);
    assert_non_null(strstr(v.skips[0].reason, "spiral"));
    lw_validation_free(&v);
    free(other);
    free(text);
}

/* --- what lacks --- */

#define RUN(config) "{\"model\": \"m\", \"net\": \"n\", \"step_s\": {\"x\": 0.5}, " \
                    "\"ranks\": [{\"x\": " config "}, {}]}"

TEST(what_a_file_lacks_is_named)
{
    int rc;

    shell("rm -rf e && mkdir e", NULL);
    fixture_put(fixture_path("e/m__n.json"), RUN("{\"kind\": \"ddp\", \"batch\": 8}"));
    expect("validate e/m__n.json", 1, "e/local.json");
    fixture_put(fixture_path("e/local.json"), "{\"local\": {}}");
    expect("validate e/m__n.json", 1, "net__n.json");
    fixture_put(fixture_path("e/m__n.json"), RUN("{\"kind\": \"ddp\"}"));
    expect("validate e/m__n.json", 1, "needs \"kind\" and \"batch\"");
    fixture_put(fixture_path("e/m__n.json"), RUN("{\"kind\": \"ddp\", \"batch\": 8}"));
    fixture_put(fixture_path("e/net__n.json"),
                "{\"ops\": {\"all_reduce\": [{\"bytes\": 8, \"median\": 0.001}]}}");
    const char *out = lapwing("validate e/m__n.json", &rc);
    if (!strstr(out, "no recording of model 'm' with batch 8"))
        fail_msg("%s", out);
}

TEST_GROUP(fixture_open, fixture_close)
