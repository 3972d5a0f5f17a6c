/* Merged neighbours. A block is a set of units that is entered at one and left at one: each but the
 * first waits for units of the block alone, for each but the last units of the block wait and no
 * others, and all lead to the last. So when the block is entered all its times are known, and
 * nobody else sees them before it is left: one event. A module's forward is one (compute and tensor
 * sums in turn), and so is its backward, where a sum runs beside the gradients of weights.
 *
 * Blocks are found greedily: from a unit on, the block at hand grows by the least unit that waits
 * for nothing else, and may end wherever all edges out of the block leave the last unit. It grows
 * only so far in search of such an end, so the search is linear in the edges.
 *
 * Where collectives hold SMs of their rank, compute beside them is slower. A block that holds some
 * must order the rank's compute: all of it is on one stream, of which the block has an op. What is
 * on that stream before and after the block then runs before its first op and after its last, since
 * no edge leads into or out of it in between.
 *
 * Layers and micro-batches repeat, and so do blocks: those with alike ops in the same order and the
 * same edges have one shape, whose edges and time are held once.
 *
 * Not merged: ops of several ranks or passes, and those that others wait for in between. */
#include "sim/engine/merge_ops.h"

#include <string.h>

enum {
    LOOK_AHEAD = 24,  /* units beyond the last end that was found */
    MOST_BESIDE = 256 /* units of a block that runs again where what holds SMs changes */
};

struct merging {
    const struct sim_program *p;
    const uint8_t *facts;
    const int32_t *like;
    bool contention;
    int32_t *from_block; /* [n_units]: edges from the block at hand into a unit */
    int32_t *block;      /* [n_units]: its units, each after those that it waits for */
    int32_t *can_follow, n_can_follow; /* [n_units]: units that wait for those alone */
    int32_t *of;            /* [n_units]: the merged unit that holds it; -1 = none yet */
    int32_t *place;         /* [n_units]: in the merged unit */
    int32_t *units, *first; /* of merged unit k, units[first[k]] .. */
    int32_t n;              /* merged units */
    int32_t *shape;         /* [n]: the struct sim_merged of k; -1 = its only unit is not merged */
    int32_t n_shapes;
};

static int32_t n_next(const struct sim_program *p, int32_t u)
{
    return p->first_next[u + 1] - p->first_next[u];
}

/* The block at hand ends with u. false: it can grow no further, an edge leads to what never joins
 * it. */
static bool add(struct merging *m, int32_t u)
{
    bool grows = m->facts[u] & SIM_ALONE;

    for (int32_t i = m->p->first_next[u]; i < m->p->first_next[u + 1]; i++) {
        int32_t v = m->p->next[i];
        grows &= m->facts[v] & SIM_ALONE && m->of[v] < 0;
        if (++m->from_block[v] == m->p->wait[v])
            m->can_follow[m->n_can_follow++] = v;
    }
    return grows;
}

static int32_t take_least(struct merging *m)
{
    int32_t least = 0;

    for (int32_t i = 1; i < m->n_can_follow; i++)
        least = m->can_follow[i] < m->can_follow[least] ? i : least;
    int32_t u = m->can_follow[least];
    m->can_follow[least] = m->can_follow[--m->n_can_follow];
    return u;
}

/* All that may join the block ends with u, and the one that waits for u waits for nothing else: it
 * is next, and no edge must be counted. -1: not so. */
static int32_t only_next(const struct merging *m, int32_t u)
{
    int32_t at = m->p->first_next[u];

    return m->n_can_follow == 0 && m->p->first_next[u + 1] == at + 1 &&
                   m->p->wait[m->p->next[at]] == 1
               ? m->p->next[at]
               : -1;
}

/* A block may be entered at u and left later: no edge leads from u to what never joins one. */
static bool may_begin(const struct merging *m, int32_t u)
{
    if (!(m->facts[u] & SIM_ALONE))
        return false;
    for (int32_t i = m->p->first_next[u]; i < m->p->first_next[u + 1]; i++)
        if (!(m->facts[m->p->next[i]] & SIM_ALONE))
            return false;
    return true;
}

/* And to none that is in one. */
static bool may_grow(const struct merging *m, int32_t u)
{
    if (!(m->facts[u] & SIM_ALONE))
        return false;
    for (int32_t i = m->p->first_next[u]; i < m->p->first_next[u + 1]; i++)
        if (!(m->facts[m->p->next[i]] & SIM_ALONE) || m->of[m->p->next[i]] >= 0)
            return false;
    return true;
}

/* Some units may be the first of several in a block. */
static bool may_merge(const struct merging *m)
{
    for (int32_t u = 0; u < m->p->n_units; u++)
        if (n_next(m->p, u) > 0 && may_begin(m, u))
            return true;
    return false;
}

/* The longest block from u on; its units are the first of m->block. */
static int32_t grow(struct merging *m, int32_t u)
{
    int32_t n = 1, longest = 1, n_ends = 0;
    int64_t leave = 0; /* edges out of the block from all but its last unit */

    m->block[0] = u;
    if (!may_grow(m, u))
        return 1;
    m->n_can_follow = 0;
    while (n - longest < LOOK_AHEAD && !(m->contention && n == MOST_BESIDE)) {
        int32_t v = only_next(m, u);
        if (v >= 0) {
            if (!(m->facts[u] & m->facts[v] & SIM_ALONE) || m->of[v] >= 0)
                break;
        } else {
            if (!add(m, u) || m->n_can_follow == 0)
                break;
            v = take_least(m);
            n_ends += n_next(m->p, u) == 0;
            leave += n_next(m->p, u) - m->p->wait[v];
        }
        u = m->block[n++] = v;
        longest = leave == 0 && n_ends == 0 ? n : longest;
    }
    /* edges of units before the last lead into the block */
    for (int32_t i = longest - 1; i < n; i++)
        for (int32_t k = m->p->first_next[m->block[i]]; k < m->p->first_next[m->block[i] + 1]; k++)
            m->from_block[m->p->next[k]] = 0;
    return longest;
}

/* No compute outside of the n units of the block at hand may run beside one that holds SMs. */
static bool may_hold(const struct merging *m, int32_t n)
{
    int all = 0;

    for (int32_t i = 0; m->contention && i < n; i++)
        all |= m->facts[m->block[i]];
    return !(all & SIM_HOLDS) || (all & SIM_ORDERS);
}

static void find_blocks(struct merging *m)
{
    int32_t at = 0;

    memset(m->of, 0xff, (size_t)m->p->n_units * sizeof *m->of);
    for (int32_t u = 0; u < m->p->n_units; u++) {
        if (m->of[u] >= 0)
            continue;
        int32_t n = grow(m, u);
        n = may_hold(m, n) ? n : 1;
        m->first[m->n] = at;
        for (int32_t i = 0; i < n; i++) {
            m->of[m->block[i]] = m->n;
            m->place[m->block[i]] = i;
            m->units[at++] = m->block[i];
        }
        m->n++;
    }
    m->first[m->n] = at;
}

/* At least one, so that no column is empty. */
#define TAKE(arena, pointer, n) LW_TAKE(arena, pointer, (int64_t)(n) + 1, err)

static int32_t n_units_in(const struct merging *m, int32_t k)
{
    return m->first[k + 1] - m->first[k];
}

/* The units that wait for unit i of block k, in it, at as many places from its first as those of
 * block j. */
static bool leads_alike(const struct merging *m, int32_t k, int32_t j, int32_t i)
{
    const struct sim_program *p = m->p;
    int32_t u = m->units[m->first[k] + i], v = m->units[m->first[j] + i], n = n_next(p, u);

    if (n_next(p, v) != n)
        return false;
    for (int32_t e = 0; e < n; e++)
        if (m->place[p->next[p->first_next[u] + e]] != m->place[p->next[p->first_next[v] + e]])
            return false;
    return true;
}

static bool has_shape_of(const struct merging *m, int32_t k, int32_t j)
{
    int32_t n = n_units_in(m, k);

    if (n_units_in(m, j) != n)
        return false;
    for (int32_t i = 0; i < n; i++)
        if (m->like[m->units[m->first[k] + i]] != m->like[m->units[m->first[j] + i]] ||
            (i + 1 < n && !leads_alike(m, k, j, i)))
            return false;
    return true;
}

static uint64_t hash_of(const struct merging *m, int32_t k)
{
    uint64_t x = 0;

    for (int32_t i = m->first[k]; i < m->first[k + 1]; i++)
        x = (x + (uint64_t)m->like[m->units[i]]) * UINT64_C(0x9e3779b97f4a7c15);
    return x >> 32;
}

/* Blocks as one of these, the last one of a hash, have its shape: most of a program do. */
static void find_shapes(struct merging *m)
{
    enum { LATELY = 256 };
    int32_t lately[LATELY];

    memset(lately, 0xff, sizeof lately);
    for (int32_t k = 0; k < m->n; k++) {
        m->shape[k] = -1;
        if (n_units_in(m, k) < 2)
            continue;
        int32_t *last = &lately[hash_of(m, k) % LATELY];
        bool known = *last >= 0 && has_shape_of(m, k, *last);
        m->shape[k] = known ? m->shape[*last] : m->n_shapes++;
        *last = k;
    }
}

static void fill_parts(const struct merging *m, int32_t k, struct sim_program *out)
{
    const struct sim_program *p = m->p;
    int32_t part = out->first_part[k];

    for (int32_t i = m->first[k]; i < m->first[k + 1]; i++) {
        int32_t u = m->units[i];
        for (int32_t at = sim_first_part(p, u); at < sim_first_part(p, u + 1); at++)
            out->parts[part++] = sim_part(p, at);
    }
    out->first_part[k + 1] = part;
}

/* Where the edges of merged units are written next. */
struct inner_cursor {
    int32_t first_inner, inner;
};

/* The edges between the parts by their places in the unit; those of the last lead out of it. */
static void fill_inner(const struct merging *m, int32_t k, struct inner_cursor *at,
                       struct sim_program *out)
{
    const struct sim_program *p = m->p;
    int32_t end = m->first[k + 1];

    out->merged[out->n_merged++].first_inner = at->first_inner;
    for (int32_t i = m->first[k]; i < end; i++) {
        int32_t u = m->units[i];
        out->first_inner[at->first_inner++] = at->inner;
        for (int32_t e = p->first_next[u]; i + 1 < end && e < p->first_next[u + 1]; e++)
            out->inner[at->inner++] = m->place[p->next[e]];
    }
    out->first_inner[at->first_inner++] = at->inner;
}

static void fill_unit(const struct merging *m, int32_t k, struct inner_cursor *at,
                      struct sim_program *out)
{
    const struct sim_program *p = m->p;
    int32_t n = n_units_in(m, k), last = m->units[m->first[k] + n - 1];
    int32_t next = out->first_next[k];

    fill_parts(m, k, out);
    for (int32_t i = p->first_next[last]; i < p->first_next[last + 1]; i++)
        out->next[next++] = m->of[p->next[i]];
    out->first_next[k + 1] = next;
    out->wait[k] = p->wait[m->units[m->first[k]]];
    if (out->wait[k] == 0)
        out->roots[out->n_roots++] = k;
    if (out->merged_of)
        out->merged_of[k] = m->shape[k];
    out->most_merged = n > 1 && n > out->most_merged ? n : out->most_merged;
    if (m->shape[k] == out->n_merged) /* the first of its shape */
        fill_inner(m, k, at, out);
}

/* What a program of merged units has, so that each column is as long as it must be. */
struct sizes {
    int64_t outer, inner, first_inner;
    int32_t roots;
};

static struct sizes measure(const struct merging *m)
{
    struct sizes x = {0};
    int32_t n_shapes = 0;

    for (int32_t k = 0; k < m->n; k++) {
        int32_t n = n_units_in(m, k);
        x.outer += n_next(m->p, m->units[m->first[k + 1] - 1]);
        x.roots += m->p->wait[m->units[m->first[k]]] == 0;
        if (m->shape[k] != n_shapes)
            continue;
        n_shapes++;
        x.first_inner += n + 1;
        for (int32_t i = m->first[k]; i + 1 < m->first[k + 1]; i++)
            x.inner += n_next(m->p, m->units[i]);
    }
    return x;
}

static enum lw_status copy(const int32_t *from, int64_t n, struct lw_arena *arena, int32_t **to,
                           struct lw_err *err)
{
    *to = lw_arena_room(arena, n + 1, sizeof **to);
    if (!*to)
        return lw_fail_nomem(err);
    memcpy(*to, from, (size_t)n * sizeof **to);
    return LW_OK;
}

/* Where nothing is merged, block k is unit k. */
static enum lw_status fill_as_is(const struct sim_program *p, struct lw_arena *arena,
                                 struct sim_program *out, struct lw_err *err)
{
    int32_t n_roots = 0;

    for (int32_t u = 0; u < p->n_units; u++)
        n_roots += p->wait[u] == 0;
    out->n_units = p->n_units;
    if (p->first_part) {
        LW_TRY(copy(p->first_part, p->n_units + INT64_C(1), arena, &out->first_part, err));
        LW_TRY(copy(p->parts, p->n_ops, arena, &out->parts, err));
    }
    LW_TRY(copy(p->wait, p->n_units, arena, &out->wait, err));
    LW_TRY(copy(p->first_next, p->n_units + INT64_C(1), arena, &out->first_next, err));
    LW_TRY(copy(p->next, p->first_next[p->n_units], arena, &out->next, err));
    TAKE(arena, out->roots, n_roots);
    for (int32_t u = 0; u < p->n_units; u++)
        if (p->wait[u] == 0)
            out->roots[out->n_roots++] = u;
    return LW_OK;
}

static enum lw_status fill(const struct merging *m, struct lw_arena *arena, struct sim_program *out,
                           struct lw_err *err)
{
    struct inner_cursor at = {0, 0};

    if (m->n_shapes == 0)
        return fill_as_is(m->p, arena, out, err);
    const struct sizes size = measure(m);
    out->n_units = m->n;
    TAKE(arena, out->first_part, m->n);
    TAKE(arena, out->parts, m->p->n_ops);
    TAKE(arena, out->wait, m->n);
    TAKE(arena, out->first_next, m->n);
    TAKE(arena, out->next, size.outer);
    TAKE(arena, out->roots, size.roots);
    TAKE(arena, out->merged_of, m->n);
    TAKE(arena, out->merged, m->n_shapes);
    TAKE(arena, out->first_inner, size.first_inner);
    TAKE(arena, out->inner, size.inner);
    for (int32_t k = 0; k < m->n; k++)
        fill_unit(m, k, &at, out);
    return LW_OK;
}

static enum lw_status merge(struct merging *m, struct lw_arena *temporary, struct lw_arena *arena,
                            struct sim_program *out, struct lw_err *err)
{
    int32_t *columns[7], n = m->p->n_units; /* written before they are read */

    if (!may_merge(m))
        return fill_as_is(m->p, arena, out, err);
    TAKE(temporary, m->from_block, n);
    for (int i = 0; i < 7; i++) {
        columns[i] = lw_arena_room(temporary, n + INT64_C(1), sizeof *columns[i]);
        if (!columns[i])
            return lw_fail_nomem(err);
    }
    m->block = columns[0];
    m->can_follow = columns[1];
    m->place = columns[2];
    m->of = columns[3];
    m->units = columns[4];
    m->first = columns[5];
    m->shape = columns[6];
    find_blocks(m);
    find_shapes(m);
    return fill(m, arena, out, err);
}

enum lw_status sim_program_merge(const struct sim_program *p, const uint8_t *facts,
                                 const int32_t *like, bool contention, struct lw_arena *arena,
                                 struct sim_program *out, struct lw_err *err)
{
    struct merging m = {.p = p, .facts = facts, .like = like, .contention = contention};
    struct sim_program made = {.first_op = p->first_op, .n_ops = p->n_ops};
    struct lw_arena temporary = {0};

    enum lw_status status = merge(&m, &temporary, arena, &made, err);
    lw_arena_free(&temporary);
    if (status == LW_OK)
        *out = made;
    return status;
}
