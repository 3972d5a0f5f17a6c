/* Whole works of a plan: the ops of a program that have one kind, module, stage and micro-batch are
 * the parts of one. An op without a module is whole. Nothing is trusted: plans are hashed before
 * they are verified. */
#include "shared/plan/plan_work.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/plan/op.h"

enum { FREE = -1 };

/* First ops of whole works of the program, by open addressing. Most programs count their
 * micro-batches up, so their whole works lie in the order of the program; mixing those places too
 * would be a miss of the cache for each. From a place that is taken on each has a step of its own
 * (double hashing), so that runs of taken places are left at once. */
struct places {
    int32_t *op;
    int64_t n; /* a power of two, 1 << bits */
    int bits;
    int64_t first_module, n_modules; /* that the program's ops are about */
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static bool parts_of_one(const struct lw_op *a, const struct lw_op *b)
{
    return a->kind == b->kind && a->module == b->module && a->stage == b->stage &&
           a->micro_batch == b->micro_batch;
}

/* Where the first op of this op's whole work stands, or may stand. */
static int32_t *place_of(const struct places *t, const struct lw_plan *p, const struct lw_op *op)
{
    uint64_t key = ((uint64_t)(uint32_t)op->micro_batch * (uint64_t)t->n_modules +
                    (uint64_t)(op->module - t->first_module)) * 4 + op->kind % 4;
    uint64_t at = (key + mix(key >> t->bits)) & (uint64_t)(t->n - 1), step = 0;

    while (t->op[at] != FREE && !parts_of_one(LW_OP(p, t->op[at]), op)) {
        step = step ? step : mix(key ^ mix((uint64_t)op->kind << 16 | (uint16_t)op->stage)) | 1;
        at = (at + step) & (uint64_t)(t->n - 1);
    }
    return &t->op[at];
}

static int64_t sum(int64_t a, int64_t b)
{
    return a < 0 || b < 0 ? -1 : (int64_t)(((uint64_t)a + (uint64_t)b) & INT64_MAX);
}

/* The mark of a row's products, once: many ops share a row. */
static void mark_products(const struct lw_plan *p, uint64_t *marks)
{
    for (int32_t k = 0; k < p->n_works; k++) {
        const struct lw_work *w = lw_work_at(p, k);
        if (w->first_product < 0 || w->n_products > p->n_work_products - w->first_product)
            continue; /* refused by the checks */
        for (int32_t i = 0; i < w->n_products; i++)
            marks[k] += mix((uint64_t)p->work_products[w->first_product + i] + 1);
    }
}

static void add(struct lw_whole_work *to, const struct lw_work *w, uint64_t mark)
{
    to->flops = sum(to->flops, w->flops);
    to->products += mark;
    to->n_products += w->n_products;
}

static void take_program(const struct lw_plan *p, int64_t first, int64_t end,
                         const struct places *t, const uint64_t *marks, struct lw_whole_works *w)
{
    for (int64_t i = first; i < end; i++) {
        if (w->of[i] >= 0)
            continue;
        const struct lw_op *op = LW_OP(p, i);
        if (op->work < 0 || op->work >= p->n_works)
            continue;
        int32_t *place = op->module >= 0 && t ? place_of(t, p, op) : NULL;
        if (place && *place != FREE) {
            w->of[i] = w->of[*place];
        } else {
            w->of[i] = w->n;
            w->v[w->n++] = (struct lw_whole_work){0};
            if (place)
                *place = (int32_t)i;
        }
        add(&w->v[w->of[i]], lw_work_at(p, op->work), marks[op->work]);
    }
}

static bool lies_in(const struct lw_plan *p, struct lw_program g)
{
    return g.first_op >= 0 && g.n_ops >= 0 && g.first_op <= p->n_ops - (int64_t)g.n_ops;
}

/* 1 << n_bits: at most half of the places are taken. */
static int n_bits(int64_t n_ops)
{
    int n = 4;

    while (INT64_C(1) << n < 2 * n_ops)
        n++;
    return n;
}

static void begin_places(const struct lw_plan *p, struct lw_program g, struct places *t)
{
    int64_t least = INT32_MAX, most = -1;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        int32_t module = lw_op_at(p, i).module;
        least = module >= 0 && module < least ? module : least;
        most = module > most ? module : most;
    }
    t->first_module = least;
    t->n_modules = most < least ? 1 : most - least + 1;
    t->bits = n_bits(g.n_ops);
    t->n = INT64_C(1) << t->bits;
    memset(t->op, FREE, (size_t)t->n * sizeof *t->op);
}

static int64_t longest_program(const struct lw_plan *p)
{
    int64_t most = 0;

    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++)
        if (lies_in(p, p->programs[i]) && p->programs[i].n_ops > most)
            most = p->programs[i].n_ops;
    return most;
}

/* --- ops that are whole ----------------------------------------------------------------------- */

/* Rows of one program in turn. */
struct whole_rows {
    int64_t *program;     /* [n_op_rows]: 1 + the program that the next two are of */
    int32_t *micro_batch; /* [n_op_rows]: of the row's last op */
    int32_t *number;      /* [n_op_rows]: of the row's whole work */
    int32_t *rows, n;     /* [MOST_ROWS]: of the program, those with a work */
};

enum { MOST_ROWS = 256 };

static bool same_kind_of_work(const struct lw_op *a, const struct lw_op *b)
{
    return a->module >= 0 && a->kind == b->kind && a->module == b->module && a->stage == b->stage;
}

/* Lists the rows of the program that have works; false: an op may be a part of a work. No two of
 * the rows are of one kind, module and stage, and each has a micro-batch once: they count up. */
static bool are_whole(const struct lw_plan *p, int64_t program, const struct lw_whole_works *w,
                      struct whole_rows *k)
{
    struct lw_program g = p->programs[program];

    k->n = 0;
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        int32_t row = p->op_places[i].row, micro_batch = p->op_places[i].micro_batch;
        const struct lw_op *op = &p->op_rows[row];
        if (op->work < 0 || op->work >= p->n_works)
            continue;
        if (w->of[i] >= 0)
            return false; /* of another program too */
        bool first = k->program[row] != program + 1;
        if (first ? k->n == MOST_ROWS : op->module >= 0 && micro_batch <= k->micro_batch[row])
            return false;
        for (int32_t r = 0; first && r < k->n; r++)
            if (same_kind_of_work(op, &p->op_rows[k->rows[r]]))
                return false;
        if (first)
            k->rows[k->n++] = row;
        k->program[row] = program + 1;
        k->micro_batch[row] = micro_batch;
    }
    return true;
}

/* Ops of one row do as much. */
static void take_rows(const struct lw_plan *p, struct lw_program g, const struct whole_rows *k,
                      const uint64_t *marks, struct lw_whole_works *w)
{
    for (int32_t r = 0; r < k->n; r++) {
        int32_t work = p->op_rows[k->rows[r]].work;
        k->number[k->rows[r]] = w->n;
        w->v[w->n] = (struct lw_whole_work){0};
        add(&w->v[w->n++], lw_work_at(p, work), marks[work]);
    }
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        int32_t row = p->op_places[i].row, work = p->op_rows[row].work;
        if (work >= 0 && work < p->n_works)
            w->of[i] = k->number[row];
    }
}

static bool make_whole_rows(const struct lw_plan *p, struct lw_arena *room, struct whole_rows *k)
{
    k->program = lw_arena_alloc(room, p->n_op_rows, sizeof *k->program);
    k->micro_batch = lw_arena_alloc(room, p->n_op_rows, sizeof *k->micro_batch);
    k->number = lw_arena_alloc(room, p->n_op_rows, sizeof *k->number);
    k->rows = lw_arena_alloc(room, MOST_ROWS, sizeof *k->rows);
    return k->program && k->micro_batch && k->number && k->rows;
}

/* --- all -------------------------------------------------------------------------------------- */

/* Programs share no ops; where they do, the plan is refused, and the rest is not looked at. */
static void take_programs(const struct lw_plan *p, struct places *t, struct whole_rows *rows,
                          const uint64_t *marks, struct lw_whole_works *w)
{
    bool shared = !p->ops && !p->op_own;
    int64_t seen = 0;

    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++) {
        struct lw_program g = p->programs[i];
        if (!lies_in(p, g) || g.n_ops == 0)
            continue;
        seen += g.n_ops;
        if (seen > p->n_ops)
            return;
        if (shared && are_whole(p, i, w, rows)) {
            take_rows(p, g, rows, marks, w);
            continue;
        }
        begin_places(p, g, t);
        take_program(p, g.first_op, g.first_op + (int64_t)g.n_ops, t, marks, w);
    }
}

enum lw_status lw_whole_works_of(const struct lw_plan *p, struct lw_whole_works *w,
                                 struct lw_err *err)
{
    struct places t = {.n = INT64_C(1) << n_bits(longest_program(p))};
    int64_t with_work = 0;

    for (int32_t i = 0; i < p->n_ops; i++)
        with_work += lw_op_at(p, i).work >= 0;
    *w = (struct lw_whole_works){0};
    w->of = lw_alloc(((size_t)p->n_ops + 1) * sizeof *w->of);
    w->v = lw_alloc(((size_t)with_work + 1) * sizeof *w->v);
    t.op = lw_alloc((size_t)t.n * sizeof *t.op);
    uint64_t *marks = lw_calloc((size_t)p->n_works + 1, sizeof *marks);
    struct lw_arena room = {0};
    struct whole_rows rows = {0};
    bool made = w->of && w->v && t.op && marks && make_whole_rows(p, &room, &rows);

    if (made) {
        memset(w->of, -1, (size_t)p->n_ops * sizeof *w->of);
        mark_products(p, marks);
        take_programs(p, &t, &rows, marks, w);
        take_program(p, 0, p->n_ops, NULL, marks, w); /* what belongs to no program */
    }
    lw_arena_free(&room);
    lw_free(t.op);
    lw_free(marks);
    if (!made)
        lw_whole_works_free(w);
    return made ? LW_OK : lw_fail_nomem(err);
}

void lw_whole_works_free(struct lw_whole_works *w)
{
    lw_free(w->of);
    lw_free(w->v);
    *w = (struct lw_whole_works){0};
}

int lw_work_takes(const struct lw_plan *p, int32_t work)
{
    int64_t bytes = lw_work_at(p, work)->keeps_bytes;

    return (bytes > 0) - (bytes < 0);
}

enum lw_work_source lw_work_source_of(const struct lw_plan *p, const struct lw_op *op)
{
    if (op->work >= 0 && op->work < p->n_works)
        return LW_WORK_ROW;
    if (op->kind == LW_OP_HOST && op->work_ps < 0)
        return LW_WORK_OWN;
    return op->work_ps < 0 ? LW_WORK_BY_CLUSTER : op->work_ps == 0 ? LW_WORK_NONE : LW_WORK_OWN;
}

const char *lw_work_source_word(int s)
{
    static const char *const words[] = {"the cluster's", "none", "a time of its own",
                                        "the model's"};

    return s >= 0 && s < (int)(sizeof words / sizeof *words) ? words[s] : NULL;
}
