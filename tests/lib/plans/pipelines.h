#pragma once

#include "shared/numbers/units.h"
#include "shared/plan/cost.h"
#include "tests/lib/exec/exec_chain.h"

/* Ten pipelines of PIPELINE_MODULES equal modules, in which a forward, a backward for inputs and a
 * backward for weights of a module take one unit each and messages and updates nothing; and what a
 * step of them takes, in units. With n modules on a stage and m micro-batches a stage computes
 * 3 n m units. On top of that, per step:
 *   gpipe, 1f1b        (p - 1) (F + B) = 3 n (p - 1)         Megatron-LM, arXiv 2104.04473, 2.2
 *   interleaved, bfs   the same over v chunks                 2104.04473, 2.2.2; 2211.05953
 *   zb-h1              (p - 1) (F + I - W) = n (p - 1)        Zero Bubble, 2401.10241, table 1
 *   zb-h2, zbv         (p - 1) (F + I - 2 W) = 0 (h2); 0      table 1; section 6
 * `bubble`: units of a step that a stage waits for others, summed over the p stages. */
enum { PIPELINE_MODULES = 8 };

struct pipeline_case {
    const char *words;
    int32_t p, period, bubble;
};

static const struct pipeline_case pipeline_cases[] = {
    /* n = 4, m = 4: 48 + 12 */
    {"pp 2 micro-batches 4 schedule gpipe", 2, 60, 2 * 12},
    {"pp 2 micro-batches 4", 2, 60, 2 * 12},
    {"pp 2 micro-batches 1", 2, 24, 2 * 12},
    /* n = 2, m = 8: 48 + 18; m = 4: 24 + 18 */
    {"pp 4 micro-batches 8", 4, 66, 4 * 18},
    {"pp 4 micro-batches 4 schedule gpipe", 4, 42, 4 * 18},
    /* v = 2: 48 + 12 / 2; n = 2, m = 8: 48 + 18 / 2 */
    {"pp 2 micro-batches 4 schedule interleaved-1f1b chunks 2", 2, 54, 2 * 6},
    {"pp 4 micro-batches 8 schedule interleaved-1f1b chunks 2", 4, 57, 4 * 9},
    {"pp 2 micro-batches 4 schedule looped-bfs chunks 2", 2, 54, 2 * 6},
    /* n = 2, m = 8: 48 + 6, and 48 */
    {"pp 4 micro-batches 8 schedule zb-h1", 4, 54, 4 * 6},
    {"pp 4 micro-batches 8 schedule zb-h2", 4, 48, 0},
};

enum { N_PIPELINES = sizeof pipeline_cases / sizeof *pipeline_cases };

/* The modules of these pipelines, each of three ops that take `unit`; updates take nothing. */
void pipeline_chain(struct chain *c, lw_ps unit);
/* Messages and collectives that take no time. */
struct lw_cost pipeline_cost(const struct lw_plan *p);
/* What the simulator says that steps 0, 1, .. of such a plan take. The first begins on idle stages:
 * every step takes as long where all stages wait for the last one between steps. */
void pipeline_steps(const struct lw_plan *p, int32_t n_steps, lw_ps *steps);
