/* Every number and index of a plan against its tables (plan_tables.c). Plans come from users:
 * nothing is read through an index before it is verified; a list may be walked once its range is.
 * Invariant: lists of rows sum to no more than the list that they cut, or where they may share it,
 * to less than 2^31, so that the work is bounded. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/plan/grid_rule.h"
#include "shared/plan/plan_tables.h"
#include "shared/plan/shard_runs.h"
#include "shared/workload/sparse.h"

struct ranges {
    const struct lw_plan *p;
    enum lw_status status; /* of a failure */
    struct lw_err *err;
};

enum { PLACE = 160, ROWS = 256 }; /* ROWS: of a block that stays in the nearest cache */

/* Rows that a plan file has inside those of another list. Runs after a fault, of a plan that is not
 * verified: sets stand before buckets, operand_first is only read. */
static int place_within(const struct lw_plan *p, enum lw_plan_table_id id, int64_t row, char *text)
{
    if (id == LW_TABLE_buckets && p->buckets[row].set >= 0 && p->buckets[row].set < p->n_sets) {
        int32_t s = p->buckets[row].set;
        return snprintf(text, PLACE, "bucket_sets[%d].buckets[%" PRId64 "]", s,
                        row - p->sets[s].first_bucket);
    }
    if (id == LW_TABLE_operands)
        for (int32_t i = p->n_operand_rows - 1; i >= 0; i--)
            if (p->operand_first[i] <= row)
                return snprintf(text, PLACE, "operands[%d].of_ranks[%" PRId64 "]", i,
                                row - p->operand_first[i]);
    return 0;
}

/* "ops[8].work" */
static const char *place(const struct ranges *k, enum lw_plan_table_id id,
                         const struct lw_plan_field *f, int64_t row, char *text)
{
    const struct lw_plan_table *t = &lw_plan_tables[id];
    int64_t n = lw_table_within(t, k->p);
    const char *key = f->key ? f->key : f->name;
    int at = place_within(k->p, id, row, text);

    if (at == 0)
        at = snprintf(text, PLACE, "%s[%" PRId64 "]", t->key, row / n);
    at += snprintf(text + at, (size_t)(PLACE - at), "%s%s", *key ? "." : "", key);
    if (t->within)
        snprintf(text + at, (size_t)(PLACE - at), ", %s %" PRId64, t->within, row % n);
    return text;
}

static enum lw_status refuse(const struct ranges *k, const char *at, int64_t found, int64_t least,
                             int64_t most)
{
    if (most < 0)
        return lw_fail(k->err, k->status,
                       "at %s: found %" PRId64 ", but there is none to refer to", at, found);
    if (most == INT64_MAX)
        return lw_fail(k->err, k->status, "at %s: found %" PRId64 ", allowed: %" PRId64 " or more",
                       at, found, least);
    return lw_fail(k->err, k->status, "at %s: found %" PRId64 ", allowed: %" PRId64 " to %" PRId64,
                   at, found, least, most);
}

static int64_t most_of(const struct ranges *k, const struct lw_plan_field *f)
{
    return f->refers ? lw_plan_count_at(k->p, f->refers) - INT64_C(1) : f->most;
}

/* All numbers of an int32_t table lie in the range: which one does not is asked afterwards. */
static bool all_within(const int32_t *v, int64_t n, int64_t least, int64_t most)
{
    uint32_t width = (uint32_t)most - (uint32_t)least, outside = 0;

    if (least < INT32_MIN || most > INT32_MAX || most < least)
        return false;
    for (int64_t i = 0; i < n; i++)
        outside |= (uint32_t)v[i] - (uint32_t)least > width;
    return outside == 0;
}

/* Of a field of 4 or 8 bytes, in n rows. */
static bool fields_within(const struct lw_plan_field *f, const char *rows, size_t size, int64_t n,
                          int64_t least, int64_t most)
{
    uint64_t width = (uint64_t)most - (uint64_t)least;
    const char *at = rows + f->at, *end = at + (size_t)n * size;
    bool outside = most < least;

    if (f->size == 8)
        for (; at < end; at += size)
            outside |= (uint64_t)*(const int64_t *)(const void *)at - (uint64_t)least > width;
    else
        for (; at < end; at += size)
            outside |=
                (uint64_t)(int64_t)*(const int32_t *)(const void *)at - (uint64_t)least > width;
    return !outside;
}

/* Rows [row, end), which lie at `at`: of a block, so that its fields are looked at while it is in
 * the cache. */
static enum lw_status check_numbers(const struct ranges *k, enum lw_plan_table_id id,
                                    const struct lw_plan_field *f, const char *at, int64_t row,
                                    int64_t end)
{
    size_t size = lw_plan_tables[id].size;
    int64_t least = f->least, most = most_of(k, f);
    char text[PLACE];

    if (lw_plan_tables[id].ints && !f->ascending &&
        all_within((const int32_t *)(const void *)at, end - row, least, most))
        return LW_OK;
    if (!f->ascending && f->size >= 4 && fields_within(f, at, size, end - row, least, most))
        return LW_OK;
    for (; row < end; row++, at += size) {
        int64_t v = lw_field_number(f, at);
        if (f->ascending && row > 0)
            least = lw_field_number(f, at - size) + 1;
        if (v < least || v > most)
            return refuse(k, place(k, id, f, row, text), v, least, most);
    }
    return LW_OK;
}

static enum lw_status check_items(const struct ranges *k, enum lw_plan_table_id id,
                                  const struct lw_plan_field *f, int64_t row, const int32_t *v,
                                  int32_t n)
{
    int64_t most = f->earlier ? row - 1 : most_of(k, f);
    char text[PLACE];

    if (all_within(v, n, f->least, most))
        return LW_OK;
    for (int32_t i = 0; i < n; i++)
        if (v[i] < f->least || v[i] > most)
            return refuse(k, place(k, id, f, row, text), v[i], f->least, most);
    return LW_OK;
}

/* Where a row's list begins and how long it is. Of an op these two alone are read. */
static void read_bounds(const struct lw_plan *p, enum lw_plan_table_id id,
                        const struct lw_plan_field *f, int64_t row, int32_t bounds[2])
{
    struct lw_op op;

    if (id == LW_TABLE_ops && f->at == offsetof(struct lw_op, first_dep)) {
        bounds[0] = lw_op_first_dep(p, row);
        bounds[1] = lw_op_shared(p, row)->n_deps;
    } else if (id == LW_TABLE_ops && f->at == offsetof(struct lw_op, first_ready)) {
        bounds[0] = lw_op_at(p, row).first_ready;
        bounds[1] = lw_op_shared(p, row)->n_ready;
    } else {
        memcpy(bounds, lw_table_row(&lw_plan_tables[id], p, row, &op) + f->at,
               2 * sizeof *bounds);
    }
}

/* *used sums what rows take of the list. */
static enum lw_status check_list(const struct ranges *k, enum lw_plan_table_id id,
                                 const struct lw_plan_field *f, int64_t row, int64_t *used)
{
    int32_t bounds[2], size = lw_plan_count_at(k->p, f->n_list);
    char text[PLACE];

    read_bounds(k->p, id, f, row, bounds);
    int32_t first = bounds[0], n = bounds[1];

    if (first < 0 || n < 0 || first > size || n > size - first)
        return lw_fail(k->err, k->status, "at %s: %d items from %d on lie outside a list of %d",
                       place(k, id, f, row, text), n, first, size);
    *used += n;
    if (*used > (f->shared ? INT32_MAX : size))
        return lw_fail(k->err, k->status,
                       f->shared ? "at %s: the lists up to it have 2^31 items and more"
                                 : "at %s: its items belong to another one too",
                       place(k, id, f, row, text));
    const int32_t *list = *(int32_t *const *)(const void *)((const char *)k->p + f->list);
    return check_items(k, id, f, row, list + first, n);
}

union block {
    struct lw_op ops[ROWS];
    struct lw_work works[ROWS];
};

/* Where rows [i, end) lie: ops and works that share rows are written out. */
static const char *block_of(const struct lw_plan *p, enum lw_plan_table_id id, int64_t i,
                            int64_t end, union block *b)
{
    if (id == LW_TABLE_works && !p->works) {
        for (int64_t k = i; k < end; k++)
            b->works[k - i] = *lw_work_at(p, (int32_t)k);
        return (const char *)b->works;
    }
    if (id != LW_TABLE_ops || p->ops)
        return lw_table_at(&lw_plan_tables[id], p) + (size_t)i * lw_plan_tables[id].size;
    for (int64_t k = i; k < end; k++)
        b->ops[k - i] = lw_op_at(p, k);
    return (const char *)b->ops;
}

/* --- ops that share rows ----------------------------------------------------------------------
 * What ops of one row share is looked at once, and each op's own numbers in their columns. */

/* A column of n numbers, `apart` numbers from each other, of the field at this place of an op. */
static bool column_within(const struct ranges *k, size_t field, const int32_t *v, int64_t n,
                          int64_t apart)
{
    const struct lw_plan_field *f = lw_plan_tables[LW_TABLE_ops].fields;

    while (f->at != field)
        f++;
    int64_t least = f->least, most = most_of(k, f);
    uint64_t width = (uint64_t)most - (uint64_t)least;
    bool outside = n > 0 && most < least;
    for (int64_t i = 0; i < n; i++)
        outside |= (uint64_t)(int64_t)v[i * apart] - (uint64_t)least > width;
    return !outside;
}

static bool columns_hold(const struct ranges *k)
{
    enum { PLACES = sizeof(struct lw_op_place) / sizeof(int32_t),
           OWN = sizeof(struct lw_op_own) / sizeof(int32_t) };
    const struct lw_plan *p = k->p;
    const struct lw_op_own *own = p->op_own;
    int64_t n = p->n_ops;

    if (n == 0)
        return true;
    return column_within(k, offsetof(struct lw_op, micro_batch), &p->op_places->micro_batch, n,
                         PLACES) &&
           (!p->op_calls ||
            column_within(k, offsetof(struct lw_op, call), p->op_calls, n, 1)) &&
           (!own || (column_within(k, offsetof(struct lw_op, module), &own->module, n, OWN) &&
                     column_within(k, offsetof(struct lw_op, bucket), &own->bucket, n, OWN) &&
                     column_within(k, offsetof(struct lw_op, work), &own->work, n, OWN)));
}

/* n items from `first` on lie in a list of `size`. */
static bool lies_in(int32_t first, int32_t n, int32_t size)
{
    return first >= 0 && n >= 0 && first <= size && n <= size - first;
}

/* Lists of ready gradients are those of the rows where ops have none of their own. */
static bool lists_hold(const struct ranges *k)
{
    const struct lw_plan *p = k->p;
    int64_t used_deps = 0, used_ready = 0, last = p->n_params - INT64_C(1);

    if (p->op_own && !all_within(p->ready, p->n_ready, 0, last)) /* all lists, each once */
        return false;
    for (int32_t r = 0; !p->op_own && r < p->n_op_rows; r++)
        if (!lies_in(p->op_rows[r].first_ready, p->op_rows[r].n_ready, p->n_ready) ||
            !all_within(p->ready + p->op_rows[r].first_ready, p->op_rows[r].n_ready, 0, last))
            return false;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *row = &p->op_rows[p->op_places[i].row];
        int32_t first = p->op_places[i].first_dep;
        if (!lies_in(first, row->n_deps, p->n_deps) ||
            (p->op_own && !lies_in(p->op_own[i].first_ready, row->n_ready, p->n_ready)))
            return false;
        for (int32_t d = first; d < first + row->n_deps; d++)
            if (p->deps[d] < 0 || p->deps[d] >= i)
                return false;
        used_deps += row->n_deps;
        used_ready += row->n_ready;
    }
    return used_deps <= p->n_deps && used_ready <= INT32_MAX;
}

/* False: they may not hold, and a look at each op tells. */
static bool shared_ops_hold(const struct ranges *k)
{
    const struct ranges quiet = {k->p, k->status, NULL};
    const struct lw_plan *p = k->p;

    if (p->ops)
        return false;
    for (const struct lw_plan_field *f = lw_plan_tables[LW_TABLE_ops].fields; f->name; f++)
        if (f->ranged && !f->n_list &&
            check_numbers(&quiet, LW_TABLE_ops, f, (const char *)p->op_rows, 0, p->n_op_rows) !=
                LW_OK)
            return false;
    return columns_hold(k) && lists_hold(k);
}

static enum lw_status check_table(const struct ranges *k, enum lw_plan_table_id id)
{
    const struct lw_plan_table *t = &lw_plan_tables[id];
    union block b;
    int64_t n = lw_table_rows(t, k->p);

    if (id == LW_TABLE_ops && shared_ops_hold(k))
        return LW_OK;
    for (int64_t i = 0; i < n; i += ROWS) {
        int64_t end = i + ROWS < n ? i + ROWS : n;
        const char *at = block_of(k->p, id, i, end, &b);
        for (const struct lw_plan_field *f = t->fields; f->name; f++)
            if (f->ranged && !f->n_list)
                LW_TRY(check_numbers(k, id, f, at, i, end));
    }
    for (const struct lw_plan_field *f = t->fields; f->name; f++) {
        int64_t used = 0;
        for (int64_t i = 0; f->n_list && i < n; i++)
            LW_TRY(check_list(k, id, f, i, &used));
    }
    return LW_OK;
}

/* What a rule says at both ends of a line and of the lines lies between the limits, so all does. */
static enum lw_status check_rule(const struct ranges *k, int32_t row)
{
    const struct lw_plan *p = k->p;
    const struct lw_operand_rule *x = &p->operand_rules[row];
    int32_t n = lw_operand_row_length(p, row), width = x->width < n ? x->width : n;
    char at[PLACE];

    if (x->n != n || width < 1)
        return lw_fail(k->err, k->status, "at operands[%d].of_ranks: a rule of %d in lines of %d "
                                          "for %d entries", row, x->n, x->width, n);
    const int32_t ends[] = {0, width - 1, n - 1, (n - 1) / width * width,
                            n < 2 * width ? 0 : n / width * width - 1};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct lw_operand d = lw_rule_operand(x, ends[i]);
        snprintf(at, sizeof at, "operands[%d].of_ranks[%d]", row, ends[i]);
        if (d.bytes < 0 || d.offset < 0)
            return refuse(k, at, d.bytes < 0 ? d.bytes : d.offset, 0, INT64_MAX);
        if (d.peer < -1 || d.peer >= p->n_ranks)
            return refuse(k, at, d.peer, -1, p->n_ranks - 1);
    }
    return LW_OK;
}

/* Rows that are written out lie one after the other in the table. */
static enum lw_status check_operands(const struct ranges *k)
{
    const enum lw_plan_table_id id = LW_TABLE_operands;
    const struct lw_plan *p = k->p;

    for (int32_t i = 0; i < p->n_operand_rows; i++) {
        const struct lw_operand_rule *x = &p->operand_rules[i];
        if (x->n != 0)
            LW_TRY(check_rule(k, i));
        for (const struct lw_plan_field *f = lw_plan_tables[id].fields; x->n == 0 && f->name; f++)
            LW_TRY(check_numbers(k, id, f, (const char *)&p->operands[x->at], x->at,
                                 x->at + (int64_t)lw_operand_row_length(p, i)));
    }
    return LW_OK;
}

static enum lw_status check_count(const struct ranges *k, const char *key, int32_t n, int32_t least)
{
    if (n >= least)
        return LW_OK;
    if (n == 0)
        return lw_fail(k->err, k->status, "at %s: found none, expected at least %d", key, least);
    return lw_fail(k->err, k->status, "at %s: found %d, expected at least %d", key, n, least);
}

static enum lw_status check_counts(const struct ranges *k)
{
    for (int t = 0; t < LW_N_TABLES; t++)
        LW_TRY(check_count(k, lw_plan_tables[t].key,
                           lw_plan_count_at(k->p, lw_plan_tables[t].n_at),
                           lw_plan_tables[t].least));
    return check_count(k, "n_stages", k->p->n_stages, 1);
}

static enum lw_status check_size(const struct ranges *k, const char *list, int32_t row,
                                 const char *key, int64_t found, int64_t least, int64_t most)
{
    char at[PLACE];

    if (found >= least && found <= most)
        return LW_OK;
    snprintf(at, sizeof at, "%s[%d].%s", list, row, key);
    return refuse(k, at, found, least, most);
}

/* A run lies within its parameter if its last shard does. */
static enum lw_status check_shard_parts(const struct ranges *k)
{
    const struct lw_plan *p = k->p;
    int32_t at = 0;

    for (int32_t r = 0; r < lw_n_shard_runs(p); r++) {
        const struct lw_shard_run x = lw_shard_run_at(p, r);
        int64_t numel = p->params[x.first.param].numel;
        int64_t last = numel - x.first.numel;
        bool within = x.first.numel >= 0 && lw_shard_of_run(&x, x.n - 1).first <= last;
        for (int32_t i = within ? x.n - 1 : 0; i < x.n; i++) {
            struct lw_shard s = lw_shard_of_run(&x, i);
            LW_TRY(check_size(k, "shards", at + i, "numel", s.numel, 0, numel));
            LW_TRY(check_size(k, "shards", at + i, "first", s.first, 0, last));
        }
        at += x.n;
    }
    return LW_OK;
}

/* Sizes that lie within those of a parameter. */
static enum lw_status check_parts(const struct ranges *k)
{
    const struct lw_plan *p = k->p;

    for (int32_t i = 0; i < p->n_sparse; i++) {
        const struct lw_sparse *x = &p->sparse[i];
        int64_t numel = p->params[x->param].numel;
        LW_TRY(check_size(k, "sparse", i, "row_numel", x->row_numel, 1, numel));
        LW_TRY(check_size(k, "sparse", i, "touched_rows", x->touched_rows, 1,
                          numel / x->row_numel));
    }
    return check_shard_parts(k);
}

/* Numbers of a run ascend: all lie within the limits if those of its first and last shard do. */
static enum lw_status check_runs(const struct ranges *k)
{
    const enum lw_plan_table_id id = LW_TABLE_shards;
    int32_t at = 0;

    for (int32_t r = 0; r < k->p->n_shard_runs; r++) {
        const struct lw_shard_run *x = &k->p->shard_runs[r];
        for (int32_t i = 0; i < x->n; i += i < x->n - 1 ? x->n - 1 : 1) {
            struct lw_shard s = lw_shard_of_run(x, i);
            for (const struct lw_plan_field *f = lw_plan_tables[id].fields; f->name; f++)
                LW_TRY(check_numbers(k, id, f, (const char *)&s, at + i, at + i + INT64_C(1)));
        }
        at += x->n;
    }
    return LW_OK;
}

/* Tables that rules of ranks and groups describe. */
static bool is_of_grid(const struct lw_plan *p, int table)
{
    return table == LW_TABLE_role_of || table == LW_TABLE_coord ||
           ((table == LW_TABLE_groups || table == LW_TABLE_comm_group) && lw_grid_rules_all(p));
}

/* Else the grid's rules stand for it. */
static bool has_table(const struct lw_plan *p, int table)
{
    return lw_table_at(&lw_plan_tables[table == LW_TABLE_groups ? LW_TABLE_members : table], p) ||
           table == LW_TABLE_ops || table == LW_TABLE_works || table == LW_TABLE_shards || !p->grid;
}

static enum lw_status check_tables(const struct ranges *k, bool grid_holds)
{
    const struct lw_plan *p = k->p;

    LW_TRY(check_counts(k));
    for (int t = 0; t < LW_N_TABLES; t++)
        if ((!grid_holds || !is_of_grid(p, t)) && has_table(p, t))
            LW_TRY(t == LW_TABLE_operands && p->operand_rules
                       ? check_operands(k)
                   : t == LW_TABLE_shards && !p->shards
                       ? check_runs(k)
                       : check_table(k, (enum lw_plan_table_id)t));
    if (p->repeat_from < 0 || p->repeat_from >= p->n_passes)
        return refuse(k, "repeat_from", p->repeat_from, 0, p->n_passes - 1);
    return check_parts(k);
}

enum lw_status lw_plan_check_ranges(const struct lw_plan *p, enum lw_status status,
                                    struct lw_err *err)
{
    return check_tables(&(struct ranges){p, status, err}, false);
}

enum lw_status lw_plan_check_other_ranges(const struct lw_plan *p, enum lw_status status,
                                          struct lw_err *err)
{
    return check_tables(&(struct ranges){p, status, err}, true);
}
