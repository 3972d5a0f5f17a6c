/* What the wrapper around the assignment decides, by torch generation: which limits, on which order,
 * rebuilt or not, and when the map of used parameters is reduced.
 *
 * Sources: pytorch torch/nn/parallel/distributed.py and torch/csrc/distributed/c10d/reducer.cpp, at
 * 0028a16 (2021) for the 2020 behaviour, 1.13.1, and 2.x. docs/design/bucket.md has the table. Not
 * modelled: bucket_cap_mb_list, delayed all-reduce lists. */
#include <stdio.h>
#include <string.h>

#include "shared/bucket/bucket.h"
#include "shared/base/units.h"

#define DEFAULT_CAP_BYTES (INT64_C(25) << 20)
#define DEFAULT_FIRST_BYTES (INT64_C(1) << 20)

/* [first, cap], or [cap] alone where a newer torch is told a cap and no first bucket. */
static int32_t wrapper_limits(const struct lw_bucket_request *r, int64_t limits[2], char *why,
                              size_t room)
{
    int64_t cap = r->cap_bytes >= 0 ? r->cap_bytes : DEFAULT_CAP_BYTES;
    int64_t first = r->first_bytes >= 0 ? r->first_bytes : DEFAULT_FIRST_BYTES;
    char cap_text[32], first_text[32];

    lw_format_bytes(cap_text, cap);
    lw_format_bytes(first_text, first);
    if (r->policy == LW_BUCKET_C10D_2 && r->cap_bytes >= 0 && r->first_bytes < 0) {
        limits[0] = cap;
        snprintf(why, room, "[%s] (an explicit cap removes the small first bucket)", cap_text);
        return 1;
    }
    limits[0] = first;
    limits[1] = cap;
    snprintf(why, room, "[%s, %s] (%s first bucket, %s cap)", first_text, cap_text,
             r->first_bytes >= 0 ? "explicit" : "default",
             r->cap_bytes >= 0 ? "explicit" : "default");
    return 2;
}

static enum lw_status rules_2020(const struct lw_bucket_request *r, struct lw_bucket_rules *out,
                                 struct lw_err *err)
{
    if (r->static_graph)
        return lw_fail(err, LW_EINVAL, "--static-graph: c10d-2020 knows no static graph (use "
                                       "--bucket-policy c10d-1.13 or c10d-2)");
    out->n_initial = wrapper_limits(r, out->initial_limits, out->why, sizeof out->why);
    out->used_map = LW_MAP_EACH;
    return LW_OK;
}

static enum lw_status check_last_cap(const struct lw_bucket_request *r, struct lw_err *err)
{
    if (!r->last_cap)
        return LW_OK;
    if (r->policy != LW_BUCKET_C10D_1_13 && r->policy != LW_BUCKET_C10D_2)
        return lw_fail(err, LW_EINVAL, "--last-bucket-cap on: --bucket-policy %s does not know "
                                       "DDP_SET_LAST_BUCKET_CAP (c10d-1.13 and c10d-2 do)",
                       lw_bucket_policy_name(r->policy));
    if (r->find_unused && !r->static_graph)
        return lw_fail(err, LW_EINVAL, "--last-bucket-cap on acts where buckets are rebuilt: with "
                                       "--find-unused on they never are");
    return LW_OK;
}

static void rules_rebuilding(const struct lw_bucket_request *r, struct lw_bucket_rules *out)
{
    int64_t limits[2];
    int32_t n = wrapper_limits(r, limits, out->why, sizeof out->why);

    if (r->find_unused && !r->static_graph) {
        memcpy(out->initial_limits, limits, sizeof limits);
        out->n_initial = n;
        out->used_map = LW_MAP_EACH;
        return;
    }
    out->initial_limits[0] = LW_BUCKET_NO_LIMIT;
    out->n_initial = 1;
    memcpy(out->rebuilt_limits, limits, sizeof limits);
    out->n_rebuilt = n;
    out->n_initial_passes = r->static_graph ? 2 : 1;
    out->first_after_backward = r->static_graph;
    out->rebuilt_from_behind = r->last_cap;
    out->used_map = r->static_graph ? LW_MAP_FIRST : LW_MAP_NEVER;
}

/* One limit for all, on the ready order: 0 closes at every gradient, no limit never does. */
static enum lw_status rules_plain(const struct lw_bucket_request *r, int64_t limit,
                                  struct lw_bucket_rules *out, struct lw_err *err)
{
    if (r->cap_bytes >= 0 || r->first_bytes >= 0)
        return lw_fail(err, LW_EINVAL, "--bucket-policy %s takes no --bucket-cap or --first-bucket",
                       lw_bucket_policy_name(r->policy));
    out->initial_limits[0] = limit;
    out->n_initial = 1;
    out->initial_in_ready_order = true;
    out->used_map = r->find_unused && !r->static_graph ? LW_MAP_EACH : LW_MAP_NEVER;
    snprintf(out->why, sizeof out->why, "%s",
             limit == 0 ? "one per gradient" : "one per dtype and device");
    return LW_OK;
}

/* Policies with a function of their own: buckets are made once and never rebuilt. */
static enum lw_status rules_own(const struct lw_bucket_request *r, struct lw_bucket_rules *out,
                                struct lw_err *err)
{
    const char *name = lw_bucket_policy_name(r->policy);

    if (r->first_bytes >= 0)
        return lw_fail(err, LW_EINVAL, "--bucket-policy %s takes no --first-bucket", name);
    if (r->cap_bytes >= 0 && r->policy != LW_BUCKET_PICOTRON &&
        r->policy != LW_BUCKET_DEEPSPEED &&
        r->policy != LW_BUCKET_SHARDED_DDP)
        return lw_fail(err, LW_EINVAL, "--bucket-policy %s takes no --bucket-cap", name);
    if (r->static_graph)
        return lw_fail(err, LW_EINVAL, "--bucket-policy %s knows no --static-graph (c10d-1.13 and "
                                       "c10d-2 do)", name);
    if (r->find_unused && r->policy == LW_BUCKET_COLOSSAL)
        return lw_fail(err, LW_EINVAL, "--bucket-policy colossal takes the gradients that exist: "
                                       "--find-unused on has nothing to find");
    out->used_map = r->find_unused ? LW_MAP_EACH : LW_MAP_NEVER;
    out->first_after_backward = r->policy == LW_BUCKET_COLOSSAL;
    return LW_OK;
}

enum lw_status lw_bucket_rules(const struct lw_bucket_request *r, struct lw_bucket_rules *out,
                               struct lw_err *err)
{
    struct lw_bucket_rules rules = {0};
    enum lw_status s = check_last_cap(r, err);

    if (s != LW_OK)
        return s;
    switch (r->policy) {
    case LW_BUCKET_C10D_2020:
        s = rules_2020(r, &rules, err);
        break;
    case LW_BUCKET_C10D_1_13:
    case LW_BUCKET_C10D_2:
        rules_rebuilding(r, &rules);
        break;
    case LW_BUCKET_PER_TENSOR:
        s = rules_plain(r, 0, &rules, err);
        break;
    case LW_BUCKET_SINGLE:
        s = rules_plain(r, LW_BUCKET_NO_LIMIT, &rules, err);
        break;
    default:
        s = rules_own(r, &rules, err);
    }
    rules.limited = rules.n_initial > 0;
    if (s == LW_OK)
        *out = rules;
    return s;
}

enum lw_status lw_bucket_initial(const struct lw_bucket_rules *r, const struct lw_grad *grads,
                                 int32_t n, const int32_t *order, struct lw_bucketing *out,
                                 struct lw_err *err)
{
    struct lw_bucketing b;

    LW_TRY(lw_bucket_assign_c10d(grads, n, r->initial_in_ready_order ? order : NULL,
                                 r->initial_limits, r->n_initial, &b, err));
    if (!r->initial_in_ready_order) {
        enum lw_status s = lw_bucketing_reverse(&b, err);
        if (s != LW_OK) {
            lw_bucketing_free(&b);
            return s;
        }
    }
    *out = b;
    return LW_OK;
}

enum lw_status lw_bucket_rebuilt(const struct lw_bucket_rules *r, const struct lw_grad *grads,
                                 int32_t n, const int32_t *order, struct lw_bucketing *out,
                                 struct lw_err *err)
{
    struct lw_bucketing b = {0};

    if (!r->rebuilt_from_behind)
        return lw_bucket_assign_c10d(grads, n, order, r->rebuilt_limits, r->n_rebuilt, out, err);
    int32_t *reversed = lw_alloc((size_t)n * sizeof *reversed);
    if (!reversed)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < n; i++)
        reversed[i] = order[n - 1 - i];
    enum lw_status s = lw_bucket_assign_c10d(grads, n, reversed, r->rebuilt_limits, r->n_rebuilt,
                                             &b, err);
    lw_free(reversed);
    if (s == LW_OK && (s = lw_bucketing_reverse(&b, err)) == LW_OK)
        *out = b;
    else
        lw_bucketing_free(&b);
    return s;
}
