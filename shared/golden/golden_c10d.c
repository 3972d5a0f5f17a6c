/* c10d's recorded bucket assignments: by index (kind "assign" with "limits"), in ready order
 * ("rebuild"), and inputs that raise ("error"). Buckets that stay open in ready order are emitted
 * in hash order by the reference system, so several of them are compared as a set
 * ("order_defined"). */
#include <stdlib.h>
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

/* The case's list is our bucket k. */
static bool is_bucket(const struct lw_value *list, const struct lw_bucketing *b, int32_t k)
{
    int32_t first = b->first[k], n = b->first[k + 1] - first;

    if (!list || list->type != LW_JSON_ARRAY || list->n != n)
        return false;
    for (int32_t i = 0; i < n; i++)
        if (list->items[i].type != LW_JSON_NUMBER ||
            strtol(list->items[i].text, NULL, 10) != b->items[first + i])
            return false;
    return true;
}

enum lw_status lw_golden_order_open(struct lw_golden_case *c, const struct lw_value *const *wanted,
                                    struct lw_bucketing *b, struct lw_err *err)
{
    struct lw_bucketing to = *b;
    int32_t *place, at = 0;

    LW_TAKE(c->arena, place, b->n_buckets, err);
    LW_TAKE(&b->arena, to.first, (int64_t)b->n_buckets + 1, err);
    LW_TAKE(&b->arena, to.items, b->n_items, err);
    LW_TAKE(&b->arena, to.limit_bytes, b->n_buckets, err);
    for (int32_t k = 0; k < b->n_buckets; k++)
        place[k] = k;
    for (int32_t k = b->n_buckets - b->n_open; k < b->n_buckets; k++)
        for (int32_t i = k; i < b->n_buckets; i++)
            if (is_bucket(wanted[k], b, place[i])) {
                int32_t swap = place[k];
                place[k] = place[i];
                place[i] = swap;
                break;
            }
    for (int32_t k = 0; k < b->n_buckets; k++) {
        for (int32_t i = b->first[place[k]]; i < b->first[place[k] + 1]; i++)
            to.items[at++] = b->items[i];
        to.first[k + 1] = at;
        to.limit_bytes[k] = b->limit_bytes[place[k]];
    }
    b->first = to.first;
    b->items = to.items;
    b->limit_bytes = to.limit_bytes;
    return LW_OK;
}

/* Under a ready order. */
static enum lw_status match_open(struct lw_golden_case *c, struct lw_bucketing *b,
                                 struct lw_err *err)
{
    const struct lw_value *buckets = lw_value_get(c->root, "buckets"), **wanted;

    if (b->n_open < 2 || !buckets || buckets->n != b->n_buckets)
        return LW_OK;
    LW_TAKE(c->arena, wanted, b->n_buckets, err);
    for (int32_t k = 0; k < b->n_buckets; k++)
        wanted[k] = &buckets->items[k];
    return lw_golden_order_open(c, wanted, b, err);
}

static enum lw_status expect_buckets(struct lw_golden_case *c, const struct lw_bucketing *b,
                                     struct lw_err *err)
{
    struct lw_text t = {0};

    lw_text_open(&t);
    for (int32_t k = 0; k < b->n_buckets; k++)
        lw_text_ints(&t, b->items + b->first[k], b->first[k + 1] - b->first[k]);
    lw_text_close(&t);
    LW_TRY(lw_golden_expect(c, "buckets", &t, err));
    lw_text_open(&t);
    for (int32_t k = 0; k < b->n_buckets; k++)
        lw_text_item(&t, "%lld", (long long)b->limit_bytes[k]);
    lw_text_close(&t);
    return lw_golden_expect(c, "bucket_limits", &t, err);
}

static enum lw_status expect_open(struct lw_golden_case *c, const struct lw_bucketing *b,
                                  struct lw_err *err)
{
    struct lw_text t = {0};

    lw_text_open(&t);
    for (int32_t k = b->n_buckets - b->n_open; k < b->n_buckets; k++)
        lw_text_item(&t, "%d", k);
    lw_text_close(&t);
    LW_TRY(lw_golden_expect(c, "open_buckets", &t, err));
    lw_text_add(&t, b->n_open < 2 ? "true" : "false");
    return lw_golden_expect(c, "order_defined", &t, err);
}

enum lw_status lw_golden_c10d(struct lw_golden_case *c, struct lw_err *err)
{
    struct input in = {0};
    struct lw_bucketing b;

    LW_TRY(read_input(c, &in, err));
    if (in.raises) {
        LW_TRY(lw_golden_expect_error(c, "RuntimeError",
                                      "buckets bucket_limits open_buckets order_defined", err));
        return lw_golden_expect_word(c, "reason", in.raises, err);
    }
    LW_TRY(lw_golden_expect_error(c, NULL, "", err));
    LW_TRY(lw_bucket_assign_c10d(in.grads, in.n, in.order, in.limits, in.n_limits, &b, err));
    enum lw_status status = in.order ? match_open(c, &b, err) : LW_OK;
    if (status == LW_OK)
        status = expect_buckets(c, &b, err);
    if (status == LW_OK && in.order)
        status = expect_open(c, &b, err);
    lw_bucketing_free(&b);
    return status;
}
