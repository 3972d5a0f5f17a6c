/* The sidecar of a recording (record_ddp.py: "lapwing": 1, "kind": "recording").
 *
 * Indexes (ready_order, a module's parameters) are checked against the parameters once all is read,
 * since key order is free. What is not needed for a workload (raw step times, DDP's own timers) is
 * skipped. */
#include "traces/kineto/sidecar.h"

#include <stdlib.h>
#include <string.h>

#include "shared/files/files_field.h"
#include "shared/io/input.h"
#include "shared/json/dtype_read.h"
#include "shared/workload/buffer.h"

struct module {
    const char *name;
    int32_t n;
    int32_t *params;
};

struct document {
    struct traces_sidecar s;
    const char *kind;
    int64_t version;
    int32_t n_modules, n_ready_ns;
    struct module *modules;
    int64_t *ready_ns; /* [n_ready_ns]: by parameter */
};

/* A time; picoseconds must fit int64 several times over. */
#define NS(json, at_)                                                                              \
    {.name = json, .kind = LW_FIELD_INT64, .at = at_, .absent = -1, .least = INT64_MIN,            \
     .most = INT64_MAX / 4000}
#define NS_LIST(json, at_, n_at_)                                                                  \
    {.name = json, .kind = LW_FIELD_INTS64, .at = at_, .n_at = n_at_, .least = INT64_MIN,          \
     .most = INT64_MAX / 4000}

/* ---- fields that are more than a number or a text ---- */

static void read_dtype(struct lw_fields *r, void *to)
{
    *(enum lw_dtype *)to = lw_dtype_read(r->j);
}

/* The first number of a shape; 0 of a scalar, and where it is null. */
static void read_shape(struct lw_fields *r, void *base)
{
    struct traces_param *p = base;

    p->rows = 0;
    if (!lw_json_enter(r->j, LW_JSON_ARRAY))
        return;
    for (int32_t i = 0; lw_json_next(r->j); i++) {
        int64_t n = lw_json_type(r->j) == LW_JSON_NULL ? -1 : lw_json_int64(r->j);
        if (i == 0 && n > 0)
            p->rows = n;
    }
}

/* "SGD, momentum 0.9", "AdamW": whose state the parameters have. */
static void read_optimizer(struct lw_fields *r, void *base)
{
    struct traces_sidecar *s = base;
    const char *text = lw_json_string(r->j, NULL), *momentum = strstr(text, "momentum");

    if (strcmp(text, "Adam") == 0 || strncmp(text, "AdamW", 5) == 0 ||
        strncmp(text, "Adam,", 5) == 0)
        s->optimizer = LW_OPTIMIZER_ADAM;
    else if (strncmp(text, "SGD", 3) == 0)
        s->optimizer = momentum && strtod(momentum + strlen("momentum"), NULL) > 0
                           ? LW_OPTIMIZER_MOMENTUM
                           : LW_OPTIMIZER_SGD;
}

/* ---- the tables ---- */

#define AT(field) offsetof(struct traces_param, field)
static const struct lw_field param_fields[] = {
    LW_F_STRING("name", AT(name)),
    LW_F_MUST_INT64("numel", AT(numel)),
    LW_F_OWN("shape", read_shape, NULL),
    {.name = "dtype", .kind = LW_FIELD_OWN, .at = AT(dtype), .takes_null = true,
     .read = read_dtype},
    LW_F_BOOL("requires_grad", AT(requires_grad), true),
    LW_F_BOOL("sparse", AT(sparse), false),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_buffer, field)
static const struct lw_field buffer_fields[] = {
    LW_F_STRING("name", AT(name)),
    LW_F_MUST_INT64("numel", AT(numel)),
    {.name = "dtype", .kind = LW_FIELD_OWN, .at = AT(dtype), .takes_null = true,
     .read = read_dtype},
    {0},
};
#undef AT

#define AT(field) offsetof(struct module, field)
static const struct lw_field module_fields[] = {
    LW_F_STRING("name", AT(name)),
    {.name = "parameters", .kind = LW_FIELD_INTS32, .at = AT(params), .n_at = AT(n),
     .most = INT32_MAX},
    {0},
};
#undef AT

#define AT(field) offsetof(struct traces_summary, field)
static const struct lw_field summary_fields[] = {
    NS("median", AT(median)), NS("p25", AT(p25)), NS("p75", AT(p75)), {0}};
static const struct lw_field median_fields[] = {NS("median", AT(median)), {0}};
#undef AT

#define PHASE(json, field) LW_F_OBJECT(json, offsetof(struct traces_measured, field), median_fields)
static const struct lw_field measured_fields[] = {
    LW_F_OBJECT("step_ns", offsetof(struct traces_measured, step), summary_fields),
    PHASE("zero_grad_ns", zero_grad), PHASE("forward_ns", forward),
    PHASE("backward_ns", backward), PHASE("optimizer_ns", optimizer), {0}};

#define AT(field) offsetof(struct traces_sidecar, field)
static const struct lw_field logged_fields[] = {
    NS_LIST("rebuilt_bucket_sizes_bytes", AT(bucket_bytes), AT(n_buckets)), {0}};

static const struct lw_field ddp_fields[] = {
    NS_LIST("limits_bytes", AT(limit_bytes), AT(n_limits)),
    LW_F_BOOL("broadcast_buffers", AT(broadcast_buffers), false),
    LW_F_OBJECT("logged", 0, logged_fields),
    {0},
};

static const struct lw_field cpu_fields[] = {
    LW_F_STRING("name", AT(cpu)),
    LW_F_INT32("cores", AT(n_cores), 0),
    LW_F_INT32("threads", AT(n_threads), 0),
    {0},
};

static void read_ddp(struct lw_fields *r, void *base)
{
    ((struct traces_sidecar *)base)->is_ddp = true;
    lw_fields_read(r, ddp_fields, base);
}
#undef AT

#define AT(field) offsetof(struct document, s.field)
static const struct lw_field document_fields[] = {
    {.name = "lapwing", .kind = LW_FIELD_INT64, .at = offsetof(struct document, version),
     .least = INT64_MIN, .most = INT64_MAX},
    LW_F_STRING("kind", offsetof(struct document, kind)),
    LW_F_STRING("model", AT(model)),
    LW_F_STRING("torch_version", AT(torch_version)),
    LW_F_OWN("optimizer", read_optimizer, NULL),
    LW_F_OBJECT("cpu", 0, cpu_fields),
    LW_F_STRING("gpu", AT(gpu)),
    LW_F_STRING("backend", AT(backend)),
    LW_F_INT32("rank", AT(rank), 0),
    LW_F_INT32("world_size", AT(world_size), 1),
    LW_F_LIST("parameters", AT(params), AT(n_params), param_fields, struct traces_param),
    LW_F_LIST("buffers", AT(buffers), AT(n_buffers), buffer_fields, struct lw_buffer),
    LW_F_LIST("modules", offsetof(struct document, modules), offsetof(struct document, n_modules),
              module_fields, struct module),
    {.name = "ready_order", .kind = LW_FIELD_INTS32, .at = AT(ready_order), .n_at = AT(n_ready),
     .most = INT32_MAX},
    NS_LIST("ready_ns", offsetof(struct document, ready_ns), offsetof(struct document, n_ready_ns)),
    LW_F_OBJECT("measured", AT(measured), measured_fields),
    LW_F_OWN("ddp", read_ddp, NULL),
    LW_F_ITEMS("fsdp_units", STRINGS, AT(fsdp_units), AT(n_fsdp_units)),
    {0},
};
#undef AT

/* ---- the whole ---- */

static enum lw_status own_params(struct document *d, struct lw_err *err)
{
    struct traces_sidecar *s = &d->s;

    s->n_modules = d->n_modules;
    LW_TAKE(&s->arena, s->modules, s->n_modules, err);
    for (int32_t i = 0; i < s->n_params; i++)
        s->params[i].module = s->params[i].ready_ns = -1;
    for (int32_t m = 0; m < s->n_modules; m++) {
        s->modules[m] = d->modules[m].name;
        for (int32_t k = 0; k < d->modules[m].n; k++) {
            int32_t p = d->modules[m].params[k];
            if (p < 0 || p >= s->n_params)
                return lw_fail(err, LW_EFORMAT, "%s: modules[%d]: parameter %d of %d", s->file, m,
                               p, s->n_params);
            if (s->params[p].module < 0)
                s->params[p].module = m;
        }
    }
    return LW_OK;
}

/* Indexes and lengths that only make sense once everything is there. */
static enum lw_status link_up(struct document *d, struct lw_err *err)
{
    struct traces_sidecar *s = &d->s;

    if (strcmp(d->kind, "recording") != 0 || d->version != 1)
        return lw_fail(err, LW_EFORMAT,
                       "%s: not a recording's sidecar (\"lapwing\": 1, \"kind\": \"recording\")",
                       s->file);
    LW_TRY(own_params(d, err));
    for (int32_t i = 0; i < s->n_ready; i++)
        if (s->ready_order[i] < 0 || s->ready_order[i] >= s->n_params)
            return lw_fail(err, LW_EFORMAT, "%s: ready_order[%d]: parameter %d of %d", s->file, i,
                           s->ready_order[i], s->n_params);
    if (d->ready_ns && d->n_ready_ns != s->n_params)
        return lw_fail(err, LW_EFORMAT, "%s: ready_ns has %d entries for %d parameters", s->file,
                       d->n_ready_ns, s->n_params);
    for (int32_t i = 0; i < s->n_params; i++) {
        const struct traces_param *p = &s->params[i];
        if (p->rows > 0 && p->numel % p->rows != 0)
            return lw_fail(err, LW_EFORMAT,
                           "%s: parameters[%d]: a shape of %lld rows does not divide %lld elements",
                           s->file, i, (long long)p->rows, (long long)p->numel);
        s->params[i].ready_ns = d->ready_ns ? d->ready_ns[i] : -1;
    }
    return LW_OK;
}

enum lw_status traces_sidecar_read(const char *file, struct traces_sidecar *out,
                                   struct lw_err *err)
{
    struct document d = {.s.arena = {0}};
    struct lw_input in;

    LW_TRY(lw_input_read(file, 0, &in, err));
    enum lw_status status =
        lw_foreign_read(file, in.text, in.len, document_fields, &d.s.arena, &d, err);
    lw_input_free(&in);
    if (status == LW_OK && !(d.s.file = lw_arena_strdup(&d.s.arena, file)))
        status = lw_fail_nomem(err);
    if (status == LW_OK)
        status = link_up(&d, err);
    LW_GIVE(status, out, d.s, traces_sidecar_free(&d.s));
}

LW_FREE_BY_ARENA(traces_sidecar_free, struct traces_sidecar)

char *traces_sidecar_path(const char *trace, struct lw_arena *arena)
{
    static const char tail[] = ".sidecar.json";
    size_t len = strlen(trace);

    if (len > 3 && strcmp(trace + len - 3, ".gz") == 0)
        len -= 3;
    if (len > 5 && strncmp(trace + len - 5, ".json", 5) == 0)
        len -= 5;
    char *path = lw_arena_alloc(arena, (int64_t)(len + sizeof tail), 1);
    if (path) {
        memcpy(path, trace, len);
        memcpy(path + len, tail, sizeof tail);
    }
    return path;
}
