/* `explain --memory` as text, JSON and CSV (one line a part). */
#include "analysis/explain/memory_print.h"

#include <stddef.h>

#include "analysis/study/prediction.h"
#include "shared/numbers/units.h"
#include "shared/text/wrap.h"
#include "shared/timeline/summary_print.h"

enum { CHANGES_SHOWN = 3 };

#define AT(field) offsetof(struct lw_memory_part, field)
static const struct lw_column part_columns[] = {
    {"kind", NULL, LW_COLUMN_STRING, AT(kind)},
    {"bytes", ">bytes", LW_COLUMN_BYTES, AT(bytes)},
    {"share_pct", NULL, LW_COLUMN_REAL, AT(share_pct), .digits = 3},
    {NULL, ">%", LW_COLUMN_REAL, AT(share_pct), .digits = 1},
    {"what", "what", LW_COLUMN_STRING, AT(name)},
    {"first_module", NULL, LW_COLUMN_INT32, AT(first_module), .lacking = ""},
    {"last_module", NULL, LW_COLUMN_INT32, AT(last_module), .lacking = ""},
    {"n_modules", NULL, LW_COLUMN_INT32, AT(n_modules)},
};
#undef AT

static const char *fits_word(int fits)
{
    return fits < 0 ? "not known" : fits ? "fits" : "does not fit";
}

#define AT(field) offsetof(struct lw_memory_change_tried, field)
static const struct lw_column change_columns[] = {
    {"options", NULL, LW_COLUMN_STRING, AT(options)},
    {"saved_bytes", ">saved", LW_COLUMN_BYTES, AT(saved)},
    {"device_bytes", ">a device", LW_COLUMN_BYTES, AT(device)},
    {"fits", "", LW_COLUMN_WORD, AT(fits), .word = fits_word},
    {"step_ns", NULL, LW_COLUMN_MS, AT(step)},
    {"change_ns", ">step ms", LW_COLUMN_CHANGE_MS, AT(change)},
    {"change_pct", ">%", LW_COLUMN_CHANGE_PCT, AT(change_pct)},
    {"framework", NULL, LW_COLUMN_STRING, AT(framework)},
    {NULL, "by", LW_COLUMN_STRING, AT(shown)},
};
static const struct lw_column refused_columns[] = {
    {"options", NULL, LW_COLUMN_STRING, AT(options)},
    {"why", NULL, LW_COLUMN_STRING, AT(why)},
};
#undef AT

static enum lw_status put_changes(const struct lw_memory_report *r, FILE *f, struct lw_err *err)
{
    const struct lw_memory_changes_tried *c = r->changes;
    bool all = r->all || c->n_saving <= CHANGES_SHOWN;
    int32_t n = all ? c->n_saving : CHANGES_SHOWN;

    if (r->why) {
        lw_printf_paragraph(f, "\nchanges are not tried: %s", r->why);
        return LW_OK;
    }
    if (n == 0)
        lw_printf_paragraph(f, "\nno change of those that apply saves memory");
    else if (all)
        fprintf(f, "\nchanges that save memory, each planned and simulated again\n");
    else
        fprintf(f, "\nthe %d of %d changes that save most, each planned and simulated again "
                   "(--all prints every one)\n", n, c->n_saving);
    if (n > 0)
        LW_TRY(lw_records_text(&LW_RECORDS(NULL, change_columns, c->v, n), f, 0, err));
    for (int32_t i = c->n_saving; i < c->n; i++)
        lw_printf_paragraph(f, "not possible: %s: %s", c->v[i].options, c->v[i].why);
    return LW_OK;
}

static enum lw_status put_text(const struct lw_memory_report *r, FILE *f, struct lw_err *err)
{
    const struct lw_memory_story *x = r->story;
    char device[32], reserved[32], allocated[32];

    LW_TRY(lw_memory_figures_text(&r->s->memory, &r->s->cluster.device, f, err));
    LW_TRY(lw_summary_text_memory(&r->s->summary, &r->s->plan, f, err));
    if (x->in_step)
        lw_printf_paragraph(f, "the optimizer's step of rank %d holds more than that: these parts "
                               "are of it", x->at.rank);
    lw_printf_paragraph(f, "\nrank %d at its peak: %s of tensors (allocated), %s with what the "
                           "allocator holds (reserved), %s of the device\n", x->at.rank,
                        lw_format_bytes(allocated, x->allocated),
                        lw_format_bytes(reserved, x->reserved), lw_format_bytes(device, x->device));
    LW_TRY(lw_records_text(&LW_RECORDS(NULL, part_columns, x->parts, x->n_parts), f, 0, err));
    lw_printf_paragraph(f, "together %s, exactly what a device takes", device);
    return put_changes(r, f, err);
}

static void put_json(const struct lw_memory_report *r, FILE *f)
{
    struct lw_jsonout o = {.file = f};
    const struct lw_memory_story *x = r->story;
    const struct lw_memory_changes_tried *c = r->changes;

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "plan", r->s->plan.name, "plan_hash", r->s->plan.hash, "rank", x->at.rank,
            "in_optimizer_step", x->in_step, "allocated_bytes", x->allocated, "reserved_bytes",
            x->reserved, "device_bytes", x->device, "missing_bytes",
            lw_known(lw_memory_missing_bytes(&r->s->memory, &r->s->cluster.device)));
    lw_records_json(&o, &LW_RECORDS("parts", part_columns, x->parts, x->n_parts));
    lw_records_json(&o, &LW_RECORDS("changes", change_columns, c->v, c->n_saving));
    lw_records_json(&o, &LW_RECORDS("not_possible", refused_columns, c->v + c->n_saving,
                                    c->n - c->n_saving));
    lw_jsonout_string(&o, "changes_note", r->why);
    lw_jsonout_end(&o);
}

enum lw_status lw_memory_report_print(const struct lw_memory_report *r, enum lw_format format,
                                      FILE *f, struct lw_err *err)
{
    const struct lw_memory_story *x = r->story;

    if (format == LW_FORMAT_TEXT)
        return put_text(r, f, err);
    if (format == LW_FORMAT_CSV)
        return lw_records_csv(&LW_RECORDS("parts", part_columns, x->parts, x->n_parts), f, err);
    put_json(r, f);
    return LW_OK;
}
