/* Filling buckets in an order, for policies with one open bucket per kind of gradient. */
#include "shared/bucket/bucket_fill.h"

enum lw_status lw_bucket_fill_begin(struct lw_bucket_fill *f, const int32_t *order, int32_t n,
                                    struct lw_arena *room, struct lw_err *err)
{
    *f = (struct lw_bucket_fill){.order = order, .n = n};
    LW_TAKE(room, f->bucket_of, n, err);
    LW_TAKE(room, f->last, n, err);
    LW_TAKE(room, f->size, n, err);
    LW_TAKE(room, f->limit_bytes, n, err);
    return LW_OK;
}

int32_t lw_bucket_fill_open(struct lw_bucket_fill *f, int64_t limit_bytes)
{
    f->limit_bytes[f->n_buckets] = limit_bytes;
    return f->n_buckets++;
}

void lw_bucket_fill_put(struct lw_bucket_fill *f, int32_t place, int32_t bucket)
{
    f->bucket_of[place] = bucket;
    f->last[bucket] = place;
    f->size[bucket]++;
}

enum lw_status lw_bucket_fill_list(struct lw_bucket_fill *f, struct lw_bucketing *out,
                                   struct lw_err *err)
{
    struct lw_bucketing b = {0};
    int32_t *at = f->last; /* by bucket: the place of its next item */

    LW_TRY(lw_bucketing_room(&b, f->n, f->n, err));
    for (int32_t i = 0; i < f->n; i++) {
        int32_t k = f->bucket_of[i];
        if (f->last[k] != i)
            continue;
        b.limit_bytes[b.n_buckets] = f->limit_bytes[k];
        b.first[b.n_buckets + 1] = b.first[b.n_buckets] + f->size[k];
        f->size[k] = b.n_buckets++; /* from here on its number in this order */
    }
    for (int32_t k = 0; k < f->n_buckets; k++)
        at[k] = b.first[f->size[k]];
    for (int32_t i = 0; i < f->n; i++)
        b.items[at[f->bucket_of[i]]++] = f->order[i];
    b.n_items = f->n;
    *out = b;
    return LW_OK;
}
