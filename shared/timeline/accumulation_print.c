/* How often a step runs backward and reduces gradients, and the line that reports say it in. */
#include "shared/timeline/accumulation_print.h"

#include "shared/numbers/checked.h"
#include "shared/text/wrap.h"

int64_t lw_backwards_per_step(const struct lw_strategy *s)
{
    return lw_mul_sat(s->micro_batches, s->no_sync + 1);
}

/* --zero 2 and 3 reduce each micro-batch (shared/lower_part/lower_fsdp.c), and all others that are
 * asked for it; else once. */
int64_t lw_reductions_per_step(const struct lw_strategy *s)
{
    bool each = s->sync_each || s->zero >= 2;

    return each && s->pp == 1 && s->no_sync == 0 ? s->micro_batches : 1;
}

void lw_accumulation_print(const struct lw_strategy *s, FILE *f)
{
    int64_t n = lw_backwards_per_step(s);

    if (n == 1 || (s->pp > 1 && s->no_sync == 0))
        return;
    lw_printf_paragraph(f, "a step has %lld backwards on each rank%s", (long long)n,
                        lw_strategy_ranks(s) == s->pp * s->tp ? ""
                        : lw_reductions_per_step(s) > 1
                            ? ", and each is reduced"
                            : ", and gradients are reduced once, after the last");
}
