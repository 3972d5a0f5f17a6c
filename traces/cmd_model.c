/* lapwing model: a workload from a model's shape, without a recording. */
#include <stdio.h>
#include <string.h>

#include "shared/cli/cli.h"
#include "shared/cli/cluster_warning.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "traces/models/hf_config.h"
#include "traces/models/model_print.h"
#include "traces/models/models.h"

/* The sizes are the configuration's, so the workload has the name of the kind: "bloom" of
 * "bloom-560m". */
static enum lw_status name_kind(struct lw_workload *w, const char *model, struct lw_err *err)
{
    char kind[32];

    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(model, "-"), model);
    w->name = lw_arena_strdup(&w->arena, kind);
    if (w->name)
        return LW_OK;
    lw_workload_free(w);
    return lw_fail_nomem(err);
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
    LW_TRY(s);
    LW_TRY(traces_model_build(name, &shape, device, w, err));
    return name_kind(w, name, err);
}

static enum lw_status make(const char *name, const struct traces_model_shape *shape,
                           const char *device, const char *output, enum lw_format format,
                           struct lw_err *err)
{
    struct lw_cluster c;
    struct lw_workload w;

    LW_TRY(lw_cluster_find_device(device, &c, err));
    lw_cluster_warn(&c);
    enum lw_status s = build(name, shape, &c.device, &w, err);
    lw_cluster_free(&c);
    if (s != LW_OK)
        return s;
    if (output)
        s = lw_workload_write(&w, output, err);
    if (s == LW_OK && !(output && strcmp(output, "-") == 0))
        s = traces_model_print(&w, output, format, err);
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
        {"list", 0, LW_OPT_FLAG, &list, NULL, "show every model with its size and source"},
        {"output", 'o', LW_OPT_STRING, &output, "FILE", "write the workload (default: only print a "
                                                        "summary)"},
        LW_OPTION_FORCE,
        {"device", 0, LW_OPT_STRING, &device, "KIND",
         "a known system, its device's kind, or a cluster file (host)"},
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
         "parameters and activations: f32|bf16|f16 (the model's)"},
        {"tp", 0, LW_OPT_INT, &shape.tensor, "N",
         "times for tensor groups of N: each rank's shapes (1); as --tp of the plan", 1, 4096},
        {"ep", 0, LW_OPT_INT, &shape.expert_ranks, "N",
         "times for N ranks that share the experts (1); as --ep of the plan", 1, 65536},
        {"expert-capacity", 0, LW_OPT_DOUBLE, &shape.expert_capacity, "F",
         "each expert computes F times the even share of tokens, padded; 0: all tokens (0)"},
        {"cp", 0, LW_OPT_INT, &shape.context, "N", "ranks that share each sequence (1)", 1, 4096},
        {"sequence-parallel", 0, LW_OPT_FLAG, &shape.sequence_parallel, NULL,
         "split norms and residuals over the tensor group too"},
        {"fp8", 0, LW_OPT_FLAG, &shape.fp8, NULL, "products of blocks take 8-bit operands"},
        {"attention", 0, LW_OPT_STRING, &shape.attention, "HOW",
         "scores stored or fused: full|flash (the model's)"},
        {"optimizer", 0, LW_OPT_STRING, &shape.optimizer, "NAME",
         "sgd|momentum|adam (the model's)"},
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
        return lw_cli_end("model", traces_models_list(format, &err), &err);
    return lw_cli_end("model", make(argv[1], &shape, device, output, format, &err), &err);
}
