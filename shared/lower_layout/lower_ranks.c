/* Ranks over pipeline, data and tensor coordinates: their order, roles, streams, communicators, and
 * rows of operands for what ranks of a role do not share.
 *
 * Invariants: a role's ranks ascend; a data group's members ascend by data coordinate, those of
 * the second direction's pipeline rank after those of the first; the rank with the same data and
 * tensor coordinate is the peer on another pipeline rank. Classes are made in ColossalAI's
 * creation order: data, model, pipeline, tensor. */
#include <stdio.h>

#include "shared/lower_layout/lowering.h"
#include "shared/plan/grid_rule.h"
#include "shared/workload/sparse.h"

/* --- coordinates ----------------------------------------------------------------------------- */

enum lw_status lw_lower_axes(struct lw_lowering *l, struct lw_err *err)
{
    const struct lw_strategy *s = l->s;
    bool colossal = s->rank_order == LW_RANKS_COLOSSAL;
    struct lw_rank_grid axes;

    l->cp = (int32_t)s->cp;
    l->ep = (int32_t)s->ep;
    l->dp = (int32_t)(s->dp * s->cp);
    l->pp = (int32_t)s->pp;
    l->tp = (int32_t)s->tp;
    l->n_ranks = l->dp * l->pp * l->tp;
    if (s->rank_order == LW_RANKS_HAISCALE && !lw_is_plain(l))
        return lw_fail(err, LW_ENOTSUP,
                       "--rank-order haiscale: HaiScale numbers data-parallel ranks "
                       "alone; --pp and --tp need megatron or colossal");
    LW_TRY(colossal ? lw_rank_grid_colossal(l->n_ranks, l->pp, l->tp, &axes, err)
                    : lw_rank_grid_megatron(l->n_ranks, l->pp, l->tp, &axes, err));
    l->stride_tp = lw_rank_grid_stride(
        &axes, colossal ? (int32_t)LW_COLOSSAL_TENSOR : (int32_t)LW_MEGATRON_TENSOR);
    l->stride_pp = lw_rank_grid_stride(
        &axes, colossal ? (int32_t)LW_COLOSSAL_PIPELINE : (int32_t)LW_MEGATRON_PIPELINE);
    l->stride_dp = lw_rank_grid_stride(
        &axes, colossal ? (int32_t)LW_COLOSSAL_DATA : (int32_t)LW_MEGATRON_DATA);
    return LW_OK;
}

int32_t lw_rank_at(const struct lw_lowering *l, int32_t dp, int32_t pp, int32_t tp)
{
    return dp * l->stride_dp + pp * l->stride_pp + tp * l->stride_tp;
}

int32_t lw_data_group(const struct lw_lowering *l, int32_t stage, int32_t tp, int32_t *members)
{
    int32_t n = 0;

    for (int32_t d = 0; d < l->dp; d++)
        members[n++] = lw_rank_at(l, d, stage, tp);
    for (int32_t d = 0; l->mirrored && d < l->dp; d++)
        members[n++] = lw_rank_at(l, d, l->pp - 1 - stage, tp);
    return n;
}

/* --- rows ------------------------------------------------------------------------------------ */

/* The member of that number in the data group of the experts that rank (d, t) of the role holds:
 * the holders are those whose numbers are equal modulo ep (add_expert). */
static int32_t expert_member(const struct lw_lowering *l, int32_t role, int32_t which, int32_t d,
                             int32_t t)
{
    int32_t width = lw_expert_width(l), stage = lw_stage_of_role(l, role);
    int32_t n = which * l->ep + (int32_t)(lw_strategy_expert_number(l->s, d, t) % l->ep);
    int32_t copy = n / width, at = width > 1 ? n % width : t;

    return copy < l->dp ? lw_rank_at(l, copy, stage, at)
                        : lw_rank_at(l, copy - l->dp, l->pp - 1 - stage, at);
}

/* Of the rank of the role at data coordinate d and tensor coordinate t. */
static int32_t member_of(const struct lw_lowering *l, enum lw_row_kind kind, int32_t role,
                         int32_t which, int32_t d, int32_t t)
{
    if (kind == LW_ROW_PEER)
        return lw_rank_at(l, d, which, t);
    if (kind == LW_ROW_EXPERT_ROOT)
        return expert_member(l, role, which, d, t);
    if (kind == LW_ROW_RING) {
        int32_t at = d % l->cp, first = d - at;
        return lw_rank_at(l, first + (at + which + l->cp) % l->cp, role, t);
    }
    int32_t stage = lw_stage_of_role(l, role); /* which counts the members of lw_data_group */
    return which < l->dp ? lw_rank_at(l, which, stage, t)
                         : lw_rank_at(l, which - l->dp, l->pp - 1 - stage, t);
}

/* The bytes of a rank's share, and where it lies. */
static struct lw_operand share_of(const struct lw_lowering *l, int32_t role, int32_t n_members,
                                  int64_t bytes, int32_t d)
{
    int32_t at = d + (lw_stage_of_role(l, role) != role ? l->dp : 0);

    return (struct lw_operand){bytes / n_members, at % n_members * (bytes / n_members), -1};
}

/* The same of experts, which n_members ranks of a data group hold. */
static struct lw_operand expert_share_of(const struct lw_lowering *l, int32_t n_members,
                                         int64_t bytes, int32_t d, int32_t t)
{
    int64_t number = lw_strategy_expert_number(l->s, d, t);

    return (struct lw_operand){bytes / n_members,
                               number / l->ep % n_members * (bytes / n_members), -1};
}

/* The row, if ranks on the grid follow a rule in it. */
static bool find_rule(const struct lw_lowering *l, enum lw_row_kind kind, int32_t role,
                      int32_t which, int64_t bytes, struct lw_operand_rule *x)
{
    int32_t last = l->dp - 1 + (lw_stage_of_role(l, role) != role ? l->dp : 0);

    *x = (struct lw_operand_rule){.n = l->dp * l->tp, .width = l->tp};
    if (kind == LW_ROW_SHARE) {
        x->first = share_of(l, role, which, bytes, 0);
        x->offset_down = bytes / which;
        return last < which;
    }
    if (kind != LW_ROW_PEER && kind != LW_ROW_ROOT)
        return false;
    x->first = (struct lw_operand){bytes, 0, member_of(l, kind, role, which, 0, 0)};
    x->across = l->stride_tp;
    x->down = kind == LW_ROW_PEER ? l->stride_dp : 0;
    return true;
}

static int32_t add_row(struct lw_lowering *l, enum lw_row_kind kind, int32_t role, int32_t which,
                       int64_t bytes)
{
    int32_t n = l->dp * l->tp, row;
    struct lw_operand_rule x;

    if (find_rule(l, kind, role, which, bytes, &x))
        return lw_builder_operand_rule(l->b, &x);
    struct lw_operand *entry = lw_builder_operand_room(l->b, n, &row);
    for (int32_t i = 0; entry && i < n; i++) {
        int32_t d = i / l->tp, t = i % l->tp; /* ranks of a role ascend */
        entry[i] = kind == LW_ROW_SHARE ? share_of(l, role, which, bytes, d)
                   : kind == LW_ROW_EXPERT_SHARE
                       ? expert_share_of(l, which, bytes, d, t)
                       : (struct lw_operand){bytes, 0, member_of(l, kind, role, which, d, t)};
    }
    return row;
}

int32_t lw_lower_row(struct lw_lowering *l, enum lw_row_kind kind, int32_t role, int32_t which,
                     int64_t bytes)
{
    for (int64_t i = l->n_rows; i-- > 0;) {
        const struct lw_row *x = &l->rows[i];
        if (x->kind == kind && x->role == role && x->which == which && x->bytes == bytes)
            return x->row;
    }
    if (lw_reserve(&l->rows, &l->rows_capacity, l->n_rows + 1, sizeof *l->rows) != 0) {
        l->no_memory = true;
        return -1;
    }
    int32_t row = add_row(l, kind, role, which, bytes);
    l->rows[l->n_rows++] = (struct lw_row){kind, role, which, bytes, row};
    return row;
}

/* --- the plan's ranks and communicators ------------------------------------------------------ */

static struct lw_digit along_dp(const struct lw_lowering *l, int32_t n)
{
    return (struct lw_digit){n, l->stride_dp};
}

static struct lw_digit along_pp(const struct lw_lowering *l, int32_t n)
{
    return (struct lw_digit){n, l->stride_pp};
}

static struct lw_digit along_tp(const struct lw_lowering *l, int32_t n)
{
    return (struct lw_digit){n, l->stride_tp};
}

/* --offload update: the state, and gradients of which a rank keeps its share alone. */
static void leave_to_host(struct lw_lowering *l, int64_t *bytes)
{
    bytes[LW_MEM_OPTIMIZER] = l->last_spares = 0;
    if (l->s->zero >= 2)
        bytes[LW_MEM_GRADS] = 0;
}

static enum lw_status add_roles(struct lw_lowering *l, struct lw_err *err)
{
    for (int32_t role = 0; role < l->pp; role++) {
        char name[32];
        snprintf(name, sizeof name, "stage %d", role);
        struct lw_role x = {.name = l->pp > 1 ? name : "data", .stage = lw_stage_of_role(l, role)};
        l->last_spares = 0;
        for (int32_t q = 0; q < l->n_parts; q++)
            if (l->parts[q].stage == x.stage)
                LW_TRY(lw_part_memory(&l->parts[q], x.static_bytes, &l->last_spares, err));
        if (l->offloaded) {
            l->offloaded[role] = x.static_bytes[LW_MEM_OPTIMIZER];
            x.static_bytes[LW_MEM_OPTIMIZER] = l->last_spares = 0;
        }
        if (l->s->offload == LW_OFFLOAD_UPDATE)
            leave_to_host(l, x.static_bytes);
        lw_builder_role(l->b, &x);
    }
    const struct lw_digit axis[LW_N_AXES] = {[LW_AXIS_DP] = along_dp(l, l->dp),
                                             [LW_AXIS_PP] = along_pp(l, l->pp),
                                             [LW_AXIS_TP] = along_tp(l, l->tp)};
    lw_builder_grid(l->b, axis);
    return LW_OK;
}

/* The groups of the class added last: digits[n] from the slowest, of which the first n_group number
 * the groups and the others the members of each. */
static void add_groups(struct lw_lowering *l, const struct lw_digit *digits, int n_group, int n)
{
    struct lw_comm_rule x = {.n_groups = 1, .n_members = 1, .n_group_digits = n_group};

    for (int i = 0; i < n; i++) {
        x.ranks.at[x.ranks.n++] = digits[i];
        *(i < n_group ? &x.n_groups : &x.n_members) *= digits[i].count;
    }
    lw_builder_groups(l->b, &x);
}

/* A class of that name with a stream of its own. */
static struct lw_line add_line(struct lw_lowering *l, const char *name,
                               enum lw_comm_purpose purpose)
{
    bool messages = purpose == LW_COMM_FORWARD || purpose == LW_COMM_BACKWARD;
    int32_t stream = lw_builder_stream(l->b, name, LW_STREAM_COMM, 1);

    return (struct lw_line){
        lw_builder_comm(l->b, name, purpose, messages ? LW_REDUCER_AUTO : l->s->reducer, stream),
        stream};
}

/* --zero-group: the same member of each data group of a stage and tensor coordinate. members: room
 * for twice as many as have a copy. */
static void add_replicas(struct lw_lowering *l, int32_t *members)
{
    int32_t each = l->parts[0].n_members, n = lw_n_copies(l), *of = members + n;

    l->replicas = add_line(l, "replicas", LW_COMM_REPLICAS);
    if (!l->mirrored) {
        const struct lw_digit digits[] = {along_pp(l, l->pp), along_tp(l, l->tp),
                                          along_dp(l, each), {n / each, each * l->stride_dp}};
        add_groups(l, digits, 3, 4);
        return;
    }
    for (int32_t stage = 0; stage < lw_n_replica_stages(l); stage++)
        for (int32_t t = 0; t < l->tp; t++) {
            lw_data_group(l, stage, t, members);
            for (int32_t i = 0; i < each; i++) {
                for (int32_t g = 0; g < n / each; g++)
                    of[g] = members[g * each + i];
                lw_builder_group(l->b, l->replicas.comm, of, n / each);
            }
        }
}

static void add_data(struct lw_lowering *l, int32_t *members)
{
    l->data.stream = lw_builder_stream(l->b, "comm", LW_STREAM_COMM, 1);
    bool sparse = false;
    for (int32_t i = 0; i < l->w->n_sparse; i++)
        sparse = sparse || (lw_param_at(l->w, l->w->sparse[i].param).trainable &&
                            !lw_param_at(l->w, l->w->sparse[i].param).ignored);
    if (l->s->comm_hook != LW_HOOK_NONE || sparse)
        l->copy = lw_builder_stream(l->b, "copy", LW_STREAM_COPY, 1);
    l->data.comm = lw_builder_comm(l->b, "data", LW_COMM_DATA, l->s->reducer, l->data.stream);
    int32_t each = l->parts[0].n_members, n = lw_n_copies(l);
    const struct lw_digit digits[] = {along_pp(l, l->pp), along_tp(l, l->tp),
                                      {n / each, each * l->stride_dp}, along_dp(l, each)};
    if (!l->mirrored)
        add_groups(l, digits, 3, 4);
    for (int32_t stage = 0; l->mirrored && stage < lw_n_replica_stages(l); stage++)
        for (int32_t t = 0; t < l->tp; t++) {
            lw_data_group(l, stage, t, members);
            for (int32_t first = 0; first < n; first += each)
                lw_builder_group(l->b, l->data.comm, members + first, each);
        }
    if (each < n)
        add_replicas(l, members);
}

static void add_pipeline_groups(struct lw_lowering *l)
{
    add_groups(l, (struct lw_digit[]){along_dp(l, l->dp), along_tp(l, l->tp), along_pp(l, l->pp)},
               2, 3);
}

/* One communicator per direction. (One for both would let the two kinds of messages between the
 * same ranks, in a ring of two, meet each other.) */
static void add_pipeline(struct lw_lowering *l)
{
    l->forward = add_line(l, "forward", LW_COMM_FORWARD);
    add_pipeline_groups(l);
    l->backward = add_line(l, "backward", LW_COMM_BACKWARD);
    add_pipeline_groups(l);
}

/* The model group: all ranks of a replica, consecutive in ColossalAI's order of ranks. */
static void add_model(struct lw_lowering *l)
{
    int32_t stages = lw_n_replica_stages(l);
    const struct lw_digit digits[] = {along_dp(l, l->dp),
                                      {l->pp / stages, stages * l->stride_pp},
                                      along_pp(l, stages), along_tp(l, l->tp)};

    l->model = add_line(l, "model", LW_COMM_MODEL);
    add_groups(l, digits, 2, 4);
    if (l->pp > 1 && l->s->compat == LW_COMPAT_COLOSSALAI) {
        l->pipeline.stream = l->model.stream;
        l->pipeline.comm =
            lw_builder_comm(l->b, "pipeline", LW_COMM_MODEL, l->s->reducer, l->model.stream);
        add_pipeline_groups(l);
    }
}

static void add_tensor(struct lw_lowering *l)
{
    l->tensor = add_line(l, "tensor", LW_COMM_TENSOR);
    add_groups(l, (struct lw_digit[]){along_dp(l, l->dp), along_pp(l, l->pp), along_tp(l, l->tp)},
               2, 3);
}

/* Consecutive data coordinates share a sequence: Megatron's order has context before data. */
static void add_context(struct lw_lowering *l)
{
    const struct lw_digit digits[] = {{l->dp / l->cp, l->cp * l->stride_dp}, along_pp(l, l->pp),
                                      along_tp(l, l->tp), along_dp(l, l->cp)};

    l->context = add_line(l, "context", LW_COMM_CONTEXT);
    add_groups(l, digits, 3, 4);
}

/* Ranks of a stage that hold copies, by expert number: of tensor coordinate t, or of all. */
static int32_t list_holders(const struct lw_lowering *l, int32_t stage, int32_t t, int32_t *ranks)
{
    int32_t width = lw_expert_width(l), n = 0;

    for (int32_t copy = 0; copy < lw_n_copies(l); copy++)
        for (int32_t k = 0; k < width; k++)
            ranks[n++] = lw_rank_at(l, copy % l->dp, copy < l->dp ? stage : l->pp - 1 - stage,
                                    width > 1 ? k : t);
    return n;
}

/* Consecutive numbers share the experts. */
static void add_expert_groups(struct lw_lowering *l, int32_t *members)
{
    int32_t n = l->dp * lw_expert_width(l);

    for (int32_t first = 0; first < n; first += l->ep)
        for (int32_t p = 0; p < l->pp; p++)
            for (int32_t t = 0; t < l->tp / lw_expert_width(l); t++) {
                for (int32_t i = first; i < first + l->ep; i++)
                    members[i - first] =
                        lw_expert_width(l) > 1 ? lw_rank_at(l, i / l->tp, p, i % l->tp)
                                               : lw_rank_at(l, i, p, t);
                lw_builder_group(l->b, l->expert.comm, members, l->ep);
            }
}

/* Those that are equal modulo ep hold the same ones, in both directions of a pipeline; with
 * --zero-group, those of one group. */
static void add_expert(struct lw_lowering *l, int32_t *members, int32_t *ranks)
{
    int32_t each = l->parts[0].n_members * lw_expert_width(l);

    l->expert = add_line(l, "expert", LW_COMM_EXPERT);
    add_expert_groups(l, members);
    if (l->parts[0].n_members == 1)
        return; /* a tensor group alone: each expert is on one rank */
    l->expert_data = l->data;
    l->expert_data.comm =
        lw_builder_comm(l->b, "expert data", LW_COMM_EXPERT_DATA, l->s->reducer, l->data.stream);
    for (int32_t stage = 0; stage < lw_n_replica_stages(l); stage++)
        for (int32_t t = 0; t < l->tp / lw_expert_width(l); t++) {
            int32_t n_holders = list_holders(l, stage, t, ranks);
            for (int32_t first = 0; first < n_holders; first += each)
                for (int32_t e = 0; e < l->ep; e++) {
                    int32_t n = 0;
                    for (int32_t i = first + e; i < first + each; i += l->ep)
                        members[n++] = ranks[i];
                    lw_builder_group(l->b, l->expert_data.comm, members, n);
                }
        }
}

/* Room for the members of any group, and for add_replicas. */
static int64_t most_members(const struct lw_lowering *l)
{
    const int64_t n[] = {4 * (int64_t)l->dp, l->pp, l->tp, l->ep,
                         (int64_t)lw_n_copies(l) * lw_expert_width(l) / l->ep};
    int64_t most = 0;

    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        most = n[i] > most ? n[i] : most;
    return most;
}

enum lw_status lw_lower_ranks(struct lw_lowering *l, struct lw_err *err)
{
    int32_t *members, *holders;

    LW_TAKE(&l->arena, members, most_members(l), err);
    LW_TAKE(&l->arena, holders, l->ep > 1 ? (int64_t)lw_n_copies(l) * l->tp : 0, err);
    if (l->s->offload == LW_OFFLOAD_OPTIMIZER)
        LW_TAKE(&l->arena, l->offloaded, l->pp, err);
    LW_TRY(add_roles(l, err));
    l->compute = lw_builder_stream(l->b, "compute", LW_STREAM_COMPUTE, 0);
    const struct lw_line none = {-1, -1};
    l->copy = -1;
    l->host_link =
        l->s->offload != LW_OFFLOAD_NONE
            ? lw_builder_stream(l->b, "host link", LW_STREAM_COPY, 0) : -1;
    l->data = l->replicas = l->forward = l->backward = l->tensor = none;
    l->model = l->pipeline = l->context = l->expert = l->expert_data = none;
    if (l->parts[0].n_members > 1)
        add_data(l, members);
    if ((l->s->compat == LW_COMPAT_COLOSSALAI || l->s->clip > 0) &&
        lw_n_replica_stages(l) * l->tp > 1)
        add_model(l);
    if (l->pp > 1)
        add_pipeline(l);
    if (l->tp > 1)
        add_tensor(l);
    if (l->cp > 1)
        add_context(l);
    if (l->ep > 1)
        add_expert(l, members, holders);
    lw_lower_tied_comms(l, members);
    return LW_OK;
}
