/* The sidecar of a recording (record_ddp.py: "lapwing": 1, "kind": "recording").
 *
 * Arrays are read into the arena by growing copies; indexes (ready_order, a module's parameters)
 * are checked against the parameters once all is read, since key order is free. What is not
 * needed for a workload (raw step times, DDP's own timers) is skipped. */
#include "traces/kineto/sidecar.h"

#include <stdlib.h>
#include <string.h>

#include "shared/io/input.h"
#include "shared/json/dtype_read.h"
#include "shared/json/json.h"

struct owner { /* module m lists parameter p */
    int32_t module, param;
};

struct reader {
    struct lw_json *json;
    struct traces_sidecar *s;
    struct lw_err *err;
    bool nomem, is_recording;
    int64_t version;
    struct owner *owners;
    int64_t n_owners, owners_cap, *ready;
    int32_t n_ready_ns;
};

static const char *read_text(struct reader *r)
{
    size_t len;

    if (lw_json_type(r->json) == LW_JSON_NULL)
        return "";
    const char *copy = lw_arena_strdup(&r->s->arena, lw_json_string(r->json, &len));
    r->nomem |= !copy;
    return copy ? copy : "";
}

/* A count or a time; null = -1. Times in picoseconds must fit int64 several times over. */
static int64_t read_number(struct reader *r)
{
    int64_t n = lw_json_type(r->json) == LW_JSON_NULL ? -1 : lw_json_int64(r->json);

    if (n > INT64_MAX / 4000)
        lw_json_fail(r->json, "found %lld, expected at most %lld", (long long)n,
                     (long long)(INT64_MAX / 4000));
    return n;
}

static int64_t read_size(struct reader *r)
{
    int64_t n = lw_json_int64(r->json);

    if (!lw_json_failed(r->json) && n < 0)
        lw_json_fail(r->json, "found %lld, expected 0 or more", (long long)n);
    return n;
}

/* Array of integers (null = -1) under the cursor, moved into the arena. */
static int64_t *read_ints(struct reader *r, int32_t *n)
{
    int64_t *v = NULL, cap = 0, count = 0, *copy = NULL;

    *n = 0;
    if (lw_json_type(r->json) == LW_JSON_NULL || !lw_json_enter(r->json, LW_JSON_ARRAY))
        return NULL;
    while (lw_json_next(r->json)) {
        if (count == INT32_MAX || lw_reserve(&v, &cap, count + 1, sizeof *v) < 0)
            r->nomem = true;
        else
            v[count++] = read_number(r);
    }
    copy = lw_arena_alloc(&r->s->arena, count, sizeof *copy);
    r->nomem |= !copy;
    if (copy && count > 0)
        memcpy(copy, v, (size_t)count * sizeof *copy);
    lw_free(v);
    *n = copy ? (int32_t)count : 0;
    return copy;
}

/* Room for one more element of an arena array that doubles; elements are moved. */
static void *one_more(struct reader *r, void *items, int32_t n, size_t size)
{
    void *room = lw_arena_more(&r->s->arena, items, n, size);

    r->nomem |= !room;
    return room;
}

/* The first number of a shape; 0 of a scalar. */
static int64_t read_rows(struct reader *r)
{
    int32_t n;
    const int64_t *shape = read_ints(r, &n);

    return n > 0 && shape[0] > 0 ? shape[0] : 0;
}

static void read_param(struct reader *r)
{
    struct traces_param p = {.name = "", .numel = -1, .ready_ns = -1, .module = -1,
                             .requires_grad = true};
    struct traces_param *room = one_more(r, r->s->params, r->s->n_params, sizeof p);

    if (!room || !lw_json_enter(r->json, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->json)) {
        if (lw_json_key_is(r->json, "name"))
            p.name = read_text(r);
        else if (lw_json_key_is(r->json, "numel"))
            p.numel = read_size(r);
        else if (lw_json_key_is(r->json, "shape"))
            p.rows = read_rows(r);
        else if (lw_json_key_is(r->json, "dtype"))
            p.dtype = lw_dtype_read(r->json);
        else if (lw_json_key_is(r->json, "requires_grad"))
            p.requires_grad = lw_json_bool(r->json);
        else if (lw_json_key_is(r->json, "sparse"))
            p.sparse = lw_json_bool(r->json);
    }
    if (p.numel < 0 && !lw_json_failed(r->json))
        lw_json_fail(r->json, "a parameter needs \"numel\"");
    if (p.rows > 0 && p.numel % p.rows != 0 && !lw_json_failed(r->json))
        lw_json_fail(r->json, "a shape of %lld rows does not divide %lld elements",
                     (long long)p.rows, (long long)p.numel);
    r->s->params = room;
    r->s->params[r->s->n_params++] = p;
}

static void read_buffer(struct reader *r)
{
    struct traces_buffer b = {.name = "", .numel = -1};
    struct traces_buffer *room = one_more(r, r->s->buffers, r->s->n_buffers, sizeof b);

    if (!room || !lw_json_enter(r->json, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->json)) {
        if (lw_json_key_is(r->json, "name"))
            b.name = read_text(r);
        else if (lw_json_key_is(r->json, "numel"))
            b.numel = read_size(r);
        else if (lw_json_key_is(r->json, "dtype"))
            b.dtype = lw_dtype_read(r->json);
    }
    if (b.numel < 0 && !lw_json_failed(r->json))
        lw_json_fail(r->json, "a buffer needs \"numel\"");
    r->s->buffers = room;
    r->s->buffers[r->s->n_buffers++] = b;
}

static void read_owned(struct reader *r)
{
    int32_t n;
    int64_t *params = read_ints(r, &n);

    for (int32_t i = 0; i < n && !r->nomem; i++) {
        if (params[i] < 0 || params[i] > INT32_MAX) {
            lw_json_fail(r->json, "found parameter %lld, expected an index", (long long)params[i]);
            return;
        }
        if (lw_reserve(&r->owners, &r->owners_cap, r->n_owners + 1, sizeof *r->owners) < 0)
            r->nomem = true;
        else
            r->owners[r->n_owners++] = (struct owner){r->s->n_modules, (int32_t)params[i]};
    }
}

static void read_module(struct reader *r)
{
    const char *name = "";
    const char **room = one_more(r, r->s->modules, r->s->n_modules, sizeof name);

    if (!room || !lw_json_enter(r->json, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->json)) {
        if (lw_json_key_is(r->json, "name"))
            name = read_text(r);
        else if (lw_json_key_is(r->json, "parameters"))
            read_owned(r);
    }
    r->s->modules = room;
    r->s->modules[r->s->n_modules++] = name;
}

static void read_list(struct reader *r, void (*element)(struct reader *))
{
    if (!lw_json_enter(r->json, LW_JSON_ARRAY))
        return;
    while (lw_json_next(r->json))
        element(r);
}

/* The median, and of the step its quartiles. */
static void read_summary(struct reader *r, int64_t *median, int64_t *p25, int64_t *p75)
{
    if (!lw_json_enter(r->json, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->json)) {
        if (lw_json_key_is(r->json, "median"))
            *median = read_number(r);
        else if (p25 && lw_json_key_is(r->json, "p25"))
            *p25 = read_number(r);
        else if (p75 && lw_json_key_is(r->json, "p75"))
            *p75 = read_number(r);
    }
}

static void read_measured(struct reader *r)
{
    struct traces_measured *m = &r->s->measured;
    const struct {
        const char *key;
        int64_t *median;
    } fields[] = {{"step_ns", &m->step_ns},
                  {"zero_grad_ns", &m->zero_grad_ns},
                  {"forward_ns", &m->forward_ns},
                  {"backward_ns", &m->backward_ns},
                  {"optimizer_ns", &m->optimizer_ns}};

    if (!lw_json_enter(r->json, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->json))
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (lw_json_key_is(r->json, fields[i].key)) {
                read_summary(r, fields[i].median, i == 0 ? &m->step_p25_ns : NULL,
                             i == 0 ? &m->step_p75_ns : NULL);
                break;
            }
}

static void read_logged(struct reader *r)
{
    if (!lw_json_enter(r->json, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->json))
        if (lw_json_key_is(r->json, "rebuilt_bucket_sizes_bytes"))
            r->s->bucket_bytes = read_ints(r, &r->s->n_buckets);
}

static void read_ddp(struct reader *r)
{
    if (lw_json_type(r->json) == LW_JSON_NULL || !lw_json_enter(r->json, LW_JSON_OBJECT))
        return;
    r->s->is_ddp = true;
    while (lw_json_next(r->json)) {
        if (lw_json_key_is(r->json, "limits_bytes"))
            r->s->limit_bytes = read_ints(r, &r->s->n_limits);
        else if (lw_json_key_is(r->json, "broadcast_buffers"))
            r->s->broadcast_buffers = lw_json_bool(r->json);
        else if (lw_json_key_is(r->json, "logged"))
            read_logged(r);
    }
}

static int32_t read_rank(struct reader *r)
{
    int64_t n = read_size(r);

    if (n > INT32_MAX)
        lw_json_fail(r->json, "found %lld, expected at most %d", (long long)n, INT32_MAX);
    return (int32_t)n;
}

static void read_cpu(struct reader *r)
{
    if (lw_json_type(r->json) == LW_JSON_NULL || !lw_json_enter(r->json, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->json))
        if (lw_json_key_is(r->json, "name"))
            r->s->cpu = read_text(r);
        else if (lw_json_key_is(r->json, "cores"))
            r->s->n_cores = read_rank(r);
        else if (lw_json_key_is(r->json, "threads"))
            r->s->n_threads = read_rank(r);
}

static void read_ready_order(struct reader *r)
{
    int32_t n;

    r->ready = read_ints(r, &n);
    r->s->n_ready = n;
}

static int64_t *ready_ns_of(struct reader *r)
{
    return read_ints(r, &r->n_ready_ns);
}

/* "SGD, momentum 0.9", "AdamW": whose state the parameters have. */
static enum lw_optimizer read_optimizer(struct reader *r)
{
    const char *text = read_text(r), *momentum = strstr(text, "momentum");

    if (strcmp(text, "Adam") == 0 || strncmp(text, "AdamW", 5) == 0 ||
        strncmp(text, "Adam,", 5) == 0)
        return LW_OPTIMIZER_ADAM;
    if (strncmp(text, "SGD", 3) != 0)
        return LW_OPTIMIZER_UNKNOWN;
    return momentum && strtod(momentum + strlen("momentum"), NULL) > 0 ? LW_OPTIMIZER_MOMENTUM
                                                                        : LW_OPTIMIZER_SGD;
}

static void read_root(struct reader *r, int64_t **ready_ns)
{
    struct lw_json *j = r->json;
    struct traces_sidecar *s = r->s;

    if (!lw_json_enter(j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "lapwing"))
            r->version = lw_json_int64(j);
        else if (lw_json_key_is(j, "kind"))
            r->is_recording = strcmp(read_text(r), "recording") == 0;
        else if (lw_json_key_is(j, "model"))
            s->model = read_text(r);
        else if (lw_json_key_is(j, "torch_version"))
            s->torch_version = read_text(r);
        else if (lw_json_key_is(j, "optimizer"))
            s->optimizer = read_optimizer(r);
        else if (lw_json_key_is(j, "cpu"))
            read_cpu(r);
        else if (lw_json_key_is(j, "gpu"))
            s->gpu = read_text(r);
        else if (lw_json_key_is(j, "backend"))
            s->backend = read_text(r);
        else if (lw_json_key_is(j, "rank"))
            s->rank = read_rank(r);
        else if (lw_json_key_is(j, "world_size"))
            s->world_size = read_rank(r);
        else if (lw_json_key_is(j, "parameters"))
            read_list(r, read_param);
        else if (lw_json_key_is(j, "buffers"))
            read_list(r, read_buffer);
        else if (lw_json_key_is(j, "modules"))
            read_list(r, read_module);
        else if (lw_json_key_is(j, "ready_order"))
            read_ready_order(r);
        else if (lw_json_key_is(j, "ready_ns"))
            *ready_ns = ready_ns_of(r);
        else if (lw_json_key_is(j, "measured"))
            read_measured(r);
        else if (lw_json_key_is(j, "ddp"))
            read_ddp(r);
    }
}

/* Indexes and lengths that only make sense once everything is there. */
static enum lw_status link_up(struct reader *r, const int64_t *ready_ns)
{
    struct traces_sidecar *s = r->s;

    if (!r->is_recording || r->version != 1)
        return lw_fail(r->err, LW_EFORMAT,
                       "%s: not a recording's sidecar (\"lapwing\": 1, \"kind\": \"recording\")",
                       s->file);
    for (int64_t i = 0; i < r->n_owners; i++) {
        struct owner o = r->owners[i];
        if (o.param >= s->n_params)
            return lw_fail(r->err, LW_EFORMAT, "%s: modules[%d]: parameter %d of %d", s->file,
                           o.module, o.param, s->n_params);
        if (s->params[o.param].module < 0)
            s->params[o.param].module = o.module;
    }
    LW_TAKE(&s->arena, s->ready_order, s->n_ready, r->err);
    for (int32_t i = 0; i < s->n_ready; i++) {
        if (r->ready[i] < 0 || r->ready[i] >= s->n_params)
            return lw_fail(r->err, LW_EFORMAT, "%s: ready_order[%d]: parameter %lld of %d",
                           s->file, i, (long long)r->ready[i], s->n_params);
        s->ready_order[i] = (int32_t)r->ready[i];
    }
    if (ready_ns && r->n_ready_ns != s->n_params)
        return lw_fail(r->err, LW_EFORMAT, "%s: ready_ns has %d entries for %d parameters",
                       s->file, r->n_ready_ns, s->n_params);
    for (int32_t i = 0; ready_ns && i < s->n_params; i++)
        s->params[i].ready_ns = ready_ns[i];
    return LW_OK;
}

static enum lw_status read_document(struct reader *r)
{
    int64_t *ready_ns = NULL;

    read_root(r, &ready_ns);
    if (r->nomem)
        return lw_fail_nomem(r->err);
    LW_TRY(lw_json_done(r->json, r->err));
    return link_up(r, ready_ns);
}

enum lw_status traces_sidecar_read(const char *file, struct traces_sidecar *out,
                                   struct lw_err *err)
{
    struct traces_sidecar s = {
        .model = "", .torch_version = "", .cpu = "", .gpu = "", .backend = "", .world_size = 1,
        .measured = {-1, -1, -1, -1, -1, -1, -1},
    };
    struct reader r = {.s = &s, .err = err};
    struct lw_input in;

    LW_TRY(lw_input_read(file, 0, &in, err));
    s.file = lw_arena_strdup(&s.arena, file);
    enum lw_status status = s.file ? lw_json_open(file, in.text, in.len, &r.json, err)
                                   : lw_fail_nomem(err);
    if (status == LW_OK) {
        status = read_document(&r);
        lw_json_close(r.json);
    }
    lw_free(r.owners);
    lw_input_free(&in);
    if (status != LW_OK)
        traces_sidecar_free(&s);
    else
        *out = s;
    return status;
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
