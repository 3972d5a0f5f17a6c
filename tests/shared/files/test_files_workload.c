/* Workload files: the documented example, round trips, and what is refused in which words. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/files/files.h"
#include "shared/workload/buffer.h"
#include "shared/workload/sparse.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"

static const char example_page[] = "docs/formats/workload.md";

/* An empty list is as none: what times kernels reads it where it is there. */
TEST(an_empty_list_of_gradients_kernels_is_none)
{
    char *text = fixture_example(example_page);
    char *empty = fixture_replaced(text, "\"ready_order\"", "\"grad_kernel\": [], \"ready_order\"");
    struct lw_workload w;
    struct lw_err err = {0};

    fixture_put(fixture_path("w.json"), empty);
    assert_ok(lw_workload_read(fixture_path("w.json"), &w, &err), err);
    assert_int_equal(w.n_grad_kernels, 0);
    assert_null(w.grad_kernel);
    lw_workload_free(&w);
    free(empty);
    free(text);
}

TEST(documented_example_reads_as_described)
{
    char *text = fixture_example(example_page);
    struct lw_workload w;
    struct lw_err err = {0};
    fixture_put(fixture_path("w.json"), text);
    assert_ok(lw_workload_read(fixture_path("w.json"), &w, &err), err);
    assert_string_equal(w.name, "two-layer example");
    assert_int_equal(w.n_modules, 2);
    assert_int_equal(w.modules[0].forward_ps, 10000125); /* 10000.125 ns */
    assert_int_equal(w.modules[0].forward_flops, -1);
    assert_int_equal(w.modules[0].tp_split, LW_TP_VOCAB);
    assert_int_equal(w.modules[1].kept_bytes[LW_RECOMPUTE_FULL], 0);
    assert_int_equal(w.modules[0].kept_bytes[LW_RECOMPUTE_FULL], -1);
    assert_int_equal(w.n_params, 5);
    assert_int_equal(w.params[1].dtype, LW_BF16);
    assert_int_equal(w.params[2].ready_ps, 33000000);
    assert_false(w.params[3].used);
    assert_int_equal(w.params[3].ready_ps, -1);
    assert_int_equal(w.params[4].tied, 0);
    assert_int_equal(w.buffers[0].dtype, LW_I64);
    assert_int_equal(w.ready_order[0], 2);
    assert_int_equal(w.recorded.limit_bytes[1], 26214400);
    assert_int_equal(w.recorded.step_spread_ps, -1);
    assert_int_equal(w.from.step, -1);
    assert_int_equal(w.gap_ps[LW_GAP_BEFORE_OPTIMIZER], 250500);
    assert_string_equal(w.notes[0], "median of 5 steps");
    /* forward 10000.125 + 20000; backward 0 + 30000 + 20000.375 + 20000; optimizer 40000;
     * gaps 1500 + 250.5: 30000.125 + 70000.375 + 40000 + 1750.5 = 141751 ns */
    assert_int_equal(lw_workload_forward_ps(&w), 30000125);
    assert_int_equal(lw_workload_backward_ps(&w), 70000375);
    assert_int_equal(lw_workload_step_ps(&w), 141751000);
    /* tied head counted once: 1024 + 1024 + 16 + 16; trainable without fc.scale */
    assert_int_equal(lw_workload_numel(&w, false), 2080);
    assert_int_equal(lw_workload_numel(&w, true), 2064);

    /* and is written as it stands on the page */
    assert_int_equal(lw_workload_write(&w, fixture_path("again.json"), &err), LW_OK);
    char *again = fixture_written(fixture_path("again.json"));
    assert_string_equal(again, text);
    free(again);
    free(text);
    lw_workload_free(&w);
}

TEST(damaged_files_are_refused_by_place)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"\"lapwing\": 1", "\"lapwing\": 2",
         "at lapwing (byte 15): found file version 2, allowed: 1"},
        {"\"lapwing\": 1,", "",
         "found no \"lapwing\" and \"kind\", expected \"lapwing\": 1 and \"kind\": \"workload\"; "
         "`lapwing import` makes one of a recording, `lapwing model` of a config.json"},
        {"\"kind\": \"workload\"", "\"kind\": \"plan\"",
         "at kind: found \"plan\", expected \"workload\""},
        {"\"batch\": 8", "\"batch\": -8", "at batch (byte 318): found -8, allowed: 0 or more"},
        {"\"batch\": 8", "\"batch\": \"8\"",
         "at batch (byte 318): found string \"8\", expected an integer"},
        {"\"batch\": 8", "\"bach\": 8",
         "at bach (byte 317): unknown field (did you mean 'batch'?); allowed: lapwing, kind, "
         "content_hash, name, from, "
         "notes, dims, batch, sample_tokens, heads, kv_heads, attention_flops, score_flops, "
         "idle_numel, optimizer, optimizer_ns, "
         "gradients_ns, gap_before_forward_ns, "
         "gap_before_backward_ns, gap_before_optimizer_ns, "
         "gap_after_optimizer_ns, recorded, products, products_tp, products_cp, ops, "
         "update_bytes, held_bytes, host_bytes, state_bytes, kernels, "
         "modules, params, sparse, buffers, ready_order, grad_kernel"},
        {"\"format\": \"kineto\"", "\"made_for\": {\"tp\": 9223372036854775807}",
         "at from.made_for.tp (byte 106): found 9223372036854775807, allowed: 0 to 4194304"},
        {"\"format\": \"kineto\"", "\"made_for\": {\"cp\": 2147483647}",
         "at from.made_for.cp (byte 106): found 2147483647, allowed: 0 to 4194304"},
        {"\"batch\": 8,", "\"dims\": {\"batch\": 9223372036854775807},",
         "at dims.batch (byte 327): found 9223372036854775807, allowed: 0 to 16777216"},
        {"\"batch\": 8,", "\"dims\": {\"pair_grad_bytes\": 9223372036854775807},",
         "at dims.pair_grad_bytes (byte 337): found 9223372036854775807, allowed: 0 to "
         "1125899906842624"},
        {"\"batch\": 8", "\"batch\": 8, \"batch\": 9", "at batch (byte 330): field given twice"},
        {"1500,", "1500.0001,",
         "at gap_before_forward_ns (byte 373): found 1500.0001, expected "
         "nanoseconds with at most 3 decimals, below 9.2e15"},
        {"1500,", "1e3,",
         "at gap_before_forward_ns (byte 373): found 1e3, expected "
         "nanoseconds with at most 3 decimals, below 9.2e15"},
        {"1500,", "\"1500\",",
         "at gap_before_forward_ns (byte 373): found 1500, expected "
         "nanoseconds with at most 3 decimals, below 9.2e15"},
        {"1500,", "9300000000000000,",
         "at gap_before_forward_ns (byte 373): found 9300000000000000, expected "
         "nanoseconds with at most 3 decimals, below 9.2e15"},
        {"1500,", "-0.5,",
         "at gap_before_forward_ns (byte 373): found -0.5, allowed: 0 ns or more"},
        {"\"numel\": 16", "\"numel\": -16",
         "at params[2].numel (byte 1220): found -16, allowed: 0 or more"},
        {"\"numel\": 16, ", "", "at params[2] (byte 1191): the field \"numel\" is missing"},
        {"\"bf16\"", "\"float17\"",
         "at params[1].dtype (byte 1143): found \"float17\", allowed: f32, f64, f16, bf16, i64, "
         "i32, u8"},
        {"\"row\"", "\"rows\"",
         "at modules[1].tp_split (byte 986): found \"rows\", allowed: "
         "replicated, column, row, vocab, block"},
        {"\"tp_split\": \"row\"", "\"whole_forward_ns\": 20000.001",
         "at modules[1].whole_forward_ps: found 20000001, allowed: 0 to what the module has in "
         "all"},
        {"\"tp_split\": \"row\"", "\"tp_column_ns\": 15000, \"tp_row_ns\": 5000.001",
         "at modules[1].tp_column_ns: found 15000.000 and tp_row_ns 5000.001, allowed: together "
         "the module's forward_ns, 20000.000, or less"},
        {"\"tp_split\": \"row\"", "\"attention_start_ns\": 12000, \"attention_ns\": 8000.001",
         "at modules[1].attention_ns: found 8000.001 from attention_start_ns 12000.000 on, "
         "allowed: a part of the module's 20000.000"},
        {"\"tp_split\": \"row\"", "\"attention_backward_ns\": 40000.376",
         "at modules[1].attention_backward_ns: found 40000.376 from attention_backward_start_ns "
         "0.000 on, allowed: a part of the module's 40000.375"},
        {"\"kept_bytes_full\": 0", "\"kept_bytes_full\": 0, \"whole_kept_bytes_full\": 1",
         "at modules[1].whole_kept_bytes_full: found 1, allowed: 0 to what the module has in all"},
        {"\"tied\": 0", "\"tp_split\": \"block\"",
         "at params[4].tp_split: found 4, allowed: 0 to 3"},
        {"\"module\": 0", "\"module\": 2", "at params[0].module: found 2, allowed: 0 to 1"},
        {"\"tied\": 0", "\"tied\": 4", "at params[4].tied: found 4, allowed: -1 to 3"},
        {"\"tied\": 0", "\"tied\": 1",
         "at params[4].tied: found 1, allowed: a parameter of the same size and dtype"},
        {"\"tied\": 0", "\"tied\": 0, \"trainable\": false",
         "at params[4].tied: found 0, allowed: a parameter with the same \"trainable\""},
        {"33000}", "70000.376}",
         "at params[2].ready_ns: found 70000.376, allowed: 0 to the length "
         "of the backward, 70000.375"},
        {"\"used\": false", "\"used\": false, \"ready_ns\": 1",
         "at params[3].ready_ns: found 1.000, allowed: none for a parameter without a gradient "
         "(not trainable or not used)"},
        {"[2, 1, 0]", "[2, 1]",
         "at ready_order: found 2 parameters, expected all 3 that get a "
         "gradient, or none"},
        {"[2, 1, 0]", "[2, 1, 1]", "at ready_order[2]: found 1 (fc.weight) a second time"},
        {"[2, 1, 0]", "[2, 1, 5]", "at ready_order[2]: found 5, allowed: 0 to 4"},
        {"[2, 1, 0]", "[2, 1, 3]",
         "at ready_order[2]: found 3 (fc.scale), which has no gradient of its own (not trainable, "
         "not used, or tied to another)"},
        {"[2, 1, 0]", "[1, 2, 0]",
         "at ready_order[1]: parameter 2 is ready at 33000.000 ns, before the one before it "
         "(40000.250 ns)"},
        {"[2, 1, 0]", "[2, 1, 0", "at ready_order[2] (byte 1531): found '}', expected ',' or ']'"},
        {"[2, 1, 0]\n}", "[2, 1, 0]\n} {",
         "at the top level (byte 1534): found an object, "
         "expected the end of the text"},
        {"20000.375", "9223372036854775", "at modules: the times add up to more than 106 days"},
        {"\"numel\": 1024, \"module\": 0", "\"numel\": 9223372036854775807, \"module\": 0",
         "at params[0].numel: all sizes together are beyond 2^59"},
        {"\"batch\": 8", "\"batch\": 1099511627776",
         "at batch: found 1099511627776, allowed: 0 to 1099511627775"},
        {"\"batch\": 8", "\"batch\": 8, \"sample_tokens\": 137438953472",
         "at sample_tokens: found 137438953472, allowed: 0 to 137438953471"},
        {"\"batch\": 8", "\"batch\": 8, \"dims\": {\"experts_in_turn\": true}",
         "at dims.n_experts: found 0, allowed: 1 or more with experts_in_turn"},
        {"\"batch\": 8", "\"batch\": 8, \"dims\": {\"n_experts\": 65537}",
         "at dims.n_experts (byte 343): found 65537, allowed: 0 to 65536"},
        {"\"kept_bytes\": 4096,", "\"kept_bytes\": 576460752303415296,",
         "at modules[1].kept_bytes: found 576460752303415296, all sizes together are beyond 2^59"},
        {"\"tp_split\": \"row\"", "\"kv_bytes\": 4611686018427387904",
         "at modules[1].kv_bytes: found 4611686018427387904, all sizes together are beyond 2^59"},
    };
    char *text = fixture_example(example_page);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_err err = {0};
        struct lw_workload w = {.name = "untouched"};
        char *bad = fixture_replaced(text, cases[i].from, cases[i].to), expected[600];
        const char *path = fixture_path("w.json");
        fixture_put(path, bad);
        assert_int_equal(lw_workload_read(path, &w, &err), LW_EFORMAT);
        snprintf(expected, sizeof expected, "%s: %s", path, cases[i].message);
        assert_string_equal(err.msg, expected);
        assert_string_equal(w.name, "untouched");
        free(bad);
    }
    free(text);
}

TEST(missing_modules_and_absent_files_are_refused)
{
    struct lw_err err = {0};
    struct lw_workload w;
    char expected[300];
    const char *path = fixture_path("none.json");
    assert_int_equal(lw_workload_read(path, &w, &err), LW_EIO);
    snprintf(expected, sizeof expected, "%s: cannot open: No such file or directory", path);
    assert_string_equal(err.msg, expected);
    fixture_put(path, "{\"kind\":\"workload\",\"lapwing\":1,\"name\":\"x\"}");
    assert_int_equal(lw_workload_read(path, &w, &err), LW_EFORMAT);
    snprintf(expected, sizeof expected, "%s: at modules: found 0, allowed: at least 1 module",
             path);
    assert_string_equal(err.msg, expected);
}

TEST(kind_is_found_wherever_it_stands)
{
    static const struct {
        const char *text, *kind;
    } cases[] = {
        {"{\"lapwing\":1,\"kind\":\"plan\",", "plan"},
        {"{\"name\":\"x\",\"kind\":\"workload\",\"lapwing\":1}", "workload"},
        {"{\"traceEvents\":[]}", ""},
        {"{\"kind\":\"plan\"}", ""},
        {"[1]", ""},
        {"P1 G1", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char kind[16] = "unset";
        struct lw_err err = {0};
        fixture_put(fixture_path("k"), cases[i].text);
        assert_int_equal(lw_file_kind(fixture_path("k"), kind, &err), LW_OK);
        assert_string_equal(kind, cases[i].kind);
    }
}

/* --- round trips of random workloads ---------------------------------------------------------- */

static int64_t up_to(int64_t n)
{
    return n > 0 ? (int64_t)(((uint64_t)rand() << 31 | (uint64_t)rand()) % (uint64_t)n) : 0;
}

static const char *random_name(struct lw_arena *a)
{
    static const char *const parts[] = {"layer", ".", "0", "\"", "\\", "\n", "\xc3\xa9", "\t", ""};
    char text[40] = "";
    for (int i = 0; i < 4; i++)
        strcat(text, parts[up_to(9)]);
    return lw_arena_strdup(a, text);
}

static void random_modules(struct lw_workload *w)
{
    w->n_modules = 1 + (int32_t)up_to(6);
    w->modules = lw_arena_alloc(&w->arena, w->n_modules, sizeof *w->modules);
    for (int32_t i = 0; i < w->n_modules; i++)
        w->modules[i] = (struct lw_module){
            .name = random_name(&w->arena),
            .forward_ps = up_to(1 << 30),
            .backward_input_ps = up_to(2) * up_to(1 << 30),
            .backward_weight_ps = up_to(INT64_C(1) << 40),
            .forward_flops = up_to(3) - 1,
            .forward_bytes = up_to(INT64_C(1) << 50) - 1,
            .output_bytes = -1,
            .kept_bytes = {up_to(100), -1, 0},
            .selective_ps = up_to(2) * up_to(1 << 20),
            .tp_split = (enum lw_tp_split)up_to(LW_N_TP_SPLITS),
            .tp_calls = (int32_t)up_to(3),
            .tp_forward_bytes = up_to(2),
            .tp_backward_bytes = up_to(1 << 20),
        };
    for (int32_t i = 0; i < w->n_modules; i++) {
        struct lw_module *m = &w->modules[i];
        m->unrepeated_ps = up_to(m->forward_ps + 1);
        m->whole_forward_ps = up_to(m->forward_ps + 1);
        m->whole_input_ps = up_to(m->backward_input_ps + 1);
        m->whole_weight_ps = up_to(m->backward_weight_ps + 1);
        m->whole_kept_bytes[LW_RECOMPUTE_NONE] = up_to(m->kept_bytes[LW_RECOMPUTE_NONE] + 1);
    }
}

static void random_params(struct lw_workload *w)
{
    lw_ps backward = lw_workload_backward_ps(w), ready = 0;
    w->n_params = (int32_t)up_to(20);
    w->params = lw_arena_alloc(&w->arena, w->n_params, sizeof *w->params);
    w->ready_order = lw_arena_alloc(&w->arena, w->n_params, sizeof *w->ready_order);
    for (int32_t i = w->n_params - 1; i >= 0; i--) {
        struct lw_param *p = &w->params[i];
        *p = (struct lw_param){.name = random_name(&w->arena),
                               .numel = up_to(1 << 20),
                               .dtype = (enum lw_dtype)up_to(LW_N_DTYPES),
                               .module = (int32_t)up_to(w->n_modules),
                               .device = (int32_t)up_to(2),
                               .tied = -1,
                               .tp_split = (enum lw_tp_split)up_to(LW_TP_BLOCK),
                               .trainable = up_to(4) > 0,
                               .sparse = up_to(2),
                               .used = up_to(4) > 0,
                               .ignored = up_to(2),
                               .ready_ps = -1};
        if (!lw_param_has_gradient(p))
            continue;
        if (up_to(3) > 0) {
            ready += up_to(backward - ready + 1);
            p->ready_ps = ready;
        }
        w->ready_order[w->n_ready++] = i;
    }
    if (up_to(4) == 0)
        w->n_ready = 0;
}

static void random_sparse(struct lw_workload *w)
{
    w->sparse = lw_arena_alloc(&w->arena, w->n_params, sizeof *w->sparse);
    for (int32_t i = 0; i < w->n_params; i++)
        if (w->params[i].sparse && w->params[i].numel % 2 == 0 && w->params[i].numel > 0)
            w->sparse[w->n_sparse++] =
                (struct lw_sparse){i, 2, 1 + (int32_t)up_to(w->params[i].numel / 2)};
}

static struct lw_workload random_workload(void)
{
    struct lw_workload w = {.batch = up_to(100),
                            .optimizer = (enum lw_optimizer)up_to(LW_N_OPTIMIZERS),
                            .optimizer_ps = up_to(1 << 30)};
    w.name = random_name(&w.arena);
    random_modules(&w);
    random_params(&w);
    random_sparse(&w);
    w.n_buffers = (int32_t)up_to(3);
    w.buffers = lw_arena_alloc(&w.arena, w.n_buffers, sizeof *w.buffers);
    for (int32_t i = 0; i < w.n_buffers; i++)
        w.buffers[i] = (struct lw_buffer){random_name(&w.arena), up_to(99), LW_I64, up_to(2)};
    for (int g = 0; g < LW_N_GAPS; g++)
        w.gap_ps[g] = up_to(2) * up_to(1 << 20);
    w.recorded =
        (struct lw_recorded){(int32_t)up_to(3), up_to(1000) - 1, up_to(1000) - 1, 0, 0, NULL, NULL};
    w.from = (struct lw_provenance){random_name(&w.arena), "", NULL, "cpu", "",
                                    (int32_t)up_to(3) - 1, -1};
    return w;
}

/* Layers of a request, in an array of the request itself. */
static struct lw_workload with_layers(size_t n)
{
    struct lw_workload w = random_workload();

    w.from.model.name = "nemotron-h-8b";
    memset(w.from.model.layer_pattern, 'M', n);
    w.from.model.ssm_state = 64;
    return w;
}

TEST(a_pattern_of_layers_is_read_as_it_was_written)
{
    struct lw_err err = {0};
    struct lw_workload w = with_layers(LW_MODEL_LAYERS_SIZE - 1), r;

    assert_ok(lw_workload_write(&w, fixture_path("layers.json"), &err), err);
    assert_ok(lw_workload_read(fixture_path("layers.json"), &r, &err), err);
    assert_string_equal(r.from.model.layer_pattern, w.from.model.layer_pattern);
    assert_int_equal(r.from.model.ssm_state, 64);
    lw_workload_free(&w);
    lw_workload_free(&r);
}

TEST(a_pattern_longer_than_its_array_is_refused)
{
    struct lw_err err = {0};
    struct lw_workload w = with_layers(3), r;
    char layers[LW_MODEL_LAYERS_SIZE + 9], *text;

    memset(layers, 0, sizeof layers);
    memset(layers, '"', 1);
    memset(layers + 1, 'M', LW_MODEL_LAYERS_SIZE);
    layers[LW_MODEL_LAYERS_SIZE + 1] = '"';
    assert_ok(lw_workload_write(&w, fixture_path("layers.json"), &err), err);
    char *written = fixture_written(fixture_path("layers.json"));
    text = fixture_replaced(written, "\"MMM\"", layers);
    fixture_put(fixture_path("long.json"), text);
    free(written);
    free(text);
    assert_int_equal(lw_workload_read(fixture_path("long.json"), &r, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "at from.model.layer_pattern"));
    assert_non_null(strstr(err.msg, "found 256 characters, allowed: at most 255"));
    lw_workload_free(&w);
}

TEST(random_workloads_survive_writing_and_reading)
{
    unsigned seed = 7;
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 300; round++) {
        struct lw_err err = {0};
        struct lw_workload w = random_workload(), r;
        if (lw_workload_write(&w, fixture_path("a.json"), &err) != LW_OK ||
            lw_workload_read(fixture_path("a.json"), &r, &err) != LW_OK)
            fail_msg("round %d: %s", round, err.msg);
        assert_string_equal(r.name, w.name);
        assert_int_equal(r.n_modules, w.n_modules);
        assert_int_equal(r.n_params, w.n_params);
        assert_int_equal(r.n_ready, w.n_ready);
        assert_int_equal(r.optimizer, w.optimizer);
        for (int32_t i = 0; i < w.n_modules; i++) {
            assert_string_equal(r.modules[i].name, w.modules[i].name);
            assert_memory_equal((const char *)&r.modules[i] + sizeof(char *),
                                (const char *)&w.modules[i] + sizeof(char *),
                                sizeof *w.modules - sizeof(char *));
        }
        for (int32_t i = 0; i < w.n_params; i++) {
            assert_string_equal(r.params[i].name, w.params[i].name);
            assert_int_equal(r.params[i].ready_ps, w.params[i].ready_ps);
            assert_int_equal(r.params[i].used, w.params[i].used);
            assert_int_equal(r.params[i].tp_split, w.params[i].tp_split);
            assert_int_equal(r.params[i].module, w.params[i].module);
        }
        assert_int_equal(r.n_sparse, w.n_sparse);
        assert_memory_equal(r.sparse, w.sparse, (size_t)w.n_sparse * sizeof *w.sparse);
        assert_memory_equal(r.ready_order, w.ready_order, (size_t)w.n_ready * sizeof(int32_t));
        assert_memory_equal(r.gap_ps, w.gap_ps, sizeof w.gap_ps);
        assert_int_equal(lw_workload_write(&r, fixture_path("b.json"), &err), LW_OK);
        char *a = fixture_get(fixture_path("a.json")), *b = fixture_get(fixture_path("b.json"));
        assert_string_equal(a, b);
        free(a);
        free(b);
        lw_workload_free(&w);
        lw_workload_free(&r);
    }
}

static enum lw_status read_and_write(const char *in, const char *out)
{
    struct lw_err err = {0};
    struct lw_workload w = {0};
    enum lw_status s = lw_workload_read(in, &w, &err);

    if (s == LW_OK)
        s = lw_workload_write(&w, out, &err);
    if (s != LW_OK)
        assert_string_equal(err.msg, "out of memory");
    lw_workload_free(&w);
    return s;
}

/* --- memory and disks that run out ------------------------------------------------------------ */

TEST(failing_allocations_leave_nothing)
{
    char *text = fixture_example(example_page);

    fixture_put(fixture_path("w.json"), text);
    EACH_ALLOCATION_FAILS_IN(8, read_and_write(fixture_path("w.json"), fixture_path("out.json")));
    free(text);
}

TEST(full_disk_and_missing_folder_are_reported)
{
    struct lw_err err = {0};
    struct lw_workload w;
    char *text = fixture_example(example_page);
    fixture_put(fixture_path("w.json"), text);
    assert_int_equal(lw_workload_read(fixture_path("w.json"), &w, &err), LW_OK);
    assert_int_equal(lw_workload_write(&w, "/dev/full", &err), LW_EIO);
    assert_string_equal(err.msg, "/dev/full: cannot write: No space left on device");
    assert_int_equal(lw_workload_write(&w, fixture_path("no/such.json"), &err), LW_EIO);
    assert_non_null(strstr(err.msg, "no/such.json: cannot write: No such file or directory"));
    w.batch = -1;
    assert_int_equal(lw_workload_write(&w, fixture_path("bad.json"), &err), LW_EFORMAT);
    assert_string_equal(err.msg, "at batch: found -1, allowed: 0 to 1099511627775");
    FILE *f = fopen(fixture_path("bad.json"), "r");
    assert_null(f);
    lw_workload_free(&w);
    free(text);
}

TEST_GROUP(fixture_open, fixture_close)
