/* What the wrapper around the assignment decides, by torch generation, and the other policies that
 * close buckets at a limit: which limits, on which order, rebuilt or not, and when the map of used
 * parameters is reduced.
 *
 * Sources: pytorch torch/nn/parallel/distributed.py and torch/csrc/distributed/c10d/reducer.cpp, at
 * 0028a16 (2021) for the 2020 behaviour, 1.13.1, and 2.x. docs/design/bucket.md has the table. Not
 * modelled: bucket_cap_mb_list, delayed all-reduce lists. */
#include <stdio.h>
#include <string.h>

#include "shared/bucket/policy.h"
#include "shared/numbers/units.h"

#define DEFAULT_CAP_BYTES (INT64_C(25) << 20)
#define DEFAULT_FIRST_BYTES (INT64_C(1) << 20)

/* [first, cap], or [cap] alone where a newer torch is given a cap and no first bucket. */
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

static void rules_2020(const struct lw_bucket_request *r, struct lw_bucket_rules *out)
{
    out->n_initial = wrapper_limits(r, out->initial_limits, out->why, sizeof out->why);
    out->used_map = LW_MAP_EACH;
}

static void rules_rebuilding(const struct lw_bucket_request *r, struct lw_bucket_rules *out)
{
    int64_t limits[2];
    int32_t n = wrapper_limits(r, limits, out->why, sizeof out->why);

    if (r->find_unused && !r->static_graph) {
        memcpy(out->initial_limits, limits, sizeof limits);
        out->n_initial = n;
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
static void rules_plain(struct lw_bucket_rules *out, int64_t limit, const char *why)
{
    out->initial_limits[0] = limit;
    out->n_initial = 1;
    out->initial_in_ready_order = true;
    snprintf(out->why, sizeof out->why, "%s", why);
}

static void rules_per_tensor(const struct lw_bucket_request *r, struct lw_bucket_rules *out)
{
    (void)r;
    rules_plain(out, 0, "one per gradient");
}

static void rules_single(const struct lw_bucket_request *r, struct lw_bucket_rules *out)
{
    (void)r;
    rules_plain(out, LW_BUCKET_NO_LIMIT, "one per dtype and device");
}

enum {
    WRAPPER =
        LW_TAKES_CAP | LW_TAKES_FIRST | LW_TAKES_FIND_UNUSED | LW_TAKES_SPARSE | LW_TAKES_MIXED,
    PLAIN = LW_TAKES_STATIC_GRAPH | LW_TAKES_FIND_UNUSED | LW_TAKES_SPARSE | LW_TAKES_MIXED |
            LW_TAKES_SHARES,
};

const struct lw_bucket_policy lw_bucket_policy_c10d_2020 = {
    .takes = WRAPPER, .scales = LW_SCALE_IN_BUCKET, .limits = rules_2020,
};
const struct lw_bucket_policy lw_bucket_policy_c10d_1_13 = {
    .takes = WRAPPER | LW_TAKES_STATIC_GRAPH | LW_TAKES_LAST_CAP, .limits = rules_rebuilding,
};
const struct lw_bucket_policy lw_bucket_policy_c10d_2 = {
    .takes = WRAPPER | LW_TAKES_STATIC_GRAPH | LW_TAKES_LAST_CAP, .limits = rules_rebuilding,
};
const struct lw_bucket_policy lw_bucket_policy_per_tensor = {
    .takes = PLAIN, .limits = rules_per_tensor,
};
const struct lw_bucket_policy lw_bucket_policy_single = {.takes = PLAIN, .limits = rules_single};

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
