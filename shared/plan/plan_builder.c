/* Builds a plan: tables grow by doubling while pieces are added, and go to one arena at the end
 * (builder_finish.c). The first failure sticks; later additions do nothing. */
#include "shared/plan/builder_inside.h"
#include "shared/plan/plan_builder.h"
#include "shared/plan/shard_runs.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/buffer.h"
#include "shared/workload/product.h"
#include "shared/workload/sparse.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void *lw_builder_extend(struct lw_builder *b, enum lw_plan_table_id t, int32_t n)
{
    size_t size = lw_plan_tables[t].size;
    int32_t *have = lw_builder_number(b, t);

    b->failed =
        b->failed || n > INT32_MAX - *have ||
        lw_reserve(lw_builder_items_at(b, t), &b->capacity[t], *have + (int64_t)n, size) != 0;
    if (b->failed)
        return NULL;
    char *items = (char *)lw_builder_items(b, t) + (size_t)*have * size;
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

/* As keep, but a name that ops share is kept once: often that of the last one. */
const char *lw_builder_keep_word(struct lw_builder *b, const char *s)
{
    if (!s || !*s || b->failed)
        return "";
    if (b->last_word && strcmp(b->last_word, s) == 0)
        return b->last_word;
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
    b->last_word = *slot;
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
        b->failed =
            b->failed || lw_reserve(lw_builder_items_at(b, tables[i]), &b->capacity[tables[i]],
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
    b->failed =
        b->failed || n > INT32_MAX ||
        lw_reserve(lw_builder_items_at(b, t), &b->capacity[t], n, lw_plan_tables[t].size) != 0;
}

/* Of shards: the plan holds no whole ones. */
static bool has_runs(const struct lw_builder *b)
{
    return b->plan.n_ranks >= LW_GRID_LARGE;
}

void lw_builder_expect_shards(struct lw_builder *b, int64_t n)
{
    if (!b->draft && n > 0 && !has_runs(b))
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
        if (lw_table_grows(t))
            lw_free(lw_builder_items(b, t));
    if (!b->rules_settled)
        lw_free(b->plan.operand_rules);
    if (!b->runs_settled)
        lw_free(b->plan.shard_runs);
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
    return lw_builder_push(b, LW_TABLE_roles, &r);
}

/* The tables of ranks, by the grid's axes where there are some. */
void lw_builder_make_ranks(struct lw_builder *b)
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
    lw_builder_make_ranks(b);
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
        lw_builder_make_ranks(b);
}

int32_t lw_builder_stream(struct lw_builder *b, const char *name, enum lw_stream_class c,
                          int32_t priority)
{
    struct lw_stream s = {keep(b, name), c, priority};

    return lw_builder_push(b, LW_TABLE_streams, &s);
}

/* Room for the ranks of as many classes as most plans have: tables of ranks that grow are copied,
 * and their old copies stay resident. Room that is not used is not resident. */
static void expect_classes(struct lw_builder *b)
{
    enum { USUAL = 8 };
    const enum lw_plan_table_id tables[] = {LW_TABLE_members, LW_TABLE_comm_group};

    for (int i = 0; i < 2 && !b->by_rules; i++)
        b->failed =
            b->failed || lw_reserve(lw_builder_items_at(b, tables[i]), &b->capacity[tables[i]],
                                    USUAL * (int64_t)b->plan.n_ranks, sizeof(int32_t)) != 0;
}

/* From now on ranks, members and groups of ranks are in tables, also those of rules so far. */
static void write_rules(struct lw_builder *b)
{
    int32_t n_ranks = b->plan.n_ranks;

    lw_builder_make_ranks(b);
    for (int32_t c = 0; b->by_rules && c < b->plan.n_comms; c++) {
        const struct lw_comm_rule *x = &b->grid.comms[c];
        int32_t n = x->n_groups * x->n_members,
                *groups = lw_builder_extend(b, LW_TABLE_comm_group, n_ranks);
        int32_t *members = lw_builder_extend(b, LW_TABLE_members, n);
        if (!groups || !members || n == 0)
            continue;
        lw_group_parts_write(b->grid.axis, x, 0, groups, n_ranks);
        lw_digits_write(&x->ranks, 0, members, n);
    }
    b->by_rules = false;
}

/* All ranks are outside the groups of the class added last, unless a rule has written them. */
void lw_builder_clear_groups(struct lw_builder *b)
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
    lw_builder_clear_groups(b);
    int32_t number = lw_builder_push(b, LW_TABLE_comms, &c);
    if (number == 0)
        expect_classes(b);
    if (!b->by_rules)
        lw_builder_extend(b, LW_TABLE_comm_group, b->plan.n_ranks);
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
    lw_builder_clear_groups(b);
    write_rules(b);
    b->grid.comms[comm].n_groups = 0; /* more than a rule says */
    int32_t number = lw_builder_push(b, LW_TABLE_groups, &g);
    int32_t *of = b->plan.comm_group + (int64_t)comm * b->plan.n_ranks;
    int32_t *to = lw_builder_extend(b, LW_TABLE_members, n);
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
    int32_t at = p->n_members, each = x->n_members, n = x->n_groups * each;
    struct lw_group *groups = lw_builder_extend(b, LW_TABLE_groups, x->n_groups);
    int32_t *members = b->by_rules ? NULL : lw_builder_extend(b, LW_TABLE_members, n);

    b->failed = b->failed || n > INT32_MAX - at;
    if (b->failed)
        return;
    p->n_members += n;
    for (int32_t g = 0; g < x->n_groups; g++, at += each)
        groups[g] = (struct lw_group){at, each};
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
    bool same = before && p->name && strcmp(before->name, p->name) == 0;
    const char *name = same ? before->name : keep(b, p->name);
    int32_t number = lw_builder_push(b, LW_TABLE_params, p);

    if (!b->failed)
        b->plan.params[number].name = name;
    return number;
}

int32_t lw_builder_buffer(struct lw_builder *b, const struct lw_buffer *p)
{
    struct lw_buffer copy = *p;

    copy.name = keep(b, p->name);
    return lw_builder_push(b, LW_TABLE_buffers, &copy);
}

int32_t lw_builder_module(struct lw_builder *b, int32_t stage)
{
    return lw_builder_push(b, LW_TABLE_stage_of, &stage);
}

void lw_builder_sparse(struct lw_builder *b, const struct lw_sparse *x)
{
    lw_builder_push(b, LW_TABLE_sparse, x);
}

void lw_builder_whole(struct lw_builder *b, int32_t param)
{
    lw_builder_push(b, LW_TABLE_whole, &param);
}

int32_t lw_builder_set(struct lw_builder *b, enum lw_bucket_kind kind, const char *name,
                       int32_t stage)
{
    struct lw_bucket_set s = {.name = keep(b, name ? name : lw_bucket_kind_name(kind)),
                              .stage = stage,
                              .first_bucket = b->plan.n_buckets,
                              .kind = (int32_t)kind};

    return lw_builder_push(b, LW_TABLE_sets, &s);
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
    int32_t number = lw_builder_push(b, LW_TABLE_buckets, &copy);
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
        lw_builder_push(b, LW_TABLE_offsets, &at);
        at += i + 1 < k->n_slots ? numel_of(b, params[i]) : 0;
    }
}

int32_t *lw_builder_slot_room(struct lw_builder *b, int32_t n)
{
    int32_t *to = lw_builder_extend(b, LW_TABLE_slots, n);

    if (!to)
        return NULL;
    assert(b->slot_end == 0);
    b->plan.buckets[b->plan.n_buckets - 1].n_slots = n;
    b->slot_end = -1;
    return to;
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
        lw_builder_push(b, LW_TABLE_offsets, &s->offset);
    lw_builder_push_number(b, LW_TABLE_slots, &b->plan.slots, &b->plan.n_slots, s->param);
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

static void add_run(struct lw_builder *b, const struct lw_shard *first, int32_t n)
{
    struct lw_plan *p = &b->plan;

    b->failed = b->failed || n > INT32_MAX - p->n_shards ||
                lw_reserve(&p->shard_runs, &b->runs_capacity, p->n_shard_runs + 1L,
                           sizeof *p->shard_runs) != 0;
    if (b->failed)
        return;
    p->shard_runs[p->n_shard_runs++] = (struct lw_shard_run){*first, n};
    p->n_shards += n;
}

static void add_whole(struct lw_builder *b, const struct lw_shard_run *x)
{
    struct lw_shard *to = lw_builder_extend(b, LW_TABLE_shards, x->n);

    for (int32_t i = 0; to && i < x->n; i++)
        to[i] = lw_shard_of_run(x, i);
    b->plan.n_shards = b->n_whole_shards;
}

void lw_builder_shard(struct lw_builder *b, const struct lw_shard *s)
{
    lw_builder_shards(b, s, 1);
}

void lw_builder_shards(struct lw_builder *b, const struct lw_shard *first, int32_t n)
{
    if (n == 0 || (b->draft && first->owner > 0 && b->plan.n_shards > 0))
        return; /* one at least: that there are shards is known by their number */
    n = b->draft ? 1 : n; /* those of other owners are left out */
    if (has_runs(b))
        add_run(b, first, n);
    else
        add_whole(b, &(struct lw_shard_run){*first, n});
}

/* The work added last gets its row. */
void lw_builder_close_work(struct lw_builder *b)
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
        return lw_builder_push(b, LW_TABLE_works, &mine);
    lw_builder_close_work(b);
    b->work = mine;
    b->work_open = true;
    return b->plan.n_works;
}

void lw_builder_product(struct lw_builder *b, const struct lw_product *p)
{
    lw_builder_push(b, LW_TABLE_products, p);
}

void lw_builder_work_product(struct lw_builder *b, int32_t product)
{
    lw_builder_push(b, LW_TABLE_work_products, &product);
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
    int32_t number = lw_builder_push(b, LW_TABLE_variants, &v);

    for (int32_t r = 0; r < b->plan.n_roles; r++)
        lw_builder_push(b, LW_TABLE_programs, &(struct lw_program){0, 0});
    return number;
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
    int32_t row = lw_builder_push(b, LW_TABLE_operand_first, &b->plan.n_operands);

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
    return lw_builder_extend(b, LW_TABLE_operands, n);
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
    lw_builder_push(b, LW_TABLE_operands, entry);
    count_operands(b, 1);
}

void lw_builder_pass(struct lw_builder *b, int32_t variant)
{
    lw_builder_push(b, LW_TABLE_pass_variant, &variant);
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
    lw_builder_push(b, LW_TABLE_notes, &kept);
}

void lw_builder_from_times(struct lw_builder *b, const char *what)
{
    const char *kept = keep(b, what);

    lw_builder_push(b, LW_TABLE_from_times, &kept);
}
