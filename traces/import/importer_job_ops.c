/* Operations of a training job, as a profiler on every worker recorded them: `inspect` says what
 * stragglers cost. */
#include <stdio.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"
#include "shared/json/jsonout.h"
#include "shared/text/wrap.h"
#include "traces/import/convert.h"
#include "traces/stragglers/stragglers.h"

struct job_facts {
    struct job_ops ops;
    struct traces_stragglers stragglers;
};

static bool is(const struct lw_input *in, const char *text, size_t len)
{
    /* JSON may be one line of any length */
    return len > 0 && *text != '{' && *text != '[' && job_ops_is(in);
}

static enum lw_status look(const struct lw_input *in, const struct traces_bench_hint *hint,
                           void *facts, struct lw_err *err)
{
    struct job_facts *x = facts;

    (void)hint;
    LW_TRY(job_ops_read(in, &x->ops, err));
    enum lw_status status = traces_stragglers_find(&x->ops, &x->stragglers, err);
    if (status != LW_OK)
        job_ops_free(&x->ops);
    return status;
}

static enum lw_status text(const void *facts, const char *name, FILE *f, struct lw_err *err)
{
    const struct job_facts *x = facts;
    const struct job_ops *j = &x->ops;

    lw_printf_paragraph(f,
                        "%s: %lld operations of %d workers (%d data-parallel ranks of %d "
                        "stage%s) in %d step%s",
                        name, (long long)(j->n_ops * j->n_runs), j->n_dp * j->n_stages, j->n_dp,
                        j->n_stages, lw_plural(j->n_stages), j->n_steps, lw_plural(j->n_steps));
    return traces_stragglers_text(&x->stragglers, f, err);
}

static enum lw_status json(const void *facts, struct lw_jsonout *o, struct lw_err *err)
{
    const struct job_facts *x = facts;
    const struct job_ops *j = &x->ops;

    (void)err;
    LW_JSON(o, "n_operations", j->n_ops * j->n_runs, "n_workers", j->n_dp * j->n_stages,
            "n_dp_ranks", j->n_dp, "n_stages", j->n_stages, "n_steps", j->n_steps);
    traces_stragglers_json(&x->stragglers, o);
    return LW_OK;
}

static void forget(void *facts)
{
    struct job_facts *x = facts;

    traces_stragglers_free(&x->stragglers);
    job_ops_free(&x->ops);
}

const struct lw_importer lw_importer_job_ops = {
    .name = "job-operations",
    .reads = "operations of a job's workers as CSV",
    .marks = "begin with columns step, rank, dp_rank, stage, optype, ...",
    .import_help = "Operations of a job's workers (CSV) give nothing to import.",
    .inspect_help = "Operations of a job's workers (CSV): what stragglers cost, by type of "
                    "operation, rank and stage.",
    .instead = "'lapwing inspect' says what its stragglers cost",
    .reports = true,
    .is = is,
    .convert = traces_convert_nothing,
    .facts_size = sizeof(struct job_facts),
    .look = look,
    .text = text,
    .json = json,
    .free = forget,
};
