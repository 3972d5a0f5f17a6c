/* Memory of a plan that is not predicted otherwise. One step beyond the warm-up is simulated, as
 * `sim` does: where memory is largest depends on the order in which streams run. */
#include "sim/predict/memory_predict.h"

#include "shared/timeline/timeline.h"
#include "sim/predict/sim.h"

enum lw_status lw_memory_predict(const struct lw_plan *p, const struct lw_framework *f,
                                 const struct lw_cluster *c, struct lw_memory_figures *out,
                                 struct lw_err *err)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_classes classes = {0};
    struct lw_summary summary = {0};
    struct lw_sim_stats stats;

    o.n_steps = lw_sim_warmup_steps(p) + 1;
    LW_TRY(lw_sim_run_classes(p, c, &o, &classes, &stats, err));
    enum lw_status s = lw_sim_summarize(&classes, o.n_steps - 1, &summary, err);
    if (s == LW_OK)
        lw_memory_figures_of(&summary, p, f, c, out);
    lw_summary_free(&summary);
    lw_sim_classes_free(&classes);
    return s;
}
