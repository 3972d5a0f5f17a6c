/* A framework file that says how it differs from a known one: through the command, as users do. */
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/files/files.h"
#include "shared/framework/framework.h"
#include "tests/lib/files/file_fixture.h"

#define HEAD "{\"lapwing\": 1, \"kind\": \"framework\", \"name\": \"own\""

static void hash_of(const char *name, char hex[33])
{
    struct lw_framework f;
    struct lw_err err = {0};

    assert_ok(lw_framework_find(name, &f, &err), err);
    assert_ok(lw_framework_hash(&f, hex, &err), err);
    lw_framework_free(&f);
}

/* What a file on this base says, read. */
static struct lw_framework read_on(const char *rest)
{
    struct lw_framework f;
    struct lw_err err = {0};
    char text[1024];

    snprintf(text, sizeof text, HEAD ", \"base\": %s}", rest);
    fixture_put(fixture_path("own.json"), text);
    assert_ok(lw_framework_find(fixture_path("own.json"), &f, &err), err);
    return f;
}

TEST_WITH(a_base_alone_is_that_framework, fixture_open, fixture_close)
{
    struct lw_err err = {0};
    char name[64], known[33], own[33], rest[80];
    int n = 0;

    for (; lw_framework_known(n, name); n++) {
        snprintf(rest, sizeof rest, "\"%s\"", name);
        struct lw_framework f = read_on(rest);
        assert_string_equal(f.name, "own");
        assert_ok(lw_framework_hash(&f, own, &err), err);
        hash_of(name, known);
        assert_string_equal(own, known);
        lw_framework_free(&f);
    }
    assert_true(n > 0);
}

TEST_WITH(what_the_file_states_counts_and_the_rest_is_the_bases, fixture_open, fixture_close)
{
    struct lw_err err = {0};
    struct lw_framework base;
    struct lw_framework f = read_on(
        "\"megatron-lm\", \"without\": [\"step.step_clip\", \"usual.grad-dtype\"],"
        " \"host\": {\"host_op_ns\": {\"value\": 1.5, \"source\": \"s\"}},"
        " \"usual\": [{\"option\": \"overlap\", \"value\": \"off\", \"source\": \"s\"},"
        " {\"option\": \"cp-comm-type\", \"value\": \"all-gather\", \"source\": \"s\"}]");
    struct lw_framework_fact of_base, fact;

    assert_ok(lw_framework_find("megatron-lm", &base, &err), err);
    assert_true(lw_fact(base.step_clip));
    assert_false(lw_figure_is_set(f.step_clip));
    assert_float_equal(f.host_op_ps.value, 1500, 0);
    for (int k = 0; lw_framework_fact(&base, k, &of_base); k++) {
        assert_true(lw_framework_fact(&f, k, &fact));
        if (strcmp(fact.name, "step_clip") == 0 || strcmp(fact.name, "host_op_ns") == 0)
            continue;
        assert_float_equal(fact.figure.value, of_base.figure.value, 0);
        assert_int_equal(lw_figure_is_set(fact.figure), lw_figure_is_set(of_base.figure));
    }
    int32_t at = 0; /* the base's order, then what is new */
    for (int32_t i = 0; i < base.n_usual; i++) {
        if (strcmp(base.usual[i].option, "grad-dtype") == 0)
            continue;
        assert_string_equal(f.usual[at].option, base.usual[i].option);
        bool own = strcmp(f.usual[at].option, "cp-comm-type") == 0;
        assert_string_equal(f.usual[at].value, own ? "all-gather" : base.usual[i].value);
        at++;
    }
    assert_string_equal(f.usual[at].option, "overlap");
    assert_int_equal(f.n_usual, at + 1);
    assert_string_equal(f.version, base.version);
    lw_framework_free(&base);
    lw_framework_free(&f);
}

/* A written file is whole: it is the same where the base changes later. */
TEST_WITH(it_is_written_whole, fixture_open, fixture_close)
{
    char whole[33], own[33];

    fixture_put(fixture_path("own.json"),
                HEAD ", \"base\": \"nanotron\", \"memory\": {\"reserved\": {\"value\": 1.5,"
                     " \"source\": \"a run\"}}}");
    lapwing("framework own.json -o whole.json", NULL);
    char *text = fixture_get(fixture_path("whole.json"));
    assert_null(strstr(text, "\"base\""));
    free(text);
    hash_of(fixture_path("own.json"), own);
    hash_of(fixture_path("whole.json"), whole);
    assert_string_equal(own, whole);
    hash_of("nanotron", own);
    assert_string_not_equal(own, whole);
    expect("sim -w gpt2 -c dgx-a100 --dp 2 --no-db --framework own.json", 0, "framework own (");
}

TEST_WITH(what_cannot_be_is_named_with_its_place, fixture_open, fixture_close)
{
    static const struct {
        const char *rest, *says;
    } cases[] = {
        {"\"base\": \"nanotrn\"",
         "at base: 'nanotrn' is not a known framework (did you mean 'nanotron'?)"},
        {"\"base\": \"own.json\"", "at base: 'own.json' is not a known framework"},
        {"\"without\": [\"step.step_clip\"]", "at without: there is no base"},
        {"\"base\": \"ideal\", \"without\": [\"step.step_clip\"]",
         "at without[0]: 'step.step_clip' is not a fact or usual option of ideal"},
        {"\"base\": \"megatron-lm\", \"without\": [\"step_clip\"]",
         "at without[0]: 'step_clip' is not a fact or usual option of megatron-lm"},
        {"\"base\": \"megatron-lm\", \"without\": [\"usual.tp-overlap\"], \"usual\":"
         " [{\"option\": \"tp-overlap\", \"value\": \"off\", \"source\": \"s\"}]",
         "at without[0]: 'usual.tp-overlap' is stated in this file"},
        {"\"base\": \"torch-ddp\","
         " \"stages\": {\"even_blocks\": {\"value\": 2, \"source\": \"s\"}}",
         "at stages.even_blocks.value: found 2, allowed: 0 or 1"},
    };
    char text[512];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, HEAD ", %s}", cases[i].rest);
        fixture_put(fixture_path("own.json"), text);
        expect("framework own.json", 1, cases[i].says);
        expect("framework own.json", 1, "own.json: at ");
    }
}
