/* Reading a measured-run file. The order of keys is free; a key that comes twice counts the last
 * time. Times are seconds in the file, picoseconds here.
 *
 * What a prediction must not know is not read: of ddp.cap* only each rank's bucket_cap_mb, which
 * is a choice and no result. ddp_run_measured.c reads the rest, for comparison. Not read:
 * profiler traces that belong to the file, buffers, noise of the machine. */
#include "traces/ddp_runs/import_ddp_run.h"

#include <stdio.h>
#include <string.h>

#include "shared/io/input.h"
#include "shared/json/dtype_read.h"
#include "shared/json/json.h"

#define SCHEMA "lapwing-groundtruth/"
#define MOST_SECONDS 1e5

struct reader {
    struct lw_json *j;
    struct lw_groundtruth *g;
    const char *schema;
    bool nomem;
};

static const char *read_text(struct reader *r)
{
    const char *copy = lw_arena_strdup(&r->g->arena, lw_json_string(r->j, NULL));

    r->nomem |= !copy;
    return copy ? copy : "";
}

static double read_real(struct reader *r, double least, double most)
{
    double v = lw_json_double(r->j);

    if (!lw_json_failed(r->j) && !(v >= least && v <= most)) {
        lw_json_fail(r->j, "found %g, allowed: %g to %g", v, least, most);
        return least;
    }
    return v;
}

static lw_ps read_seconds(struct reader *r)
{
    if (lw_json_type(r->j) == LW_JSON_NULL)
        return -1;
    return lw_ps_from_seconds(read_real(r, 0, MOST_SECONDS));
}

/* {median, p25, ...} or the number itself. */
static lw_ps read_median(struct reader *r)
{
    lw_ps t = -1;

    if (lw_json_type(r->j) != LW_JSON_OBJECT)
        return read_seconds(r);
    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return -1;
    while (lw_json_next(r->j))
        if (lw_json_key_is(r->j, "median"))
            t = read_seconds(r);
    return t;
}

/* Room for element n of an arena array that doubles; elements are moved. */
static void *one_more(struct reader *r, void *items, int32_t n, size_t size)
{
    void *room = lw_arena_more(&r->g->arena, items, n, size);

    r->nomem |= !room;
    return room;
}

/* --- the model and the profile of one process --- */

static void read_param(struct reader *r)
{
    struct lw_gt_param p = {.name = "", .numel = -1, .trainable = true};
    struct lw_gt_param *room = one_more(r, r->g->params, r->g->n_params, sizeof p);

    if (!room || !lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j)) {
        if (lw_json_key_is(r->j, "name"))
            p.name = read_text(r);
        else if (lw_json_key_is(r->j, "numel"))
            p.numel = lw_json_int64(r->j);
        else if (lw_json_key_is(r->j, "dtype"))
            p.dtype = lw_dtype_read(r->j);
        else if (lw_json_key_is(r->j, "requires_grad"))
            p.trainable = lw_json_bool(r->j);
    }
    if (!lw_json_failed(r->j) && p.numel < 0)
        lw_json_fail(r->j, "a parameter needs \"numel\" of 0 or more");
    r->g->params = room;
    r->g->params[r->g->n_params++] = p;
}

static void read_model(struct reader *r)
{
    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j)) {
        if (!lw_json_key_is(r->j, "params") || !lw_json_enter(r->j, LW_JSON_ARRAY))
            continue;
        r->g->n_params = 0;
        while (lw_json_next(r->j))
            read_param(r);
    }
}

static void read_timing(struct reader *r, struct lw_gt_profile *p)
{
    const struct {
        const char *name;
        lw_ps *into;
    } fields[] = {{"step", &p->step}, {"zero", &p->zero}, {"forward", &p->forward},
                  {"backward", &p->backward}, {"optimizer", &p->optimizer}};

    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j))
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (lw_json_key_is(r->j, fields[i].name)) {
                *fields[i].into = read_median(r);
                break;
            }
}

static void read_order(struct reader *r, struct lw_gt_profile *p)
{
    p->n_order = 0;
    if (!lw_json_enter(r->j, LW_JSON_ARRAY))
        return;
    while (lw_json_next(r->j)) {
        int32_t *room = one_more(r, p->order, p->n_order, sizeof *room);
        int64_t i = lw_json_int64(r->j);
        if (!lw_json_failed(r->j) && (i < 0 || i >= INT32_MAX))
            lw_json_fail(r->j, "found %lld, allowed: the index of a parameter", (long long)i);
        if (!room || lw_json_failed(r->j))
            return;
        p->order = room;
        p->order[p->n_order++] = (int32_t)i;
    }
}

static void read_ready(struct reader *r, struct lw_gt_profile *p)
{
    p->n_ready = 0;
    if (!lw_json_enter(r->j, LW_JSON_ARRAY))
        return;
    while (lw_json_next(r->j)) {
        lw_ps *room = one_more(r, p->ready, p->n_ready, sizeof *room);
        if (!room)
            return;
        p->ready = room;
        p->ready[p->n_ready++] = read_seconds(r);
    }
}

static void read_grad_ready(struct reader *r, struct lw_gt_profile *p)
{
    if (lw_json_type(r->j) == LW_JSON_NULL || !lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j)) {
        if (lw_json_key_is(r->j, "order"))
            read_order(r, p);
        else if (lw_json_key_is(r->j, "ready_s"))
            read_ready(r, p);
    }
}

static void read_profile(struct reader *r, struct lw_gt_profile *p)
{
    *p = (struct lw_gt_profile){.step = -1, .zero = -1, .forward = -1, .backward = -1,
                                .optimizer = -1};
    if (lw_json_type(r->j) == LW_JSON_NULL || !lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    p->there = true;
    while (lw_json_next(r->j)) {
        if (lw_json_key_is(r->j, "timing"))
            read_timing(r, p);
        else if (lw_json_key_is(r->j, "grad_ready"))
            read_grad_ready(r, p);
        else if (lw_json_key_is(r->j, "model"))
            read_model(r);
    }
}

/* --- the network --- */

static void read_size(struct reader *r)
{
    struct lw_gt_size s = {-1, -1, -1, -1};
    struct lw_gt_size *room = one_more(r, r->g->sizes, r->g->n_sizes, sizeof s);

    if (!room || !lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j)) {
        if (lw_json_key_is(r->j, "bytes"))
            s.bytes = lw_json_int64(r->j);
        else if (lw_json_key_is(r->j, "single"))
            s.single = read_median(r);
        else if (lw_json_key_is(r->j, "single_cpu_s"))
            s.single_cpu = read_median(r);
        else if (lw_json_key_is(r->j, "two_in_flight"))
            s.two = read_median(r);
    }
    if (lw_json_failed(r->j))
        return;
    if (s.bytes < 1 || s.single <= 0 || s.single_cpu < 0)
        lw_json_fail(r->j, "a size needs \"bytes\" of 1 or more, \"single\" with a median above 0 "
                           "and \"single_cpu_s\"");
    else if (r->g->n_sizes > 0 && room[r->g->n_sizes - 1].bytes >= s.bytes)
        lw_json_fail(r->j, "found %lld bytes, allowed: more than the size before",
                     (long long)s.bytes);
    r->g->sizes = room;
    r->g->sizes[r->g->n_sizes++] = s;
}

static void read_net(struct reader *r)
{
    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j)) {
        if (!lw_json_key_is(r->j, "microbench") || !lw_json_enter(r->j, LW_JSON_OBJECT))
            continue;
        while (lw_json_next(r->j)) {
            if (!lw_json_key_is(r->j, "sizes") || !lw_json_enter(r->j, LW_JSON_ARRAY))
                continue;
            r->g->n_sizes = 0;
            while (lw_json_next(r->j))
                read_size(r);
        }
    }
}

static void read_machine(struct reader *r)
{
    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j)) {
        if (lw_json_key_is(r->j, "cpu"))
            r->g->cpu = read_text(r);
        else if (lw_json_key_is(r->j, "pytorch"))
            r->g->torch = read_text(r);
    }
}

/* --- configurations --- */

static bool is_cap(const char *config)
{
    size_t n = strspn(config + (strncmp(config, "cap", 3) == 0 ? 3 : 0), "0123456789");

    return strncmp(config, "cap", 3) == 0 && n > 0 && config[3 + n] == '\0';
}

static void read_cap_of_rank(struct reader *r, int64_t *cap_bytes)
{
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

static void read_cap(struct reader *r, const char *config)
{
    struct lw_gt_cap c = {config, -1};
    struct lw_gt_cap *room = one_more(r, r->g->caps, r->g->n_caps, sizeof c);

    if (!room || !lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j))
        if (lw_json_key_is(r->j, "rank0") || lw_json_key_is(r->j, "rank1"))
            read_cap_of_rank(r, &c.cap_bytes);
    if (!lw_json_failed(r->j) && c.cap_bytes < 0)
        lw_json_fail(r->j, "no rank says its \"bucket_cap_mb\"");
    for (int32_t i = 0; i < r->g->n_caps; i++)
        if (!lw_json_failed(r->j) && strcmp(r->g->caps[i].config, config) == 0)
            lw_json_fail(r->j, "%s is given twice", config);
    r->g->caps = room;
    r->g->caps[r->g->n_caps++] = c;
}

static void read_no_sync(struct reader *r)
{
    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j)) {
        if (lw_json_key_is(r->j, "rank0"))
            read_profile(r, &r->g->no_sync[0]);
        else if (lw_json_key_is(r->j, "rank1"))
            read_profile(r, &r->g->no_sync[1]);
    }
}

static void read_ddp(struct reader *r)
{
    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j)) {
        const char *config = lw_arena_strdup(&r->g->arena, lw_json_key(r->j, NULL));
        r->nomem |= !config;
        if (lw_json_key_is(r->j, "no_sync"))
            read_no_sync(r);
        else if (config && is_cap(config))
            read_cap(r, config);
    }
}

/* --- the whole --- */

static void read_root(struct reader *r)
{
    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j)) {
        if (lw_json_key_is(r->j, "schema"))
            r->schema = read_text(r);
        else if (lw_json_key_is(r->j, "model_name"))
            r->g->model = read_text(r);
        else if (lw_json_key_is(r->j, "net_name"))
            r->g->net = read_text(r);
        else if (lw_json_key_is(r->j, "machine"))
            read_machine(r);
        else if (lw_json_key_is(r->j, "net"))
            read_net(r);
        else if (lw_json_key_is(r->j, "local"))
            read_profile(r, &r->g->local);
        else if (lw_json_key_is(r->j, "ddp"))
            read_ddp(r);
    }
}

static enum lw_status check(const struct reader *r, const char *name, struct lw_err *err)
{
    const struct lw_groundtruth *g = r->g;

    if (strncmp(r->schema, SCHEMA, strlen(SCHEMA)) != 0)
        return lw_fail(err, LW_EFORMAT, "%s: at schema: found \"%.40s\", expected \"%s1\"", name,
                       r->schema, SCHEMA);
    if (strcmp(r->schema, SCHEMA "1") != 0)
        return lw_fail(err, LW_ENOTSUP,
                       "%s: at schema: found \"%.40s\"; this program reads \"%s1\"", name,
                       r->schema, SCHEMA);
    if (!*g->model || !*g->net)
        return lw_fail(err, LW_EFORMAT, "%s: needs \"model_name\" and \"net_name\"", name);
    if (g->n_params == 0)
        return lw_fail(err, LW_EFORMAT, "%s: at local.model.params: no parameter", name);
    if (g->n_sizes == 0)
        return lw_fail(err, LW_EFORMAT, "%s: at net.microbench.sizes: no size was measured, so "
                       "nothing is known of the network", name);
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
    static const struct lw_gt_profile none = {.step = -1, .zero = -1, .forward = -1,
                                              .backward = -1, .optimizer = -1};
    struct lw_groundtruth g = {.model = "", .net = "", .cpu = "", .torch = "", .local = none,
                               .no_sync = {none, none}};
    struct reader r = {.g = &g, .schema = ""};
    const char *slash = strrchr(in->name, '/');

    LW_TRY(lw_json_open(in->name, in->text, in->len, &r.j, err));
    read_root(&r);
    enum lw_status status = lw_json_done(r.j, err);
    lw_json_close(r.j);
    g.file = lw_arena_strdup(&g.arena, slash ? slash + 1 : in->name);
    g.hash = lw_arena_strdup(&g.arena, in->hash);
    if (r.nomem || !g.file || !g.hash)
        status = lw_fail_nomem(err);
    if (status == LW_OK)
        status = check(&r, in->name, err);
    if (status == LW_OK)
        *out = g;
    else
        lw_groundtruth_free(&g);
    return status;
}

LW_FREE_BY_ARENA(lw_groundtruth_free, struct lw_groundtruth)
