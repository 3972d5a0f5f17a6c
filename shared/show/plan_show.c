/* What a person or a program sees of a plan: text, CSV of its buckets, one JSON object. */
#include "shared/show/plan_show.h"

#include <stddef.h>
#include <string.h>

#include "shared/plan/op.h"
#include "shared/show/plan_stages.h"
#include "shared/show/plan_units.h"
#include "shared/strategy/strategy.h"
#include "shared/text/records.h"
#include "shared/text/wrap.h"

static const char *const mem_names[LW_N_MEM] = {"parameters", "gradients", "optimizer", "buckets",
                                                "workspaces"};

/* The variant whose launches are shown for a set: the last that uses it, or any for weights and
 * copies. */
static int32_t variant_of_set(const struct lw_plan *p, const struct lw_bucket_set *set)
{
    int32_t found = set->kind == LW_BUCKET_GRADIENTS ? -1 : p->n_variants - 1;

    for (int32_t v = 0; v < p->n_variants; v++)
        if (lw_plan_uses_set(p, v, (int32_t)(set - p->sets)))
            found = v;
    return found;
}

/* Launch points of a set of gradients, to be freed; of another set all -1. NULL: no memory. */
static struct lw_launch_point *points_of(const struct lw_plan *p, const struct lw_bucket_set *set)
{
    struct lw_launch_point *v = lw_alloc(((size_t)set->n_buckets + 1) * sizeof *v);
    bool launched = set->kind == LW_BUCKET_GRADIENTS;

    for (int32_t i = 0; v && !launched && i < set->n_buckets; i++)
        v[i] = (struct lw_launch_point){-1, -1, -1};
    if (v && launched)
        lw_plan_launch_points(p, variant_of_set(p, set), set->first_bucket, set->n_buckets, v);
    return v;
}

struct bucket_row {
    const char *set, *dtype;
    int32_t bucket, n_slots, n_ready;
    int64_t bytes, limit_bytes;
    lw_ps at;
    char after[24]; /* n_ready as text, or why it has no number */
};

#define AT(field) offsetof(struct bucket_row, field)
static const struct lw_column bucket_columns[] = {
    {"set", "set", LW_COLUMN_STRING, AT(set)},
    {"bucket", ">bucket", LW_COLUMN_INT32, AT(bucket)},
    {"dtype", "dtype", LW_COLUMN_STRING, AT(dtype)},
    {"gradients", ">gradients", LW_COLUMN_INT32, AT(n_slots)},
    {"bytes", ">size", LW_COLUMN_BYTES, AT(bytes)},
    {"limit bytes", ">limit", LW_COLUMN_BYTES, AT(limit_bytes), .lacking = "none"},
    {"launched after gradients", NULL, LW_COLUMN_INT32, AT(n_ready), .lacking = ""},
    {NULL, ">launched after gradient", LW_COLUMN_CHARS, AT(after)},
    {"launched at ns of backward", ">at, in the backward", LW_COLUMN_PS, AT(at), .lacking = "-"},
};
#undef AT

/* Weights are sent after the optimizer or gathered in the next step, copies and norms are summed
 * before the optimizer. */
static struct bucket_row row_of(const struct lw_plan *p, const struct lw_bucket_set *set, int32_t i,
                                const struct lw_launch_point *at)
{
    const struct lw_bucket *b = &p->buckets[i];
    struct bucket_row row = {.set = set->name,
                             .dtype = lw_dtype_name(b->dtype),
                             .bucket = i,
                             .n_slots = b->n_slots,
                             .n_ready = at->n_ready,
                             .bytes = b->bytes,
                             .limit_bytes = b->limit_bytes > 0 ? b->limit_bytes : -1,
                             .at = at->at};

    if (set->kind == LW_BUCKET_GRADIENTS)
        snprintf(row.after, sizeof row.after, "%d", at->n_ready);
    else
        snprintf(row.after, sizeof row.after, "%s",
                 set->kind != LW_BUCKET_WEIGHTS          ? "all gradients"
                 : p->strategy->overlap_param_gather ? "next step"
                                                     : "optimizer");
    return row;
}

/* In text without the units that are gathered: lw_plan_show_units. */
static enum lw_status bucket_table(const struct lw_plan *p, const struct lw_plan_units *units,
                                   bool csv, struct lw_err *err)
{
    struct bucket_row *rows;
    int64_t n = 0;
    enum lw_status st = LW_OK;

    LW_NEW(rows, p->n_buckets, err);
    for (int32_t s = 0; st == LW_OK && s < p->n_sets; s++) {
        const struct lw_bucket_set *set = &p->sets[s];
        struct lw_launch_point *points = points_of(p, set);
        st = points ? LW_OK : lw_fail_nomem(err);
        for (int32_t i = 0; points && i < set->n_buckets; i++)
            if (csv || !lw_plan_is_gathered(units, set->first_bucket + i))
                rows[n++] = row_of(p, set, set->first_bucket + i, &points[i]);
        lw_free(points);
    }
    const struct lw_records r = LW_RECORDS("buckets", bucket_columns, rows, n);
    if (st == LW_OK)
        st = csv ? lw_records_csv(&r, stdout, err) : lw_records_text(&r, stdout, 2, err);
    lw_free(rows);
    return st;
}

static void count_kinds(const struct lw_plan *p, int32_t variant, int64_t n[LW_N_OP_KINDS])
{
    memset(n, 0, LW_N_OP_KINDS * sizeof *n);
    for (int32_t r = 0; r < p->n_roles; r++) {
        struct lw_program g = p->programs[(int64_t)variant * p->n_roles + r];
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
            n[lw_op_at(p, i).kind]++;
    }
}

/* "accumulate x 3, first, repeated: accumulate x 3, steady" */
static enum lw_status show_passes(const struct lw_plan *p, struct lw_err *err)
{
    struct lw_paragraph line;
    FILE *f = lw_paragraph_open(&line, stdout, NULL);

    fprintf(f, "\npasses:");
    for (int32_t i = 0; i < p->n_passes;) {
        int32_t run = i + 1;
        while (run < p->n_passes && run != p->repeat_from &&
               p->pass_variant[run] == p->pass_variant[i])
            run++;
        fprintf(f, "%s%s %s", i > 0 ? "," : "", i == p->repeat_from ? " repeated:" : "",
               p->variants[p->pass_variant[i]].name);
        if (run - i > 1)
            fprintf(f, " x %d", run - i);
        i = run;
    }
    return lw_paragraph_close(&line, err);
}

static void put_kinds(const char *variant, const int64_t n[LW_N_OP_KINDS])
{
    char before[96], text[1024] = "";
    size_t at = 0;

    snprintf(before, sizeof before, "  %s:", variant);
    for (int k = 0; k < LW_N_OP_KINDS; k++)
        if (n[k] > 0 && at < sizeof text)
            at += (size_t)snprintf(text + at, sizeof text - at, " %s %lld",
                                   lw_op_name((enum lw_op_kind)k), (long long)n[k]);
    lw_put_paragraph(stdout, before, text);
}

/* At its largest, with activations. */
static enum lw_status show_memory(const struct lw_plan_shown *s, struct lw_err *err)
{
    char peak[32];

    if (!s->memory)
        lw_printf_paragraph(stdout, "peak memory: not predicted, %s", s->no_memory);
    else if (s->memory->peak_bytes >= 0)
        printf("peak memory %s a rank\n", lw_format_bytes(peak, s->memory->peak_bytes));
    return s->memory ? lw_memory_figures_text(s->memory, s->device, stdout, err) : LW_OK;
}

static void show_from_times(const struct lw_plan *p)
{
    struct lw_paragraph line;

    if (p->n_from_times == 0)
        return;
    FILE *f = lw_paragraph_open(&line, stdout, NULL);
    fprintf(f, "\ndecided by times, so perhaps otherwise on another machine:");
    for (int32_t i = 0; i < p->n_from_times; i++)
        fprintf(f, "%s %s", i > 0 ? "," : "", p->from_times[i]);
    (void)lw_paragraph_close(&line, NULL);
}

static enum lw_status show_text(const struct lw_plan_shown *shown, struct lw_plan_units *units,
                                struct lw_err *err)
{
    const struct lw_plan *p = shown->plan;

    printf("plan %s\n%s: %d rank%s, %d role%s, %d ops\n", p->hash, p->name, p->n_ranks,
           lw_plural(p->n_ranks), p->n_roles, lw_plural(p->n_roles), p->n_ops);
    lw_framework_choice_print(shown->framework, stdout);
    if (!lw_plan_has_times(p))
        puts(shown->framework->from == LW_FRAMEWORK_PLAN
                 ? "no times: it was made without -c NAME (or --device NAME)"
                 : "no times: give -c NAME (or --device NAME)");
    putchar('\n');
    if (p->n_roles > 1 && p->strategy->pp > 1) {
        LW_TRY(lw_plan_show_stages(p, err));
        printf("%d bucket%s in %d set%s (--format csv lists them)\n\n", p->n_buckets,
               lw_plural(p->n_buckets), p->n_sets, lw_plural(p->n_sets));
    } else if (p->n_buckets > 0) {
        printf("buckets\n");
        LW_TRY(bucket_table(p, units, false, err));
        LW_TRY(lw_plan_show_units(units, err));
        putchar('\n');
    }
    printf("ops by kind (all roles)\n");
    for (int32_t v = 0; v < p->n_variants; v++) {
        int64_t n[LW_N_OP_KINDS];
        count_kinds(p, v, n);
        put_kinds(p->variants[v].name, n);
    }
    if (p->strategy->pp == 1)
        printf("\nmemory of a rank, without activations\n");
    for (int32_t r = 0; p->strategy->pp == 1 && r < p->n_roles; r++) {
        struct lw_paragraph line;
        FILE *f = lw_paragraph_open(&line, stdout, NULL);
        fprintf(f, "  %s:", p->roles[r].name);
        for (int m = 0; m < LW_N_MEM; m++) {
            char text[32];
            fprintf(f, " %s %s", mem_names[m], lw_format_bytes(text, p->roles[r].static_bytes[m]));
        }
        LW_TRY(lw_paragraph_close(&line, err));
    }
    LW_TRY(show_memory(shown, err));
    LW_TRY(show_passes(p, err));
    show_from_times(p);
    printf("\ndecisions, and the rules after them\n");
    for (int32_t i = 0; i < p->n_notes; i++)
        lw_put_paragraph(stdout, "  ", p->notes[i]);
    return LW_OK;
}

static void json_set(struct lw_jsonout *o, const struct lw_plan *p, struct lw_plan_units *units,
                     const struct lw_bucket_set *set, const struct lw_launch_point *points)
{
    lw_jsonout_object(o, NULL);
    LW_JSON(o, "name", set->name, "stage", set->stage);
    lw_jsonout_array(o, "buckets");
    for (int32_t i = 0; i < set->n_buckets; i++) {
        const struct lw_bucket *b = &p->buckets[set->first_bucket + i];
        bool launched = set->kind == LW_BUCKET_GRADIENTS;
        struct lw_launch_point at = points[i];
        lw_jsonout_line_object(o, NULL);
        LW_JSON(o, "bucket", set->first_bucket + i, "bytes", b->bytes,
                "dtype", lw_dtype_name(b->dtype),
                "limit_bytes", lw_known_if(b->limit_bytes > 0, b->limit_bytes));
        if (!launched) { /* weights go after the optimizer, copies and norms before it */
            lw_jsonout_null(o, "launch_after_gradients");
            lw_jsonout_null(o, "launch_ns");
        } else {
            LW_JSON(o, "launch_after_gradients", at.n_ready, "launch_ns",
                    lw_known_if(at.at >= 0, lw_ps_to_ns(at.at)));
        }
        if (lw_plan_is_gathered(units, set->first_bucket + i)) {
            char text[256];
            int32_t unit = set->first_bucket + i;
            LW_JSON(o,
                    "gathered_before",
                    lw_plan_unit_uses(units, unit, LW_OP_ALL_GATHER, text, sizeof text),
                    "freed_after", lw_plan_unit_uses(units, unit, LW_OP_FREE, text, sizeof text));
        }
        lw_jsonout_array(o, "params");
        for (int32_t s = 0; s < b->n_slots; s++)
            lw_jsonout_int(o, NULL, p->slots[b->first_slot + s]);
        lw_jsonout_end(o);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
    lw_jsonout_end(o);
}

static void json_variants(struct lw_jsonout *o, const struct lw_plan *p)
{
    lw_jsonout_array(o, "variants");
    for (int32_t v = 0; v < p->n_variants; v++) {
        int64_t n[LW_N_OP_KINDS];
        count_kinds(p, v, n);
        lw_jsonout_object(o, NULL);
        LW_JSON(o, "name", p->variants[v].name,
                "bucket_set", *p->variants[v].set_name ? p->variants[v].set_name : NULL,
                "ends_step", p->variants[v].ends_step);
        lw_jsonout_line_object(o, "ops_by_kind");
        for (int k = 0; k < LW_N_OP_KINDS; k++)
            if (n[k] > 0)
                lw_jsonout_int(o, lw_op_name((enum lw_op_kind)k), n[k]);
        lw_jsonout_end(o);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

static enum lw_status show_json(const struct lw_plan_shown *shown, struct lw_plan_units *units,
                                struct lw_err *err)
{
    const struct lw_plan *p = shown->plan;
    const struct lw_memory_figures *memory = shown->memory;
    struct lw_jsonout o = {.file = stdout};

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "plan_hash", p->hash, "name", p->name, "n_ranks", p->n_ranks, "n_roles", p->n_roles,
            "n_ops", p->n_ops, "has_times", lw_plan_has_times(p));
    lw_framework_choice_json(&o, shown->framework);
    lw_jsonout_object(&o, "strategy");
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        char text[LW_STRATEGY_TEXT];
        lw_jsonout_string(&o, lw_strategy_option(i)->name, lw_strategy_get(p->strategy, i, text));
    }
    lw_jsonout_end(&o);
    lw_jsonout_array(&o, "bucket_sets");
    for (int32_t s = 0; s < p->n_sets; s++) {
        struct lw_launch_point *points = points_of(p, &p->sets[s]);
        if (!points)
            return lw_fail_nomem(err);
        json_set(&o, p, units, &p->sets[s], points);
        lw_free(points);
    }
    lw_jsonout_end(&o);
    json_variants(&o, p);
    lw_jsonout_line_array(&o, "passes");
    for (int32_t i = 0; i < p->n_passes; i++)
        lw_jsonout_string(&o, NULL, p->variants[p->pass_variant[i]].name);
    lw_jsonout_end(&o);
    lw_jsonout_int(&o, "repeat_from", p->repeat_from);
    lw_jsonout_array(&o, "roles");
    for (int32_t r = 0; r < p->n_roles; r++)
        LW_JSON_ROW(&o, NULL, "name", p->roles[r].name, "n_ranks", p->roles[r].n_ranks,
                    "parameter_bytes", p->roles[r].static_bytes[LW_MEM_PARAMS],
                    "gradient_bytes", p->roles[r].static_bytes[LW_MEM_GRADS],
                    "optimizer_bytes", p->roles[r].static_bytes[LW_MEM_OPTIMIZER],
                    "bucket_bytes", p->roles[r].static_bytes[LW_MEM_BUCKETS]);
    lw_jsonout_end(&o);
    LW_JSON(&o, "peak_memory_bytes", lw_known_if(memory && memory->peak_bytes >= 0,
                                                 memory ? memory->peak_bytes : -1));
    if (memory)
        lw_memory_figures_json(&o, memory);
    lw_jsonout_strings(&o, "from_times", p->from_times, p->n_from_times);
    lw_jsonout_strings(&o, "notes", p->notes, p->n_notes);
    lw_jsonout_end(&o);
    return LW_OK;
}

enum lw_status lw_plan_show(const struct lw_plan_shown *s, enum lw_format format,
                            struct lw_err *err)
{
    struct lw_plan_units *units;

    LW_TRY(lw_plan_units_new(s->plan, &units, err));
    enum lw_status status = format == LW_FORMAT_CSV    ? bucket_table(s->plan, units, true, err)
                            : format == LW_FORMAT_TEXT ? show_text(s, units, err)
                                                       : show_json(s, units, err);
    lw_plan_units_free(units);
    return status;
}
