/* The hash and the first difference of plans: the fields of plan_tables.c that decide something.
 * Times are left out, which are a machine's (plan_work.h). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/hash.h"
#include "shared/plan/grid_hash.h"
#include "shared/plan/grid_rule.h"
#include "shared/plan/hash_rows.h"
#include "shared/plan/op.h"
#include "shared/plan/op_bytes.h"
#include "shared/plan/plan_tables.h"
#include "shared/plan/plan_work.h"
#include "shared/strategy/reducer_kind.h"
#include "shared/strategy/strategy.h"

enum { MAX_NUMBERS = 32 };

static const char *text(const struct lw_plan_field *f, const char *row)
{
    return *(const char *const *)(const void *)(row + f->at);
}

/* --- hash --- */

static void feed_ints(struct lw_hash *h, const int32_t *v, int64_t n)
{
    lw_hash_int(h, n);
    lw_hash_ints32(h, v, n);
}

/* Options that differ from the default, so that a new option leaves hashes as they are. */
static void feed_strategy(struct lw_hash *h, const struct lw_strategy *s)
{
    struct lw_strategy usual = lw_strategy_default();
    char buf[LW_STRATEGY_TEXT], other[LW_STRATEGY_TEXT];

    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const struct lw_strategy_option *o = lw_strategy_option(i);
        const char *value = lw_strategy_get(s, i, buf);
        if (strcmp(value, lw_strategy_get(&usual, i, other)) == 0)
            continue;
        lw_hash_string(h, o->was ? o->was : o->name);
        lw_hash_string(h, value);
    }
    lw_hash_string(h, "");
}

static void feed_slots(struct lw_hash *h, const struct lw_plan *p, const struct lw_bucket *b)
{
    enum { BLOCK = 512 };
    int64_t block[BLOCK];
    int n = 0;

    lw_hash_int(h, b->n_slots);
    for (struct lw_slot_walk k = {0}; lw_plan_next_slot(p, b, &k);) {
        block[n++] = k.slot.param;
        block[n++] = k.slot.offset;
        if (n == BLOCK) {
            lw_hash_ints(h, block, n);
            n = 0;
        }
    }
    lw_hash_ints(h, block, n);
}

/* What is hashed. */
struct canon {
    struct lw_hash *h;
    const struct lw_plan *p;
    struct lw_whole_works works;
};

static void feed_work(const struct canon *c, const struct lw_op *op, int64_t number)
{
    enum lw_work_source source = lw_work_source_of(c->p, op);

    lw_hash_int(c->h, source);
    if (source != LW_WORK_ROW)
        return;
    const struct lw_whole_work *w = &c->works.v[c->works.of[number]];
    lw_hash_ints(c->h, (int64_t[]){w->flops, w->n_products, (int64_t)w->products,
                                   lw_work_takes(c->p, op->work)}, 4);
}

static void feed_other(const struct canon *c, const struct lw_plan_field *f, const char *row,
                       int64_t number)
{
    struct lw_hash *h = c->h;
    const struct lw_plan *p = c->p;
    const void *whole = row;
    const struct lw_bucket_set *set = whole;
    int32_t n;

    if (f->kind == LW_PF_TEXT) {
        lw_hash_string(h, text(f, row));
    } else if (f->kind == LW_PF_LIST) {
        const int32_t *v = lw_field_list(f, p, row, &n);
        feed_ints(h, v, n);
    } else if (f->kind == LW_PF_SLOTS) {
        feed_slots(h, p, whole);
    } else if (f->kind == LW_PF_WORK) {
        feed_work(c, whole, number);
    } else if (set->kind != (int32_t)lw_bucket_kind_of_set(set->name)) {
        lw_hash_string(h, f->word(set->kind));
    }
}

/* How the rows of a table are fed, worked out once: there are millions of rows. All numbers of a
 * row are read, those of one size after those of another, then fed up to each field that is none.
 */
struct feeding {
    struct at {
        uint16_t from; /* of the row */
        uint8_t to;    /* of its numbers */
        uint8_t shift; /* of a bit */
    } of_size[4][MAX_NUMBERS], bits[MAX_NUMBERS], reducers[MAX_NUMBERS];
    int n_of_size[4], n_bits, n_reducers, n_numbers, n_others;
    int64_t numbers[MAX_NUMBERS]; /* of the row read last */
    struct other {
        const struct lw_plan_field *field;
        int before; /* numbers before it */
    } others[MAX_NUMBERS];
};

static int size_of(const struct lw_plan_field *f)
{
    return f->size == 8 ? 3 : f->size == 4 ? 2 : f->size == 2 ? 1 : 0;
}

static void prepare_feeding(struct feeding *x, const struct lw_plan_field *fields)
{
    int bit = 0;

    memset(x, 0, sizeof *x);
    for (const struct lw_plan_field *f = fields; f->name; f++) {
        struct at at = {(uint16_t)f->at, (uint8_t)x->n_numbers, (uint8_t)bit};
        if (f->kind == LW_PF_NUMBER) {
            x->of_size[size_of(f)][x->n_of_size[size_of(f)]++] = at;
            x->n_numbers++;
        } else if (f->kind == LW_PF_REDUCER) {
            x->reducers[x->n_reducers++] = at;
            x->n_numbers++;
        } else if (f->kind == LW_PF_BIT) {
            x->bits[x->n_bits++] = at;
            bit = f[1].kind == LW_PF_BIT ? bit + 1 : 0;
            x->n_numbers += bit == 0;
        } else if (f->kind != LW_PF_APART) {
            x->others[x->n_others++] = (struct other){f, x->n_numbers};
        }
    }
}

static void read_numbers(struct feeding *x, const char *row)
{
    int64_t *numbers = x->numbers;

#define READ(k, type)                                                                     \
    for (int i = 0; i < x->n_of_size[k]; i++)                                             \
        numbers[x->of_size[k][i].to] =                                                    \
            *(const type *)(const void *)(row + x->of_size[k][i].from)
    READ(0, int8_t);
    READ(1, int16_t);
    READ(2, int32_t);
    READ(3, int64_t);
#undef READ
    for (int i = 0; i < x->n_reducers; i++) {
        const void *at = row + x->reducers[i].from;
        numbers[x->reducers[i].to] =
            lw_reducer_number((enum lw_reducer_kind)*(const int32_t *)at);
    }
    for (int i = 0; i < x->n_bits; i++) {
        const struct at *at = &x->bits[i];
        int64_t on = *(const int8_t *)(row + at->from);
        numbers[at->to] = (at->shift ? numbers[at->to] : 0) | on << at->shift;
    }
}

static void put_numbers(unsigned char *to, const int64_t *v, int n)
{
    for (int i = 0; i < n; i++)
        lw_put_int(to + (size_t)i * sizeof *v, v[i]);
}

/* The next numbers of a row, which has few. */
static void feed_few(struct lw_hash *h, const int64_t *v, int n)
{
    put_numbers(lw_hash_room(h, (size_t)n * sizeof *v), v, n);
}

/* Row number `number` of its table. */
static void feed_row(const struct canon *c, struct feeding *x, const char *row, int64_t number)
{
    const int64_t *numbers = x->numbers;
    int from = 0;

    read_numbers(x, row);
    for (int i = 0; i < x->n_others; i++) {
        int to = x->others[i].before;
        if (to > from)
            feed_few(c->h, numbers + from, to - from);
        from = to;
        feed_other(c, x->others[i].field, row, number);
    }
    if (x->n_numbers > from)
        feed_few(c->h, numbers + from, x->n_numbers - from);
}

/* A row is a text and then numbers. */
static bool begins_with_text(const struct feeding *x, const struct lw_plan_table *t)
{
    return x->n_others == 1 && x->others[0].before == 0 && t->fields->kind == LW_PF_TEXT &&
           t->fields->at == 0;
}

/* Where the numbers of such a row end, which follow each other from its text on; 0: something lies
 * between them. */
static size_t end_of_numbers(const struct lw_plan_field *fields)
{
    size_t end = sizeof(char *), sum = end;

    for (const struct lw_plan_field *f = fields + 1; f->name; f++) {
        end = f->at + f->size > end ? f->at + f->size : end;
        sum += f->size;
    }
    return sum == end ? end : 0;
}

/* Such rows: numbers are read where they differ from those of the row before, as those of few
 * parameters do. */
static void feed_named_rows(const struct canon *c, const struct lw_plan_table *t,
                            struct feeding *x, int64_t n)
{
    const size_t bytes = (size_t)x->n_numbers * sizeof(int64_t), after = sizeof(char *);
    const size_t end = end_of_numbers(t->fields);
    const char *row = lw_table_at(t, c->p), *before = NULL;

    for (int64_t i = 0; i < n; i++, before = row, row += t->size) {
        const char *name = text(t->fields, row);
        size_t length = name ? strlen(name) : 0, all = sizeof(int64_t) + length + bytes;
        if (!before || end == 0 || memcmp(row + after, before + after, end - after) != 0)
            read_numbers(x, row);
        if (all > LW_HASH_ROOM) {
            lw_hash_string(c->h, name);
            feed_few(c->h, x->numbers, x->n_numbers);
            continue;
        }
        unsigned char *to = lw_hash_room(c->h, all);
        lw_put_int(to, (int64_t)length);
        memcpy(to + sizeof(int64_t), name ? name : "", length);
        put_numbers(to + sizeof(int64_t) + length, x->numbers, x->n_numbers);
    }
}

static void feed_rows(const struct canon *c, const struct lw_plan_table *t, int64_t n)
{
    struct feeding x;
    struct lw_op op;

    prepare_feeding(&x, t->fields);
    if (begins_with_text(&x, t)) {
        feed_named_rows(c, t, &x, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        feed_row(c, &x, lw_table_row(t, c->p, i, &op), i);
}

static bool has_numbers_alone(const struct lw_plan_field *f)
{
    while (f->name && f->kind == LW_PF_NUMBER)
        f++;
    return !f->name;
}

/* Rows of numbers alone, in blocks: there may be several for each rank. */
static void feed_numbers(struct lw_hash *h, const struct lw_plan_table *t, const char *row,
                         int64_t n_rows)
{
    enum { BLOCK = 32 * MAX_NUMBERS };
    int64_t block[BLOCK], width = 0;

    while (t->fields[width].name)
        width++;
    for (int64_t k; n_rows > 0; n_rows -= k, row += (size_t)k * t->size) {
        k = n_rows < BLOCK / width ? n_rows : BLOCK / width;
        for (int64_t i = 0; i < width; i++)
            lw_field_numbers(&t->fields[i], row, t->size, k, block + i, width);
        lw_hash_ints(h, block, k * width);
    }
}

/* A row that a rule describes, all of whose lines are whole. */
static void feed_operand_rule(struct lw_hash *h, const struct lw_operand_rule *x)
{
    int32_t width = x->width < x->n ? x->width : x->n;
    const struct lw_row_rule lines = {
        2, {{x->n / width, {0, x->offset_down, x->down}}, {width, {0, 0, x->across}}}};

    lw_hash_rows(h, (int64_t[]){x->first.bytes, x->first.offset, x->first.peer}, 3, &lines);
}

/* Each entry of each row, also where a rule describes them. */
static void feed_operands(const struct canon *c)
{
    const struct lw_plan *p = c->p;

    for (int32_t row = 0; row < p->n_operand_rows; row++) {
        const struct lw_operand_rule *x = &p->operand_rules[row];
        int32_t n = lw_operand_row_length(p, row);
        if (n > 0 && x->n == n && (x->width >= n || n % x->width == 0)) {
            feed_operand_rule(c->h, x);
            continue;
        }
        for (int32_t i = 0; i < n; i++) {
            struct lw_operand d = lw_operand_at(p, row, i);
            lw_hash_ints(c->h, (int64_t[]){d.bytes, d.offset, d.peer}, 3);
        }
    }
}

/* Each shard of runs. */
static void feed_shards(struct lw_hash *h, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_shard_runs; i++) {
        const struct lw_shard_run *x = &p->shard_runs[i];
        const struct lw_shard *s = &x->first;
        const struct lw_row_rule shards = {1, {{x->n, {0, 1, s->numel, 0}}}};
        lw_hash_rows(h, (int64_t[]){s->param, s->owner, s->first, s->numel}, 4, &shards);
    }
}

struct op_feeding {
    struct canon c;
    struct feeding x;
};

/* Of ops that share rows, fed to h. */
static void feed_whole_op(void *ctx, struct lw_hash *h, int64_t i)
{
    struct op_feeding *f = ctx;

    f->c.h = h;
    feed_row(&f->c, &f->x, (const char *)LW_OP(f->c.p, i), i);
}

static enum lw_status feed_shared_ops(const struct canon *c, struct lw_err *err)
{
    struct op_feeding f = {.c = *c};

    prepare_feeding(&f.x, lw_plan_tables[LW_TABLE_ops].fields);
    return lw_hash_shared_ops(c->h, c->p, &c->works, feed_whole_op, &f, err);
}

static enum lw_status feed_table(const struct canon *c, enum lw_plan_table_id id,
                                 struct lw_err *err)
{
    const struct lw_plan_table *t = &lw_plan_tables[id];
    int64_t n = lw_table_rows(t, c->p);
    const char *rows = lw_table_at(t, c->p);

    if (t->apart || (t->if_at && lw_plan_count_at(c->p, t->if_at) == 0))
        return LW_OK;
    if (t->mark)
        lw_hash_string(c->h, t->mark);
    if (!t->uncounted)
        lw_hash_int(c->h, n);
    if (lw_grid_hash(c->h, c->p, id))
        return LW_OK;
    if (t->ints)
        lw_hash_ints32(c->h, (const int32_t *)(const void *)rows, n);
    else if (id == LW_TABLE_operands && c->p->operand_rules)
        feed_operands(c);
    else if (id == LW_TABLE_shards && !c->p->shards)
        feed_shards(c->h, c->p);
    else if (id == LW_TABLE_ops && !c->p->ops)
        return feed_shared_ops(c, err);
    else if (has_numbers_alone(t->fields))
        feed_numbers(c->h, t, rows, n);
    else
        feed_rows(c, t, n);
    return LW_OK;
}

static enum lw_status begin_canon(struct canon *c, struct lw_err *err)
{
    LW_TRY(lw_whole_works_of(c->p, &c->works, err));
    c->h = lw_hash_new();
    return c->h ? LW_OK : lw_fail_nomem(err);
}

enum lw_status lw_plan_hash(struct lw_plan *p, struct lw_err *err)
{
    struct canon c = {.p = p};
    enum lw_status status = begin_canon(&c, err);

    if (status == LW_OK) {
        lw_hash_int(c.h, LW_PLAN_FORMAT);
        feed_strategy(c.h, p->strategy);
        for (enum lw_plan_table_id t = LW_TABLE_role_of; status == LW_OK && t < LW_N_TABLES; t++)
            status = feed_table(&c, t, err);
        lw_hash_int(c.h, p->repeat_from);
        if (status == LW_OK)
            lw_hash_finish(c.h, p->hash);
        else
            lw_hash_free(c.h);
    }
    lw_whole_works_free(&c.works);
    return status;
}

/* --- times --- */

enum lw_status lw_plan_hash_times(const struct lw_plan *p, char hex[33], struct lw_err *err)
{
    static const struct lw_work none;
    struct lw_hash *h = lw_hash_new();

    if (!h)
        return lw_fail_nomem(err);
    lw_hash_string(h, p->device ? p->device : "");
    lw_hash_string(h, p->framework ? p->framework : "");
    lw_hash_string(h, p->framework_hash ? p->framework_hash : "");
    lw_hash_ints(h, (int64_t[]){p->dims.layers, p->dims.hidden, p->dims.ffn, p->dims.vocab,
                                p->dims.seq, p->dims.batch, p->dims.fp8, p->dims.workspace}, 8);
    if (p->dims.fp8_recipe != 0) /* else as before plans had recipes */
        lw_hash_ints(h, (int64_t[]){p->dims.fp8_recipe}, 1);
    for (int32_t i = 0; i < p->n_ops; i++) {
        int32_t work = lw_op_at(p, i).work;
        const struct lw_work *w = work >= 0 ? lw_work_at(p, work) : &none;
        lw_hash_ints(h, (int64_t[]){lw_plan_work_ps(p, LW_OP(p, i)), w->flops, w->bytes}, 3);
        if (w->source != LW_TIME_GIVEN) /* else as before plans had sources */
            lw_hash_ints(h, (int64_t[]){w->source, w->bound_ps[0], w->bound_ps[1], w->bound_ps[2],
                                        w->bound_ps[3]}, 1 + LW_N_BOUNDS);
    }
    lw_hash_finish(h, hex);
    return LW_OK;
}

/* --- difference --- */

struct diff {
    const struct lw_plan *a, *b;
    struct lw_whole_works works[2];
    char *text;
    size_t room;
    const struct lw_plan_table *table; /* NULL: the strategy */
    int64_t row;                       /* -1: the number of rows */
};

/* The row of the first plan that d stands at. */
static void name_row(const struct diff *d, char *name, size_t room)
{
    const struct lw_plan_table *t = d->table;
    const struct lw_plan *p = d->a;
    char text_of_op[LW_OP_TEXT];

    if (!t || d->row < 0)
        snprintf(name, room, "%s", t ? "plan" : "strategy");
    else if (t == &lw_plan_tables[LW_TABLE_ops])
        snprintf(name, room, "%s", lw_plan_op_text(p, (int32_t)d->row, text_of_op));
    else if (t == &lw_plan_tables[LW_TABLE_programs])
        snprintf(name, room, "program of '%.40s' for role '%.40s'",
                 p->variants[d->row / p->n_roles].name, p->roles[d->row % p->n_roles].name);
    else if (t->fields->kind == LW_PF_TEXT)
        snprintf(name, room, "%s %" PRId64 " '%.100s'", t->row, d->row,
                 text(t->fields, lw_table_at(t, p) + (size_t)d->row * t->size));
    else if (t->within)
        snprintf(name, room, "%s %" PRId64 ", %s %" PRId64, t->row,
                 d->row / lw_table_within(t, p), t->within, d->row % lw_table_within(t, p));
    else
        snprintf(name, room, "%s %" PRId64, t->row, d->row);
}

static void put_difference(const struct diff *d, const char *what, const char *a, const char *b)
{
    char row[200];

    name_row(d, row, sizeof row);
    snprintf(d->text, d->room, "%s: %s is %s in the first plan, %s in the second", row, what, a, b);
}

static const char *quoted(const char *text, char buf[256])
{
    snprintf(buf, 256, "'%.250s'", text);
    return buf;
}

static bool words_differ(const struct diff *d, const char *what, const char *a, const char *b)
{
    char x[256], y[256];

    if (strcmp(a, b) == 0)
        return false;
    put_difference(d, what, quoted(a, x), quoted(b, y));
    return true;
}

/* The field that a number is of says how it is shown; without one it is a plain number. */
static const char *shown(const struct lw_plan_field *f, int64_t v, char buf[256])
{
    if (f->word && f->word((int)v))
        return quoted(f->word((int)v), buf);
    if (f->least == -1 && v == -1)
        return "none";
    if (f->is_bytes)
        return lw_exact_bytes(buf, v);
    snprintf(buf, 256, "%" PRId64, v);
    return buf;
}

static bool numbers_of_field_differ(const struct diff *d, const struct lw_plan_field *f, int64_t a,
                                    int64_t b)
{
    char x[256], y[256];

    if (a == b)
        return false;
    put_difference(d, f->name, shown(f, a, x), shown(f, b, y));
    return true;
}

static bool numbers_differ(const struct diff *d, const char *what, const char *(*word)(int),
                           int64_t a, int64_t b)
{
    return numbers_of_field_differ(d, &(struct lw_plan_field){.name = what, .word = word}, a, b);
}

static bool strategies_differ(const struct diff *d)
{
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        char x[256], y[256], what[80];
        snprintf(what, sizeof what, "--%s", lw_strategy_option(i)->name);
        if (strcmp(lw_strategy_get(d->a->strategy, i, x), lw_strategy_get(d->b->strategy, i, y)) ==
            0)
            continue;
        put_difference(d, what, lw_strategy_shown(d->a->strategy, i, x),
                       lw_strategy_shown(d->b->strategy, i, y));
        return true;
    }
    return false;
}

static bool lists_differ(const struct diff *d, const struct lw_plan_field *f, const char *x,
                         const char *y)
{
    int32_t n, m;
    const int32_t *a = lw_field_list(f, d->a, x, &n), *b = lw_field_list(f, d->b, y, &m);
    char what[64];

    for (int32_t i = 0; i < n && i < m; i++) {
        snprintf(what, sizeof what, "%s %d", f->name, i);
        if (numbers_differ(d, what, NULL, a[i], b[i]))
            return true;
    }
    snprintf(what, sizeof what, "number of '%s'", f->name);
    return numbers_differ(d, what, NULL, n, m);
}

static bool slots_differ(const struct diff *d, const char *number, const struct lw_bucket *x,
                         const struct lw_bucket *y)
{
    struct lw_slot_walk p = {0}, q = {0};
    char what[200];

    if (numbers_differ(d, number, NULL, x->n_slots, y->n_slots))
        return true;
    while (lw_plan_next_slot(d->a, x, &p) && lw_plan_next_slot(d->b, y, &q)) {
        int32_t a = p.slot.param, b = q.slot.param;
        snprintf(what, sizeof what, "gradient %d", p.n - 1);
        if (a != b)
            return words_differ(d, what, d->a->params[a].name, d->b->params[b].name) ||
                   numbers_differ(d, what, NULL, a, b);
        snprintf(what, sizeof what, "first element of gradient %d '%.100s'", p.n - 1,
                 d->a->params[a].name);
        if (numbers_differ(d, what, NULL, p.slot.offset, q.slot.offset))
            return true;
    }
    return false;
}

static const char *takes_word(int k)
{
    return k > 0 ? "taken" : k < 0 ? "freed" : "none";
}

static bool works_differ(const struct diff *d, const struct lw_op *x, const struct lw_op *y)
{
    enum lw_work_source from = lw_work_source_of(d->a, x), to = lw_work_source_of(d->b, y);

    if (numbers_differ(d, "work", lw_work_source_word, from, to))
        return true;
    if (from != LW_WORK_ROW)
        return false;
    const struct lw_whole_work *a = &d->works[0].v[d->works[0].of[d->row]],
                               *b = &d->works[1].v[d->works[1].of[d->row]];
    return numbers_differ(d, "activations", takes_word, lw_work_takes(d->a, x->work),
                           lw_work_takes(d->b, y->work)) ||
           numbers_differ(d, "flops of the whole", NULL, a->flops, b->flops) ||
           numbers_differ(d, "number of products of the whole", NULL, a->n_products,
                          b->n_products) ||
           numbers_differ(d, "mark of the products of the whole", NULL, (int64_t)a->products,
                          (int64_t)b->products);
}

static bool fields_differ(const struct diff *d, const struct lw_plan_field *f, const char *x,
                          const char *y)
{
    const void *row = x, *other = y;

    switch (f->kind) {
    case LW_PF_APART: return false;
    case LW_PF_TEXT: return words_differ(d, f->name, text(f, x), text(f, y));
    case LW_PF_LIST: return lists_differ(d, f, x, y);
    case LW_PF_SLOTS: return slots_differ(d, f->name, row, other);
    case LW_PF_WORK: return works_differ(d, row, other);
    default: return numbers_of_field_differ(d, f, lw_field_number(f, x), lw_field_number(f, y));
    }
}

static bool row_differs(const struct diff *d, const char *x, const char *y)
{
    const struct lw_plan_field *const fields = d->table->fields;

    for (const struct lw_plan_field *f = fields; f->name; f++)
        if (f->named_first && fields_differ(d, f, x, y))
            return true;
    for (const struct lw_plan_field *f = fields; f->name; f++)
        if (fields_differ(d, f, x, y))
            return true;
    return false;
}

/* Of plans with as many in each row. */
static bool operands_differ(struct diff *d)
{
    d->row = 0;
    for (int32_t row = 0; row < d->a->n_operand_rows; row++)
        for (int32_t i = 0; i < lw_operand_row_length(d->a, row); i++, d->row++) {
            struct lw_operand x = lw_operand_at(d->a, row, i), y = lw_operand_at(d->b, row, i);
            const void *a = &x, *b = &y;
            if (row_differs(d, a, b))
                return true;
        }
    return false;
}

static bool tables_differ(struct diff *d)
{
    const struct lw_plan_table *t = d->table;
    struct lw_op x, y;
    char what[80];

    snprintf(what, sizeof what, "number of '%s'", t->row);
    d->row = -1;
    if (numbers_differ(d, what, NULL, lw_table_rows(t, d->a), lw_table_rows(t, d->b)))
        return true;
    if (t == &lw_plan_tables[LW_TABLE_operands])
        return operands_differ(d);
    for (d->row = 0; d->row < lw_table_rows(t, d->a); d->row++)
        if (row_differs(d, lw_table_row(t, d->a, d->row, &x), lw_table_row(t, d->b, d->row, &y)))
            return true;
    return false;
}

static void find_decision(struct diff *d, bool *of_strategy)
{
    *of_strategy = strategies_differ(d);
    if (*of_strategy)
        return;
    for (int t = 0; t < LW_N_TABLES; t++) {
        d->table = &lw_plan_tables[t];
        if (!d->table->apart && tables_differ(d))
            return;
    }
    d->row = -1;
    numbers_differ(d, "repeat_from", NULL, d->a->repeat_from, d->b->repeat_from);
}

static const char *time_text(int64_t t, char buf[256])
{
    return t < 0 ? "unknown" : lw_format_ps(buf, t);
}

/* What plans of equal decisions may still differ in, op by op. */
struct figure {
    int64_t (*of)(const struct lw_plan *p, int32_t op);
    const char *(*shown)(int64_t v, char buf[256]);
    const char *differ; /* "<n> of <all> ops ..., the first of them" */
};

static int64_t kept_bytes(const struct lw_plan *p, int32_t op)
{
    return lw_op_at(p, op).work < 0 ? 0 : lw_work_at(p, lw_op_at(p, op).work)->keeps_bytes;
}

static const char *bytes_text(int64_t bytes, char buf[256])
{
    return lw_exact_bytes(buf, bytes);
}

static int64_t work_time(const struct lw_plan *p, int32_t op)
{
    return lw_plan_work_ps(p, LW_OP(p, op));
}

/* Of plans with equal decisions: their ops are the same one by one. */
static void find_figure(const struct lw_plan *a, const struct lw_plan *b, const struct figure *f,
                        char *text, size_t room)
{
    char op[LW_OP_TEXT], x[256], y[256];
    int32_t n = 0, first = -1;

    for (int32_t i = 0; i < a->n_ops; i++)
        if (f->of(a, i) != f->of(b, i)) {
            first = n == 0 ? i : first;
            n++;
        }
    *text = '\0';
    if (n > 0)
        snprintf(text, room, "%d of %d ops %s, the first of them %s: %s in the first plan, %s in "
                             "the second",
                 n, a->n_ops, f->differ, lw_plan_op_text(a, first, op),
                 f->shown(f->of(a, first), x), f->shown(f->of(b, first), y));
}

static const struct figure times = {work_time, time_text, "take another time"};
static const struct figure activations = {kept_bytes, bytes_text,
                                          "take or free other bytes of activations"};

/* Of plans with all their tables. */
static enum lw_status find_difference(const struct lw_plan *a, const struct lw_plan *b,
                                      struct lw_plan_difference *out, struct lw_err *err)
{
    struct diff d = {.a = a, .b = b, .text = out->decision, .room = sizeof out->decision};

    out->decision[0] = out->times[0] = out->bytes[0] = '\0';
    LW_TRY(lw_whole_works_of(a, &d.works[0], err));
    enum lw_status s = lw_whole_works_of(b, &d.works[1], err);
    if (s == LW_OK) {
        find_decision(&d, &out->of_strategy);
        if (!out->decision[0]) {
            find_figure(a, b, &times, out->times, sizeof out->times);
            find_figure(a, b, &activations, out->bytes, sizeof out->bytes);
        }
    }
    lw_whole_works_free(&d.works[1]);
    lw_whole_works_free(&d.works[0]);
    return s;
}

enum lw_status lw_plan_diff(const struct lw_plan *a, const struct lw_plan *b,
                            struct lw_plan_difference *out, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct lw_plan x, y;
    enum lw_status s = lw_plan_with_tables(a, &room, &x, err);

    if (s == LW_OK)
        s = lw_plan_with_tables(b, &room, &y, err);
    if (s == LW_OK)
        s = find_difference(&x, &y, out, err);
    lw_arena_free(&room);
    return s;
}
