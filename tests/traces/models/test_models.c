/* Parametric models: parameters exactly as registered, times exactly the roofline's. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/files/files.h"
#include "shared/workload/buffer.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/plans/resnet50_sizes.h"
#include "tests/lib/traces/model_help.h"
#include "traces/models/models.h"

MODEL_TEST(resnet50_has_the_parameters_of_torchvision)
{
    static const struct {
        int32_t index;
        const char *name;
    } names[] = {
        {0, "conv1.weight"},
        {1, "bn1.weight"},
        {2, "bn1.bias"},
        {3, "layer1.0.conv1.weight"},
        {9, "layer1.0.conv3.weight"},
        {11, "layer1.0.bn3.bias"},
        {12, "layer1.0.downsample.0.weight"}, /* registered after bn3 */
        {14, "layer1.0.downsample.1.bias"},
        {15, "layer1.1.conv1.weight"},
        {33, "layer2.0.conv1.weight"}, /* 3 + 12 + 9 + 9 */
        {159, "fc.weight"},
        {160, "fc.bias"},
    };
    struct lw_workload w = MODEL("resnet50", 0);
    int64_t expected[RESNET50_PARAMS], sum = 0;
    resnet50_sizes(expected);
    assert_int_equal(w.n_params, 161);
    for (int32_t i = 0; i < w.n_params; i++) {
        assert_int_equal(w.params[i].numel, expected[i]);
        sum += w.params[i].numel;
    }
    assert_int_equal(sum, 25557032);
    assert_int_equal(lw_workload_numel(&w, true), 25557032);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        assert_string_equal(w.params[names[k].index].name, names[k].name);
}

MODEL_TEST(resnet50_has_three_buffers_per_batch_norm)
{
    struct lw_workload w = MODEL("resnet50", 0);
    assert_int_equal(w.n_buffers, 159); /* 53 batch norms */
    assert_string_equal(w.buffers[0].name, "bn1.running_mean");
    assert_string_equal(w.buffers[1].name, "bn1.running_var");
    assert_string_equal(w.buffers[2].name, "bn1.num_batches_tracked");
    assert_int_equal(w.buffers[0].numel, 64);
    assert_int_equal(w.buffers[2].numel, 1);
    assert_int_equal(w.buffers[2].dtype, LW_I64);
    assert_string_equal(w.buffers[158].name, "layer4.2.bn3.num_batches_tracked");
}

/* torchvision states 4.089 GFLOPS (multiply-adds) for ResNet50 at 224 x 224. */
MODEL_TEST(resnet50_needs_4089_million_multiply_adds_per_image)
{
    struct lw_workload one = MODEL("resnet50", .batch = 1);
    struct lw_workload eight = MODEL("resnet50", .batch = 8);
    int64_t flops_one = 0, flops_eight = 0;
    for (int32_t m = 0; m < one.n_modules; m++) {
        flops_one += one.modules[m].forward_flops;
        flops_eight += eight.modules[m].forward_flops;
    }
    assert_int_equal(flops_one, 2 * INT64_C(4089184256));
    assert_int_equal(flops_eight, 8 * flops_one);
}

MODEL_TEST(resnet50_gradients_become_ready_in_reverse_registration_order)
{
    struct lw_workload w = MODEL("resnet50", .batch = 2, .image = 64);
    const struct lw_module *fc = &w.modules[w.n_modules - 1];
    assert_int_equal(w.n_ready, 161);
    for (int32_t k = 0; k < w.n_ready; k++)
        assert_int_equal(w.ready_order[k], 160 - k);
    assert_int_equal(w.params[160].ready_ps, fc->backward_input_ps + fc->backward_weight_ps);
    assert_int_equal(w.params[0].ready_ps, lw_workload_backward_ps(&w));
    assert_int_equal(w.modules[0].backward_input_ps, 0); /* images need no gradient */
}

/* docs/design/models.md works these out. */
MODEL_TEST(times_are_the_rooflines)
{
    struct lw_workload mlp = MODEL("mlp", 0);
    struct lw_workload resnet = MODEL("resnet50", .batch = 1, .image = 32);
    assert_int_equal(mlp.modules[0].forward_bytes, 4718592);
    assert_int_equal(mlp.modules[0].forward_ps, INT64_C(4718592000));
    /* traffic of dx: dy, y, dy and W in, dx out, ReLU's masked dy out: 6 activations + W;
     * of dW: dy, x in, dW out */
    assert_int_equal(mlp.modules[0].backward_input_ps - mlp.modules[0].forward_ps,
                     INT64_C(131072000));
    assert_int_equal(mlp.modules[0].backward_weight_ps, INT64_C(4456448000));
    assert_string_equal(resnet.modules[1].name, "bn1");
    assert_int_equal(resnet.modules[1].forward_ps, INT64_C(442368000));
    assert_int_equal(resnet.modules[1].output_bytes, 4 * 64 * 8 * 8);
    /* SGD with momentum: 5 passes * 4 B * 25,557,032 at 1 GB/s */
    assert_int_equal(resnet.optimizer_ps, INT64_C(511140640000));

    /* products decide on a device with fast memory: 67,108,864 / 5e11 s */
    struct lw_device d = model_device();
    d.memory_bytes_per_s.value = 1e12;
    mlp = model_kept("mlp", &d, (struct traces_model_shape){0});
    assert_int_equal(mlp.modules[7].forward_ps, INT64_C(134217728));
    assert_int_equal(mlp.modules[7].backward_input_ps, INT64_C(134217728));
    assert_int_equal(mlp.modules[7].backward_weight_ps, INT64_C(134217728));
}

/* Products of 10^6 flops take 10 us, of 10^8 1 ms: 67,108,864 take 671.08864 us. Copies of 1 MiB
 * take 100 us, of 4 MiB 400 us: 4,718,592 B of traffic are a copy of 2,359,296 B, 225 us. The
 * optimizer: 16 layers of 1024^2 + 1024 f32 are 67,174,400 B, 64.0625 MiB at 100 us each. */
MODEL_TEST(measured_tables_replace_the_rates)
{
    static const int64_t flops[] = {1000000, 100000000}, bytes[] = {1 << 20, 4 << 20};
    static const lw_ps gemm[] = {10000000, 1000000000}, copy[] = {100000000, 400000000},
                       slow[] = {1000000000, 4000000000};
    struct lw_work_table t[] = {
        {LW_WORK_GEMM, LW_F32, LW_F32, 2, flops, gemm, NULL, "gemm by hand"},
        {LW_WORK_ADAM, LW_F32, LW_F32, 2, bytes, copy, NULL, "adam by hand"},
        {LW_WORK_COPY, LW_F32, LW_F32, 2, bytes, copy, NULL, "copy by hand"},
    };
    struct lw_device d = {.kind = "measured", .n_work = 3, .work = t};
    struct traces_model_shape shape = {.optimizer = "adam"};
    struct lw_workload w;
    struct lw_err err = {0};

    assert_ok(traces_model_build("mlp", &shape, &d, &w, &err), err);
    assert_int_equal(w.modules[0].forward_ps, INT64_C(671088640));
    assert_int_equal(w.optimizer_ps, INT64_C(6406250000));
    assert_true(notes_say(w.notes, w.n_notes, "products: gemm by hand"));
    assert_true(notes_say(w.notes, w.n_notes, "copies: copy by hand"));
    assert_true(notes_say(w.notes, w.n_notes, "optimizer: a measured step of adam (adam by hand)"));
    lw_workload_free(&w);

    t[2].time_ps = slow; /* memory decides */
    assert_int_equal(traces_model_build("mlp", &shape, &d, &w, &err), LW_OK);
    assert_int_equal(w.modules[0].forward_ps, INT64_C(2250000000));
    lw_workload_free(&w);

    d.n_work = 2; /* no copies: their rate is asked for */
    assert_int_equal(traces_model_build("mlp", &shape, &d, &w, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "device 'measured' has no memory_bytes_per_s"));
    d.memory_bytes_per_s = (struct lw_figure){1e9, "rate by hand"};
    assert_int_equal(traces_model_build("mlp", &shape, &d, &w, &err), LW_OK);
    assert_int_equal(w.modules[0].forward_ps, INT64_C(4718592000));
    assert_true(notes_say(w.notes, w.n_notes, "copies: bytes / (1e+09 B/s): rate by hand"));
    lw_workload_free(&w);
}

MODEL_TEST(mlp_layers_are_equal_and_split_in_pairs)
{
    struct lw_workload w = MODEL("mlp", .batch = 4, .width = 256);
    assert_int_equal(w.n_modules, 16);
    assert_int_equal(lw_workload_numel(&w, true), 16 * (256 * 256 + 256));
    for (int32_t m = 0; m < w.n_modules; m++) {
        const struct lw_module *a = &w.modules[m];
        bool column = m % 2 == 0;
        assert_int_equal(a->forward_ps, w.modules[0].forward_ps);
        assert_int_equal(a->backward_input_ps, w.modules[0].backward_input_ps);
        assert_int_equal(a->backward_weight_ps, w.modules[0].backward_weight_ps);
        assert_int_equal(a->tp_split, column ? LW_TP_COLUMN : LW_TP_ROW);
        assert_int_equal(a->tp_forward_bytes, column ? 0 : 4 * 4 * 256);
        assert_int_equal(a->tp_backward_bytes, column ? 4 * 4 * 256 : 0);
    }
    assert_string_equal(w.params[2].name, "layers.1.weight");
    assert_int_equal(w.ready_order[0], 31); /* the last bias */
}

MODEL_TEST(mlp_step_on_host_is_well_under_a_second)
{
    struct lw_cluster host;
    struct lw_workload w;
    struct lw_err err = {0};
    struct traces_model_shape shape = {0};
    assert_int_equal(lw_cluster_find("host", &host, &err), LW_OK);
    assert_int_equal(traces_model_build("mlp", &shape, &host.device, &w, &err), LW_OK);
    assert_in_range(lw_workload_step_ps(&w), 10 * LW_PS_PER_MS, 500 * LW_PS_PER_MS);
    lw_workload_free(&w);
    lw_cluster_free(&host);
}

MODEL_TEST(sizes_that_a_model_cannot_have_are_refused)
{
    static const struct {
        const char *model;
        struct traces_model_shape shape;
        const char *message;
    } cases[] = {
        {"mlp", {.dtype = "i64"}, "--dtype: unknown value 'i64'; expected one of f32, bf16, f16"},
        {"mlp", {.attention = "flash"}, "--attention does not apply to model mlp"},
        {"mlp", {.head_waits = 4},
         "--head-waits does not apply to model mlp, which has no loss over a vocabulary; leave it "
         "out, or choose a model of the gpt or llama family"},
        {"bert-base", {.fused_loss = true},
         "--fused-loss does not apply to model bert-base, which has no loss over a vocabulary; "
         "leave it out, or choose a model of the gpt or llama family"},
        {"resnet50", {.f32_softmax = true},
         "--f32-softmax does not apply to model resnet50, which has no attention; leave it out, or "
         "choose a transformer"},
        {"llama-7b", {.f32_softmax = true, .attention = "flash"},
         "--f32-softmax: --attention flash stores no scores: give --attention full, or leave it "
         "out"},
        {"mlp", {.deterministic = true},
         "--deterministic does not apply to model mlp, which has no attention; leave it out, or "
         "choose a transformer"},
        {"gpt2", {.positions = 128, .seq = 1024},
         "--positions: found 128, allowed: 1024, the sequence, or more; or give --seq 128"},
        {"decoder", {.positions = 128},
         "--positions: found 128, allowed: 4096, the sequence, or more; or give --seq 128"},
        {"decoder", {.q_lora = 64},
         "--q-lora: model decoder has no latent attention; give --kv-lora too"},
        {"decoder", {.rope_width = 129},
         "--rope-width: found 129, allowed: 128, a head's width, or less"},
        {"decoder", {.v_width = 8},
         "--v-width: model decoder has no latent attention; give --kv-lora too"},
        {"gpt2",
         {.attention = "fast"},
         "--attention: unknown value 'fast'; expected one of full, flash"},
        {"gpt2", {.heads = 7}, "--heads: found 7, allowed: divisors of the hidden size, 768"},
        {"gpt2", {.kv_heads = 4}, "--kv-heads does not apply to model gpt2"},
        {"gpt2",
         {.batch = 65536, .seq = 4194304},
         "batch 65536, sequence 4194304, hidden 768: the flops of one module are beyond 2^62; "
         "lower "
         "one of them"},
        {"gpt2",
         {.dtype = "fp16"},
         "device 'round' has no peak_flops.f16, which times by roofline need; choose another "
         "device, or --dtype bf16"},
        {"mlp",
         {.layers = 3},
         "--layers: found 3, allowed: even numbers (a column and a row layer "
         "make a pair)"},
        {"mlp", {.layers = 4098}, "--layers: found 4098, allowed: 1 to 4096"},
        {"mlp", {.image = 224}, "--image does not apply to model mlp"},
        {"mlp", {.batch = -1}, "--batch: found -1, allowed: 1 to 65536"},
        {"resnet50", {.width = 64}, "--width does not apply to model resnet50"},
        {"resnet50", {.image = 31}, "--image: found 31, allowed: 32 to 4096"},
    };
    struct lw_device d = model_device();
    d.peak_flops[LW_F16] = (struct lw_figure){0, NULL};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_err err = {0};
        struct lw_workload w;
        assert_int_equal(traces_model_build(cases[i].model, &cases[i].shape, &d, &w, &err),
                         LW_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
    }
    struct lw_err err = {0};
    struct lw_workload w;
    assert_int_equal(traces_model_build("vgg16", &(struct traces_model_shape){0}, &d, &w, &err),
                     LW_EINVAL);
    assert_string_equal(err.msg, "no model 'vgg16'; `lapwing model --list` lists them");
    d.memory_bytes_per_s.source = NULL;
    assert_int_equal(traces_model_build("mlp", &(struct traces_model_shape){0}, &d, &w, &err),
                     LW_EINVAL);
    assert_string_equal(err.msg, "device 'round' has no memory_bytes_per_s, which times by "
                                 "roofline need");
}

MODEL_TEST(options_that_a_family_would_ignore_are_refused)
{
    static const char *const others[] = {"mlp",       "resnet50", "gpt2",      "gpt-1.3b",
                                         "bloom-560m", "mpt-7b",  "bert-base", "vit-b-16"};
    static const struct {
        const char *option;
        struct traces_model_shape shape;
        bool of_experts;
    } cases[] = {
        {"experts", {.experts = 8, .topk = 2, .expert_ffn = 512}, false},
        {"topk", {.topk = 2}, true},
        {"expert-ffn", {.expert_ffn = 512}, true},
        {"shared-ffn", {.shared_ffn = 512}, true},
        {"dense-layers", {.dense_layers = 1}, true},
        {"expert-capacity", {.expert_capacity = 1.25}, true},
        {"whole-experts", {.expert_whole = true}, true},
        {"experts-in-turn", {.experts_in_turn = true}, true},
        {"mtp-layers", {.mtp_layers = 1}, false},
        {"lora", {.lora = 8}, false},
    };
    struct lw_device d = model_device();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_workload w;
        struct lw_err err = {0};
        char message[256];
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
            assert_int_equal(traces_model_build(others[k], &cases[i].shape, &d, &w, &err),
                             LW_EINVAL);
            snprintf(message, sizeof message,
                     "--%s does not apply to model %s; models of the llama family take it "
                     "(decoder, llama-2-7b, mixtral-8x7b, ...)",
                     cases[i].option, others[k]);
            assert_string_equal(err.msg, message);
        }
        if (!cases[i].of_experts)
            continue;
        assert_int_equal(traces_model_build("llama-7b", &cases[i].shape, &d, &w, &err), LW_EINVAL);
        snprintf(message, sizeof message, "--%s: model llama-7b has no experts; give --experts too",
                 cases[i].option);
        assert_string_equal(err.msg, message);
    }
}

/* Where the head has the embedding's weights anyway, the option changes nothing. */
MODEL_TEST(tied_is_refused_without_a_head_of_the_vocabulary)
{
    static const struct {
        const char *model;
        enum lw_status status;
    } cases[] = {
        {"mlp", LW_EINVAL},   {"resnet50", LW_EINVAL}, {"vit-b-16", LW_EINVAL},
        {"gpt2", LW_OK},      {"bloom-560m", LW_OK},   {"mpt-7b", LW_OK},
        {"bert-base", LW_OK},
    };
    struct lw_device d = model_device();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_model_shape tied = {.tied = true}, plain = {.tied = false};
        struct lw_workload with, without;
        struct lw_err err = {0};
        assert_int_equal(traces_model_build(cases[i].model, &tied, &d, &with, &err),
                         cases[i].status);
        if (cases[i].status != LW_OK)
            continue;
        assert_ok(traces_model_build(cases[i].model, &plain, &d, &without, &err), err);
        assert_int_equal(lw_workload_numel(&with, false), lw_workload_numel(&without, false));
        lw_workload_free(&with);
        lw_workload_free(&without);
    }
}

/* The largest of everything either fits or is refused with a message, here by its 2,000 days a
 * step. */
MODEL_TEST(largest_sizes_do_not_overflow)
{
    struct traces_model_shape images = {.batch = 65536, .image = 4096};
    struct traces_model_shape layers = {.batch = 65536, .width = 65536, .layers = 4096};
    struct lw_device d = model_device();
    struct lw_workload w;
    struct lw_err err = {0};
    assert_int_equal(traces_model_build("resnet50", &images, &d, &w, &err), LW_EFORMAT);
    assert_string_equal(err.msg, "at modules: the times add up to more than 106 days");
    d.memory_bytes_per_s.value = d.peak_flops[LW_F32].value = 1e18;
    assert_int_equal(traces_model_build("resnet50", &images, &d, &w, &err), LW_OK);
    for (int32_t m = 0; m < w.n_modules; m++) {
        assert_true(w.modules[m].forward_bytes > 0 && w.modules[m].forward_ps > 0);
        assert_true(w.modules[m].forward_flops >= 0);
    }
    lw_workload_free(&w);
    assert_int_equal(traces_model_build("mlp", &layers, &d, &w, &err), LW_OK);
    assert_true(w.modules[4095].forward_flops == INT64_C(2) << 48);
    lw_workload_free(&w);
}

TEST(failing_allocations_leave_nothing)
{
    model_without_memory("mlp", (struct traces_model_shape){0});
    model_without_memory("resnet18", (struct traces_model_shape){0});
    model_without_memory("gpt2", (struct traces_model_shape){0});
}

TEST(command_writes_a_workload_that_reads_back)
{
    struct lw_workload w;
    struct lw_err err = {0};
    expect("model resnet50 --device A100-SXM4-80GB --batch 16 -o r.json", 0, "");
    assert_ok(lw_workload_read(fixture_path("r.json"), &w, &err), err);
    assert_int_equal(w.n_params, 161);
    assert_int_equal(w.batch, 16);
    assert_string_equal(w.from.device, "A100-SXM4-80GB");
    assert_string_equal(w.from.producer, "lapwing model resnet50");
    lw_workload_free(&w);
    expect("model mlp --format json", 0, "\"numel\": 16793600,"); /* 16 * (1024^2 + 1024) */
    shell("$L model mlp -o - >m.json", NULL);
    assert_int_equal(lw_workload_read(fixture_path("m.json"), &w, &err), LW_OK);
    lw_workload_free(&w);
}

TEST(command_refuses_and_leaves_no_file)
{
    expect("model mlp --layers 5 -o no.json", 1, "");
    FILE *f = fopen(fixture_path("no.json"), "r");
    assert_null(f);
    expect("model mlp -o /dev/full", 1, "");
    assert_string_equal(shell_err(),
                        "lapwing model: /dev/full: cannot write: No space left on device\n");
    expect("model", 2, "");
    expect("model mlp --batch x", 2, "");
}

TEST_GROUP(fixture_open, fixture_close)
