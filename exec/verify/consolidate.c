/* Consolidation, as FairScale's OSS.consolidate_state_dict does it: one member after the other
 * broadcasts what it owns in its data group, and the recipient keeps all of it, its own part
 * without sending it (facebookresearch/fairscale, fairscale/optim/oss.py). A part is flat: shard by
 * shard in the order of the plan, array by array. The result is laid out as each rank's own state
 * is: by parameter as registered, whatever the sharding was. Outside of steps, so not timed. */
#include "exec/verify/consolidate.h"

struct gather {
    const struct exec_tensors *m;
    const struct exec_meeting *meeting;
    const struct lw_group *group; /* NULL: the rank alone */
    int32_t rank, n_arrays;
    float *whole;
};

int32_t exec_state_arrays(const struct exec_tensors *m)
{
    return exec_optimizer_states(m->optimizer.kind) + m->has_masters;
}

static float *array_of(const struct exec_tensors *m, int32_t rank, int32_t k)
{
    return k < exec_optimizer_states(m->optimizer.kind) ? m->ranks[rank].state[k]
                                                        : m->ranks[rank].masters;
}

static bool is_local(const struct gather *g, int32_t rank)
{
    return rank >= g->m->facts.first_local && rank < g->m->facts.first_local + g->m->facts.n_local;
}

/* Shards that the member owns alone. */
static bool owns(const struct gather *g, int32_t shard, int32_t member)
{
    const struct lw_shard *s = &g->m->plan->shards[shard];

    return s->owner == member && exec_param_is_here(g->m->plan, s->param, g->rank);
}

static int64_t owned_elements(const struct gather *g, int32_t member)
{
    int64_t n = 0;

    for (int32_t s = 0; s < g->m->plan->n_shards; s++)
        n += owns(g, s, member) ? g->m->plan->shards[s].numel : 0;
    return n * g->n_arrays;
}

/* What the member owns of rank `from`'s arrays, flat. */
static enum lw_status pack(const struct gather *g, int32_t member, int32_t from, float *flat,
                           struct lw_err *err)
{
    const struct exec_tensors *m = g->m;

    for (int32_t i = 0; i < m->plan->n_shards; i++) {
        const struct lw_shard *s = &m->plan->shards[i];
        for (int32_t k = 0; owns(g, i, member) && k < g->n_arrays; k++, flat += s->numel)
            LW_TRY(m->backend->mem_read(m->world, from, flat,
                                        array_of(m, from, k) + m->state_at[s->param] + s->first,
                                        s->numel * 4, err));
    }
    return LW_OK;
}

static void unpack(const struct gather *g, int32_t member, const float *flat)
{
    for (int32_t i = 0; i < g->m->plan->n_shards; i++) {
        const struct lw_shard *s = &g->m->plan->shards[i];
        for (int32_t k = 0; owns(g, i, member) && k < g->n_arrays; k++, flat += s->numel)
            memcpy(g->whole + k * g->m->n_state + g->m->state_at[s->param] + s->first, flat,
                   (size_t)s->numel * sizeof *flat);
    }
}

/* --- one member's part ------------------------------------------------------------------------ */

static enum lw_status wait(const struct gather *g, struct lw_err *err)
{
    const struct exec_backend *b = g->m->backend;
    struct lw_err why = {0};

    LW_TRY(b->release(g->m->world, err));
    switch (b->poll(g->m->world, b->now_ns(g->m->world) + g->meeting->timeout_ns, &why)) {
    case EXEC_DONE:
        return LW_OK;
    case EXEC_FAILED:
        return lw_fail(err, LW_EFAILED, "consolidating: %.200s", why.msg);
    default:
        return lw_fail(err, LW_ETIMEOUT, "consolidating: not done after %.3g s (--timeout)",
                       (double)g->meeting->timeout_ns * 1e-9);
    }
}

/* mem[i]: of member i, where it lives here. */
static enum lw_status broadcast(const struct gather *g, int32_t member, int64_t n, void **mem,
                                struct lw_err *err)
{
    const struct exec_tensors *m = g->m;
    const int32_t *members = m->plan->members + g->group->first_member;

    m->backend->hold(m->world);
    for (int32_t i = 0; i < g->group->n_members; i++) {
        struct exec_transfer x = {LW_OP_BROADCAST, {mem[i], n, LW_F32, members[member]}, NULL};
        if (is_local(g, members[i]))
            LW_TRY(m->backend->communicate(g->meeting->streams[members[i]], g->meeting->comm, &x, 1,
                                           err));
    }
    return wait(g, err);
}

static enum lw_status pass_on(const struct gather *g, int32_t member, int64_t n, float *flat,
                              void **mem, struct lw_err *err)
{
    const struct exec_tensors *m = g->m;
    const int32_t *members = m->plan->members + g->group->first_member;
    int32_t recipient = m->member.data[g->rank];

    for (int32_t i = 0; i < g->group->n_members; i++)
        if (is_local(g, members[i]))
            LW_TRY(m->backend->mem_alloc(m->world, members[i], n * 4, &mem[i], err));
    if (is_local(g, members[member])) {
        LW_TRY(pack(g, member, members[member], flat, err));
        LW_TRY(m->backend->mem_write(m->world, members[member], mem[member], flat, n * 4, err));
    }
    LW_TRY(broadcast(g, member, n, mem, err));
    if (!g->whole)
        return LW_OK;
    LW_TRY(m->backend->mem_read(m->world, g->rank, flat, mem[recipient], n * 4, err));
    unpack(g, member, flat);
    return LW_OK;
}

static enum lw_status take_part(const struct gather *g, int32_t member, struct lw_err *err)
{
    const struct exec_tensors *m = g->m;
    int32_t n_members = g->group ? g->group->n_members : 1;
    bool own = member == m->member.data[g->rank];
    int64_t n = owned_elements(g, member);

    if (n == 0 || (own && !g->whole))
        return LW_OK;
    float *flat = lw_alloc((size_t)n * sizeof *flat);
    void **mem = lw_calloc((size_t)n_members, sizeof *mem);
    enum lw_status s = flat && mem ? LW_OK : lw_fail_nomem(err);
    if (s == LW_OK && own) {
        s = pack(g, member, g->rank, flat, err);
        if (s == LW_OK)
            unpack(g, member, flat);
    } else if (s == LW_OK) {
        s = pass_on(g, member, n, flat, mem, err);
    }
    for (int32_t i = 0; mem && s == LW_OK && i < n_members; i++)
        if (mem[i])
            m->backend->mem_free(m->world, lw_plan_member_at(m->plan, g->group->first_member + i),
                                 mem[i]);
    lw_free(mem);
    lw_free(flat);
    return s;
}

/* --- all -------------------------------------------------------------------------------------- */

/* What every member has: no shard of it has an owner. */
static enum lw_status take_common(const struct gather *g, struct lw_err *err)
{
    const struct exec_tensors *m = g->m;

    for (int32_t a = 0; g->whole && a < m->plan->n_params; a++)
        for (int32_t k = 0; k < g->n_arrays && m->plan->params[a].numel > 0; k++)
            if (exec_param_is_here(m->plan, a, g->rank) && !m->sharded[a])
                LW_TRY(m->backend->mem_read(
                    m->world, g->rank, g->whole + k * m->n_state + m->state_at[a],
                    array_of(m, g->rank, k) + m->state_at[a], m->plan->params[a].numel * 4, err));
    return LW_OK;
}

static const struct lw_group *data_group(const struct lw_plan *p, int32_t rank)
{
    for (int32_t c = 0; c < p->n_comms; c++)
        if (p->comms[c].purpose == LW_COMM_DATA && lw_plan_group(p, c, rank))
            return lw_plan_group(p, c, rank);
    return NULL;
}

enum lw_status exec_consolidate(const struct exec_tensors *m, const struct exec_meeting *meeting,
                                int32_t rank, float **whole, struct lw_err *err)
{
    struct gather g = {.m = m,
                       .meeting = meeting,
                       .rank = rank,
                       .n_arrays = exec_state_arrays(m),
                       .group = data_group(m->plan, rank)};

    if (is_local(&g, rank)) {
        LW_NEW(g.whole, (g.n_arrays * m->n_state) + 1, err);
    }
    enum lw_status s = take_common(&g, err);
    for (int32_t i = 0; i < (g.group ? g.group->n_members : 1) && s == LW_OK; i++)
        s = take_part(&g, i, err);
    if (s != LW_OK) {
        lw_free(g.whole);
        return s;
    }
    *whole = g.whole;
    return LW_OK;
}
