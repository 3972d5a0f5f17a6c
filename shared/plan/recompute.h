#pragma once

/* Which activations a forward drops and the backward computes again. */
enum lw_recompute { LW_RECOMPUTE_NONE, LW_RECOMPUTE_SELECTIVE, LW_RECOMPUTE_FULL, LW_N_RECOMPUTE };
