/* Builds a plan: tables grow by doubling while pieces are added, and go to one arena at the end.
 * Invariant: the parts of an op that live in shared tables (deps, ready) belong to the op added
 * last, so they are contiguous. The first failure sticks; later additions do nothing. */
#include "shared/plan/plan_builder.h"
#include "shared/plan/buffer.h"
#include "shared/plan/grid_rule.h"
#include "shared/plan/op_rows.h"
#include "shared/plan/plan_tables.h"
#include "shared/plan/product.h"
#include "shared/plan/sparse.h"
#include "shared/plan/strategy.h"
#include "shared/plan/work_rows.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct lw_builder {
    struct lw_plan plan; /* its arena owns the strings; the tables go there at the end */
    int32_t n_programs, n_comm_group; /* of these the plan's count follows from others */
    int32_t n_listed;                 /* members that no rule describes alone */
    int32_t n_written;     /* operands that no rule describes */
    int64_t rules_capacity;
    bool has_rules, rules_settled; /* the plan's arena owns them */
    struct lw_grid_rule grid; /* its first axis has no ranks: ranks are added one by one */
    int64_t comms_capacity;
    bool unclear;          /* groups of ranks in the class added last are not written yet */
    bool by_rules;         /* no tables of ranks and members: rules say all of them so far */
    int64_t capacity[LW_N_TABLES];
    int n_settled; /* tables that the plan's arena owns */
    const char **words;  /* [capacity] names of ops, each kept once: open addressing, NULL = free */
    int64_t n_words, words_capacity;
    int32_t variant, role; /* that ops are added to */
    bool list_open;        /* the op added last has a list that close_list has not seen */
    int32_t *lists_from;   /* [n_programs]: where in ready the lists of a program begin */
    int64_t lists_from_capacity;
    int64_t list_before, list_next, list_first; /* where in ready the next list may stand already */
    bool shares; /* ops are in rows, the last one in `last` while it is open */
    bool last_open;
    int32_t share_least;
    struct lw_op last;
    struct lw_op_sharing sharing;
    bool shares_works, work_open; /* works are in rows, the last one in `work` while it is open */
    struct lw_work work;
    struct lw_work_sharing work_sharing;
    int64_t slot_end;      /* where the slot added last ends in its bucket; -1 = unknown */
    bool draft;
    bool failed;
};

/* The pointer to a table's rows, in the plan. */
static char *items_at(struct lw_builder *b, int table)
{
    return (char *)&b->plan + lw_plan_tables[table].at;
}

static void *items_of(struct lw_builder *b, int table)
{
    void *items;

    memcpy(&items, items_at(b, table), sizeof items);
    return items;
}

static int32_t *number_of(struct lw_builder *b, int table)
{
    return table == LW_TABLE_programs     ? &b->n_programs
           : table == LW_TABLE_comm_group ? &b->n_comm_group
           : table == LW_TABLE_operands   ? &b->n_written
           : table == LW_TABLE_members
               ? &b->n_listed
               : (int32_t *)(void *)((char *)&b->plan + lw_plan_tables[table].n_at);
}

/* Tables of ranks have their length from the beginning, and are the arena's. */
static bool grows(int table)
{
    return lw_plan_tables[table].n_at != offsetof(struct lw_plan, n_ranks);
}

/* Returns the number of the table's last item, which is the new one unless the builder failed. */
static int32_t push(struct lw_builder *b, enum lw_plan_table_id t, const void *item)
{
    size_t size = lw_plan_tables[t].size;
    int32_t *n = number_of(b, t);

    if (*n >= b->capacity[t])
        b->failed = b->failed || *n == INT32_MAX ||
                    lw_reserve(items_at(b, t), &b->capacity[t], *n + 1L, size) != 0;
    if (!b->failed)
        memcpy((char *)items_of(b, t) + (size_t)(*n)++ * size, item, size);
    return *n - 1;
}

/* The same of a table of numbers: items and n are those of t. There are several for each op and
 * each parameter. */
static void push_number(struct lw_builder *b, enum lw_plan_table_id t, int32_t **items, int32_t *n,
                        int32_t v)
{
    if (*n >= b->capacity[t])
        b->failed = b->failed || *n == INT32_MAX ||
                    lw_reserve(items, &b->capacity[t], *n + 1L, sizeof v) != 0;
    if (!b->failed)
        (*items)[(*n)++] = v;
}

static void push_dep(struct lw_builder *b, int32_t dep)
{
    push_number(b, LW_TABLE_deps, &b->plan.deps, &b->plan.n_deps, dep);
}

/* Room for n more items at the end of a table; NULL when the builder failed. */
static void *extend(struct lw_builder *b, enum lw_plan_table_id t, int32_t n)
{
    size_t size = lw_plan_tables[t].size;
    int32_t *have = number_of(b, t);

    b->failed = b->failed || n > INT32_MAX - *have ||
                lw_reserve(items_at(b, t), &b->capacity[t], *have + (int64_t)n, size) != 0;
    if (b->failed)
        return NULL;
    char *items = (char *)items_of(b, t) + (size_t)*have * size;
    *have += n;
    return items;
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

struct lw_builder *lw_builder_new(const char *name, int32_t n_ranks)
{
    struct lw_builder *b = lw_calloc(1, sizeof *b);

    if (!b)
        return NULL;
    b->plan.n_ranks = n_ranks;
    b->plan.strategy = lw_arena_alloc(&b->plan.arena, 1, sizeof *b->plan.strategy);
    b->plan.name = keep(b, name);
    b->failed = b->failed || !b->plan.strategy;
    if (b->plan.strategy)
        *b->plan.strategy = lw_strategy_default();
    b->variant = b->role = -1;
    return b;
}

/* Tables that grow are copied each time, unless they are so large that pages are moved instead. */
void lw_builder_expect_ops(struct lw_builder *b, int64_t n)
{
    enum { MOST = 1 << 16 };
    const enum lw_plan_table_id tables[] = {LW_TABLE_ops, LW_TABLE_deps};

    if (b->shares)
        b->failed = b->failed || lw_op_rows_expect(&b->plan, &b->sharing, n, NULL) != LW_OK;
    for (int i = b->shares; i < 2; i++)
        b->failed = b->failed || lw_reserve(items_at(b, tables[i]), &b->capacity[tables[i]],
                                            n < MOST ? n : MOST, lw_plan_tables[tables[i]].size);
}

void lw_builder_share_ops(struct lw_builder *b, int32_t least, bool modules)
{
    assert(b->plan.n_ops == 0 && b->plan.n_works == 0);
    b->shares = true;
    b->sharing.own = modules;
    b->shares_works = modules;
    b->share_least = least;
}

static void expect(struct lw_builder *b, enum lw_plan_table_id t, int64_t n)
{
    b->failed = b->failed || n > INT32_MAX ||
                lw_reserve(items_at(b, t), &b->capacity[t], n, lw_plan_tables[t].size) != 0;
}

void lw_builder_expect_shards(struct lw_builder *b, int64_t n)
{
    if (!b->draft && n > 0)
        expect(b, LW_TABLE_shards, n);
}

void lw_builder_expect_params(struct lw_builder *b, int64_t n_params, int64_t n_slots)
{
    expect(b, LW_TABLE_params, n_params);
    expect(b, LW_TABLE_slots, n_slots);
}

void lw_builder_free(struct lw_builder *b)
{
    if (!b)
        return;
    for (int t = b->n_settled; t < LW_N_TABLES; t++)
        if (grows(t))
            lw_free(items_of(b, t));
    if (!b->rules_settled)
        lw_free(b->plan.operand_rules);
    if (b->shares)
        lw_op_rows_free(&b->plan, &b->sharing);
    if (b->shares_works)
        lw_work_rows_free(&b->plan, &b->work_sharing);
    lw_free(b->words);
    lw_free(b->lists_from);
    lw_free(b->grid.comms);
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
    if (s->units)
        b->plan.strategy->units = keep(b, s->units);
}

int32_t lw_builder_role(struct lw_builder *b, const struct lw_role *role)
{
    struct lw_role r = *role;

    r.name = keep(b, role->name);
    r.n_ranks = 0;
    return push(b, LW_TABLE_roles, &r);
}

/* The tables of ranks, by the grid's axes where there are some. */
static void make_ranks(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;

    if (p->role_of)
        return;
    p->role_of = lw_arena_alloc(&p->arena, p->n_ranks, sizeof *p->role_of);
    p->coord = lw_arena_alloc(&p->arena, (int64_t)p->n_ranks * LW_N_AXES, sizeof *p->coord);
    b->failed = b->failed || !p->role_of || !p->coord;
    if (!b->failed && b->grid.axis[0].count > 0)
        lw_grid_write(b->grid.axis, p->coord, p->role_of);
}

void lw_builder_rank(struct lw_builder *b, int32_t rank, int32_t role, int32_t dp, int32_t pp,
                     int32_t tp)
{
    make_ranks(b);
    if (b->failed)
        return;
    assert(rank >= 0 && rank < b->plan.n_ranks && role >= 0 && role < b->plan.n_roles);
    b->plan.role_of[rank] = role;
    memcpy(b->plan.coord + (int64_t)rank * LW_N_AXES, (int32_t[LW_N_AXES]){dp, pp, tp},
           LW_N_AXES * sizeof dp);
}

void lw_builder_grid(struct lw_builder *b, const struct lw_digit *axis)
{
    if (b->failed)
        return;
    assert(lw_grid_is_whole(axis, b->plan.n_ranks) && axis[LW_AXIS_PP].count == b->plan.n_roles);
    memcpy(b->grid.axis, axis, sizeof b->grid.axis);
    b->by_rules = b->plan.n_ranks >= LW_GRID_LARGE;
    if (!b->by_rules)
        make_ranks(b);
}

int32_t lw_builder_stream(struct lw_builder *b, const char *name, enum lw_stream_class c,
                          int32_t priority)
{
    struct lw_stream s = {keep(b, name), c, priority};

    return push(b, LW_TABLE_streams, &s);
}

/* Room for the ranks of as many classes as most plans have: tables of ranks that grow are copied,
 * and their old copies stay resident. Room that is not used is not resident. */
static void expect_classes(struct lw_builder *b)
{
    enum { USUAL = 8 };
    const enum lw_plan_table_id tables[] = {LW_TABLE_members, LW_TABLE_comm_group};

    for (int i = 0; i < 2 && !b->by_rules; i++)
        b->failed = b->failed ||
                    lw_reserve(items_at(b, tables[i]), &b->capacity[tables[i]],
                               USUAL * (int64_t)b->plan.n_ranks, sizeof(int32_t)) != 0;
}

/* From now on ranks, members and groups of ranks are in tables, also those of rules so far. */
static void write_rules(struct lw_builder *b)
{
    int32_t n_ranks = b->plan.n_ranks;

    make_ranks(b);
    for (int32_t c = 0; b->by_rules && c < b->plan.n_comms; c++) {
        const struct lw_comm_rule *x = &b->grid.comms[c];
        int32_t n = x->n_groups * x->n_members, *groups = extend(b, LW_TABLE_comm_group, n_ranks);
        int32_t *members = extend(b, LW_TABLE_members, n);
        if (!groups || !members || n == 0)
            continue;
        lw_group_parts_write(b->grid.axis, x, 0, groups, n_ranks);
        lw_digits_write(&x->ranks, 0, members, n);
    }
    b->by_rules = false;
}

/* All ranks are outside the groups of the class added last, unless a rule has written them. */
static void clear_groups(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;

    if (b->unclear)
        write_rules(b);
    if (b->unclear && !b->failed)
        memset(p->comm_group + (p->n_comms - INT64_C(1)) * p->n_ranks, 0xff,
               (size_t)p->n_ranks * sizeof *p->comm_group);
    b->unclear = false;
}

int32_t lw_builder_comm(struct lw_builder *b, const char *name, enum lw_comm_purpose purpose,
                        enum lw_reducer_kind reducer, int32_t stream)
{
    struct lw_comm c = {keep(b, name), purpose, reducer, stream};
    clear_groups(b);
    int32_t number = push(b, LW_TABLE_comms, &c);
    if (number == 0)
        expect_classes(b);
    if (!b->by_rules)
        extend(b, LW_TABLE_comm_group, b->plan.n_ranks);
    b->unclear = true;
    b->failed = b->failed || lw_reserve(&b->grid.comms, &b->comms_capacity, number + 1L,
                                        sizeof *b->grid.comms) != 0;
    if (!b->failed)
        b->grid.comms[number] = (struct lw_comm_rule){0};
    return b->failed ? -1 : number;
}

int32_t lw_builder_group(struct lw_builder *b, int32_t comm, const int32_t *members, int32_t n)
{
    struct lw_group g = {b->plan.n_members, n};

    if (b->failed)
        return -1;
    clear_groups(b);
    write_rules(b);
    b->grid.comms[comm].n_groups = 0; /* more than a rule says */
    int32_t number = push(b, LW_TABLE_groups, &g);
    int32_t *of = b->plan.comm_group + (int64_t)comm * b->plan.n_ranks;
    int32_t *to = extend(b, LW_TABLE_members, n);
    b->plan.n_members = b->n_listed;
    for (int32_t i = 0; to && i < n; i++) {
        assert(members[i] >= 0 && members[i] < b->plan.n_ranks);
        to[i] = members[i];
        of[members[i]] = number;
    }
    return number;
}

/* The rule's tables: groups, members, and which group a rank is in. */
static void write_groups(struct lw_builder *b, const struct lw_comm_rule *x)
{
    struct lw_plan *p = &b->plan;
    int32_t at = p->n_members, n = x->n_groups * x->n_members;
    struct lw_group *groups = extend(b, LW_TABLE_groups, x->n_groups);
    int32_t *members = b->by_rules ? NULL : extend(b, LW_TABLE_members, n);

    b->failed = b->failed || n > INT32_MAX - at;
    if (b->failed)
        return;
    p->n_members += n;
    for (int32_t g = 0; g < x->n_groups; g++)
        groups[g] = (struct lw_group){at + g * x->n_members, x->n_members};
    if (members)
        lw_digits_write(&x->ranks, 0, members, n);
    if (members)
        lw_group_parts_write(b->grid.axis, x, 0,
                             p->comm_group + (p->n_comms - INT64_C(1)) * p->n_ranks, p->n_ranks);
    b->grid.comms[p->n_comms - 1] = *x;
    b->unclear = false;
}

void lw_builder_groups(struct lw_builder *b, const struct lw_comm_rule *rule)
{
    struct lw_comm_rule x = *rule;
    bool fits = false;

    if (b->failed)
        return;
    x.first_group = b->plan.n_groups;
    b->failed = !lw_group_parts_find(b->grid.axis, &x, &b->plan.arena, &x.parts, &fits);
    assert(b->failed || fits);
    if (fits)
        write_groups(b, &x);
}

int32_t lw_builder_param(struct lw_builder *b, const struct lw_plan_param *p)
{
    const struct lw_plan_param *before =
        b->plan.n_params > 0 ? &b->plan.params[b->plan.n_params - 1] : NULL;
    struct lw_plan_param copy = *p;

    bool same = before && p->name && strcmp(before->name, p->name) == 0;
    copy.name = same ? before->name : keep(b, p->name);
    return push(b, LW_TABLE_params, &copy);
}

int32_t lw_builder_buffer(struct lw_builder *b, const struct lw_buffer *p)
{
    struct lw_buffer copy = *p;

    copy.name = keep(b, p->name);
    return push(b, LW_TABLE_buffers, &copy);
}

int32_t lw_builder_module(struct lw_builder *b, int32_t stage)
{
    return push(b, LW_TABLE_stage_of, &stage);
}

void lw_builder_sparse(struct lw_builder *b, const struct lw_sparse *x)
{
    push(b, LW_TABLE_sparse, x);
}

void lw_builder_whole(struct lw_builder *b, int32_t param)
{
    push(b, LW_TABLE_whole, &param);
}

int32_t lw_builder_set(struct lw_builder *b, enum lw_bucket_kind kind, const char *name,
                       int32_t stage)
{
    struct lw_bucket_set s = {.name = keep(b, name ? name : lw_bucket_kind_name(kind)),
                              .stage = stage,
                              .first_bucket = b->plan.n_buckets,
                              .kind = (int32_t)kind};

    return push(b, LW_TABLE_sets, &s);
}

int32_t lw_builder_bucket(struct lw_builder *b, const struct lw_bucket *bucket,
                          const struct lw_slot *slots, int32_t n)
{
    struct lw_bucket copy = *bucket;

    if (b->failed)
        return -1;
    assert(b->plan.n_sets > 0);
    copy.set = b->plan.n_sets - 1;
    copy.first_slot = b->plan.n_slots;
    copy.n_slots = 0;
    copy.first_offset = -1;
    b->slot_end = 0;
    int32_t number = push(b, LW_TABLE_buckets, &copy);
    if (b->failed)
        return -1;
    b->plan.sets[copy.set].n_buckets++;
    for (int32_t i = 0; i < n; i++)
        lw_builder_slot(b, &slots[i]);
    return number;
}

static int64_t numel_of(const struct lw_builder *b, int32_t param)
{
    return param >= 0 && param < b->plan.n_params ? b->plan.params[param].numel : -1;
}

/* The bucket's slots so far lie one after the other: write their offsets down. */
static void write_offsets(struct lw_builder *b, struct lw_bucket *k)
{
    const int32_t *params = b->plan.slots + k->first_slot;
    int64_t at = 0;

    k->first_offset = b->plan.n_offsets;
    for (int32_t i = 0; i < k->n_slots; i++) {
        push(b, LW_TABLE_offsets, &at);
        at += i + 1 < k->n_slots ? numel_of(b, params[i]) : 0;
    }
}

void lw_builder_slot(struct lw_builder *b, const struct lw_slot *s)
{
    int64_t numel = numel_of(b, s->param), end;

    if (b->failed)
        return;
    struct lw_bucket *k = &b->plan.buckets[b->plan.n_buckets - 1];
    if (k->first_offset < 0 && s->offset != b->slot_end)
        write_offsets(b, k);
    if (k->first_offset >= 0)
        push(b, LW_TABLE_offsets, &s->offset);
    push_number(b, LW_TABLE_slots, &b->plan.slots, &b->plan.n_slots, s->param);
    k->n_slots += !b->failed;
    b->slot_end = numel < 0 || __builtin_add_overflow(s->offset, numel, &end) ? -1 : end;
}

void lw_builder_draft(struct lw_builder *b)
{
    b->draft = true;
}

bool lw_builder_is_draft(const struct lw_builder *b)
{
    return b->draft;
}

void lw_builder_shard(struct lw_builder *b, const struct lw_shard *s)
{
    if (b->draft && s->owner > 0 && b->plan.n_shards > 0)
        return; /* one at least: that there are shards is known by their number */
    push(b, LW_TABLE_shards, s);
}

void lw_builder_shards(struct lw_builder *b, const struct lw_shard *first, int32_t n)
{
    if (b->draft) { /* those of other owners are left out */
        if (n > 0)
            lw_builder_shard(b, first);
        return;
    }
    struct lw_shard x = *first, *to = extend(b, LW_TABLE_shards, n);
    for (int32_t k = 0; to && k < n; k++) {
        to[k] = x;
        x.owner++;
        x.first += x.numel;
    }
}

/* The work added last gets its row. */
static void close_work(struct lw_builder *b)
{
    if (b->work_open && !b->failed)
        b->failed = lw_work_rows_add(&b->plan, &b->work_sharing, &b->work, NULL) != LW_OK;
    b->work_open = false;
}

int32_t lw_builder_work(struct lw_builder *b, const struct lw_work *w)
{
    struct lw_work mine = *w;

    mine.first_product = b->plan.n_work_products;
    if (!b->shares_works)
        return push(b, LW_TABLE_works, &mine);
    close_work(b);
    b->work = mine;
    b->work_open = true;
    return b->plan.n_works;
}

void lw_builder_product(struct lw_builder *b, const struct lw_product *p)
{
    push(b, LW_TABLE_products, p);
}

void lw_builder_work_product(struct lw_builder *b, int32_t product)
{
    push(b, LW_TABLE_work_products, &product);
    if (b->work_open)
        b->work.n_products++;
    else if (!b->failed)
        b->plan.works[b->plan.n_works - 1].n_products++;
}

int32_t lw_builder_variant(struct lw_builder *b, const char *name, const char *set_name,
                           bool ends_step)
{
    struct lw_variant v = {
        .name = keep(b, name), .set_name = keep(b, set_name), .ends_step = ends_step};
    int32_t number = push(b, LW_TABLE_variants, &v);

    for (int32_t r = 0; r < b->plan.n_roles; r++)
        push(b, LW_TABLE_programs, &(struct lw_program){0, 0});
    return number;
}

/* --- ops -----------------------------------------------------------------------------------------
 * Where ops share rows, the one added last is whole, since it may still get dependencies and
 * gradients. */

/* The op added last gets its row. */
static void close_op(struct lw_builder *b)
{
    if (!b->last_open || b->failed)
        return;
    b->failed = lw_op_rows_set(&b->plan, &b->sharing, b->plan.n_ops - 1, &b->last, NULL) != LW_OK;
    b->last_open = false;
}

static struct lw_op op_of(const struct lw_builder *b, int32_t op)
{
    return b->last_open && op == b->plan.n_ops - 1 ? b->last : lw_op_at(&b->plan, op);
}

/* The op added last, to change it. */
static struct lw_op *last_op(struct lw_builder *b)
{
    if (!b->shares)
        return &b->plan.ops[b->plan.n_ops - 1];
    if (!b->last_open)
        b->last = lw_op_at(&b->plan, b->plan.n_ops - 1);
    b->last_open = true;
    return &b->last;
}

static int32_t add_op(struct lw_builder *b, const struct lw_op *op)
{
    if (!b->shares)
        return push(b, LW_TABLE_ops, op);
    close_op(b);
    b->failed = b->failed || b->plan.n_ops == INT32_MAX;
    if (b->failed)
        return b->plan.n_ops - 1;
    b->last = *op;
    b->last_open = true;
    return b->plan.n_ops++;
}

/* --- ready lists ---------------------------------------------------------------------------------
 * A copy takes what the backward before it completed, and passes repeat each other: an op whose
 * list stands in the table already refers to it there. */

/* Where the n gradients from `list` on stand in the table before `end`; -1 = nowhere that is looked
 * at. */
static int64_t place_of_list(const struct lw_builder *b, const int32_t *list, int32_t n,
                             int64_t end)
{
    const int64_t places[] = {b->list_before, b->list_next, b->list_first};
    const int32_t *ready = b->plan.ready;

    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i] + n <= end &&
            (ready + places[i] == list ||
             memcmp(ready + places[i], list, (size_t)n * sizeof *ready) == 0))
            return places[i];
    return -1;
}

/* The op added last will get no more gradients. */
static void close_list(struct lw_builder *b)
{
    if (b->failed || !b->list_open)
        return;
    struct lw_op *op = last_op(b);
    b->list_open = false;
    int64_t place =
        place_of_list(b, b->plan.ready + op->first_ready, op->n_ready, op->first_ready);
    if (place >= 0) {
        b->plan.n_ready -= op->n_ready;
        op->first_ready = (int32_t)place;
    }
    b->list_before = op->first_ready;
    b->list_next = op->first_ready + (int64_t)op->n_ready;
}

static struct lw_program *program_of(const struct lw_builder *b, int32_t variant)
{
    return &b->plan.programs[(int64_t)variant * b->plan.n_roles + b->role];
}

/* Lists of the program that begins now may be those of this role in another variant. */
static void expect_lists(struct lw_builder *b)
{
    b->list_first = b->plan.n_ready;
    for (int32_t v = b->plan.n_variants - 1; v >= 0; v--)
        if (program_of(b, v)->n_ops > 0)
            b->list_first = b->lists_from[program_of(b, v) - b->plan.programs];
    b->list_before = b->list_next = b->list_first;
}

void lw_builder_program(struct lw_builder *b, int32_t variant, int32_t role)
{
    if (b->failed)
        return;
    assert(variant < b->plan.n_variants && role < b->plan.n_roles);
    close_list(b);
    b->variant = variant;
    b->role = role;
    b->failed = lw_reserve(&b->lists_from, &b->lists_from_capacity, b->n_programs,
                           sizeof *b->lists_from) != 0;
    if (b->failed)
        return;
    expect_lists(b);
    b->lists_from[program_of(b, variant) - b->plan.programs] = b->plan.n_ready;
    *program_of(b, variant) = (struct lw_program){b->plan.n_ops, 0};
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
    copy.first_dep = b->plan.n_deps;
    copy.n_deps = n_deps;
    copy.first_ready = b->plan.n_ready;
    copy.n_ready = 0;
    for (int32_t i = 0; i < n_deps; i++)
        push_dep(b, deps[i]);
    int32_t number = add_op(b, &copy);
    if (!b->failed)
        program_of(b, b->variant)->n_ops++;
    return number;
}

void lw_builder_dep(struct lw_builder *b, int32_t dep)
{
    push_dep(b, dep);
    if (!b->failed)
        last_op(b)->n_deps++;
}

static int32_t moved_dep(const struct lw_op_range *x, int32_t by, int32_t dep)
{
    if (dep >= x->first)
        return dep + by;
    for (int32_t i = 0; i < x->n_outside; i++)
        if (dep == x->outside[i])
            return x->instead[i];
    assert(!"an op before the range that is not named");
    return dep;
}

/* The op's gradients once more. */
static void repeat_ready(struct lw_builder *b, int32_t first, int32_t n)
{
    int32_t *ready = extend(b, LW_TABLE_ready, n);

    if (!ready)
        return;
    memcpy(ready, b->plan.ready + first, (size_t)n * sizeof *ready);
    last_op(b)->n_ready = n;
    b->list_open = true;
}

/* Its copy of gradients stands where the list stands already, if it does. */
static bool repeat_list(struct lw_builder *b, struct lw_op *op, const struct lw_op *from)
{
    int64_t place = place_of_list(b, b->plan.ready + from->first_ready, from->n_ready,
                                  b->plan.n_ready);

    if (place < 0)
        return false;
    op->first_ready = (int32_t)place;
    op->n_ready = from->n_ready;
    b->list_before = place;
    b->list_next = place + from->n_ready;
    return true;
}

/* Room for its dependencies is there. */
static void repeat_row(struct lw_builder *b, const struct lw_op_range *x, int32_t from,
                       int32_t by)
{
    struct lw_plan *p = &b->plan;

    close_list(b);
    close_op(b);
    if (b->failed)
        return;
    struct lw_op op = op_of(b, from);
    const int32_t first_dep = op.first_dep, first_ready = op.first_ready, n_ready = op.n_ready;
    if (op.micro_batch == x->from_micro_batch)
        op.micro_batch = x->micro_batch;
    op.first_dep = p->n_deps;
    op.first_ready = p->n_ready;
    op.n_ready = 0;
    for (int32_t i = 0; i < op.n_deps; i++)
        p->deps[p->n_deps++] = moved_dep(x, by, p->deps[first_dep + i]);
    if (n_ready == 0)
        b->failed = lw_op_rows_repeat(p, &b->sharing, p->n_ops, from, op.micro_batch, op.first_dep,
                                      NULL) != LW_OK;
    else
        add_op(b, &op);
    if (!b->last_open)
        p->n_ops += !b->failed;
    if (n_ready > 0)
        repeat_ready(b, first_ready, n_ready);
}

/* The same in a table of whole ops, which has room for it too. */
static void repeat_op(struct lw_builder *b, const struct lw_op_range *x, int32_t from, int32_t by)
{
    struct lw_plan *p = &b->plan;

    close_list(b);
    struct lw_op *op = &p->ops[p->n_ops++];
    *op = p->ops[from];
    if (op->micro_batch == x->from_micro_batch)
        op->micro_batch = x->micro_batch;
    op->first_dep = p->n_deps;
    op->first_ready = p->n_ready;
    op->n_ready = 0;
    const int32_t *deps = p->deps + p->ops[from].first_dep;
    for (int32_t i = 0; i < op->n_deps; i++)
        p->deps[p->n_deps++] = moved_dep(x, by, deps[i]);
    if (p->ops[from].n_ready > 0 &&
        (from + 1 == x->first + x->n || !repeat_list(b, op, &p->ops[from])))
        repeat_ready(b, p->ops[from].first_ready, p->ops[from].n_ready); /* the last is open */
}

static void repeat_rows(struct lw_builder *b, const struct lw_op_range *x, int32_t by)
{
    for (int32_t i = 0; i < x->n && !b->failed; i++)
        repeat_row(b, x, x->first + i, by);
}

static void repeat_ops(struct lw_builder *b, const struct lw_op_range *x, int32_t by)
{
    if (!extend(b, LW_TABLE_ops, x->n))
        return;
    b->plan.n_ops -= x->n;
    for (int32_t i = 0; i < x->n && !b->failed; i++)
        repeat_op(b, x, x->first + i, by);
}

void lw_builder_repeat(struct lw_builder *b, const struct lw_op_range *x)
{
    if (b->failed || x->n == 0)
        return;
    const struct lw_op last = op_of(b, x->first + x->n - 1);
    int32_t n_ops = b->plan.n_ops, by = n_ops - x->first;
    int32_t n_deps = last.first_dep + last.n_deps - op_of(b, x->first).first_dep;
    /* room for all of them */
    b->failed = x->n > INT32_MAX - n_ops || (!extend(b, LW_TABLE_deps, n_deps) && b->failed);
    if (b->failed)
        return;
    b->plan.n_deps -= n_deps;
    if (b->shares)
        repeat_rows(b, x, by);
    else
        repeat_ops(b, x, by);
    program_of(b, b->variant)->n_ops += b->plan.n_ops - n_ops;
}

/* --- another order ---------------------------------------------------------------------------- */

/* Of n ops, the i-th is what the order[i]-th was, but for where its dependencies stand: `old` has
 * them as they were, as the builder holds them. */
static void place_again(struct lw_builder *b, int32_t first, const int32_t *order, int32_t n,
                        const void *old)
{
    const struct lw_op *ops = old;
    const struct lw_op_place *places = old;

    for (int32_t i = 0; i < n; i++)
        if (b->shares)
            b->plan.op_places[first + i] = places[order[i]];
        else
            b->plan.ops[first + i] = ops[order[i]];
}

static void *held_ops(const struct lw_builder *b, int32_t first)
{
    return b->shares ? (void *)(b->plan.op_places + first) : (void *)(b->plan.ops + first);
}

static size_t held_size(const struct lw_builder *b)
{
    return b->shares ? sizeof(struct lw_op_place) : sizeof(struct lw_op);
}

/* Of an array beside the places of ops; NULL: there is none. */
static void reorder_beside(struct lw_builder *b, void *items, size_t size, int32_t first,
                           const int32_t *order, int32_t n)
{
    char *at = items ? (char *)items + (size_t)first * size : NULL;
    char *old = at ? lw_alloc((size_t)n * size) : NULL;

    b->failed = b->failed || (at && !old);
    if (old)
        memcpy(old, at, (size_t)n * size);
    for (int32_t i = 0; old && i < n; i++)
        memcpy(at + (size_t)i * size, old + (size_t)order[i] * size, size);
    lw_free(old);
}

/* They are the last ones of the table: nothing else was added since. */
static void reorder_deps(struct lw_builder *b, int32_t first, int32_t n, const int32_t *now,
                         int32_t from, const int32_t *old)
{
    for (int32_t i = 0, at = from; i < n; i++) {
        struct lw_op op = lw_op_at(&b->plan, first + i);
        const int32_t *mine = old + (op.first_dep - from);
        if (b->shares)
            b->plan.op_places[first + i].first_dep = at;
        else
            b->plan.ops[first + i].first_dep = at;
        for (int32_t k = 0; k < op.n_deps; k++)
            b->plan.deps[at++] = mine[k] < first ? mine[k] : now[mine[k] - first];
    }
}

void lw_builder_reorder(struct lw_builder *b, int32_t first, const int32_t *order, int32_t n)
{
    close_list(b);
    close_op(b);
    if (b->failed || n == 0)
        return;
    int32_t from = lw_op_at(&b->plan, first).first_dep, n_deps = b->plan.n_deps - from;
    void *old = lw_alloc((size_t)n * held_size(b));
    int32_t *now = lw_alloc((size_t)n * sizeof *now);
    int32_t *deps = lw_alloc(((size_t)n_deps + 1) * sizeof *deps);
    b->failed = !old || !now || !deps;
    if (!b->failed) {
        memcpy(old, held_ops(b, first), (size_t)n * held_size(b));
        for (int32_t i = 0; i < n; i++)
            now[order[i]] = first + i;
        if (n_deps > 0)
            memcpy(deps, b->plan.deps + from, (size_t)n_deps * sizeof *deps);
        place_again(b, first, order, n, old);
        reorder_beside(b, b->plan.op_calls, sizeof *b->plan.op_calls, first, order, n);
        reorder_beside(b, b->plan.op_own, sizeof *b->plan.op_own, first, order, n);
        reorder_deps(b, first, n, now, from, deps);
    }
    lw_free(old);
    lw_free(now);
    lw_free(deps);
}

bool lw_builder_has_failed(const struct lw_builder *b)
{
    return b->failed;
}

struct lw_op lw_builder_op_at(const struct lw_builder *b, int32_t op)
{
    return b->failed ? lw_builder_blank(LW_OP_HOST, 0) : op_of(b, op);
}

const int32_t *lw_builder_deps_of(const struct lw_builder *b, int32_t op)
{
    return b->failed ? NULL : b->plan.deps + op_of(b, op).first_dep;
}

int32_t lw_builder_n_ops(const struct lw_builder *b)
{
    return b->plan.n_ops;
}

void lw_builder_ready(struct lw_builder *b, int32_t param)
{
    push_number(b, LW_TABLE_ready, &b->plan.ready, &b->plan.n_ready, param);
    b->list_open = true;
    if (!b->failed)
        last_op(b)->n_ready++;
}

/* --- operands ------------------------------------------------------------------------------------
 * n_operands counts those of rules too. */

/* n more operands in the row added last. */
static void count_operands(struct lw_builder *b, int32_t n)
{
    b->failed = b->failed || n > INT32_MAX - b->plan.n_operands;
    if (!b->failed)
        b->plan.n_operands += n;
}

static int32_t add_row(struct lw_builder *b, const struct lw_operand_rule *rule)
{
    int32_t row = push(b, LW_TABLE_operand_first, &b->plan.n_operands);

    b->failed = b->failed || lw_reserve(&b->plan.operand_rules, &b->rules_capacity, row + 1L,
                                        sizeof *rule) != 0;
    if (!b->failed)
        b->plan.operand_rules[row] = *rule;
    b->has_rules = b->has_rules || rule->n > 0;
    return row;
}

struct lw_operand *lw_builder_operand_room(struct lw_builder *b, int32_t n, int32_t *row)
{
    *row = add_row(b, &(struct lw_operand_rule){.at = b->n_written});
    count_operands(b, n);
    return extend(b, LW_TABLE_operands, n);
}

/* One line where lines go on in the same steps: an entry is then found without a division. */
static struct lw_operand_rule straight(struct lw_operand_rule x)
{
    if (x.width == 1)
        x.across = x.down;
    if (x.offset_down == 0 && x.down == (int64_t)x.across * x.width)
        x.width = x.n;
    return x;
}

int32_t lw_builder_operand_rule(struct lw_builder *b, const struct lw_operand_rule *rule)
{
    enum { FEW = 64 }; /* are written out: easier to read and to change */
    struct lw_operand_rule x = straight(*rule);
    int32_t row;

    if (x.n >= FEW) {
        row = add_row(b, &x);
        count_operands(b, x.n);
        return row;
    }
    struct lw_operand *to = lw_builder_operand_room(b, x.n, &row);
    for (int32_t i = 0; to && i < x.n; i++)
        to[i] = lw_rule_operand(&x, i);
    return row;
}

int32_t lw_builder_operand_row(struct lw_builder *b, const struct lw_operand *entries, int32_t n)
{
    int32_t row;
    struct lw_operand *to = lw_builder_operand_room(b, n, &row);

    for (int32_t i = 0; to && i < n; i++)
        to[i] = entries[i];
    return row;
}

void lw_builder_operand_more(struct lw_builder *b, const struct lw_operand *entry)
{
    push(b, LW_TABLE_operands, entry);
    count_operands(b, 1);
}

void lw_builder_pass(struct lw_builder *b, int32_t variant)
{
    push(b, LW_TABLE_pass_variant, &variant);
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
    push(b, LW_TABLE_notes, &kept);
}

void lw_builder_from_times(struct lw_builder *b, const char *what)
{
    const char *kept = keep(b, what);

    push(b, LW_TABLE_from_times, &kept);
}

/* Hand the tables to the plan's arena as they are, cut to their length: always a pointer, also for
 * an empty one. */
static void settle_tables(struct lw_builder *b)
{
    for (; !b->failed && b->n_settled < LW_N_TABLES; b->n_settled += !b->failed) {
        int t = b->n_settled;
        if (!grows(t) || (t == LW_TABLE_ops && b->shares) ||
            (t == LW_TABLE_works && b->shares_works))
            continue;
        void *cut = lw_realloc(items_of(b, t), (size_t)*number_of(b, t) * lw_plan_tables[t].size);
        if (cut)
            memcpy(items_at(b, t), &cut, sizeof cut);
        b->failed = !cut || lw_arena_adopt(&b->plan.arena, cut) != 0;
    }
}

static void settle_ops(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;

    close_op(b);
    if (b->failed || !b->shares)
        return;
    b->shares = false;
    if (p->n_ops > 0 && p->n_ops >= b->share_least) {
        b->failed = lw_op_rows_settle(p, &b->sharing, NULL) != LW_OK;
        return;
    }
    b->failed = lw_plan_write_ops(p, NULL) != LW_OK;
    lw_op_rows_free(p, &b->sharing);
}

static void settle_works(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;
    struct lw_work *rows = p->work_rows;
    int32_t *row = p->work_row;

    if (b->failed || !b->shares_works)
        return;
    if (p->n_ops >= b->share_least) {
        b->shares_works = false;
        b->failed = lw_work_rows_settle(p, &b->work_sharing, NULL) != LW_OK;
        return;
    }
    b->failed = lw_plan_write_works(p, NULL) != LW_OK;
    if (b->failed)
        return;
    b->shares_works = false;
    lw_free(rows);
    lw_free(row);
    lw_free(b->work_sharing.found);
}

/* NULL where all rows are written out. */
static void settle_rules(struct lw_builder *b)
{
    if (b->failed || !b->plan.operand_rules)
        return;
    if (!b->has_rules)
        lw_free(b->plan.operand_rules);
    else
        b->failed = lw_arena_adopt(&b->plan.arena, b->plan.operand_rules) != 0;
    if (!b->has_rules)
        b->plan.operand_rules = NULL;
    b->rules_settled = !b->failed;
}

/* The rules of ranks added as a grid go to the plan's arena. */
static void settle_grid(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;

    if (b->failed || b->grid.axis[0].count == 0)
        return;
    p->grid = lw_arena_alloc(&p->arena, 1, sizeof *p->grid);
    struct lw_comm_rule *comms = lw_arena_alloc(&p->arena, p->n_comms, sizeof *comms);
    b->failed = !p->grid || !comms;
    if (b->failed)
        return;
    if (b->by_rules)
        p->comm_group = p->members = NULL;
    *p->grid = b->grid;
    p->grid->comms = comms;
    p->grid->n_comms = p->n_comms;
    if (p->n_comms > 0)
        memcpy(comms, b->grid.comms, (size_t)p->n_comms * sizeof *comms);
}

static void count_ranks(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;

    if (b->by_rules) {
        for (int32_t r = 0; !b->failed && r < p->n_roles; r++)
            p->roles[r].n_ranks = p->n_ranks / p->n_roles;
        return;
    }
    make_ranks(b);
    p->index_in_role = lw_arena_alloc(&p->arena, p->n_ranks, sizeof *p->index_in_role);
    b->failed = b->failed || !p->index_in_role;
    for (int32_t r = 0; !b->failed && r < p->n_ranks; r++)
        p->index_in_role[r] = p->roles[p->role_of[r]].n_ranks++;
}

static void count(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;

    count_ranks(b);
    for (int32_t v = 0; !b->failed && v < p->n_variants; v++)
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
    close_work(b);
    clear_groups(b);
    settle_tables(b);
    settle_works(b);
    settle_ops(b);
    settle_rules(b);
    settle_grid(b);
    count(b);
    b->plan.workload_hash = b->plan.cluster_name = b->plan.device = "";
    b->plan.framework = b->plan.framework_hash = b->plan.optimizer = "";
    enum lw_status s = b->failed  ? lw_fail_nomem(err)
                       : b->draft ? LW_OK
                                  : lw_plan_hash(&b->plan, err);
    if (s == LW_OK) {
        *plan = b->plan;
        b->plan.arena = (struct lw_arena){0};
    }
    lw_builder_free(b);
    return s;
}
