/* What a parameter costs in memory. Mixed precision follows from the element type: half precision
 * parameters are trained on f32 masters, which belong to the optimizer's state, so Adam keeps 12
 * bytes beside 2 of the parameter and 2 of the gradient (K = 12 of Rajbhandari et al., arXiv
 * 1910.02054, section 3.1). Not counted: workspaces, fragmentation, what a framework itself
 * takes. */
#include "shared/timeline/param_memory.h"
#include "shared/numbers/checked.h"

/* 4 for each state tensor (8 beside f64) and, in half precision, 4 for the master, unless a
 * framework's states are of another size. */
int64_t lw_memory_state_bytes(const struct lw_memory_rule *rule, enum lw_dtype param)
{
    static const int64_t n_states[LW_N_OPTIMIZERS] = {
        [LW_OPTIMIZER_MOMENTUM] = 1, [LW_OPTIMIZER_ADAM] = 2, [LW_OPTIMIZER_MUON] = 2};
    int64_t item = param == LW_F64 ? 8 : 4;
    bool momentum = rule->optimizer == LW_OPTIMIZER_MUON && rule->matrix;
    int64_t n = momentum ? 1 : n_states[rule->optimizer];

    if (rule->optimizer == LW_OPTIMIZER_UNKNOWN)
        return 0;
    return lw_dtype_size(param) == 2 ? lw_half_states(rule->own_states, n) : item * n;
}

static void add(int64_t *sum, int64_t elements, int64_t size)
{
    *sum = lw_add_sat(*sum, lw_mul_sat(elements, size));
}

void lw_memory_add(const struct lw_memory_rule *rule, enum lw_dtype param, int64_t numel,
                   int64_t owned, int64_t bytes[LW_N_MEM])
{
    int64_t held[] = {numel, numel, numel}; /* of state, gradients, parameters */

    for (int stage = 1; stage <= rule->zero && stage <= 3; stage++)
        held[stage - 1] = stage == 2 && rule->whole_gradients ? numel : owned;
    add(&bytes[LW_MEM_OPTIMIZER], held[0], lw_memory_state_bytes(rule, param));
    add(&bytes[LW_MEM_GRADS], held[1], lw_dtype_size(rule->grad));
    add(&bytes[LW_MEM_PARAMS], held[2], lw_dtype_size(param));
}
