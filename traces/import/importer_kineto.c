/* PyTorch profiler traces. `inspect` and `sim --replay` know their timelines themselves. */
#include "shared/io/input.h"
#include "traces/import/convert.h"
#include "traces/kineto/import_kineto.h"

static bool is(const struct lw_input *in, const char *text, size_t len)
{
    (void)in;
    return len > 0 && (*text == '{' || *text == '[');
}

const struct lw_importer lw_importer_kineto = {
    .name = "kineto",
    .reads = "PyTorch profiler traces (Kineto, Chrome JSON)",
    .marks = "begin with { or [",
    .import_help = "PyTorch profiler (Kineto) traces of one model give a workload: modules, "
                   "parameters, gradient-ready times, gaps. A trace of one rank alone gives the "
                   "times; traces of data-parallel ranks beside it give what to compare with "
                   "(world size, step, buckets), and their collectives as --cluster-out. The "
                   "sidecar that record_ddp.py writes is found beside each trace.",
    .inspect_help = "PyTorch profiler (Kineto) traces: for devices the busy, exposed and idle time "
                    "of each iteration and its communication kernels with bytes; for the host its "
                    "steps, phases and collectives.",
    .gives = LW_GIVES_WORKLOAD | LW_GIVES_CLUSTER,
    .timeline = true,
    .is = is,
    .take = lw_kineto_take,
    .convert = traces_convert_timeline,
};
