/* Reading measured runs of torch.distributed. What a prediction must not know is read by a function
 * of its own: of ranks[0].CONFIG only the choices that the run was made with, step_s and peaks by
 * lw_torch_measured_read alone. The order of keys is free. */
#include "traces/torch_runs/torch_runs.h"

#include <stdio.h>
#include <string.h>

#include "shared/files/files_field.h"
#include "shared/io/input.h"
#include "shared/json/json.h"

/* --- what was run ----------------------------------------------------------------------------- */

#define AT(field) offsetof(struct lw_torch_config, field)
static const struct lw_field config_fields[] = {
    LW_F_STRING("kind", AT(kind)),
    LW_F_STRING("units", AT(units)),
    LW_F_STRING("schedule", AT(schedule)),
    LW_F("bucket_cap_mb", REAL, AT(cap_mb)),
    LW_F_INT64("batch", AT(batch), 0),
    LW_F_INT64("micro_batches", AT(micro_batches), 1),
    LW_F_INT64("stages", AT(stages), 0),
    LW_F_INT64("first_module_of_stage1", AT(first_module), -1),
    LW_F_BOOL("gradient_as_bucket_view", AT(view), false),
    LW_F_BOOL("no_sync", AT(no_sync), false),
    LW_F_BOOL("reshard_after_forward", AT(reshard), false),
    {0},
};
#undef AT

static void read_configs(struct lw_fields *r, struct lw_torch_runs *t)
{
    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (!r->no_memory && lw_json_next(r->j)) {
        struct lw_torch_config *room =
            lw_arena_more(r->arena, t->configs, t->n, sizeof *room);
        const char *name = lw_arena_strdup(r->arena, lw_json_key(r->j, NULL));
        r->no_memory |= !room || !name;
        if (r->no_memory)
            return;
        t->configs = room;
        t->configs[t->n] = (struct lw_torch_config){.name = name, .micro_batches = 1,
                                                    .first_module = -1};
        if (!lw_fields_read(r, config_fields, &t->configs[t->n]))
            return;
        t->configs[t->n].name = name;
        t->n++;
    }
}

/* The ranks ran the same: the first one's choices are all. */
static void read_ranks(struct lw_fields *r, void *to)
{
    struct lw_torch_runs *t = to;

    if (!lw_json_enter(r->j, LW_JSON_ARRAY))
        return;
    while (!r->no_memory && lw_json_next(r->j))
        if (t->n_ranks++ == 0)
            read_configs(r, t);
}

#define AT(field) offsetof(struct lw_torch_runs, field)
static const struct lw_field runs_fields[] = {
    LW_F_NAME("model", AT(model)),
    LW_F_NAME("net", AT(net)),
    LW_F_STRING("torch", AT(torch)),
    {.name = "ranks", .kind = LW_FIELD_OWN, .must = true, .read = read_ranks},
    {0},
};
#undef AT

bool lw_torch_runs_are(const char *text, size_t len)
{
    static const char *const keys[] = {"model", "net", "ranks", "step_s"};
    struct lw_json *j;
    unsigned seen = 0;

    if (len == 0 || lw_json_open("", text, len, &j, NULL) != LW_OK)
        return false;
    if (lw_json_type(j) == LW_JSON_OBJECT && lw_json_enter(j, LW_JSON_OBJECT))
        while (lw_json_next(j))
            for (unsigned k = 0; k < 4; k++)
                seen |= lw_json_key_is(j, keys[k]) ? 1u << k : 0;
    lw_json_close(j);
    return seen == 15;
}

enum { MOST_NAME = 200, MOST_CAP_MB = 1000000 };

/* Files are named after it. */
static bool is_name(const char *s)
{
    return s[0] && strlen(s) <= MOST_NAME && !strchr(s, '/');
}

static enum lw_status check_runs(const char *file, const struct lw_torch_runs *t,
                                 struct lw_err *err)
{
    if (t->n_ranks != 2)
        return lw_fail(err, LW_EFORMAT, "%s: at ranks: found %d, expected 2: runs of two processes "
                                        "are predicted", file, t->n_ranks);
    if (!is_name(t->net))
        return lw_fail(err, LW_EFORMAT,
                       "%s: at net: found '%.80s', expected a name without '/', of at most %d "
                       "bytes", file, t->net, MOST_NAME);
    if (t->n == 0)
        return lw_fail(err, LW_EFORMAT, "%s: at ranks[0]: no configuration", file);
    for (int32_t i = 0; i < t->n; i++) {
        if (t->configs[i].batch < 1 || !t->configs[i].kind[0])
            return lw_fail(err, LW_EFORMAT,
                           "%s: at ranks[0].%s: a configuration needs \"kind\" and \"batch\" of 1 "
                           "or more", file, t->configs[i].name);
        if (!(t->configs[i].cap_mb >= 0 && t->configs[i].cap_mb <= MOST_CAP_MB))
            return lw_fail(err, LW_EFORMAT,
                           "%s: at ranks[0].%s.bucket_cap_mb: found %g, allowed: 0 to %d", file,
                           t->configs[i].name, t->configs[i].cap_mb, MOST_CAP_MB);
    }
    return LW_OK;
}

enum lw_status lw_torch_runs_read(const struct lw_input *in, struct lw_torch_runs *out,
                                  struct lw_err *err)
{
    struct lw_torch_runs t = {0};
    enum lw_status status =
        lw_foreign_read(in->name, in->text, in->len, runs_fields, &t.arena, &t, err);

    if (status == LW_OK)
        status = check_runs(in->name, &t, err);
    LW_GIVE(status, out, t, lw_torch_runs_free(&t));
}

LW_FREE_BY_ARENA(lw_torch_runs_free, struct lw_torch_runs)

/* --- recordings ------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct lw_torch_recording, field)
static const struct lw_field recording_fields[] = {
    LW_F_INT64("batch", AT(batch), 0),
    LW_F_STRING("recording", AT(file)),
    LW_F_INT64("peak_rss_bytes", AT(peak_rss_bytes), 0),
    {0},
};
#undef AT

static void read_local(struct lw_fields *r, void *to)
{
    struct lw_torch_local *l = to;

    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (!r->no_memory && lw_json_next(r->j)) {
        struct lw_torch_recording *room = lw_arena_more(r->arena, l->v, l->n, sizeof *room);
        const char *name = lw_arena_strdup(r->arena, lw_json_key(r->j, NULL));
        r->no_memory |= !room || !name;
        if (r->no_memory)
            return;
        l->v = room;
        l->v[l->n] = (struct lw_torch_recording){.name = name, .file = ""};
        if (!lw_fields_read(r, recording_fields, &l->v[l->n]))
            return;
        l->v[l->n++].name = name;
    }
}

static const struct lw_field local_fields[] = {
    {.name = "local", .kind = LW_FIELD_OWN, .must = true, .read = read_local},
    {0},
};

enum lw_status lw_torch_local_read(const struct lw_input *in, struct lw_torch_local *out,
                                   struct lw_err *err)
{
    struct lw_torch_local l = {0};
    enum lw_status status =
        lw_foreign_read(in->name, in->text, in->len, local_fields, &l.arena, &l, err);

    for (int32_t i = 0; status == LW_OK && i < l.n; i++)
        if (!is_name(l.v[i].name))
            status = lw_fail(err, LW_EFORMAT,
                             "%s: at local: found '%.80s', expected a name without '/', of at most "
                             "%d bytes", in->name, l.v[i].name, MOST_NAME);
    LW_GIVE(status, out, l, lw_torch_local_free(&l));
}

LW_FREE_BY_ARENA(lw_torch_local_free, struct lw_torch_local)

/* "MODEL_b8": a model's name may begin with another's. */
static bool is_of_model(const char *name, const char *model)
{
    size_t n = strlen(model);
    const char *rest = name + n;

    return strncmp(name, model, n) == 0 && strncmp(rest, "_b", 2) == 0 && rest[2] &&
           rest[2 + strspn(rest + 2, "0123456789")] == '\0';
}

const struct lw_torch_recording *lw_torch_recording_of(const struct lw_torch_local *l,
                                                       const char *model, int64_t batch)
{
    for (int32_t i = 0; i < l->n; i++)
        if (is_of_model(l->v[i].name, model) && l->v[i].batch == batch && l->v[i].file[0])
            return &l->v[i];
    return NULL;
}

/* --- what it took ----------------------------------------------------------------------------- */

struct measured {
    const struct lw_torch_runs *runs;
    struct lw_torch_measured *v;
};

/* The configuration of the key; -1: none that was run by rank 0. */
static int32_t config_at(const struct lw_fields *r, const struct lw_torch_runs *runs)
{
    for (int32_t i = 0; i < runs->n; i++)
        if (lw_json_key_is(r->j, runs->configs[i].name))
            return i;
    return -1;
}

static void read_steps(struct lw_fields *r, void *to)
{
    struct measured *m = to;

    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return;
    while (lw_json_next(r->j)) {
        int32_t i = config_at(r, m->runs);
        if (i >= 0 && lw_json_type(r->j) == LW_JSON_NUMBER)
            m->v[i].step_s = lw_json_double(r->j);
    }
}

#define AT(field) offsetof(struct lw_torch_measured, field)
static const struct lw_field peak_fields[] = {
    LW_F_INT64("peak_rss_bytes", AT(peak_rss_bytes), 0),
    {0},
};
#undef AT

static void read_peaks(struct lw_fields *r, void *to)
{
    struct measured *m = to;

    if (!lw_json_enter(r->j, LW_JSON_ARRAY))
        return;
    while (!r->no_memory && lw_json_next(r->j)) {
        if (!lw_json_enter(r->j, LW_JSON_OBJECT))
            return;
        while (!r->no_memory && lw_json_next(r->j)) {
            int32_t i = config_at(r, m->runs);
            struct lw_torch_measured one = {0};
            if (i < 0)
                continue;
            if (!lw_fields_read(r, peak_fields, &one))
                return;
            if (one.peak_rss_bytes > m->v[i].peak_rss_bytes)
                m->v[i].peak_rss_bytes = one.peak_rss_bytes;
        }
    }
}

enum lw_status lw_torch_measured_read(const struct lw_input *in, const struct lw_torch_runs *runs,
                                      struct lw_torch_measured *out, struct lw_err *err)
{
    static const struct lw_field fields[] = {LW_F_OWN("step_s", read_steps, NULL),
                                             LW_F_OWN("ranks", read_peaks, NULL),
                                             {0}};
    struct measured m = {runs, out};
    struct lw_arena arena = {0};

    memset(out, 0, (size_t)runs->n * sizeof *out);
    enum lw_status status = lw_foreign_read(in->name, in->text, in->len, fields, &arena, &m, err);
    lw_arena_free(&arena);
    return status;
}
