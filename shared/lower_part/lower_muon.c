/* Muon's matrices that a tensor group shares: before its products each rank gathers the momentum of
 * the whole matrix, in f32, one collective after the other, and then does all of the products
 * (--muon-tp-mode duplicated, the default). Sources: NVIDIA/Megatron-LM@025c931a,
 * megatron/core/optimizer/muon.py, TensorParallelMuon.orthogonalize (experts that are not split
 * have a group of one); NVIDIA-NeMo/Emerging-Optimizers@0001f6e2,
 * orthogonalized_optimizers/muon_utils.py, newton_schulz_tp: all_gather, not asynchronous. With
 * whole parameters on ranks (--zero 1) a rank gathers what it updates; a role has the gathers of
 * the member that gathers the most bytes. Not modelled: a matrix for each expert of a module (one
 * collective brings all), --muon-tp-mode distributed. */
#include "shared/lower_part/lower_part.h"

static bool is_gathered(const struct lw_part *d, const struct lw_param *p)
{
    bool whole = p->expert && lw_strategy_folds_experts(d->s);

    return lw_param_is_matrix(p) && p->trainable && p->tied < 0 && !whole &&
           p->tp_split != LW_TP_REPLICATED;
}

/* Elements that each member gathers: of_member[0], and of experts [1]; both of zeros. */
static void count_members(const struct lw_part *d, int64_t *const of_member[2])
{
    for (int32_t i = 0; i < d->shards.n_runs; i++) {
        const struct lw_param *p = LW_PARAM(d->w, d->shards.runs[i].first.param);
        if (is_gathered(d, p))
            of_member[p->expert][d->shards.runs[i].first.owner] += p->numel;
    }
}

static int32_t fullest_holder(const struct lw_part *d, int64_t *const of_member[2])
{
    int64_t most = -1;
    int32_t holder = 0;

    for (int32_t h = 0; h < lw_part_holders(d); h++) {
        int64_t n = of_member[0][lw_part_member_of(d, false, h)] +
                    of_member[1][lw_part_member_of(d, true, h)];
        holder = n > most ? h : holder;
        most = n > most ? n : most;
    }
    return holder;
}

static void add(struct lw_part *d, int32_t param)
{
    if (is_gathered(d, LW_PARAM(d->w, param)))
        d->gathered[d->n_gathered++] = param;
}

enum lw_status lw_part_list_gathered(struct lw_part *d, struct lw_err *err)
{
    const struct lw_part_shards *h = &d->shards;
    int64_t *of_member[2];

    if (d->w->optimizer != LW_OPTIMIZER_MUON || d->s->tp == 1)
        return LW_OK;
    LW_TAKE(&d->arena, d->gathered, d->w->n_params, err);
    for (int32_t i = 0; h->n == 0 && i < d->w->n_params; i++)
        add(d, i);
    if (h->n == 0)
        return LW_OK;
    LW_TAKE(&d->scratch, of_member[0], d->n_members, err);
    LW_TAKE(&d->scratch, of_member[1], d->n_expert_members, err);
    count_members(d, of_member);
    int32_t holder = fullest_holder(d, of_member);
    for (int32_t i = 0; i < h->n_runs; i++) {
        int32_t param = h->runs[i].first.param;
        bool expert = lw_param_at(d->w, param).expert;
        if (h->runs[i].first.owner == lw_part_member_of(d, expert, holder))
            add(d, param);
    }
    return LW_OK;
}
