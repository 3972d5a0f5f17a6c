/* Two tables of rows into one. Numbers of texts are by first appearance, so those of the second are
 * mapped to what is found in, or added to, the first. */
#include "traces/trace/append_trace.h"

#include <string.h>

struct joiner {
    struct lw_trace *to, *from;
    int32_t *string; /* [from's strings] number in `to` */
    struct lw_err *err;
};

static enum lw_status map_strings(struct joiner *x)
{
    struct traces_strings *s = &x->to->strings;
    const struct traces_strings *f = &x->from->strings;

    LW_NEW(x->string, f->n + 1, x->err);
    for (int32_t i = 0; i < (int32_t)f->n; i++) {
        x->string[i] = traces_strings_add(s, f->text[i], strlen(f->text[i]));
        if (x->string[i] < 0)
            return lw_fail_nomem(x->err);
    }
    return LW_OK;
}

/* A row whose device is not recorded has the number of the first, so numbers cannot be mapped. */
bool lw_trace_can_append(const struct lw_trace *to, const struct lw_trace *from)
{
    int32_t least = to->n_devices < from->n_devices ? to->n_devices : from->n_devices;

    return memcmp(to->device_id, from->device_id, (size_t)least * sizeof *to->device_id) == 0;
}

static int32_t text(const struct joiner *x, int32_t string)
{
    return string >= 0 ? x->string[string] : string;
}

static int32_t text_plus_one(const struct joiner *x, int32_t number)
{
    return number > 0 ? x->string[number - 1] + 1 : number;
}

static struct lw_row_detail map_detail(const struct joiner *x, const struct lw_row_detail *d)
{
    struct lw_row_detail to = *d;

    to.op = text(x, d->op);
    to.dtype = text(x, d->dtype);
    to.group = text(x, d->group);
    to.shape_type = text(x, d->shape_type);
    to.input_sizes = text_plus_one(x, d->input_sizes);
    to.input_types = text_plus_one(x, d->input_types);
    to.input_values = text_plus_one(x, d->input_values);
    return to;
}

static enum lw_status append_rows(struct joiner *x)
{
    const struct lw_trace *f = x->from;

    for (int64_t i = 0; i < f->n; i++) {
        bool on_stream = lw_trace_on_device(f, i) || f->class[i] == LW_ROW_SYNC;
        struct lw_row row = {.class = (enum lw_row_class)f->class[i],
                             .start_ns = f->start_ns[i],
                             .dur_ns = f->dur_ns[i],
                             .link = f->link[i],
                             .name = text(x, f->name[i]),
                             .track = on_stream ? f->track[i] : text(x, f->track[i]),
                             .record = f->record[i]};
        struct lw_row_detail d;
        if (f->detail[i] >= 0)
            d = map_detail(x, &f->details[f->detail[i]]);
        LW_TRY(lw_trace_add(x->to, &row, f->detail[i] >= 0 ? &d : NULL, x->err));
    }
    return LW_OK;
}

static void append_facts(struct joiner *x)
{
    struct lw_trace *t = x->to;
    const struct lw_trace *f = x->from;

    t->n_events += f->n_events;
    t->n_negative += f->n_negative;
    t->base_ns = f->base_ns != 0 ? f->base_ns : t->base_ns;
    t->rank = f->rank >= 0 ? f->rank : t->rank;
    t->world_size = f->world_size >= 0 ? f->world_size : t->world_size;
    t->device = f->device >= 0 ? text(x, f->device) : t->device;
    t->backend = f->backend >= 0 ? text(x, f->backend) : t->backend;
    t->copies_hide_comm |= f->copies_hide_comm;
    if (f->n_devices > t->n_devices) {
        memcpy(t->device_id, f->device_id, sizeof t->device_id);
        t->n_devices = f->n_devices;
    }
}

enum lw_status lw_trace_append(struct lw_trace *to, struct lw_trace *from, struct lw_err *err)
{
    struct joiner x = {.to = to, .from = from, .err = err};
    enum lw_status status = map_strings(&x);

    if (status == LW_OK)
        status = append_rows(&x);
    if (status == LW_OK) {
        append_facts(&x);
        lw_trace_free(from);
    }
    lw_free(x.string);
    return status;
}
