/* lapwing model: a workload from a model's shape, without a recording. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "shared/json/jsonout.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"
#include "traces/models/hf_config.h"
#include "traces/models/models.h"

/* Of the storage: a parameter tied to another has none of its own. */
static int64_t param_bytes(const struct lw_workload *w)
{
    int64_t sum = 0;

    for (int32_t i = 0; i < w->n_params; i++)
        if (w->params[i].tied < 0)
            sum += w->params[i].numel * lw_dtype_size(w->params[i].dtype);
    return sum;
}

static int32_t n_untied(const struct lw_workload *w)
{
    int32_t n = 0;

    for (int32_t i = 0; i < w->n_params; i++)
        n += w->params[i].tied < 0;
    return n;
}

static int64_t sum_of(const struct lw_workload *w, size_t at)
{
    int64_t sum = 0;

    for (int32_t m = 0; m < w->n_modules; m++) {
        int64_t v = *(const int64_t *)((const char *)&w->modules[m] + at);
        sum += v > 0 ? v : 0;
    }
    return sum;
}

#define AT(field) offsetof(struct lw_module, field)
/* Of all modules, by the names that JSON has; also the columns of the modules as CSV. */
static const struct {
    const char *name;
    size_t at;
} sums[] = {
    {"forward_flops", AT(forward_flops)},
    {"forward_bytes", AT(forward_bytes)},
    {"output_bytes", AT(output_bytes)},
    {"kept_bytes", AT(kept_bytes[LW_RECOMPUTE_NONE])},
    {"kept_bytes_selective", AT(kept_bytes[LW_RECOMPUTE_SELECTIVE])},
    {"kept_bytes_full", AT(kept_bytes[LW_RECOMPUTE_FULL])},
    {"tp_forward_bytes", AT(tp_forward_bytes)},
    {"tp_backward_bytes", AT(tp_backward_bytes)},
};
#undef AT

enum { N_SUMS = sizeof sums / sizeof *sums };

static void put_json(const struct lw_workload *w, const char *output)
{
    struct lw_jsonout o = {.file = stdout};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_string(&o, "name", w->name);
    lw_jsonout_string(&o, "output", output);
    lw_jsonout_string(&o, "device", w->from.device);
    lw_jsonout_int(&o, "batch", w->batch);
    lw_jsonout_int(&o, "n_modules", w->n_modules);
    lw_jsonout_int(&o, "n_params", w->n_params);
    lw_jsonout_int(&o, "numel", lw_workload_numel(w, false));
    lw_jsonout_int(&o, "active_numel", lw_workload_numel(w, false) - w->idle_numel);
    lw_jsonout_int(&o, "param_bytes", param_bytes(w));
    for (int k = 0; k < N_SUMS; k++)
        lw_jsonout_int(&o, sums[k].name, sum_of(w, sums[k].at));
    lw_jsonout_ns(&o, "forward_ns", lw_workload_forward_ps(w));
    lw_jsonout_ns(&o, "backward_ns", lw_workload_backward_ps(w));
    lw_jsonout_ns(&o, "optimizer_ns", w->optimizer_ps);
    lw_jsonout_ns(&o, "step_ns", lw_workload_step_ps(w));
    lw_jsonout_array(&o, "notes");
    for (int32_t i = 0; i < w->n_notes; i++)
        lw_jsonout_string(&o, NULL, w->notes[i]);
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

static void put_text(const struct lw_workload *w, const char *output)
{
    char forward[32], backward[32], optimizer[32], step[32], bytes[32], none[32], part[32],
        full[32];

    printf("%s on %s: %d modules, %d parameters of %lld elements (%s)\n", w->name, w->from.device,
           w->n_modules, n_untied(w), (long long)lw_workload_numel(w, false),
           lw_format_bytes(bytes, param_bytes(w)));
    if (w->idle_numel > 0)
        printf("%lld elements are active: a token uses them\n",
               (long long)(lw_workload_numel(w, false) - w->idle_numel));
    printf("step of one device %s: forward %s, backward %s, optimizer %s\n",
           lw_format_ps(step, lw_workload_step_ps(w)),
           lw_format_ps(forward, lw_workload_forward_ps(w)),
           lw_format_ps(backward, lw_workload_backward_ps(w)),
           lw_format_ps(optimizer, w->optimizer_ps));
    printf("forward %.4g flops of matrix products\n", (double)sum_of(w, sums[0].at));
    printf("activations kept %s, with selective recomputation %s, with full %s\n",
           lw_format_bytes(none, sum_of(w, sums[3].at)),
           lw_format_bytes(part, sum_of(w, sums[4].at)),
           lw_format_bytes(full, sum_of(w, sums[5].at)));
    for (int32_t i = 0; i < w->n_notes; i++)
        lw_put_paragraph(stdout, "  ", w->notes[i]);
    if (output)
        printf("wrote %s\n", output);
}

static enum lw_status put_csv(const struct lw_workload *w, struct lw_err *err)
{
    const char *titles[4 + N_SUMS] = {"module", "forward_ns", "backward_input_ns",
                                      "backward_weight_ns"};
    struct lw_table *t;

    for (int k = 0; k < N_SUMS; k++)
        titles[4 + k] = sums[k].name;
    t = lw_table_new(4 + N_SUMS, titles);

    for (int32_t i = 0; i < w->n_modules; i++) {
        const struct lw_module *m = &w->modules[i];
        lw_table_cell(t, "%s", m->name);
        lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(m->forward_ps));
        lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(m->backward_input_ps));
        lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(m->backward_weight_ps));
        for (int k = 0; k < N_SUMS; k++)
            lw_table_cell(t, "%lld",
                          (long long)*(const int64_t *)((const char *)m + sums[k].at));
    }
    enum lw_status s = lw_table_print_csv(t, stdout, err);
    lw_table_free(t);
    return s;
}

/* Sizes do not depend on the device: any with the figures of a roofline. */
static enum lw_status size_of(const struct traces_model *m, int64_t *numel, int32_t *n_modules,
                              struct lw_err *err)
{
    const struct lw_figure one = {1e15, "any"};
    struct traces_model_shape shape = {0};
    struct lw_device d = {.kind = "any", .gemm_efficiency = {1, "any"}, .memory_bytes_per_s = one};
    struct lw_workload w;

    for (int t = 0; t < LW_N_DTYPES; t++)
        d.peak_flops[t] = one;
    LW_TRY(traces_model_build(m->name, &shape, &d, &w, err));
    *numel = lw_workload_numel(&w, false);
    *n_modules = w.n_modules;
    lw_workload_free(&w);
    return LW_OK;
}

static enum lw_status list_table(enum lw_format format, struct lw_err *err)
{
    static const char *const titles[] = {"model", ">parameters", ">modules", "dtype", "about",
                                         "source"};
    struct lw_table *t = lw_table_new(6, titles);
    const struct traces_model *m;
    enum lw_status s = LW_OK;

    for (int k = 0; s == LW_OK && (m = traces_model_at(k)) != NULL; k++) {
        int64_t numel;
        int32_t n_modules;
        s = size_of(m, &numel, &n_modules, err);
        if (s != LW_OK)
            break;
        lw_table_cell(t, "%s", m->name);
        lw_table_cell(t, "%lld", (long long)numel);
        lw_table_cell(t, "%d", n_modules);
        lw_table_cell(t, "%s", m->defaults.dtype);
        lw_table_cell(t, "%s", m->about);
        lw_table_cell(t, "%s", m->source);
    }
    if (s == LW_OK)
        s = format == LW_FORMAT_CSV ? lw_table_print_csv(t, stdout, err)
                                    : lw_table_print(t, stdout, 0, err);
    lw_table_free(t);
    return s;
}

static enum lw_status list_json(struct lw_err *err)
{
    struct lw_jsonout o = {.file = stdout};
    const struct traces_model *m;

    lw_jsonout_object(&o, NULL);
    lw_jsonout_array(&o, "models");
    for (int k = 0; (m = traces_model_at(k)) != NULL; k++) {
        int64_t numel;
        int32_t n_modules;
        LW_TRY(size_of(m, &numel, &n_modules, err));
        lw_jsonout_line_object(&o, NULL);
        lw_jsonout_string(&o, "name", m->name);
        lw_jsonout_int(&o, "numel", numel);
        lw_jsonout_int(&o, "n_modules", n_modules);
        lw_jsonout_string(&o, "dtype", m->defaults.dtype);
        lw_jsonout_string(&o, "about", m->about);
        lw_jsonout_string(&o, "source", m->source);
        lw_jsonout_end(&o);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
    return LW_OK;
}

static enum lw_status print_list(enum lw_format format, struct lw_err *err)
{
    return format == LW_FORMAT_JSON ? list_json(err) : list_table(format, err);
}

/* A name that ends in .json is a Hugging Face configuration: its sizes, unless they were given. */
static enum lw_status build(const char *name, const struct traces_model_shape *given,
                            const struct lw_device *device, struct lw_workload *w,
                            struct lw_err *err)
{
    size_t n = strlen(name);
    struct traces_model_shape shape = *given;
    struct lw_input in;

    if (n < 5 || strcmp(name + n - 5, ".json") != 0)
        return traces_model_build(name, given, device, w, err);
    LW_TRY(lw_input_read(name, 1 << 24, &in, err));
    enum lw_status s = traces_hf_config(&in, &name, &shape, err);
    lw_input_free(&in);
    return s == LW_OK ? traces_model_build(name, &shape, device, w, err) : s;
}

static enum lw_status make(const char *name, const struct traces_model_shape *shape,
                           const char *device, const char *output, enum lw_format format,
                           struct lw_err *err)
{
    struct lw_cluster c;
    struct lw_workload w;

    LW_TRY(lw_cluster_find_device(device, &c, err));
    enum lw_status s = build(name, shape, &c.device, &w, err);
    lw_cluster_free(&c);
    if (s != LW_OK)
        return s;
    if (output)
        s = lw_workload_write(&w, output, err);
    if (s == LW_OK && !(output && strcmp(output, "-") == 0)) {
        if (format == LW_FORMAT_JSON)
            put_json(&w, output);
        else if (format == LW_FORMAT_CSV)
            s = put_csv(&w, err);
        else
            put_text(&w, output);
    }
    lw_workload_free(&w);
    return s;
}

int cmd_model(int argc, char **argv)
{
    const char *device = "host", *output = NULL;
    enum lw_format format = LW_FORMAT_TEXT;
    struct traces_model_shape shape = {0};
    bool list = false;
    const struct lw_opt options[] = {
        {"list", 0, LW_OPT_FLAG, &list, NULL, "show every model with its size and source", 0, 0},
        {"output", 'o', LW_OPT_STRING, &output, "FILE", "write the workload (else only summed up)",
         0, 0},
        LW_OPTION_FORCE,
        {"device", 0, LW_OPT_STRING, &device, "KIND",
         "a known system, its device's kind, or a cluster file (host)", 0, 0},
        {"batch", 0, LW_OPT_INT, &shape.batch, "N", "samples of one micro-batch (the model's)", 1,
         0},
        {"layers", 0, LW_OPT_INT, &shape.layers, "N", "blocks; mlp: layers, an even number", 1, 0},
        {"hidden", 0, LW_OPT_INT, &shape.hidden, "N", "transformers: width of a token", 1, 0},
        {"heads", 0, LW_OPT_INT, &shape.heads, "N", "transformers: attention heads", 1, 0},
        {"kv-heads", 0, LW_OPT_INT, &shape.kv_heads, "N", "llama: heads of keys and values", 1, 0},
        {"ffn", 0, LW_OPT_INT, &shape.ffn, "N",
         "transformers: width inside a block's linear pair (by the family's rule)", 1, 0},
        {"seq", 0, LW_OPT_INT, &shape.seq, "N", "tokens of a sample", 1, 0},
        {"vocab", 0, LW_OPT_INT, &shape.vocab, "N", "rows of the token embedding", 1, 0},
        {"width", 0, LW_OPT_INT, &shape.width, "N", "mlp: width of every layer (1024)", 1, 0},
        {"image", 0, LW_OPT_INT, &shape.image, "N", "resnet, vit: pixels of a side (224)", 1, 0},
        {"patch", 0, LW_OPT_INT, &shape.patch, "N", "vit: pixels of a patch's side", 1, 0},
        {"dtype", 0, LW_OPT_STRING, &shape.dtype, "TYPE",
         "parameters and activations: f32|bf16|f16 (the model's)", 0, 0},
        {"tp", 0, LW_OPT_INT, &shape.tensor, "N",
         "times for tensor groups of N: each rank's shapes (1); as --tp of the plan", 1, 4096},
        {"ep", 0, LW_OPT_INT, &shape.expert_ranks, "N",
         "times for N ranks that share the experts (1); as --ep of the plan", 1, 65536},
        {"cp", 0, LW_OPT_INT, &shape.context, "N", "ranks that share each sequence (1)", 1, 4096},
        {"sequence-parallel", 0, LW_OPT_FLAG, &shape.sequence_parallel, NULL,
         "norms and residuals are split over the tensor group too", 0, 0},
        {"fp8", 0, LW_OPT_FLAG, &shape.fp8, NULL, "products of blocks take 8-bit operands", 0, 0},
        {"attention", 0, LW_OPT_STRING, &shape.attention, "HOW",
         "scores stored or fused: full|flash (the model's)", 0, 0},
        {"optimizer", 0, LW_OPT_STRING, &shape.optimizer, "NAME", "sgd|momentum|adam (the model's)",
         0, 0},
        LW_OPTION_FORMAT(&format),
        {0},
    };
    const struct lw_usage usage = {
        "model", "NAME|config.json [options] | --list",
        "Make the workload of a model from its shape: multi-layer perceptrons, ResNets, "
        "transformers under the names that --list shows, or of a Hugging Face config.json. Sizes "
        "that are not given are the model's. Times are by kernel shape where the device has "
        "figures for it; else they are a roofline's on the device, from its tables where it was "
        "calibrated over sizes; nothing of the model itself is measured.",
        0, 1};
    struct lw_err err = {0};
    int n, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n)) >= 0)
        return rc;
    if (list != (n == 0))
        return lw_cli_usage("model", list ? "--list takes no NAME" : "expects a NAME, or --list");
    if (list)
        return lw_cli_end("model", print_list(format, &err), &err);
    return lw_cli_end("model", make(argv[1], &shape, device, output, format, &err), &err);
}
