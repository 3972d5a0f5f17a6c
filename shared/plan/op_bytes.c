/* Canonical bytes of ops by row. An op is its numbers, its dependencies, its gradients, its name
 * and its work (op_fields of plan_tables.c); ops of one row have lists of equal lengths, one name
 * and one source of work, so that what differs between them stands at one place in all of them:
 *
 *   12 numbers | n | dependencies | n | gradients | length, name | source, whole work, takes
 *
 * Invariant: the model of a row is the bytes that `feed` makes of its first op. */
#include "shared/plan/op_bytes.h"

#include <stddef.h>
#include <string.h>

#include "shared/plan/plan_tables.h"

enum { WORD = sizeof(int64_t), MOST = 2048 /* bytes of a model: longer ops are fed whole */ };

struct model {
    int32_t n_bytes; /* 0: the row has not been met; -1: met once, or its ops are too long */
    int64_t at;
};

struct by_row {
    const struct lw_plan *p;
    const struct lw_whole_works *works;
    struct lw_hash *h, *one; /* one: takes an op to be a model */
    lw_feed_op_fn *feed;
    void *ctx;
    struct model *models; /* [n_op_rows] */
    unsigned char *bytes; /* of the models */
    int64_t n_bytes, capacity;
    int32_t n_numbers, call, micro_batch, module, bucket; /* places of numbers among the first */
};

/* Where the number of the op lies among those before its lists. */
static int32_t place_of(size_t at)
{
    const struct lw_plan_field *fields = lw_plan_tables[LW_TABLE_ops].fields, *f = fields;

    while (f->kind == LW_PF_NUMBER && f->at != at)
        f++;
    return (int32_t)(f - fields);
}

static int64_t length_of(const struct lw_op *op)
{
    return op->n_deps < 0 || op->n_ready < 0 || op->n_deps >= MOST || op->n_ready >= MOST
               ? MOST
               : (op->n_deps + op->n_ready) * WORD + (op->name ? (int64_t)strlen(op->name) : 0);
}

/* The row's bytes are those of op i. */
static enum lw_status make_model(struct by_row *k, int64_t i, struct model *m, struct lw_err *err)
{
    size_t n;

    k->feed(k->ctx, k->one, i);
    const unsigned char *bytes = lw_hash_take(k->one, &n);
    if (lw_reserve(&k->bytes, &k->capacity, k->n_bytes + (int64_t)n, 1) != 0)
        return lw_fail_nomem(err);
    memcpy(k->bytes + k->n_bytes, bytes, n);
    *m = (struct model){(int32_t)n, k->n_bytes};
    k->n_bytes += (int64_t)n;
    return LW_OK;
}

static unsigned char *put_all(unsigned char *to, const int32_t *v, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        lw_put_int(to + (size_t)i * WORD, v[i]);
    return to + (size_t)n * WORD;
}

/* What op i has of its own, in the bytes of its row's model. */
static void put_own(const struct by_row *k, unsigned char *to, size_t n, int64_t i)
{
    const struct lw_plan *p = k->p;
    const struct lw_op *row = &p->op_rows[p->op_places[i].row];
    const struct lw_op_own *own = p->op_own ? &p->op_own[i] : NULL;

    lw_put_int(to + (size_t)k->micro_batch * WORD, p->op_places[i].micro_batch);
    if (p->op_calls)
        lw_put_int(to + (size_t)k->call * WORD, p->op_calls[i]);
    if (own) {
        lw_put_int(to + (size_t)k->module * WORD, own->module);
        lw_put_int(to + (size_t)k->bucket * WORD, own->bucket);
    }
    unsigned char *lists = put_all(to + (size_t)(k->n_numbers + 1) * WORD,
                                   p->deps + p->op_places[i].first_dep, row->n_deps);
    if (own)
        put_all(lists + WORD, p->ready + own->first_ready, row->n_ready);
    if (k->works->of[i] < 0)
        return;
    const struct lw_whole_work *w = &k->works->v[k->works->of[i]];
    unsigned char *work = to + n - 4 * WORD;
    lw_put_int(work, w->flops);
    lw_put_int(work + WORD, w->n_products);
    lw_put_int(work + 2 * WORD, (int64_t)w->products);
    if (own)
        lw_put_int(work + 3 * WORD, lw_work_takes(p, own->work));
}

static enum lw_status feed_op(struct by_row *k, int64_t i, struct lw_err *err)
{
    int32_t row = k->p->op_places[i].row;
    struct model *m = &k->models[row];

    if (m->n_bytes == -1 && length_of(&k->p->op_rows[row]) < MOST)
        LW_TRY(make_model(k, i, m, err));
    if (m->n_bytes <= 0) {
        k->feed(k->ctx, k->h, i);
        m->n_bytes = -1;
        return LW_OK;
    }
    unsigned char *to = lw_hash_room(k->h, (size_t)m->n_bytes);
    memcpy(to, k->bytes + m->at, (size_t)m->n_bytes);
    put_own(k, to, (size_t)m->n_bytes, i);
    return LW_OK;
}

enum lw_status lw_hash_shared_ops(struct lw_hash *h, const struct lw_plan *p,
                                  const struct lw_whole_works *works, lw_feed_op_fn *feed,
                                  void *ctx, struct lw_err *err)
{
    struct by_row k = {.p = p, .works = works, .h = h, .feed = feed, .ctx = ctx};
    enum lw_status s = LW_OK;

    k.n_numbers = place_of(SIZE_MAX);
    k.call = place_of(offsetof(struct lw_op, call));
    k.micro_batch = place_of(offsetof(struct lw_op, micro_batch));
    k.module = place_of(offsetof(struct lw_op, module));
    k.bucket = place_of(offsetof(struct lw_op, bucket));
    k.models = lw_calloc((size_t)p->n_op_rows + 1, sizeof *k.models);
    k.one = lw_hash_new();
    if (!k.models || !k.one)
        s = lw_fail_nomem(err);
    for (int64_t i = 0; s == LW_OK && i < p->n_ops; i++)
        s = feed_op(&k, i, err);
    lw_free(k.bytes);
    lw_free(k.models);
    lw_hash_free(k.one);
    return s;
}
