/* Units of weights that are sharded (ZeRO-3): when each is gathered and when it is freed, read from
 * the program of a role that has it. */
#include "shared/show/plan_units.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/text/records.h"

/* The last program with an op of that kind on the bucket; none: no ops. Weights that accumulating
 * passes hold are gathered in another variant than they are freed in. */
static struct lw_program program_of(const struct lw_plan *p, int32_t bucket, enum lw_op_kind kind)
{
    for (int64_t k = (int64_t)p->n_variants * p->n_roles; k-- > 0;) {
        struct lw_program g = p->programs[k];
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
            if (p->ops[i].kind == kind && p->ops[i].bucket == bucket)
                return g;
    }
    return (struct lw_program){0, 0};
}

bool lw_plan_is_gathered(const struct lw_plan *p, int32_t bucket)
{
    return lw_plan_is_weights(p, bucket) && program_of(p, bucket, LW_OP_FREE).n_ops > 0;
}

static bool uses(const struct lw_plan *p, const struct lw_op *op, const struct lw_bucket *b)
{
    if (!lw_op_uses_weights(op))
        return false;
    for (int32_t a = 0; a < p->n_params; a++) {
        int32_t stored = lw_plan_holds(p, a) ? a : p->params[a].tied;
        for (int32_t i = 0; p->params[a].module == op->module && i < b->n_slots; i++)
            if (p->slots[b->first_slot + i] == stored)
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

const char *lw_plan_unit_uses(const struct lw_plan *p, int32_t bucket,
                              enum lw_op_kind gather_or_free, char *buf, size_t size)
{
    struct lw_program g = program_of(p, bucket, gather_or_free);
    const struct lw_bucket *b = &p->buckets[bucket];
    int32_t step = gather_or_free == LW_OP_FREE ? -1 : 1;
    char word[64];

    buf[0] = '\0';
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        if (p->ops[i].kind != gather_or_free || p->ops[i].bucket != bucket)
            continue;
        int32_t k = i;
        while (k >= g.first_op && k < g.first_op + g.n_ops && !uses(p, &p->ops[k], b))
            k += step;
        if (k < g.first_op || k >= g.first_op + g.n_ops)
            continue;
        snprintf(word, sizeof word, "%s %d", lw_op_name((enum lw_op_kind)p->ops[k].kind),
                 p->ops[k].module);
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

enum lw_status lw_plan_show_units(const struct lw_plan *p, struct lw_err *err)
{
    struct unit_row *rows;
    int64_t n = 0;
    enum lw_status st = LW_OK;

    LW_NEW(rows, p->n_buckets, err);
    for (int32_t i = 0; i < p->n_buckets; i++) {
        const struct lw_bucket *b = &p->buckets[i];
        if (!lw_plan_is_gathered(p, i))
            continue;
        struct unit_row *x = &rows[n++];
        *x = (struct unit_row){i, b->n_slots, lw_dtype_name(b->dtype), b->bytes};
        lw_plan_unit_uses(p, i, LW_OP_ALL_GATHER, x->gathered, sizeof x->gathered);
        lw_plan_unit_uses(p, i, LW_OP_FREE, x->freed, sizeof x->freed);
    }
    if (n > 0) {
        printf("\nunits of weights, gathered before use\n");
        st = lw_records_text(&LW_RECORDS("units", columns, rows, n), stdout, 2, err);
    }
    lw_free(rows);
    return st;
}
