/* Units of weights that are sharded (ZeRO-3): when each is gathered and when it is freed, read from
 * the program of a role that has it. */
#include "shared/show/plan_units.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/text/records.h"

/* For one kind of op: the last program that has some on a bucket, and these, as a list by bucket.
 * Weights that accumulating passes hold are gathered in another variant than they are freed in. */
struct unit_ops {
    int64_t *program; /* [n_buckets]; -1 = none */
    int32_t *first;   /* [n_buckets + 1] */
    int32_t *ops;
};

struct lw_plan_units {
    const struct lw_plan *p;
    struct lw_arena arena;
    struct unit_ops gathers, frees;
    int32_t *first_param, *params; /* [n_modules + 1], parameters by module */
    int32_t *in_bucket;            /* [n_params]: 1 + the bucket looked at last that has it */
};

/* Counts the ops of each bucket into first[b + 1], or, once `ops` is there, lists them. */
static void walk_ops(const struct lw_plan *p, enum lw_op_kind kind, struct unit_ops *u)
{
    for (int64_t k = 0; k < (int64_t)p->n_variants * p->n_roles; k++) {
        struct lw_program g = p->programs[k];
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
            int32_t b = lw_op_at(p, i).bucket;
            if (lw_op_at(p, i).kind != kind || b < 0)
                continue;
            if (u->ops && u->program[b] == k)
                u->ops[u->first[b]++] = i;
            if (!u->ops && u->program[b] != k)
                u->first[b + 1] = 0; /* a later program takes the place of the one before */
            u->first[b + 1] += !u->ops;
            u->program[b] = u->ops ? u->program[b] : k;
        }
    }
}

static enum lw_status list_ops(struct lw_plan_units *u, enum lw_op_kind kind, struct unit_ops *out,
                               struct lw_err *err)
{
    const struct lw_plan *p = u->p;

    LW_TAKE(&u->arena, out->program, p->n_buckets, err);
    LW_TAKE(&u->arena, out->first, p->n_buckets + 1L, err);
    memset(out->program, -1, (size_t)p->n_buckets * sizeof *out->program);
    walk_ops(p, kind, out);
    for (int32_t b = 0; b < p->n_buckets; b++)
        out->first[b + 1] += out->first[b];
    LW_TAKE(&u->arena, out->ops, out->first[p->n_buckets], err);
    walk_ops(p, kind, out);
    for (int32_t b = p->n_buckets; b > 0; b--) /* filling moved each start to the next one's */
        out->first[b] = out->first[b - 1];
    out->first[0] = 0;
    return LW_OK;
}

static enum lw_status list_params(struct lw_plan_units *u, struct lw_err *err)
{
    const struct lw_plan *p = u->p;
    int32_t *first;

    LW_TAKE(&u->arena, first, p->n_modules + 2L, err);
    LW_TAKE(&u->arena, u->params, p->n_params, err);
    LW_TAKE(&u->arena, u->in_bucket, p->n_params, err);
    for (int32_t a = 0; a < p->n_params; a++)
        first[p->params[a].module + 2]++;
    for (int32_t m = 0; m < p->n_modules; m++)
        first[m + 2] += first[m + 1];
    for (int32_t a = 0; a < p->n_params; a++)
        u->params[first[p->params[a].module + 1]++] = a;
    u->first_param = first;
    return LW_OK;
}

static enum lw_status fill(struct lw_plan_units *u, struct lw_err *err)
{
    LW_TRY(list_ops(u, LW_OP_ALL_GATHER, &u->gathers, err));
    LW_TRY(list_ops(u, LW_OP_FREE, &u->frees, err));
    return list_params(u, err);
}

enum lw_status lw_plan_units_new(const struct lw_plan *p, struct lw_plan_units **out,
                                 struct lw_err *err)
{
    struct lw_plan_units *u = lw_calloc(1, sizeof *u);

    if (!u)
        return lw_fail_nomem(err);
    u->p = p;
    enum lw_status s = fill(u, err);
    if (s == LW_OK)
        *out = u;
    else
        lw_plan_units_free(u);
    return s;
}

void lw_plan_units_free(struct lw_plan_units *u)
{
    if (!u)
        return;
    lw_arena_free(&u->arena);
    lw_free(u);
}

bool lw_plan_is_gathered(const struct lw_plan_units *u, int32_t bucket)
{
    return lw_plan_is_weights(u->p, bucket) && u->frees.program[bucket] >= 0;
}

/* The op computes with weights of the bucket, whose parameters in_bucket marks. */
static bool uses(const struct lw_plan_units *u, const struct lw_op *op, int32_t bucket)
{
    const struct lw_plan *p = u->p;

    if (!lw_op_uses_weights(op) || op->module < 0)
        return false;
    for (int32_t i = u->first_param[op->module]; i < u->first_param[op->module + 1]; i++) {
        int32_t a = u->params[i], stored = lw_plan_holds(p, a) ? a : p->params[a].tied;
        if (u->in_bucket[stored] == bucket + 1)
            return true;
    }
    return false;
}

static void add_word(char *buf, size_t size, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = buf; (at = strstr(at, word)) != NULL; at += n)
        if (at[n] == ',' || at[n] == '\0')
            return;
    size_t len = strlen(buf);
    snprintf(buf + len, size - len, "%s%s", len ? ", " : "", word);
}

const char *lw_plan_unit_uses(struct lw_plan_units *u, int32_t bucket,
                              enum lw_op_kind gather_or_free, char *buf, size_t size)
{
    const struct lw_plan *p = u->p;
    const struct lw_bucket *b = &p->buckets[bucket];
    bool frees = gather_or_free == LW_OP_FREE;
    const struct unit_ops *ops = frees ? &u->frees : &u->gathers;
    char word[64];

    buf[0] = '\0';
    for (int32_t i = 0; i < b->n_slots; i++)
        u->in_bucket[p->slots[b->first_slot + i]] = bucket + 1;
    for (int32_t i = ops->first[bucket]; i < ops->first[bucket + 1]; i++) {
        struct lw_program g = p->programs[ops->program[bucket]];
        int32_t k = ops->ops[i];
        while (k >= g.first_op && k < g.first_op + g.n_ops && !uses(u, LW_OP(p, k), bucket))
            k += frees ? -1 : 1;
        if (k < g.first_op || k >= g.first_op + g.n_ops)
            continue;
        snprintf(word, sizeof word, "%s %d", lw_op_name((enum lw_op_kind)lw_op_at(p, k).kind),
                 lw_op_at(p, k).module);
        add_word(buf, size, word);
    }
    return buf;
}

struct unit_row {
    int32_t unit, n_params;
    const char *dtype;
    int64_t bytes;
    char gathered[256], freed[256];
};

#define AT(field) offsetof(struct unit_row, field)
static const struct lw_column columns[] = {
    {NULL, ">unit", LW_COLUMN_INT32, AT(unit)},
    {NULL, "dtype", LW_COLUMN_STRING, AT(dtype)},
    {NULL, ">parameters", LW_COLUMN_INT32, AT(n_params)},
    {NULL, ">size", LW_COLUMN_BYTES, AT(bytes)},
    {NULL, "gathered before (module)", LW_COLUMN_CHARS, AT(gathered)},
    {NULL, "freed after", LW_COLUMN_CHARS, AT(freed)},
};
#undef AT

enum lw_status lw_plan_show_units(struct lw_plan_units *u, struct lw_err *err)
{
    const struct lw_plan *p = u->p;
    struct unit_row *rows;
    int64_t n = 0;
    enum lw_status st = LW_OK;

    LW_NEW(rows, p->n_buckets, err);
    for (int32_t i = 0; i < p->n_buckets; i++) {
        const struct lw_bucket *b = &p->buckets[i];
        if (!lw_plan_is_gathered(u, i))
            continue;
        struct unit_row *x = &rows[n++];
        *x = (struct unit_row){i, b->n_slots, lw_dtype_name(b->dtype), b->bytes};
        lw_plan_unit_uses(u, i, LW_OP_ALL_GATHER, x->gathered, sizeof x->gathered);
        lw_plan_unit_uses(u, i, LW_OP_FREE, x->freed, sizeof x->freed);
    }
    if (n > 0) {
        printf("\nunits of weights, gathered before use\n");
        st = lw_records_text(&LW_RECORDS("units", columns, rows, n), stdout, 2, err);
    }
    lw_free(rows);
    return st;
}
