/* c10d's recorded bucket assignments: by index (kind "assign" with "limits"), in ready order
 * ("rebuild"), and inputs that raise ("error"). Buckets that stay open in ready order are emitted
 * in hash order by the reference system, so several of them are compared as a set
 * ("order_defined"). */
#include <string.h>

#include "shared/bucket/bucket.h"
#include "shared/golden/golden_case.h"

struct input {
    struct lw_grad *grads;
    int64_t *limits;
    int32_t *order;
    int32_t n, n_limits;
    const char *raises; /* the reference system's refusal, NULL = none */
};

static enum lw_status read_grads(struct lw_golden_case *c, struct input *in, struct lw_err *err)
{
    const struct lw_value *layout = lw_value_get(c->root, "layout");
    int32_t *sparse, *device, n_sparse, n_device;
    int64_t *numel;
    enum lw_dtype *dtype;

    LW_TRY(lw_golden_list(c, "numel", 0, INT64_MAX, &numel, &in->n, err));
    LW_TRY(lw_golden_indices(c, "sparse", 0, 1, &sparse, &n_sparse, err));
    LW_TRY(lw_golden_indices(c, "device", INT32_MIN, INT32_MAX, &device, &n_device, err));
    LW_TRY(lw_golden_dtypes(c, in->n, &dtype, err));
    if (device && n_device != in->n)
        return lw_fail(err, LW_EFORMAT, "device: %d for %d tensors", n_device, in->n);
    LW_TAKE(c->arena, in->grads, in->n, err);
    if (in->n == 0)
        in->raises = "no-tensors";
    else if (layout && layout->type == LW_JSON_STRING && strcmp(layout->text, "sparse_coo") == 0)
        in->raises = "sparse-tensor";
    else if (sparse && n_sparse != in->n)
        in->raises = "sparse-list-length-mismatch";
    for (int32_t i = 0; i < in->n && !in->raises; i++)
        in->grads[i] =
            (struct lw_grad){numel[i], dtype[i], device ? device[i] : 0, sparse && sparse[i]};
    return LW_OK;
}

static enum lw_status read_input(struct lw_golden_case *c, struct input *in, struct lw_err *err)
{
    int32_t n_order;

    LW_TRY(read_grads(c, in, err));
    LW_TRY(lw_golden_list(c, "limits", 0, INT64_MAX, &in->limits, &in->n_limits, err));
    LW_TRY(lw_golden_indices(c, "order", 0, INT32_MAX, &in->order, &n_order, err));
    if (in->order && n_order != in->n)
        return lw_fail(err, LW_EFORMAT, "order: %d places for %d tensors", n_order, in->n);
    return LW_OK;
}

static void add_bucket(const struct lw_bucketing *b, int32_t k, struct lw_text *t)
{
    lw_text_ints(t, b->items + b->first[k], b->first[k + 1] - b->first[k]);
}

/* The case's k-th bucket with its limit is our bucket b. 1 yes, 0 no, -1 without memory. */
static int is_bucket(const struct lw_value *buckets, const struct lw_value *limits, int32_t k,
                     const struct lw_bucketing *ours, int32_t b)
{
    struct lw_text have = {0}, want = {0};

    lw_value_print(&buckets->items[k], &want);
    lw_text_add(&want, " ");
    lw_value_print(&limits->items[k], &want);
    add_bucket(ours, b, &have);
    lw_text_add(&have, " %lld", (long long)ours->limit_bytes[b]);
    int same = have.failed || want.failed ? -1 : strcmp(have.at, want.at) == 0;

    lw_text_free(&have);
    lw_text_free(&want);
    return same;
}

/* Under a ready order, put our open buckets into the order in which the case has them, where each
 * of its places names one of ours; else they stay, and the comparison shows the difference. */
static enum lw_status match_open(struct lw_golden_case *c, const struct lw_bucketing *b,
                                 int32_t *place, struct lw_err *err)
{
    const struct lw_value *buckets = lw_value_get(c->root, "buckets");
    const struct lw_value *limits = lw_value_get(c->root, "bucket_limits");
    int32_t first = b->n_buckets - b->n_open;

    for (int32_t k = 0; k < b->n_buckets; k++)
        place[k] = k;
    if (!lw_value_get(c->root, "order") || b->n_open < 2 || !buckets || !limits ||
        buckets->n != b->n_buckets || limits->n != b->n_buckets)
        return LW_OK;
    for (int32_t k = first; k < b->n_buckets; k++)
        for (int32_t i = k; i < b->n_buckets; i++) {
            int same = is_bucket(buckets, limits, k, b, place[i]);
            if (same < 0)
                return lw_fail_nomem(err);
            if (same == 0)
                continue;
            int32_t swap = place[k];
            place[k] = place[i];
            place[i] = swap;
            break;
        }
    return LW_OK;
}

static enum lw_status expect_buckets(struct lw_golden_case *c, const struct lw_bucketing *b,
                                     struct lw_err *err)
{
    int32_t *place = lw_arena_alloc(c->arena, b->n_buckets, sizeof *place);
    struct lw_text t = {0};

    if (!place)
        return lw_fail_nomem(err);
    LW_TRY(match_open(c, b, place, err));
    lw_text_add(&t, "[");
    for (int32_t k = 0; k < b->n_buckets; k++) {
        lw_text_add(&t, k ? "," : "");
        add_bucket(b, place[k], &t);
    }
    lw_text_add(&t, "]");
    LW_TRY(lw_golden_expect(c, "buckets", &t, err));
    lw_text_add(&t, "[");
    for (int32_t k = 0; k < b->n_buckets; k++)
        lw_text_add(&t, "%s%lld", k ? "," : "", (long long)b->limit_bytes[place[k]]);
    lw_text_add(&t, "]");
    return lw_golden_expect(c, "bucket_limits", &t, err);
}

static enum lw_status expect_open(struct lw_golden_case *c, const struct lw_bucketing *b,
                                  struct lw_err *err)
{
    struct lw_text t = {0};

    lw_text_add(&t, "[");
    for (int32_t k = b->n_buckets - b->n_open; k < b->n_buckets; k++)
        lw_text_add(&t, "%s%d", k > b->n_buckets - b->n_open ? "," : "", k);
    lw_text_add(&t, "]");
    LW_TRY(lw_golden_expect(c, "open_buckets", &t, err));
    lw_text_add(&t, b->n_open < 2 ? "true" : "false");
    return lw_golden_expect(c, "order_defined", &t, err);
}

enum lw_status lw_golden_c10d(struct lw_golden_case *c, struct lw_err *err)
{
    struct input in = {0};
    struct lw_bucketing b;

    LW_TRY(lw_golden_known(c,
                           "id kind name numel dtype device sparse layout limits order buckets "
                           "bucket_limits open_buckets order_defined error reason",
                           err));
    LW_TRY(read_input(c, &in, err));
    if (in.raises) {
        LW_TRY(lw_golden_expect_error(c, "RuntimeError",
                                      "buckets bucket_limits open_buckets order_defined", err));
        return lw_golden_expect_word(c, "reason", in.raises, err);
    }
    LW_TRY(lw_golden_expect_error(c, NULL, "", err));
    LW_TRY(lw_bucket_assign_c10d(in.grads, in.n, in.order, in.limits, in.n_limits, &b, err));
    enum lw_status status = expect_buckets(c, &b, err);
    if (status == LW_OK && in.order)
        status = expect_open(c, &b, err);
    lw_bucketing_free(&b);
    return status;
}
