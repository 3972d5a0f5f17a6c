#pragma once

#include <stdbool.h>

#include "traces/trace/trace.h"

/* Which data-parallel wrapper ran, by the ranges that it records on the host. */
enum traces_wrapper {
    TRACES_WRAPPER_NONE,  /* no range of a wrapper in the file */
    TRACES_WRAPPER_DDP,   /* DistributedDataParallel */
    TRACES_WRAPPER_FSDP1, /* FullyShardedDataParallel */
    TRACES_WRAPPER_FSDP2, /* fully_shard */
    TRACES_N_WRAPPERS,
};

/* Keeps shards of the parameters and gathers them: both forms of FSDP. */
bool traces_wrapper_shards(enum traces_wrapper w);
enum traces_wrapper lw_trace_wrapper(const struct lw_trace *t);
const char *traces_wrapper_name(enum traces_wrapper w); /* "DistributedDataParallel", ... */
/* The rank sends or receives messages (c10d::send, recv) and reduces nothing: a stage of a
 * pipeline. */
bool traces_is_stage(const struct lw_trace *t);
