/* Rows of tables of measured runs. Configuration and measurement are read by two functions, so
 * that no measured column can reach a prediction. */
#include "analysis/published/run_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct lw_run, field)
/* The column's title is the field's name. */
#define TITLED(field) {#field, #field, AT(field)}
static const struct {
    const char *name, *title; /* of the column, unless the table has an alias */
    size_t at;
} texts[] = {
    TITLED(gpu), TITLED(network), TITLED(model), TITLED(framework), TITLED(zero),
    TITLED(precision), TITLED(recompute), {"attention", "flash_attn", AT(attention)},
    TITLED(seq_parallel), TITLED(overlap), TITLED(dist_optimizer), {"family", "", AT(family)},
    {"tied", "tied_embeddings", AT(tied)}, {"grad_dtype", "", AT(grad_dtype)},
    {"partition", "", AT(partition)}, {"offload", "cpu_offload", AT(offload)},
    {"options", "step_variant", AT(options)}, TITLED(linear_bias), TITLED(task),
    TITLED(compile), TITLED(schedule), {"flops", "", AT(flops)}, {"memory", "", AT(memory)},
    {"moe", "moe_variant", AT(moe)}, TITLED(expert_capacity),
    {"state", "node_state", AT(state)},
};

static const struct {
    const char *name, *title;
    size_t at;
} numbers[] = {
    TITLED(gpus), TITLED(gpus_per_node), TITLED(layers), TITLED(hidden), TITLED(ffn),
    TITLED(heads), TITLED(kv_heads), TITLED(vocab), TITLED(seq), TITLED(gbs), TITLED(mbs),
    {"micro_batches", "grad_accum", AT(micro_batches)}, TITLED(tp), TITLED(pp),
    {"model_parallel", "model_parallel_size", AT(model_parallel)}, TITLED(vpp), TITLED(dp),
    TITLED(cp), TITLED(ep), TITLED(etp), TITLED(experts), TITLED(topk), TITLED(moe_ffn),
    {"shared_ffn", "shared_expert_ffn", AT(shared_ffn)}, TITLED(dense_layers),
    TITLED(batch_per_dp),
};
#undef AT
#undef TITLED

enum {
    N_TEXTS = sizeof texts / sizeof *texts,
    N_NUMBERS = sizeof numbers / sizeof *numbers,
    TEXT_ROOM = 160,
    LARGEST = 1 << 30,
};

const struct lw_run_table *lw_run_table_of(const struct lw_input *in)
{
    for (const struct lw_run_table *t = lw_run_tables; t->name; t++)
        if (lw_rows_have(in, t->titles))
            return t;
    return NULL;
}

/* The text after "key=" (or "key:") in a list of entries separated by ';'; false: no such entry. */
static bool entry(const char *list, const char *key, char *out, size_t size)
{
    size_t n = strlen(key);

    for (const char *at = list; at && *at; at += strcspn(at, ";"), at += *at == ';') {
        if (strncmp(at, key, n) != 0 || at[n] != '=')
            continue;
        size_t len = strcspn(at + n + 1, ";");
        snprintf(out, size, "%.*s", (int)len, at + n + 1);
        return true;
    }
    return false;
}

struct reader {
    const struct lw_run_table *t;
    const struct lw_run_variant *v;
    const struct lw_rows *rows;
    int32_t row;
};

static const char *cell_of(const struct reader *r, const char *name, const char *title)
{
    char alias[TEXT_ROOM];

    return lw_rows_cell(r->rows, r->row,
                        entry(r->t->aliases, name, alias, sizeof alias) ? alias : title);
}

static enum lw_status read_text(const struct reader *r, int k, struct lw_arena *arena,
                                struct lw_run *out, struct lw_err *err)
{
    char set[TEXT_ROOM];
    const char *text = cell_of(r, texts[k].name, texts[k].title);

    if (entry(r->v->settings, texts[k].name, set, sizeof set) ||
        (!*text && entry(r->t->settings, texts[k].name, set, sizeof set)))
        text = set;
    const char *own = lw_arena_strdup(arena, text);
    if (!own)
        return lw_fail_nomem(err);
    *(const char **)((char *)out + texts[k].at) = own;
    return LW_OK;
}

/* "128" and "128.0"; -1: anything else, as "250k" and "". */
static int64_t whole(const char *text)
{
    char *end;
    long long v = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;

    if (v < 0 || v > LARGEST)
        return -1;
    return !*end || strcmp(end, ".0") == 0 ? v : -1;
}

static enum lw_status read_number(const struct reader *r, int k, struct lw_run *out,
                                  struct lw_err *err)
{
    char set[TEXT_ROOM];
    const char *text = cell_of(r, numbers[k].name, numbers[k].title);
    int64_t v = whole(text);

    if (*text == '-')
        return lw_fail_at(err, LW_EFORMAT, r->rows->file, r->rows->line[r->row],
                          "%s: found '%s', allowed: whole numbers of 0 or more", numbers[k].title,
                          text);
    if (entry(r->v->settings, numbers[k].name, set, sizeof set) ||
        (v < 0 && entry(r->t->settings, numbers[k].name, set, sizeof set)))
        v = whole(set);
    *(int64_t *)((char *)out + numbers[k].at) = v < 0 ? 0 : v;
    return LW_OK;
}

enum lw_status lw_run_read(const struct lw_run_table *t, const struct lw_run_variant *v,
                           const struct lw_rows *rows, int32_t row, struct lw_arena *arena,
                           struct lw_run *out, struct lw_err *err)
{
    const struct reader r = {t, v, rows, row};

    *out = (struct lw_run){.gpus = 0};
    for (int k = 0; k < N_TEXTS; k++)
        LW_TRY(read_text(&r, k, arena, out, err));
    for (int k = 0; k < N_NUMBERS; k++)
        LW_TRY(read_number(&r, k, out, err));
    return LW_OK;
}

/* --- measured columns ------------------------------------------------------------------------- */

/* Seconds of a step from a printed value, or 0 where another figure is missing. */
static double step_of(const char *unit, double v, const struct lw_run *run, double flops,
                      double peak)
{
    double tokens = (double)run->gbs * (double)run->seq, n = (double)run->gpus;

    if (strcmp(unit, "s") == 0)
        return v;
    if (strcmp(unit, "ms") == 0)
        return v * 1e-3;
    if (strcmp(unit, "tok/s") == 0)
        return tokens / v;
    if (strcmp(unit, "tok/s/dev") == 0)
        return n > 0 ? tokens / v / n : 0;
    if (strcmp(unit, "samples/s") == 0)
        return (double)run->gbs / v;
    if (strcmp(unit, "samples/s/dev") == 0)
        return n > 0 ? (double)run->gbs / v / n : 0;
    if (strcmp(unit, "TFLOP/s/dev") == 0)
        return n > 0 ? flops / (v * 1e12 * n) : 0;
    if (strcmp(unit, "MFU%") == 0)
        return n > 0 && peak > 0 ? flops / (v * 0.01 * peak * n) : 0;
    return 0;
}

static const struct {
    const char *unit;
    double bytes;
} memory_units[] = {{"GB", 1e9}, {"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"MB", 1e6}};

static double memory_of(const char *unit, double v)
{
    for (size_t k = 0; k < sizeof memory_units / sizeof *memory_units; k++)
        if (strcmp(unit, memory_units[k].unit) == 0)
            return v * memory_units[k].bytes;
    return 0;
}

/* The number of a cell, or 0 where it is empty or not a number. */
static double number_of(const char *cell)
{
    char *end;
    double v = *cell ? strtod(cell, &end) : 0;

    return *cell && !*end && v > 0 && v < 1e300 ? v : 0;
}

/* Of "step_s:s;mem_gb:GB" the title of the entry at `at`. */
static const char *title_at(const char *at, char *title, size_t size)
{
    snprintf(title, size, "%.*s", (int)strcspn(at, ":"), at);
    return title;
}

static const char *next_entry(const char *at)
{
    at += strcspn(at, ";");
    return at + (*at == ';');
}

/* A word ("OOM", "-", "n/a") is a cell without a measurement; "5,2", "5.2 s" and "-3" are neither.
 */
static bool is_measured_or_not(const char *cell)
{
    char *end;
    double v = *cell ? strtod(cell, &end) : 0;

    return strpbrk(cell, "0123456789") == NULL || (!*end && v >= 0 && v < 1e300);
}

enum lw_status lw_run_check(const struct lw_run_table *t, const struct lw_run_variant *v,
                            const struct lw_rows *rows, int32_t row, struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct lw_run run;
    char title[TEXT_ROOM];
    enum lw_status status = lw_run_read(t, v, rows, row, &scratch, &run, err);

    lw_arena_free(&scratch);
    for (const char *at = v->measured; status == LW_OK && *at; at = next_entry(at)) {
        const char *cell = lw_rows_column(rows, title_at(at, title, sizeof title)) < 0
                               ? "" : lw_rows_cell(rows, row, title);
        if (!is_measured_or_not(cell))
            status = lw_fail_at(err, LW_EFORMAT, rows->file, rows->line[row],
                                "%s: found '%.40s', expected a number of 0 or more, or an empty "
                                "cell where nothing was measured", title, cell);
    }
    return status;
}

static bool is_failure(const char *status)
{
    return strstr(status, "OOM") || strstr(status, "out of memory") || strstr(status, "crash");
}

void lw_run_measure(const struct lw_run_variant *v, const struct lw_rows *rows, int32_t row,
                    const struct lw_run *run, double step_flops, double peak,
                    struct lw_run_measured *out)
{
    char title[TEXT_ROOM], unit[32];

    *out = (struct lw_run_measured){.by = "",
                                    .failed = is_failure(lw_rows_cell(rows, row, "status"))};
    for (const char *at = v->measured; *at; at = next_entry(at)) {
        size_t n = strlen(title_at(at, title, sizeof title));
        snprintf(unit, sizeof unit, "%.*s", (int)strcspn(at + n + 1, ";"), at + n + 1);
        int32_t column = lw_rows_column(rows, title);
        double found = column < 0 ? 0 : number_of(lw_rows_cell(rows, row, title));
        if (found <= 0)
            continue;
        double step = step_of(unit, found, run, step_flops, peak);
        if (step > 0 && out->step_s == 0) {
            out->step_s = step;
            out->by = rows->titles[column];
        }
        if (out->memory_bytes == 0)
            out->memory_bytes = memory_of(unit, found);
    }
}
