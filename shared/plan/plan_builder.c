/* Builds a plan: tables grow by doubling while pieces are added, and go to one arena at the end.
 * Invariant: the parts of an op that live in shared tables (deps, ready) belong to the op added
 * last, so they are contiguous. The first failure sticks; later additions do nothing. */
#include "shared/plan/plan_builder.h"
#include "shared/plan/buffer.h"
#include "shared/plan/product.h"
#include "shared/plan/sparse.h"
#include "shared/plan/strategy.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One growing table: elements of `size` bytes after *items. */
struct table {
    void *items;
    int64_t n, capacity;
};

struct lw_builder {
    struct lw_plan plan; /* owns the strings; its table pointers are filled at the end */
    const char **words;  /* [capacity] names of ops, each kept once: open addressing, NULL = free */
    int64_t n_words, words_capacity;
    struct table roles, streams, comms, groups, members, params, buffers, modules, whole, sparse,
        sets, buckets, slots, offsets, shards, works, products, work_products, variants, programs,
        ops, deps, ready, rows, operands, passes, notes;
    int32_t *comm_group; /* [comms * n_ranks] */
    int64_t comm_group_capacity;
    int32_t *role_of, *coord;
    int32_t variant, role; /* that ops are added to */
    bool list_open;        /* the op added last has a list that close_list has not seen */
    int64_t list_before, list_next, list_first; /* where in ready the next list may stand already */
    int64_t slot_end;      /* where the slot added last ends in its bucket; -1 = unknown */
    bool failed;
};

static void *push(struct lw_builder *b, struct table *t, const void *item, size_t size)
{
    if (b->failed)
        return NULL;
    if (t->n >= INT32_MAX || lw_reserve(&t->items, &t->capacity, t->n + 1, size) != 0) {
        b->failed = true;
        return NULL;
    }
    void *slot = (char *)t->items + (size_t)t->n * size;
    memcpy(slot, item, size);
    t->n++;
    return slot;
}

static const char *keep(struct lw_builder *b, const char *s)
{
    if (!s || !*s)
        return "";
    const char *copy = lw_arena_strdup(&b->plan.arena, s);
    if (!copy)
        b->failed = true;
    return copy ? copy : "";
}

static uint64_t hash_of(const char *s)
{
    uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a */

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
    return h;
}

static const char **find_word(const char **words, int64_t capacity, const char *s)
{
    int64_t at = (int64_t)(hash_of(s) & (uint64_t)(capacity - 1));

    while (words[at] && strcmp(words[at], s) != 0)
        at = (at + 1) & (capacity - 1);
    return &words[at];
}

/* At most half full. */
static bool grow_words(struct lw_builder *b)
{
    int64_t capacity = b->words_capacity > 0 ? 2 * b->words_capacity : 64;

    if (2 * (b->n_words + 1) <= b->words_capacity)
        return true;
    const char **words = lw_calloc((size_t)capacity, sizeof *words);
    if (!words)
        return false;
    for (int64_t i = 0; i < b->words_capacity; i++)
        if (b->words[i])
            *find_word(words, capacity, b->words[i]) = b->words[i];
    lw_free(b->words);
    b->words = words;
    b->words_capacity = capacity;
    return true;
}

/* As keep, but a name that ops share is kept once. */
static const char *keep_word(struct lw_builder *b, const char *s)
{
    if (!s || !*s || b->failed)
        return "";
    if (!grow_words(b)) {
        b->failed = true;
        return "";
    }
    const char **slot = find_word(b->words, b->words_capacity, s);
    if (!*slot) {
        *slot = lw_arena_strdup(&b->plan.arena, s);
        b->failed = !*slot;
        b->n_words++;
    }
    return *slot ? *slot : "";
}

static int32_t last(const struct table *t)
{
    return (int32_t)t->n - 1;
}

struct lw_builder *lw_builder_new(const char *name, int32_t n_ranks)
{
    struct lw_builder *b = lw_calloc(1, sizeof *b);

    if (!b)
        return NULL;
    b->plan.n_ranks = n_ranks;
    b->plan.strategy = lw_arena_alloc(&b->plan.arena, 1, sizeof *b->plan.strategy);
    b->plan.name = keep(b, name);
    b->role_of = lw_calloc((size_t)n_ranks, sizeof *b->role_of);
    b->coord = lw_calloc((size_t)n_ranks * 3, sizeof *b->coord);
    b->failed = b->failed || !b->role_of || !b->coord || !b->plan.strategy;
    if (b->plan.strategy)
        *b->plan.strategy = lw_strategy_default();
    b->variant = b->role = -1;
    return b;
}

void lw_builder_free(struct lw_builder *b)
{
    if (!b)
        return;
    struct table *all[] = {&b->roles,  &b->streams,  &b->comms,    &b->groups,  &b->members,
                           &b->params, &b->buffers,  &b->modules,  &b->whole,   &b->sparse,
                           &b->sets,   &b->buckets,  &b->slots,    &b->offsets, &b->shards,
                           &b->works,  &b->variants, &b->programs, &b->ops,     &b->deps,
                           &b->ready,  &b->rows,     &b->operands, &b->passes,  &b->notes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lw_free(all[i]->items);
    lw_free(b->words);
    lw_free(b->comm_group);
    lw_free(b->role_of);
    lw_free(b->coord);
    lw_arena_free(&b->plan.arena);
    lw_free(b);
}

void lw_builder_strategy(struct lw_builder *b, const struct lw_strategy *s)
{
    if (!b->plan.strategy)
        return; /* failed */
    *b->plan.strategy = *s;
    if (s->partition_list)
        b->plan.strategy->partition_list = keep(b, s->partition_list);
}

int32_t lw_builder_role(struct lw_builder *b, const struct lw_role *role)
{
    struct lw_role r = *role;

    r.name = keep(b, role->name);
    r.n_ranks = 0;
    push(b, &b->roles, &r, sizeof r);
    return last(&b->roles);
}

void lw_builder_rank(struct lw_builder *b, int32_t rank, int32_t role, int32_t dp, int32_t pp,
                     int32_t tp)
{
    if (b->failed)
        return;
    assert(rank >= 0 && rank < b->plan.n_ranks && role >= 0 && role < b->roles.n);
    b->role_of[rank] = role;
    b->coord[rank * 3L] = dp;
    b->coord[rank * 3L + 1] = pp;
    b->coord[rank * 3L + 2] = tp;
}

int32_t lw_builder_stream(struct lw_builder *b, const char *name, enum lw_stream_class c,
                          int32_t priority)
{
    struct lw_stream s = {keep(b, name), c, priority};

    push(b, &b->streams, &s, sizeof s);
    return last(&b->streams);
}

int32_t lw_builder_comm(struct lw_builder *b, const char *name, enum lw_comm_purpose purpose,
                        enum lw_reducer_kind reducer, int32_t stream)
{
    struct lw_comm c = {keep(b, name), purpose, reducer, stream};
    int64_t n = b->plan.n_ranks, used = b->comms.n * n;

    push(b, &b->comms, &c, sizeof c);
    if (b->failed)
        return -1;
    if (lw_reserve(&b->comm_group, &b->comm_group_capacity, used + n, sizeof *b->comm_group) != 0) {
        b->failed = true;
        return -1;
    }
    for (int64_t r = 0; r < n; r++)
        b->comm_group[used + r] = -1;
    return last(&b->comms);
}

int32_t lw_builder_group(struct lw_builder *b, int32_t comm, const int32_t *members, int32_t n)
{
    struct lw_group g = {(int32_t)b->members.n, n};

    if (b->failed)
        return -1;
    push(b, &b->groups, &g, sizeof g);
    for (int32_t i = 0; i < n && !b->failed; i++) {
        assert(members[i] >= 0 && members[i] < b->plan.n_ranks);
        push(b, &b->members, &members[i], sizeof *members);
        b->comm_group[(int64_t)comm * b->plan.n_ranks + members[i]] = last(&b->groups);
    }
    return last(&b->groups);
}

int32_t lw_builder_param(struct lw_builder *b, const struct lw_plan_param *p)
{
    struct lw_plan_param copy = *p;

    const struct lw_plan_param *before =
        b->params.n > 0 ? (struct lw_plan_param *)b->params.items + b->params.n - 1 : NULL;
    bool same = before && p->name && strcmp(before->name, p->name) == 0;
    copy.name = same ? before->name : keep(b, p->name);
    push(b, &b->params, &copy, sizeof copy);
    return last(&b->params);
}

int32_t lw_builder_buffer(struct lw_builder *b, const struct lw_buffer *p)
{
    struct lw_buffer copy = *p;

    copy.name = keep(b, p->name);
    push(b, &b->buffers, &copy, sizeof copy);
    return last(&b->buffers);
}

int32_t lw_builder_module(struct lw_builder *b, int32_t stage)
{
    push(b, &b->modules, &stage, sizeof stage);
    return last(&b->modules);
}

void lw_builder_sparse(struct lw_builder *b, const struct lw_sparse *x)
{
    push(b, &b->sparse, x, sizeof *x);
}

void lw_builder_whole(struct lw_builder *b, int32_t param)
{
    push(b, &b->whole, &param, sizeof param);
}

int32_t lw_builder_set(struct lw_builder *b, enum lw_bucket_kind kind, const char *name,
                       int32_t stage)
{
    struct lw_bucket_set s = {.name = keep(b, name ? name : lw_bucket_kind_name(kind)),
                              .stage = stage,
                              .first_bucket = (int32_t)b->buckets.n,
                              .kind = (int32_t)kind};

    push(b, &b->sets, &s, sizeof s);
    return last(&b->sets);
}

int32_t lw_builder_bucket(struct lw_builder *b, const struct lw_bucket *bucket,
                          const struct lw_slot *slots, int32_t n)
{
    struct lw_bucket copy = *bucket;

    if (b->failed)
        return -1;
    assert(b->sets.n > 0);
    copy.set = last(&b->sets);
    copy.first_slot = (int32_t)b->slots.n;
    copy.n_slots = 0;
    copy.first_offset = -1;
    b->slot_end = 0;
    if (!push(b, &b->buckets, &copy, sizeof copy))
        return -1;
    ((struct lw_bucket_set *)b->sets.items)[copy.set].n_buckets++;
    for (int32_t i = 0; i < n; i++)
        lw_builder_slot(b, &slots[i]);
    return last(&b->buckets);
}

static int64_t numel_of(const struct lw_builder *b, int32_t param)
{
    return param >= 0 && param < b->params.n
               ? ((const struct lw_plan_param *)b->params.items)[param].numel
               : -1;
}

/* The bucket's slots so far lie one after the other: write their offsets down. */
static void write_offsets(struct lw_builder *b, struct lw_bucket *k)
{
    const int32_t *params = (const int32_t *)b->slots.items + k->first_slot;
    int64_t at = 0;

    k->first_offset = (int32_t)b->offsets.n;
    for (int32_t i = 0; i < k->n_slots; i++) {
        push(b, &b->offsets, &at, sizeof at);
        at += i + 1 < k->n_slots ? numel_of(b, params[i]) : 0;
    }
}

void lw_builder_slot(struct lw_builder *b, const struct lw_slot *s)
{
    int64_t numel = numel_of(b, s->param), end;

    if (b->failed)
        return;
    struct lw_bucket *k = (struct lw_bucket *)b->buckets.items + b->buckets.n - 1;
    if (k->first_offset < 0 && s->offset != b->slot_end)
        write_offsets(b, k);
    if (k->first_offset >= 0)
        push(b, &b->offsets, &s->offset, sizeof s->offset);
    if (push(b, &b->slots, &s->param, sizeof s->param))
        k->n_slots++;
    b->slot_end = numel < 0 || __builtin_add_overflow(s->offset, numel, &end) ? -1 : end;
}

void lw_builder_shard(struct lw_builder *b, const struct lw_shard *s)
{
    push(b, &b->shards, s, sizeof *s);
}

int32_t lw_builder_work(struct lw_builder *b, const struct lw_work *w)
{
    struct lw_work *mine = push(b, &b->works, w, sizeof *w);

    if (mine)
        mine->first_product = (int32_t)b->work_products.n;
    return last(&b->works);
}

void lw_builder_product(struct lw_builder *b, const struct lw_product *p)
{
    push(b, &b->products, p, sizeof *p);
}

void lw_builder_work_product(struct lw_builder *b, int32_t product)
{
    if (push(b, &b->work_products, &product, sizeof product))
        ((struct lw_work *)b->works.items)[b->works.n - 1].n_products++;
}

int32_t lw_builder_variant(struct lw_builder *b, const char *name, const char *set_name,
                           bool ends_step)
{
    struct lw_variant v = {
        .name = keep(b, name), .set_name = keep(b, set_name), .ends_step = ends_step};
    struct lw_program none = {0, 0};

    push(b, &b->variants, &v, sizeof v);
    for (int64_t r = 0; r < b->roles.n; r++)
        push(b, &b->programs, &none, sizeof none);
    return last(&b->variants);
}

/* --- ready lists ---------------------------------------------------------------------------------
 * A copy takes what the backward before it completed, and passes repeat each other: an op whose
 * list stands in the table already refers to it there. */

static bool list_stands_at(const struct lw_builder *b, int64_t at, const struct lw_op *op)
{
    const int32_t *ready = b->ready.items;

    return at + op->n_ready <= op->first_ready &&
           memcmp(ready + at, ready + op->first_ready, (size_t)op->n_ready * sizeof *ready) == 0;
}

/* The op added last will get no more gradients. */
static void close_list(struct lw_builder *b)
{
    struct lw_op *op = b->ops.n > 0 ? (struct lw_op *)b->ops.items + b->ops.n - 1 : NULL;

    if (b->failed || !op || op->n_ready == 0 || !b->list_open)
        return;
    b->list_open = false;
    const int64_t places[] = {b->list_before, b->list_next, b->list_first};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!list_stands_at(b, places[i], op))
            continue;
        b->ready.n -= op->n_ready;
        op->first_ready = (int32_t)places[i];
        break;
    }
    b->list_before = op->first_ready;
    b->list_next = op->first_ready + (int64_t)op->n_ready;
}

/* Lists of the program that begins now may be those of this role in another variant. */
static void expect_lists(struct lw_builder *b)
{
    b->list_first = b->ready.n;
    for (int64_t v = b->variants.n - 1; v >= 0; v--) {
        struct lw_program g = ((struct lw_program *)b->programs.items)[v * b->roles.n + b->role];
        if (g.n_ops > 0)
            b->list_first = ((struct lw_op *)b->ops.items)[g.first_op].first_ready;
    }
    b->list_before = b->list_next = b->list_first;
}

void lw_builder_program(struct lw_builder *b, int32_t variant, int32_t role)
{
    if (b->failed)
        return;
    assert(variant < b->variants.n && role < b->roles.n);
    close_list(b);
    b->variant = variant;
    b->role = role;
    expect_lists(b);
    ((struct lw_program *)b->programs.items)[variant * b->roles.n + role] =
        (struct lw_program){(int32_t)b->ops.n, 0};
}

struct lw_op lw_builder_blank(enum lw_op_kind kind, int32_t stream)
{
    return (struct lw_op){.kind = kind, .stream = stream, .comm = -1, .call = -1, .work = -1,
                          .peer = -1, .operand = -1, .module = -1, .stage = -1,
                          .micro_batch = -1, .bucket = -1, .name = ""};
}

int32_t lw_builder_op(struct lw_builder *b, const struct lw_op *op, const int32_t *deps,
                      int32_t n_deps)
{
    struct lw_op copy = *op;

    if (b->failed)
        return -1;
    assert(b->variant >= 0);
    close_list(b);
    copy.name = keep_word(b, op->name);
    copy.first_dep = (int32_t)b->deps.n;
    copy.n_deps = n_deps;
    copy.first_ready = (int32_t)b->ready.n;
    copy.n_ready = 0;
    for (int32_t i = 0; i < n_deps; i++)
        push(b, &b->deps, &deps[i], sizeof deps[i]);
    push(b, &b->ops, &copy, sizeof copy);
    if (!b->failed)
        ((struct lw_program *)b->programs.items)[b->variant * b->roles.n + b->role].n_ops++;
    return last(&b->ops);
}

void lw_builder_dep(struct lw_builder *b, int32_t dep)
{
    push(b, &b->deps, &dep, sizeof dep);
    if (!b->failed)
        ((struct lw_op *)b->ops.items)[b->ops.n - 1].n_deps++;
}

void lw_builder_ready(struct lw_builder *b, int32_t param)
{
    push(b, &b->ready, &param, sizeof param);
    b->list_open = true;
    if (!b->failed)
        ((struct lw_op *)b->ops.items)[b->ops.n - 1].n_ready++;
}

int32_t lw_builder_operand_row(struct lw_builder *b, const struct lw_operand *entries, int32_t n)
{
    int32_t first = (int32_t)b->operands.n;

    push(b, &b->rows, &first, sizeof first);
    for (int32_t i = 0; i < n; i++)
        push(b, &b->operands, &entries[i], sizeof entries[i]);
    return last(&b->rows);
}

void lw_builder_operand_more(struct lw_builder *b, const struct lw_operand *entry)
{
    push(b, &b->operands, entry, sizeof *entry);
}

void lw_builder_pass(struct lw_builder *b, int32_t variant)
{
    push(b, &b->passes, &variant, sizeof variant);
}

void lw_builder_repeat_from(struct lw_builder *b, int32_t pass)
{
    b->plan.repeat_from = pass;
}

void lw_builder_note(struct lw_builder *b, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *kept = keep(b, text);
    push(b, &b->notes, &kept, sizeof kept);
}

/* Hand a table to the plan's arena as it is, cut to its length. Always a pointer, also for an empty
 * table. */
static void *settle(struct lw_builder *b, struct table *t, size_t size, int32_t *n)
{
    void *cut = b->failed ? NULL : lw_realloc(t->items, (size_t)t->n * size);

    if (cut)
        t->items = cut;
    if (!cut || lw_arena_adopt(&b->plan.arena, cut) != 0) {
        b->failed = true;
        return NULL;
    }
    *n = (int32_t)t->n;
    t->items = NULL;
    return cut;
}

static void settle_tables(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;

#define SETTLE(field, table, count) p->field = settle(b, &b->table, sizeof *p->field, &p->count)
    SETTLE(roles, roles, n_roles);
    SETTLE(streams, streams, n_streams);
    SETTLE(comms, comms, n_comms);
    SETTLE(groups, groups, n_groups);
    SETTLE(members, members, n_members);
    SETTLE(params, params, n_params);
    SETTLE(buffers, buffers, n_buffers);
    SETTLE(stage_of, modules, n_modules);
    SETTLE(whole, whole, n_whole);
    SETTLE(sparse, sparse, n_sparse);
    SETTLE(sets, sets, n_sets);
    SETTLE(buckets, buckets, n_buckets);
    SETTLE(slots, slots, n_slots);
    SETTLE(offsets, offsets, n_offsets);
    SETTLE(shards, shards, n_shards);
    SETTLE(works, works, n_works);
    SETTLE(products, products, n_products);
    SETTLE(work_products, work_products, n_work_products);
    SETTLE(variants, variants, n_variants);
    SETTLE(ops, ops, n_ops);
    SETTLE(deps, deps, n_deps);
    SETTLE(ready, ready, n_ready);
    SETTLE(operand_first, rows, n_operand_rows);
    SETTLE(operands, operands, n_operands);
    SETTLE(pass_variant, passes, n_passes);
    SETTLE(notes, notes, n_notes);
    int32_t n_programs;
    p->programs = settle(b, &b->programs, sizeof *p->programs, &n_programs);
#undef SETTLE
}

static void settle_ranks(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;
    int64_t n = p->n_ranks;

    p->role_of = lw_arena_alloc(&p->arena, n, sizeof *p->role_of);
    p->index_in_role = lw_arena_alloc(&p->arena, n, sizeof *p->index_in_role);
    p->coord = lw_arena_alloc(&p->arena, n * 3, sizeof *p->coord);
    p->comm_group = lw_arena_alloc(&p->arena, n * p->n_comms, sizeof *p->comm_group);
    if (b->failed || !p->role_of || !p->index_in_role || !p->coord || !p->comm_group) {
        b->failed = true;
        return;
    }
    memcpy(p->role_of, b->role_of, (size_t)n * sizeof *p->role_of);
    memcpy(p->coord, b->coord, (size_t)n * 3 * sizeof *p->coord);
    if (p->n_comms)
        memcpy(p->comm_group, b->comm_group, (size_t)(n * p->n_comms) * sizeof *p->comm_group);
    for (int64_t r = 0; r < n; r++)
        p->index_in_role[r] = p->roles[p->role_of[r]].n_ranks++;
    for (int32_t v = 0; v < p->n_variants; v++)
        for (int32_t s = 0; s < p->n_sets; s++)
            p->variants[v].n_sets += lw_plan_uses_set(p, v, s);
    for (int32_t s = 0; s < p->n_sets; s++)
        p->n_stages = p->sets[s].stage >= p->n_stages ? p->sets[s].stage + 1 : p->n_stages;
    for (int32_t r = 0; r < p->n_roles; r++)
        p->n_stages = p->roles[r].stage >= p->n_stages ? p->roles[r].stage + 1 : p->n_stages;
}

enum lw_status lw_builder_finish(struct lw_builder *b, struct lw_plan *plan, struct lw_err *err)
{
    if (!b)
        return lw_fail_nomem(err);
    close_list(b);
    settle_tables(b);
    if (!b->failed)
        settle_ranks(b);
    b->plan.workload_hash = b->plan.cluster_name = b->plan.device = "";
    enum lw_status s = b->failed ? lw_fail_nomem(err) : lw_plan_hash(&b->plan, err);
    if (s == LW_OK) {
        *plan = b->plan;
        b->plan.arena = (struct lw_arena){0};
    }
    lw_builder_free(b);
    return s;
}
