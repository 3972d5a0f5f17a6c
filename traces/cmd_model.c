/* lapwing model: a workload from a model's shape, without a recording. */
#include <stdio.h>
#include <string.h>

#include "shared/cli.h"
#include "shared/command.h"
#include "shared/files.h"
#include "shared/jsonout.h"
#include "shared/table.h"
#include "traces/models.h"

/* A known system by its name or its device's kind, or a cluster file. */
static enum lw_status find_device(const char *name, struct lw_cluster *c, struct lw_err *err)
{
    for (int k = 0; lw_cluster_known(k); k++) {
        LW_TRY(lw_cluster_find(lw_cluster_known(k), c, err));
        if (strcmp(c->device.kind, name) == 0)
            return LW_OK;
        lw_cluster_free(c);
    }
    return lw_cluster_find(name, c, err);
}

static int64_t param_bytes(const struct lw_workload *w)
{
    int64_t sum = 0;

    for (int32_t i = 0; i < w->n_params; i++)
        sum += w->params[i].numel * lw_dtype_size(w->params[i].dtype);
    return sum;
}

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
    lw_jsonout_int(&o, "param_bytes", param_bytes(w));
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
    char forward[32], backward[32], optimizer[32], step[32], bytes[32];

    printf("%s on %s: %d modules, %d parameters of %lld elements (%s)\n", w->name, w->from.device,
           w->n_modules, w->n_params, (long long)lw_workload_numel(w, false),
           lw_format_bytes(bytes, param_bytes(w)));
    printf("step of one device %s: forward %s, backward %s, optimizer %s\n",
           lw_format_ps(step, lw_workload_step_ps(w)),
           lw_format_ps(forward, lw_workload_forward_ps(w)),
           lw_format_ps(backward, lw_workload_backward_ps(w)),
           lw_format_ps(optimizer, w->optimizer_ps));
    for (int32_t i = 0; i < w->n_notes; i++)
        printf("  %s\n", w->notes[i]);
    if (output)
        printf("wrote %s\n", output);
}

static enum lw_status put_csv(const struct lw_workload *w, struct lw_err *err)
{
    static const char *const titles[] = {
        "module",        "forward_ns",   "backward_input_ns", "backward_weight_ns",
        "forward_flops", "forward_bytes"};
    struct lw_table *t = lw_table_new(6, titles);

    for (int32_t i = 0; i < w->n_modules; i++) {
        const struct lw_module *m = &w->modules[i];
        lw_table_cell(t, "%s", m->name);
        lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(m->forward_ps));
        lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(m->backward_input_ps));
        lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(m->backward_weight_ps));
        lw_table_cell(t, "%lld", (long long)m->forward_flops);
        lw_table_cell(t, "%lld", (long long)m->forward_bytes);
    }
    enum lw_status s = lw_table_print_csv(t, stdout, err);
    lw_table_free(t);
    return s;
}

static enum lw_status make(const char *name, const struct traces_model_shape *shape,
                           const char *device, const char *output, enum lw_format format,
                           struct lw_err *err)
{
    struct lw_cluster c;
    struct lw_workload w;

    LW_TRY(find_device(device, &c, err));
    enum lw_status s = traces_model_build(name, shape, &c.device, &w, err);
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
    const struct lw_opt options[] = {
        {"output", 'o', LW_OPT_STRING, &output, "FILE", "write the workload (else only summed up)",
         0, 0},
        {"device", 0, LW_OPT_STRING, &device, "KIND",
         "a known system, its device's kind, or a cluster file (host)", 0, 0},
        {"batch", 0, LW_OPT_INT, &shape.batch, "N", "samples of one micro-batch (32)", 1, 0},
        {"layers", 0, LW_OPT_INT, &shape.layers, "N", "mlp: layers, an even number (16)", 1, 0},
        {"width", 0, LW_OPT_INT, &shape.width, "N", "mlp: width of every layer (1024)", 1, 0},
        {"image", 0, LW_OPT_INT, &shape.image, "N", "resnet50: pixels of a side (224)", 1, 0},
        {"format", 0, LW_OPT_FORMAT, &format, "text|json|csv", "output format (text)", 0, 0},
        {0},
    };
    const struct lw_usage usage = {
        "model", "NAME [options]",
        "Make the workload of a model from its shape: mlp (equal linear layers, split for tensor "
        "parallelism) or resnet50. Times are a roofline's on the device; nothing is measured.",
        1, 1};
    struct lw_err err = {0};
    int n, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n)) >= 0)
        return rc;
    return lw_cli_end("model", make(argv[1], &shape, device, output, format, &err), &err);
}
