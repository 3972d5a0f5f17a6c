/* What a model's workload holds, and the list of models. */
#include "traces/models/model_print.h"

#include "shared/text/wrap.h"
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

#define COUNT(key, field) {key, NULL, LW_COLUMN_INT, offsetof(struct lw_module, field)}
#define TIME(key, field) {key, NULL, LW_COLUMN_PS, offsetof(struct lw_module, field)}
/* Of a module, as CSV; the counts are summed up in JSON. */
static const struct lw_column module_columns[] = {
    {"module", NULL, LW_COLUMN_STRING, offsetof(struct lw_module, name)},
    TIME("forward_ns", forward_ps),
    TIME("backward_input_ns", backward_input_ps),
    TIME("backward_weight_ns", backward_weight_ps),
    COUNT("forward_flops", forward_flops),
    COUNT("forward_bytes", forward_bytes),
    COUNT("output_bytes", output_bytes),
    COUNT("kept_bytes", kept_bytes[LW_RECOMPUTE_NONE]),
    COUNT("kept_bytes_selective", kept_bytes[LW_RECOMPUTE_SELECTIVE]),
    COUNT("kept_bytes_full", kept_bytes[LW_RECOMPUTE_FULL]),
    COUNT("tp_forward_bytes", tp_forward_bytes),
    COUNT("tp_backward_bytes", tp_backward_bytes),
};
enum { N_COLUMNS = sizeof module_columns / sizeof *module_columns, FIRST_COUNT = 4 };

/* Of all modules that know it. */
static int64_t sum_of(const struct lw_workload *w, size_t at)
{
    int64_t sum = 0;

    for (int32_t m = 0; m < w->n_modules; m++) {
        int64_t v = *(const int64_t *)(const void *)((const char *)&w->modules[m] + at);
        sum += v > 0 ? v : 0;
    }
    return sum;
}

static void put_json(const struct lw_workload *w, const struct lw_framework_choice *framework,
                     const char *output)
{
    struct lw_jsonout o = {.file = stdout};

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "name", w->name, "output", output, "device", w->from.device, "batch", w->batch,
            "n_modules", w->n_modules, "n_params", w->n_params,
            "numel", lw_workload_numel(w, false),
            "active_numel", lw_workload_numel(w, false) - w->idle_numel,
            "param_bytes", param_bytes(w));
    lw_framework_choice_json(&o, framework);
    for (int k = FIRST_COUNT; k < N_COLUMNS; k++)
        lw_jsonout_int(&o, module_columns[k].key, sum_of(w, module_columns[k].at));
    const bool timed = w->from.device[0];
    LW_JSON(&o, "forward_ns", lw_known_if(timed, lw_ps_to_ns(lw_workload_forward_ps(w))),
            "backward_ns", lw_known_if(timed, lw_ps_to_ns(lw_workload_backward_ps(w))),
            "optimizer_ns", lw_known_if(timed, lw_ps_to_ns(w->optimizer_ps)),
            "step_ns", lw_known_if(timed, lw_ps_to_ns(lw_workload_step_ps(w))));
    lw_jsonout_strings(&o, "notes", w->notes, w->n_notes);
    lw_jsonout_end(&o);
}

static int64_t kept(const struct lw_workload *w, enum lw_recompute how)
{
    return sum_of(w, offsetof(struct lw_module, kept_bytes) + (size_t)how * sizeof(int64_t));
}

static void put_text(const struct lw_workload *w, const struct lw_framework_choice *framework,
                     const char *output)
{
    char forward[32], backward[32], optimizer[32], step[32], bytes[32], none[32], part[32],
        full[32];

    const bool timed = w->from.device[0];
    lw_printf_paragraph(stdout, "%s%s%s: %d modules, %d parameters of %lld elements (%s)", w->name,
                        timed ? " on " : "", w->from.device, w->n_modules, n_untied(w),
                        (long long)lw_workload_numel(w, false),
                        lw_format_bytes(bytes, param_bytes(w)));
    if (framework)
        lw_framework_choice_print(framework, stdout);
    if (w->idle_numel > 0)
        printf("%lld elements are active: a token uses them\n",
               (long long)(lw_workload_numel(w, false) - w->idle_numel));
    if (timed)
        lw_printf_paragraph(stdout, "step of one device %s: forward %s, backward %s, optimizer %s",
                        lw_format_ps(step, lw_workload_step_ps(w)),
                        lw_format_ps(forward, lw_workload_forward_ps(w)),
                        lw_format_ps(backward, lw_workload_backward_ps(w)),
                        lw_format_ps(optimizer, w->optimizer_ps));
    printf("forward %.4g flops of matrix products\n",
           (double)sum_of(w, offsetof(struct lw_module, forward_flops)));
    lw_printf_paragraph(stdout,
                        "activations kept %s, with selective recomputation %s, with full %s",
                        lw_format_bytes(none, kept(w, LW_RECOMPUTE_NONE)),
                        lw_format_bytes(part, kept(w, LW_RECOMPUTE_SELECTIVE)),
                        lw_format_bytes(full, kept(w, LW_RECOMPUTE_FULL)));
    for (int32_t i = 0; i < w->n_notes; i++)
        lw_put_paragraph(stdout, "  ", w->notes[i]);
    if (output)
        printf("wrote %s\n", output);
}

enum lw_status traces_model_print(const struct lw_workload *w,
                                  const struct lw_framework_choice *framework, const char *output,
                                  enum lw_format format, struct lw_err *err)
{
    if (format == LW_FORMAT_CSV)
        return lw_records_csv(&LW_RECORDS("modules", module_columns, w->modules, w->n_modules),
                              stdout, err);
    (format == LW_FORMAT_JSON ? put_json : put_text)(w, framework, output);
    return LW_OK;
}

struct listed {
    struct traces_model model;
    int64_t numel;
    int32_t n_modules;
};

#define AT(field) offsetof(struct listed, field)
static const struct lw_column listed_columns[] = {
    {"name", "model", LW_COLUMN_STRING, AT(model.name)},
    {"numel", ">parameters", LW_COLUMN_INT, AT(numel)},
    {"n_modules", ">modules", LW_COLUMN_INT32, AT(n_modules)},
    {"dtype", "dtype", LW_COLUMN_STRING, AT(model.defaults.dtype)},
    {"about", "about", LW_COLUMN_STRING, AT(model.about)},
    {"source", "source", LW_COLUMN_STRING, AT(model.source)},
};
#undef AT

static enum lw_status size_of(struct listed *l, struct lw_err *err)
{
    struct traces_model_shape shape = {0};
    const struct lw_device none = traces_no_device();
    struct lw_workload w;

    LW_TRY(traces_model_build(l->model.name, &shape, &none, &w, err));
    l->numel = lw_workload_numel(&w, false);
    l->n_modules = w.n_modules;
    lw_workload_free(&w);
    return LW_OK;
}

enum lw_status traces_models_list(enum lw_format format, struct lw_err *err)
{
    int n = 0;
    enum lw_status s = LW_OK;

    while (traces_model_at(n))
        n++;
    struct listed *rows;

    LW_NEW(rows, n, err);
    for (int k = 0; s == LW_OK && k < n; k++) {
        rows[k].model = *traces_model_at(k);
        s = size_of(&rows[k], err);
    }
    const struct lw_records models = LW_RECORDS("models", listed_columns, rows, n);
    if (s == LW_OK)
        s = lw_records_print(&models, format, stdout, err);
    lw_free(rows);
    return s;
}
