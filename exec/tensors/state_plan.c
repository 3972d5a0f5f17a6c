/* A saved state knows parameters, pieces and copies; a plan knows stages, shards and ranks. A piece
 * is what one rank of a tensor group has; copies are told apart where data parallelism ignores a
 * parameter, so that each of its ranks trains one of its own: in the order of the ranks.
 *
 * Everything here follows from the plan alone: each process knows what every other one sends.
 * States go to rank 0 by the connections of the processes (exec/launch/rendezvous.h), parameter by
 * parameter and in stretches, so that nobody but rank 0 holds more than a stretch beside its own
 * tensors. */
#include "exec/tensors/state_plan.h"

#include <assert.h>
#include <string.h>

enum { STRETCH = 1 << 22 }; /* elements that travel at once */

static int32_t tensor_rank(const struct lw_plan *p, int32_t rank)
{
    return p->coord[3 * (int64_t)rank + 2];
}

static int32_t n_tensor_ranks(const struct lw_plan *p)
{
    int32_t most = 0;

    for (int32_t r = 0; r < p->n_ranks; r++)
        most = tensor_rank(p, r) > most ? tensor_rank(p, r) : most;
    return most + 1;
}

/* The parameter whose values it has: itself, or the first that it is tied to. Copies that are
 * trained apart have their own. */
static int32_t value_of(const struct lw_plan *p, int32_t param)
{
    for (;;) {
        const struct lw_plan_param *a = &p->params[param];
        if (a->tied < 0 || a->tied >= param || (a->ignored && lw_plan_holds(p, param)))
            return param;
        param = a->tied;
    }
}

/* The ranks that hold it train it apart: data parallelism ignores it, or each of them clips by a norm
 * that counts what is ignored. */
static bool is_apart(const struct lw_plan *p, int32_t param)
{
    bool apart = p->params[param].ignored;

    for (int32_t i = 0; p->strategy.clip > 0 && !apart && i < p->n_params; i++)
        apart = p->params[i].ignored && p->params[i].trainable;
    return apart;
}

static int32_t n_copies(const struct lw_plan *p, int32_t param)
{
    bool apart = is_apart(p, param);
    int32_t n = 0;

    if (value_of(p, param) != param || !p->params[param].trainable)
        return 0;
    for (int32_t r = 0; apart && r < p->n_ranks; r++)
        n += tensor_rank(p, r) == 0 && exec_param_is_here(p, param, r);
    return n > 0 ? n : 1;
}

static int32_t piece_of(const struct lw_plan *p, int32_t param, int32_t rank)
{
    int32_t tensor = tensor_rank(p, rank), root = value_of(p, param), copy = 0;
    bool apart = is_apart(p, param);

    for (int32_t r = 0; apart && r < rank; r++)
        copy += tensor_rank(p, r) == tensor && exec_param_is_here(p, param, r);
    return tensor * n_copies(p, root) + copy;
}

/* --- which state fits which plan -------------------------------------------------------------- */

/* A copy at another stage is trained like the first of them. */
static enum lw_status refuse_ties(const struct lw_plan *p, struct lw_err *err)
{
    for (int32_t i = 0; i < p->n_params; i++) {
        int32_t root = value_of(p, i);
        if (p->params[i].trainable && lw_plan_holds(p, i) && !p->params[root].trainable)
            return lw_fail(err, LW_EINVAL,
                           "parameter %d '%s' is trained and has the weights of '%s', "
                           "which is frozen: a saved state has one of them",
                           i, p->params[i].name, p->params[root].name);
    }
    return LW_OK;
}

static struct lw_exec_state_param describe(const struct lw_plan *p, int32_t param)
{
    const struct lw_plan_param *a = &p->params[param];
    int32_t root = value_of(p, param);

    return (struct lw_exec_state_param){.name = a->name,
                                        .numel = a->numel,
                                        .dtype = (enum lw_dtype)a->dtype,
                                        .shares = root == param ? -1 : root,
                                        .n_copies = n_copies(p, param)};
}

enum lw_status exec_state_of_plan(const struct lw_plan *p, enum exec_optimizer_kind kind,
                                  struct lw_exec_state *s, struct lw_err *err)
{
    struct lw_exec_state made = {
        .optimizer = kind, .n_tensor = n_tensor_ranks(p), .n_params = p->n_params};
    struct lw_exec_state_param *list;

    if (p->n_params == 0)
        return lw_fail(err, LW_EINVAL, "the plan has no parameters: there is no state to save");
    LW_TRY(refuse_ties(p, err));
    list = lw_calloc((size_t)p->n_params, sizeof *list);
    if (!list)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < p->n_params; i++)
        list[i] = describe(p, i);
    enum lw_status status = lw_exec_state_make(&made, list, err);
    lw_free(list);
    if (status == LW_OK)
        *s = made;
    return status;
}

static enum lw_status differs(const struct lw_exec_state *s, const char *name, struct lw_err *err,
                              const char *there, const char *here)
{
    return lw_fail(err, LW_EINVAL,
                   "%s: parameter '%s' is %s; in this plan it is %s: load the state with "
                   "the workload it was saved with",
                   s->file, name, there, here);
}

static enum lw_status match_tie(const struct lw_exec_state *s,
                                const struct lw_exec_state_param *there, const struct lw_plan *p,
                                const struct lw_exec_state_param *here, struct lw_err *err)
{
    const char *a = there->shares < 0 ? NULL : s->params[there->shares].name;
    const char *b = here->shares < 0 ? NULL : p->params[here->shares].name;

    if (a == b || (a && b && strcmp(a, b) == 0))
        return LW_OK;
    return lw_fail(
        err, LW_EINVAL,
        "%s: parameter '%s' is tied to %s%s%s; in this plan to %s%s%s: load the state with "
        "the workload it was saved with",
        s->file, there->name, a ? "'" : "", a ? a : "none", a ? "'" : "", b ? "'" : "",
        b ? b : "none", b ? "'" : "");
}

static enum lw_status match_param(const struct lw_exec_state *s, const struct lw_plan *p,
                                  int32_t param, int32_t entry, struct lw_err *err)
{
    struct lw_exec_state_param here = describe(p, param);
    const struct lw_exec_state_param *there = &s->params[entry];

    if (there->numel != here.numel)
        return lw_fail(err, LW_EINVAL,
                       "%s: parameter '%s' has %lld elements, in this plan %lld: load "
                       "the state with the workload it was saved with",
                       s->file, here.name, (long long)there->numel, (long long)here.numel);
    if (there->dtype != here.dtype)
        return differs(s, here.name, err, lw_dtype_name(there->dtype), lw_dtype_name(here.dtype));
    LW_TRY(match_tie(s, there, p, &here, err));
    if ((there->n_copies == 0) != (here.n_copies == 0))
        return differs(s, here.name, err, there->n_copies ? "trained" : "frozen",
                       here.n_copies ? "trained" : "frozen");
    if (there->n_copies != here.n_copies)
        return lw_fail(err, LW_EINVAL,
                       "%s: parameter '%s' has copies of %d ranks that train it apart, in this plan of "
                       "%d: load it with the --dp, --clip and ignored parameters it was saved with",
                       s->file, here.name, there->n_copies, here.n_copies);
    return LW_OK;
}

static enum lw_status match_all(const struct lw_exec_state *s, const struct lw_plan *p,
                                int32_t *entry_of, bool *found, struct lw_err *err)
{
    for (int32_t i = 0; i < p->n_params; i++) {
        int32_t entry = lw_exec_state_find(s, p->params[i].name);
        if (entry < 0)
            return lw_fail(err, LW_EINVAL,
                           "%s: has no parameter '%s', which this plan has: load the "
                           "state with the workload it was saved with",
                           s->file, p->params[i].name);
        if (found[entry])
            return lw_fail(err, LW_EINVAL,
                           "%s: two parameters of this plan are called '%s': a state "
                           "knows them by name",
                           s->file, p->params[i].name);
        found[entry] = true;
        LW_TRY(match_param(s, p, i, entry, err));
        entry_of[i] = s->params[entry].shares >= 0 ? s->params[entry].shares : entry;
        if (s->params[entry_of[i]].n_copies == 0)
            entry_of[i] = -1;
    }
    for (int32_t i = 0; i < s->n_params; i++)
        if (!found[i])
            return lw_fail(err, LW_EINVAL,
                           "%s: has parameter '%s', which this plan lacks: load the "
                           "state with the workload it was saved with",
                           s->file, s->params[i].name);
    return LW_OK;
}

enum lw_status exec_state_match(const struct lw_exec_state *s, const struct lw_plan *p,
                                enum exec_optimizer_kind kind, int32_t *entry_of,
                                struct lw_err *err)
{
    if (s->optimizer != kind)
        return lw_fail(err, LW_EINVAL,
                       "%s: holds what %s keeps, this run updates with %s: --optimizer "
                       "%s",
                       s->file, exec_optimizer_name(s->optimizer), exec_optimizer_name(kind),
                       exec_optimizer_name(s->optimizer));
    if (s->n_tensor != n_tensor_ranks(p))
        return lw_fail(err, LW_EINVAL,
                       "%s: was saved by tensor groups of %d, this plan has groups of %d: "
                       "pieces of parameters are not cut anew (--tp %d)",
                       s->file, s->n_tensor, n_tensor_ranks(p), s->n_tensor);
    LW_TRY(refuse_ties(p, err));
    bool *found = lw_calloc((size_t)s->n_params + 1, sizeof *found);
    if (!found)
        return lw_fail_nomem(err);
    enum lw_status status = match_all(s, p, entry_of, found, err);
    lw_free(found);
    return status;
}

/* --- what a run begins with ------------------------------------------------------------------- */

void exec_state_begin(const struct exec_tensors *m, int32_t rank, int32_t param, int32_t k,
                      float *to)
{
    const struct lw_plan *p = m->plan;
    int64_t n = p->params[param].numel;

    assert(!m->start || m->start_of[param] >= 0);
    if (!m->start && k == 0)
        exec_initial_weights(to, exec_param_root(p, param), n);
    else if (!m->start)
        memset(to, 0, (size_t)n * sizeof *to);
    else
        lw_exec_state_get(
            m->start,
            &(struct lw_exec_state_range){m->start_of[param], piece_of(p, param, rank), k, 0, n},
            to);
}

/* --- which elements are whose ----------------------------------------------------------------- */

struct owned {     /* a stretch of elements that a rank updates */
    int32_t shard; /* zeroed: before the first */
    int64_t first, n;
};

/* The next one inside of `in`; false behind the last. */
static bool next_owned(const struct exec_tensors *m, int32_t param, int32_t rank,
                       const struct owned *in, struct owned *o)
{
    const struct lw_plan *p = m->plan;

    if (!m->sharded[param]) {
        *o = (struct owned){o->shard + 1, in->first, in->n};
        return o->shard == 1;
    }
    while (o->shard < p->n_shards) {
        int32_t shard = o->shard++;
        const struct lw_shard *s = &p->shards[shard];
        int64_t end = s->first + s->numel;
        if (s->param != param || !exec_shard_is_mine(m, shard, rank))
            continue;
        o->first = s->first > in->first ? s->first : in->first;
        o->n = (end < in->first + in->n ? end : in->first + in->n) - o->first;
        if (o->n > 0)
            return true;
    }
    return false;
}

enum lw_status exec_state_give(const struct exec_tensors *m, int32_t rank, int32_t param,
                               float *room, struct lw_err *err)
{
    struct owned all = {.n = m->plan->params[param].numel};

    for (int32_t k = 0; m->start && k < exec_optimizer_states(m->optimizer.kind); k++) {
        exec_state_begin(m, rank, param, 1 + k, room);
        for (struct owned o = {0}; next_owned(m, param, rank, &all, &o);)
            LW_TRY(m->backend->mem_write(m->world, rank,
                                         m->ranks[rank].state[k] + m->state_at[param] + o.first,
                                         room + o.first, o.n * (int64_t)sizeof *room, err));
    }
    return LW_OK;
}

/* Several ranks hold the same values of a piece, or of a part of it: the first of them sends it. */
static bool sends(const struct exec_tensors *m, int32_t param, int32_t rank)
{
    const struct lw_plan *p = m->plan;
    bool first = exec_param_is_here(p, param, rank), apart = is_apart(p, param);

    for (int32_t r = 0; first && !apart && r < rank; r++)
        first = !exec_param_is_here(p, param, r) || tensor_rank(p, r) != tensor_rank(p, rank) ||
                (m->sharded[param] && m->data_member[r] != m->data_member[rank]);
    return first;
}

/* --- taking it -------------------------------------------------------------------------------- */

struct taking {
    const struct exec_tensors *m;
    struct lw_exec_state *s; /* NULL: it is put together elsewhere */
    float *room;             /* [n_room] */
    int64_t n_room;
    int32_t param;
    struct owned stretch;
    int64_t n_taken; /* elements of the parameter */
};

static int32_t n_arrays(const struct exec_tensors *m)
{
    return 1 + exec_optimizer_states(m->optimizer.kind);
}

/* Of what the rank updates in the stretch, array by array: room[*n]. */
static enum lw_status pack(const struct taking *t, int32_t rank, int64_t *n, struct lw_err *err)
{
    const struct exec_tensors *m = t->m;
    struct owned o = {0};

    *n = 0;
    while (sends(m, t->param, rank) && next_owned(m, t->param, rank, &t->stretch, &o)) {
        if (o.n * n_arrays(m) > t->n_room - *n)
            return lw_fail(err, LW_EPLAN, "shards of parameter %d '%s' overlap on rank %d",
                           t->param, m->plan->params[t->param].name, rank);
        for (int32_t k = 0; k < n_arrays(m); k++, *n += o.n) {
            const float *from = k == 0 ? exec_tensors_master(m, rank, t->param)
                                       : m->ranks[rank].state[k - 1] + m->state_at[t->param];
            LW_TRY(m->backend->mem_read(m->world, rank, t->room + *n, from + o.first,
                                        o.n * (int64_t)sizeof *t->room, err));
        }
    }
    return LW_OK;
}

/* The same of another rank, as it comes. */
static enum lw_status unpack(void *context, int32_t rank, const void *data, int64_t bytes,
                             struct lw_err *err)
{
    struct taking *t = context;
    const struct exec_tensors *m = t->m;
    const float *from = data;
    int64_t left = bytes / (int64_t)sizeof *from;
    struct owned o = {0};

    while (sends(m, t->param, rank) && next_owned(m, t->param, rank, &t->stretch, &o)) {
        left -= o.n * n_arrays(m);
        if (left < 0)
            break;
        for (int32_t k = 0; k < n_arrays(m); k++, from += o.n)
            lw_exec_state_put(t->s,
                              &(struct lw_exec_state_range){
                                  t->param, piece_of(m->plan, t->param, rank), k, o.first, o.n},
                              from);
        t->n_taken += o.n;
    }
    return left == 0 ? LW_OK
                     : lw_fail(err, LW_EFAILED, "parameter '%s' of rank %d: %lld bytes came",
                               m->plan->params[t->param].name, rank, (long long)bytes);
}

static enum lw_status take_stretch(struct taking *t, const struct exec_process *process,
                                   struct lw_err *err)
{
    const struct exec_facts *f = &t->m->facts;
    int64_t n;

    for (int32_t rank = f->first_local; rank < f->first_local + f->n_local; rank++) {
        LW_TRY(pack(t, rank, &n, err));
        if (process)
            LW_TRY(process->gather(process->context, t->room, n * (int64_t)sizeof *t->room, unpack,
                                   t, err));
        else
            LW_TRY(unpack(t, rank, t->room, n * (int64_t)sizeof *t->room, err));
    }
    return LW_OK;
}

static enum lw_status take_param(struct taking *t, const struct exec_process *process,
                                 struct lw_err *err)
{
    const struct lw_plan_param *a = &t->m->plan->params[t->param];
    int64_t pieces = (int64_t)n_copies(t->m->plan, t->param) * n_tensor_ranks(t->m->plan);

    t->n_taken = 0;
    for (int64_t first = 0; pieces > 0 && first < a->numel; first += STRETCH) {
        int64_t left = a->numel - first;
        t->stretch = (struct owned){.first = first, .n = left < STRETCH ? left : STRETCH};
        LW_TRY(take_stretch(t, process, err));
    }
    if (t->s && t->n_taken != pieces * a->numel)
        return lw_fail(err, LW_EPLAN,
                       "parameter %d '%s': %lld elements of %lld are updated by a rank", t->param,
                       a->name, (long long)t->n_taken, (long long)(pieces * a->numel));
    return LW_OK;
}

static int64_t largest_stretch(const struct lw_plan *p)
{
    int64_t most = 1;

    for (int32_t i = 0; i < p->n_params; i++)
        most = p->params[i].numel > most ? p->params[i].numel : most;
    return most < STRETCH ? most : STRETCH;
}

enum lw_status exec_state_take(const struct exec_tensors *m, const struct exec_process *process,
                               int64_t n_steps, struct lw_exec_state *s, struct lw_err *err)
{
    struct taking t = {.m = m, .s = s, .n_room = largest_stretch(m->plan) * n_arrays(m)};
    enum lw_status status = LW_OK;

    t.room = lw_alloc((size_t)t.n_room * sizeof *t.room);
    if (!t.room)
        return lw_fail_nomem(err);
    for (; t.param < m->plan->n_params && status == LW_OK; t.param++)
        status = take_param(&t, process, err);
    lw_free(t.room);
    if (status != LW_OK || !s)
        return status;
    s->n_steps = n_steps;
    return lw_exec_state_seal(s, err);
}
