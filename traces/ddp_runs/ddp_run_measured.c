/* The measured side of a measured-run file: steps of ddp.* and of ddp_first_run, and DDP's own
 * list of buckets. What is missing or of another type stays unknown; whoever compares says so. */
#include "traces/ddp_runs/ddp_run_measured.h"

#include <stdlib.h>
#include <string.h>

#include "shared/io/input.h"
#include "shared/json/json.h"

struct reader {
    struct lw_json *j;
    struct lw_gt_results *r;
    int64_t capacity;
    bool nomem;
};

static bool enter(struct reader *r)
{
    return lw_json_type(r->j) == LW_JSON_OBJECT && lw_json_enter(r->j, LW_JSON_OBJECT);
}

static double number(struct reader *r)
{
    return lw_json_type(r->j) == LW_JSON_NUMBER ? lw_json_double(r->j) : -1;
}

static struct lw_gt_measured *entry(struct reader *r, const char *config)
{
    struct lw_gt_results *l = r->r;

    for (int32_t i = 0; i < l->n; i++)
        if (strcmp(l->v[i].config, config) == 0)
            return &l->v[i];
    const char *copy = lw_arena_strdup(&l->arena, config);
    if (!copy || lw_reserve(&l->v, &r->capacity, l->n + 1, sizeof *l->v) != 0) {
        r->nomem = true;
        return NULL;
    }
    l->v[l->n] = (struct lw_gt_measured){.config = copy, .step = {-1, -1}, .first_step = {-1, -1},
                                         .rel_iqr = -1};
    return &l->v[l->n++];
}

static void read_timing(struct reader *r, lw_ps *step)
{
    if (!enter(r))
        return;
    while (lw_json_next(r->j)) {
        if (!lw_json_key_is(r->j, "step") || !enter(r))
            continue;
        while (lw_json_next(r->j)) {
            if (!lw_json_key_is(r->j, "median"))
                continue;
            double s = number(r);
            *step = s > 0 && s < 1e6 ? lw_ps_from_seconds(s) : -1;
        }
    }
}

/* "2363904, 2365440": sizes in launch order. */
static void read_sizes(struct reader *r, struct lw_gt_measured *m)
{
    const char *text = lw_json_string(r->j, NULL);
    int64_t *v = lw_arena_alloc(&r->r->arena, (int64_t)strlen(text) / 2 + 1, sizeof *v);
    char *end;

    r->nomem |= !v;
    m->n_buckets = 0;
    m->bucket_bytes = v;
    while (v) {
        long long bytes = strtoll(text, &end, 10);
        if (end == text)
            return;
        v[m->n_buckets++] = bytes;
        text = end + strspn(end, ", ");
    }
}

static void read_logging(struct reader *r, struct lw_gt_measured *m)
{
    if (!enter(r))
        return;
    while (lw_json_next(r->j))
        if (lw_json_key_is(r->j, "rebuilt_bucket_sizes") &&
            lw_json_type(r->j) == LW_JSON_STRING)
            read_sizes(r, m);
}

static void read_rank(struct reader *r, struct lw_gt_measured *m, int rank, bool first)
{
    if (!enter(r))
        return;
    while (lw_json_next(r->j)) {
        if (lw_json_key_is(r->j, "timing")) {
            read_timing(r, first ? &m->first_step[rank] : &m->step[rank]);
        } else if (lw_json_key_is(r->j, "rel_iqr") && !first) {
            double iqr = number(r);
            m->rel_iqr = iqr > m->rel_iqr ? iqr : m->rel_iqr;
        } else if (lw_json_key_is(r->j, "ddp_logging") && !first) {
            read_logging(r, m);
        }
    }
}

static void read_configs(struct reader *r, bool first)
{
    if (!enter(r))
        return;
    while (lw_json_next(r->j)) {
        struct lw_gt_measured *m = entry(r, lw_json_key(r->j, NULL));
        if (!m || !enter(r))
            continue;
        while (lw_json_next(r->j)) {
            if (lw_json_key_is(r->j, "rank0"))
                read_rank(r, m, 0, first);
            else if (lw_json_key_is(r->j, "rank1"))
                read_rank(r, m, 1, first);
        }
    }
}

static void read_root(struct reader *r)
{
    if (!enter(r))
        return;
    while (lw_json_next(r->j)) {
        if (lw_json_key_is(r->j, "ddp"))
            read_configs(r, false);
        if (!lw_json_key_is(r->j, "ddp_first_run") || !enter(r))
            continue;
        while (lw_json_next(r->j))
            if (lw_json_key_is(r->j, "ddp"))
                read_configs(r, true);
    }
}

enum lw_status lw_groundtruth_measured(const struct lw_input *in, struct lw_gt_results *out,
                                       struct lw_err *err)
{
    struct lw_gt_results results = {0};
    struct reader r = {.r = &results};

    LW_TRY(lw_json_open(in->name, in->text, in->len, &r.j, err));
    read_root(&r);
    enum lw_status status = lw_json_done(r.j, err);
    lw_json_close(r.j);
    if (r.nomem)
        status = lw_fail_nomem(err);
    LW_GIVE(status, out, results, lw_gt_results_free(&results));
}

const struct lw_gt_measured *lw_gt_measured_find(const struct lw_gt_results *r, const char *config)
{
    for (int32_t i = 0; i < r->n; i++)
        if (strcmp(r->v[i].config, config) == 0)
            return &r->v[i];
    return NULL;
}

void lw_gt_results_free(struct lw_gt_results *r)
{
    lw_free(r->v);
    lw_arena_free(&r->arena);
    *r = (struct lw_gt_results){0};
}
