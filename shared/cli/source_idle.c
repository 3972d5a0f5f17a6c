/* Options of a model's experts without effect. --experts-in-turn changes what --dispatch-once
 * sends, and is refused without it, as options of a strategy are. The others describe a job, and
 * published commands have them where they change nothing: this is said on standard error, and the
 * prediction made. What reads them: traces/models/models_experts.c, models_transformer.c,
 * model_framework.c. */
#include <stdio.h>

#include "shared/cli/source_parts.h"
#include "shared/text/wrap.h"

enum lw_status lw_plan_source_idle(const struct lw_plan_source *s, const struct lw_strategy *x,
                                   struct lw_err *err)
{
    return s->model.experts_in_turn && x->dispatch_once == 0
               ? lw_fail(err, LW_EINVAL, "--experts-in-turn changes nothing without "
                                         "--dispatch-once: it changes how many copies of a token "
                                         "that sends")
               : LW_OK;
}

/* NULL: it may change something. */
static const char *whole(const struct lw_strategy *x)
{
    return x->tp == 1 ? "--tp 1 has no tensor group that would split an expert" : NULL;
}

static const char *serial(const struct lw_framework *f)
{
    return !f || lw_fact_value(f->te_streams, 0) <= 0
               ? "its framework holds no workspaces for grouped products of experts"
               : NULL;
}

static const char *gathered(const struct lw_framework *f, const struct lw_strategy *x, bool fixed)
{
    bool holds = f && (lw_fact(f->gather_buffer) || (lw_fact(f->kept_scattered) && fixed));

    return x->ep == 1 && x->tp == 1 ? "--ep 1 --tp 1 gathers no tokens"
           : !holds                 ? "its framework holds no buffer of gathered tokens"
                                    : NULL;
}

static const char *permuted(const struct lw_framework *f, bool fixed)
{
    return !f || !lw_fact(f->kept_scattered)
               ? "its framework keeps no results of experts for their sum"
           : !fixed ? "without --deterministic no results of experts are kept for their sum"
                    : NULL;
}

static void warn(const char *option, bool given, const char *why)
{
    if (given && why)
        lw_printf_paragraph(stderr, "lapwing: --%s changes nothing: %s", option, why);
}

void lw_source_warn_of_idle(const struct lw_plan_source *s, const struct lw_strategy *x)
{
    const struct lw_framework *f = lw_source_framework(s);
    const struct lw_model_request *m = &s->model;

    if (s->silent)
        return;
    warn("whole-experts", m->expert_whole, whole(x));
    warn("serial-experts", m->expert_serial, serial(f));
    warn("gathered-experts", m->expert_gathered, gathered(f, x, m->deterministic));
    warn("fused-permute", m->fused_permute, permuted(f, m->deterministic));
}
