/* Reading a measured-run file. The order of keys is free; a key that comes twice counts the last
 * time. Times are seconds in the file, picoseconds here.
 *
 * What a prediction must not know is not read: of ddp.cap* only each rank's bucket_cap_mb, which
 * is a choice and no result. ddp_run_measured.c reads the rest, for comparison. Not read:
 * profiler traces that belong to the file, buffers, noise of the machine. */
#include "traces/ddp_runs/import_ddp_run.h"

#include <string.h>

#include "shared/files/files_field.h"
#include "shared/io/input.h"
#include "shared/json/dtype_read.h"

#define SCHEMA "lapwing-groundtruth/"
#define MOST_SECONDS 1e5

struct process {
    struct lw_gt_profile profile;
    int32_t n_params;
    struct lw_gt_param *params;
};

struct document {
    struct lw_groundtruth g;
    const char *schema;
    struct process local, no_sync[LW_GROUNDTRUTH_RANKS];
};

static const struct lw_gt_profile none = {.step = -1, .zero = -1, .forward = -1, .backward = -1,
                                          .optimizer = -1};

/* --- values ----------------------------------------------------------------------------------- */

static double read_real(struct lw_fields *r, double least, double most)
{
    double v = lw_json_double(r->j);

    if (!lw_json_failed(r->j) && !(v >= least && v <= most)) {
        lw_json_fail(r->j, "found %g, allowed: %g to %g", v, least, most);
        return least;
    }
    return v;
}

static void read_seconds(struct lw_fields *r, void *to)
{
    *(lw_ps *)to = lw_ps_from_seconds(read_real(r, 0, MOST_SECONDS));
}

/* {median, p25, ...} or the number itself. */
static void read_median(struct lw_fields *r, void *to)
{
    static const struct lw_field summary[] = {LW_F_OWN("median", read_seconds, NULL), {0}};

    *(lw_ps *)to = -1;
    if (lw_json_type(r->j) == LW_JSON_OBJECT)
        lw_fields_read(r, summary, to);
    else
        read_seconds(r, to);
}

static void read_dtype(struct lw_fields *r, void *to)
{
    *(enum lw_dtype *)to = lw_dtype_read(r->j);
}

/* Room for element n of an arena array that doubles; elements are moved. */
static void *one_more(struct lw_fields *r, void *items, int32_t n, size_t size)
{
    void *room = lw_arena_more(r->arena, items, n, size);

    r->no_memory |= !room;
    return room;
}

static void read_ready(struct lw_fields *r, void *to)
{
    struct lw_gt_profile *p = to;

    p->n_ready = 0;
    if (!lw_json_enter(r->j, LW_JSON_ARRAY))
        return;
    while (lw_json_next(r->j)) {
        lw_ps *room = one_more(r, p->ready, p->n_ready, sizeof *room);
        if (!room)
            return;
        p->ready = room;
        p->ready[p->n_ready] = -1;
        if (lw_json_type(r->j) != LW_JSON_NULL)
            read_seconds(r, &p->ready[p->n_ready]);
        p->n_ready++;
    }
}

/* --- the profile of one process and its model ------------------------------------------------- */

#define OWN(json, at_, read_) {.name = json, .kind = LW_FIELD_OWN, .at = at_, .read = read_}

#define AT(field) offsetof(struct lw_gt_param, field)
static const struct lw_field param_fields[] = {
    LW_F_STRING("name", AT(name)),
    LW_F_MUST_INT64("numel", AT(numel)),
    {.name = "dtype", .kind = LW_FIELD_OWN, .at = AT(dtype), .takes_null = true,
     .read = read_dtype},
    LW_F_BOOL("requires_grad", AT(trainable), true),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_gt_profile, field)
static const struct lw_field timing_fields[] = {
    OWN("step", AT(step), read_median),
    OWN("zero", AT(zero), read_median),
    OWN("forward", AT(forward), read_median),
    OWN("backward", AT(backward), read_median),
    OWN("optimizer", AT(optimizer), read_median),
    {0},
};

static const struct lw_field grad_ready_fields[] = {
    LW_F_ITEMS("order", INTS32, AT(order), AT(n_order)),
    OWN("ready_s", 0, read_ready),
    {0},
};
#undef AT

#define AT(field) offsetof(struct process, field)
static const struct lw_field model_fields[] = {
    LW_F_LIST("params", AT(params), AT(n_params), param_fields, struct lw_gt_param), {0}};

static const struct lw_field process_fields[] = {
    LW_F_OBJECT("timing", AT(profile), timing_fields),
    LW_F_OBJECT("grad_ready", AT(profile), grad_ready_fields),
    LW_F_OBJECT("model", 0, model_fields),
    {0},
};
#undef AT

static void read_process(struct lw_fields *r, void *to)
{
    struct process *p = to;

    p->profile = none;
    p->profile.there = true;
    lw_fields_read(r, process_fields, p);
}

/* --- configurations --------------------------------------------------------------------------- */

static bool is_cap(const char *config)
{
    size_t n = strspn(config + (strncmp(config, "cap", 3) == 0 ? 3 : 0), "0123456789");

    return strncmp(config, "cap", 3) == 0 && n > 0 && config[3 + n] == '\0';
}

static void read_cap_of_rank(struct lw_fields *r, void *to)
{
    int64_t *cap_bytes = to;

    if (lw_json_type(r->j) != LW_JSON_OBJECT || !lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j)) {
        if (!lw_json_key_is(r->j, "bucket_cap_mb"))
            continue;
        double mb = read_real(r, 1.0 / (1 << 20), 1e9);
        int64_t bytes = (int64_t)(mb * (1 << 20));
        if (!lw_json_failed(r->j) && *cap_bytes >= 0 && *cap_bytes != bytes)
            lw_json_fail(r->j, "found %g, where another rank has %lld bytes", mb,
                         (long long)*cap_bytes);
        *cap_bytes = bytes;
    }
}

static void read_cap(struct lw_fields *r, struct lw_groundtruth *g, const char *config)
{
    static const struct lw_field fields[] = {
        LW_F_OWN("rank0", read_cap_of_rank, NULL), LW_F_OWN("rank1", read_cap_of_rank, NULL), {0}};
    struct lw_gt_cap *room = one_more(r, g->caps, g->n_caps, sizeof *room);
    int64_t bytes = -1;

    if (!room || !lw_fields_read(r, fields, &bytes))
        return;
    if (bytes < 0)
        lw_json_fail(r->j, "no rank says its \"bucket_cap_mb\"");
    for (int32_t i = 0; i < g->n_caps; i++)
        if (!lw_json_failed(r->j) && strcmp(g->caps[i].config, config) == 0)
            lw_json_fail(r->j, "%s is given twice", config);
    g->caps = room;
    g->caps[g->n_caps++] = (struct lw_gt_cap){config, bytes};
}

#define AT(field) offsetof(struct document, field)
static void read_ddp(struct lw_fields *r, void *to)
{
    static const struct lw_field no_sync[] = {
        OWN("rank0", AT(no_sync[0]), read_process), OWN("rank1", AT(no_sync[1]), read_process),
        {0}};
    struct document *d = to;

    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j)) {
        const char *config = lw_arena_strdup(r->arena, lw_json_key(r->j, NULL));
        r->no_memory |= !config;
        if (lw_json_key_is(r->j, "no_sync"))
            lw_fields_read(r, no_sync, d);
        else if (config && is_cap(config))
            read_cap(r, &d->g, config);
    }
}

/* --- the whole -------------------------------------------------------------------------------- */

static const struct lw_field size_fields[] = {
    LW_F_INT64("bytes", offsetof(struct lw_gt_size, bytes), -1),
    OWN("single", offsetof(struct lw_gt_size, single), read_median),
    {.name = "single_cpu_s", .kind = LW_FIELD_OWN, .must = true,
     .at = offsetof(struct lw_gt_size, single_cpu), .read = read_median},
    OWN("two_in_flight", offsetof(struct lw_gt_size, two), read_median),
    {0},
};
static const struct lw_field microbench_fields[] = {
    LW_F_LIST("sizes", AT(g.sizes), AT(g.n_sizes), size_fields, struct lw_gt_size), {0}};
static const struct lw_field net_fields[] = {
    LW_F_OBJECT("microbench", 0, microbench_fields), {0}};
static const struct lw_field machine_fields[] = {
    LW_F_STRING("cpu", AT(g.cpu)), LW_F_STRING("pytorch", AT(g.torch)), {0}};
static const struct lw_field document_fields[] = {
    LW_F_STRING("schema", AT(schema)),
    LW_F_STRING("model_name", AT(g.model)),
    LW_F_STRING("net_name", AT(g.net)),
    LW_F_OBJECT("machine", 0, machine_fields),
    LW_F_OBJECT("net", 0, net_fields),
    OWN("local", AT(local), read_process),
    LW_F_OWN("ddp", read_ddp, NULL),
    {0},
};
#undef AT

static enum lw_status check_sizes(const struct lw_groundtruth *g, const char *name,
                                  struct lw_err *err)
{
    for (int32_t i = 0; i < g->n_sizes; i++) {
        const struct lw_gt_size *s = &g->sizes[i];
        if (s->bytes < 1 || s->single <= 0 || s->single_cpu < 0)
            return lw_fail(err, LW_EFORMAT,
                           "%s: at net.microbench.sizes[%d]: a size needs \"bytes\" of 1 or more, "
                           "\"single\" with a median above 0 and \"single_cpu_s\"", name, i);
        if (i > 0 && s[-1].bytes >= s->bytes)
            return lw_fail(err, LW_EFORMAT,
                           "%s: at net.microbench.sizes[%d]: found %lld bytes, allowed: more than "
                           "the size before", name, i, (long long)s->bytes);
    }
    return LW_OK;
}

static enum lw_status check(const struct document *d, const char *name, struct lw_err *err)
{
    const struct lw_groundtruth *g = &d->g;

    if (strncmp(d->schema, SCHEMA, strlen(SCHEMA)) != 0)
        return lw_fail(err, LW_EFORMAT, "%s: at schema: found \"%.40s\", expected \"%s1\"", name,
                       d->schema, SCHEMA);
    if (strcmp(d->schema, SCHEMA "1") != 0)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: at schema: found \"%.40s\"; this program reads \"%s1\"", name,
                       d->schema, SCHEMA);
    if (!*g->model || !*g->net)
        return lw_fail(err, LW_EFORMAT, "%s: needs \"model_name\" and \"net_name\"", name);
    if (g->n_params == 0)
        return lw_fail(err, LW_EFORMAT, "%s: at local.model.params: no parameter", name);
    if (g->n_sizes == 0)
        return lw_fail(err, LW_EFORMAT, "%s: at net.microbench.sizes: no size was measured, so "
                       "nothing is known of the network", name);
    LW_TRY(check_sizes(g, name, err));
    for (int i = 0; i < LW_GROUNDTRUTH_RANKS; i++)
        if (!g->no_sync[i].there || g->no_sync[i].step <= 0)
            return lw_fail(err, LW_EFORMAT,
                           "%s: at ddp.no_sync.rank%d.timing.step: no median above "
                           "0; the step without synchronisation is needed",
                           name, i);
    if (g->n_caps == 0)
        return lw_fail(err, LW_EFORMAT, "%s: at ddp: no configuration cap1, cap25, ...", name);
    return LW_OK;
}

bool lw_groundtruth_is(const char *text, size_t len)
{
    struct lw_json *j;
    bool found = false;

    if (lw_json_open("", text, len, &j, NULL) != LW_OK)
        return false;
    if (lw_json_type(j) == LW_JSON_OBJECT && lw_json_enter(j, LW_JSON_OBJECT))
        while (!found && lw_json_next(j))
            if (lw_json_key_is(j, "schema") && lw_json_type(j) == LW_JSON_STRING)
                found = strncmp(lw_json_string(j, NULL), SCHEMA, strlen(SCHEMA)) == 0;
    lw_json_close(j);
    return found;
}

enum lw_status lw_groundtruth_read(const struct lw_input *in, struct lw_groundtruth *out,
                                   struct lw_err *err)
{
    struct document d = {.local.profile = none, .no_sync = {{none, 0, NULL}, {none, 0, NULL}}};
    const struct process *model = &d.local;
    const char *slash = strrchr(in->name, '/');
    enum lw_status status =
        lw_foreign_read(in->name, in->text, in->len, document_fields, &d.g.arena, &d, err);

    for (int i = 0; i < LW_GROUNDTRUTH_RANKS; i++) {
        d.g.no_sync[i] = d.no_sync[i].profile;
        model = model->n_params > 0 ? model : &d.no_sync[i];
    }
    d.g.local = d.local.profile;
    d.g.params = model->params;
    d.g.n_params = model->n_params;
    d.g.file = lw_arena_strdup(&d.g.arena, slash ? slash + 1 : in->name);
    d.g.hash = lw_arena_strdup(&d.g.arena, in->hash);
    if (status == LW_OK && (!d.g.file || !d.g.hash))
        status = lw_fail_nomem(err);
    if (status == LW_OK)
        status = check(&d, in->name, err);
    LW_GIVE(status, out, d.g, lw_groundtruth_free(&d.g));
}

LW_FREE_BY_ARENA(lw_groundtruth_free, struct lw_groundtruth)
