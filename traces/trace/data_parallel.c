/* The wrapper's own record_function ranges tell which one ran: "DistributedDataParallel.forward"
 * (pytorch torch/nn/parallel/distributed.py), "FullyShardedDataParallel.forward" and its siblings
 * (torch/distributed/fsdp/fully_sharded_data_parallel.py), "FSDP::all_gather" and its siblings
 * (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py). FSDP inside DDP counts as FSDP: its
 * communication decides the plan. */
#include "traces/trace/data_parallel.h"

static const struct {
    const char *prefix, *name;
} marks[TRACES_N_WRAPPERS] = {
    {NULL, "none"},
    {"DistributedDataParallel.", "DistributedDataParallel"},
    {"FullyShardedDataParallel.", "FullyShardedDataParallel (FSDP1)"},
    {"FSDP::", "fully_shard (FSDP2)"},
};

bool traces_wrapper_shards(enum traces_wrapper w)
{
    return w == TRACES_WRAPPER_FSDP1 || w == TRACES_WRAPPER_FSDP2;
}

const char *traces_wrapper_name(enum traces_wrapper w)
{
    return marks[w].name;
}

enum traces_wrapper lw_trace_wrapper(const struct lw_trace *t)
{
    enum traces_wrapper found = TRACES_WRAPPER_NONE;

    for (int64_t i = 0; i < t->n; i++) {
        if (!lw_trace_on_host(t, i))
            continue;
        for (int w = TRACES_N_WRAPPERS - 1; w > (int)found; w--)
            if (lw_trace_name_begins(t, i, marks[w].prefix))
                found = (enum traces_wrapper)w;
    }
    return found;
}

bool traces_is_stage(const struct lw_trace *t)
{
    bool messages = false;

    for (int64_t i = 0; i < t->n; i++) {
        if (!lw_trace_on_host(t, i) || !lw_trace_name_begins(t, i, "c10d::"))
            continue;
        if (lw_trace_name_begins(t, i, "c10d::allreduce") ||
            lw_trace_name_begins(t, i, "c10d::_reduce_scatter") ||
            lw_trace_name_begins(t, i, "c10d::reduce_scatter"))
            return false;
        messages |= lw_trace_name_begins(t, i, "c10d::send") ||
                    lw_trace_name_begins(t, i, "c10d::recv");
    }
    return messages;
}
