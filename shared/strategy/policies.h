#pragma once

/* The policies that a strategy names, one row each:
 *
 *     row(ID, symbol, "word", "what it decides")
 *
 * The row gives the constant (LW_BUCKET_DEEPSPEED), the word on the command line and in files,
 * its line in `lapwing help strategy` and completion, and the policy's place in the tests that
 * run over all policies. `symbol` names the constant struct that holds what the policy does; its
 * file defines it: lw_bucket_policy_deepspeed in shared/bucket/bucket_deepspeed.c
 * (shared/bucket/policy.h). A word's number is its place in the list; numbers are not stored,
 * words are. */

#define LW_BUCKET_POLICIES(row) \
    row(C10D_2020, c10d_2020, "c10d-2020", \
        "c10d of 2020: limits [first, cap] in registration order, the list reversed, not rebuilt") \
    row(C10D_1_13, c10d_1_13, "c10d-1.13", \
        "c10d of torch 1.13: rebuilt in ready order with limits [first, cap]") \
    row(C10D_2, c10d_2, "c10d-2", \
        "c10d of torch 2: as c10d-1.13; an explicit cap removes the small first bucket") \
    row(PICOTRON, picotron, "picotron", \
        "registration order, a bucket is a capacity in elements") \
    row(SHARDED_DDP, sharded_ddp, "sharded-ddp", \
        "FairScale: by size and owner, each bucket reduced to its owner") \
    row(COLOSSAL, colossal, "colossal", \
        "ColossalAI: one flat buffer per dtype, reduced after the backward") \
    row(PER_TENSOR, per_tensor, "per-tensor", \
        "one bucket per gradient, in ready order") \
    row(SINGLE, single, "single", \
        "one bucket per dtype and device") \
    row(MG_WFBP, mg_wfbp, "mg-wfbp", \
        "ready order, merged where waiting costs less than a start-up, by the cluster's cost") \
    row(OPTIMAL, optimal, "optimal", \
        "the runs of the ready order that end first by the cluster's cost (exact)") \
    row(DEEPSPEED, deepspeed, "deepspeed", \
        "DeepSpeed: ready order, a bucket goes before the gradient that would overflow it") \
    row(MEGATRON, megatron, "megatron", \
        "Megatron-LM: reverse registration, a bucket closes once it has max(40e6, 1e6 ranks) " \
        "elements")

#define LW_SHARD_POLICIES(row) \
    row(OSS_GREEDY, oss_greedy, "oss-greedy", \
        "whole parameters as registered, each to the first member with the fewest elements") \
    row(LPT, lpt, "lpt", \
        "whole parameters, the largest first, each to the member with the fewest bytes") \
    row(FLAT, flat, "flat-contiguous", \
        "one flat buffer per dtype, cut into equal shares") \
    row(PER_TENSOR, per_tensor, "per-tensor", \
        "every parameter cut into equal parts") \
    row(ROWS, flat, "rows", \
        "--zero 3: each parameter padded to equal numbers of its rows, as FSDP2 does") \
    row(PING_PONG, ping_pong, "ping-pong", \
        "whole parameters, the smallest first, to members in turn, there and back")

#define LW_PARTITIONERS(row) \
    row(UNIFORM, uniform, "uniform", \
        "equal numbers of modules, the rest to the last stages") \
    row(COLOSSAL_BALANCED, colossal_balanced, "colossal-balanced", \
        "trainable elements by ColossalAI's bisection") \
    row(DEEPSPEED_UNIFORM, deepspeed_uniform, "deepspeed-uniform", \
        "equal numbers of modules, the rest to the first parts") \
    row(DEEPSPEED_BALANCED, deepspeed_balanced, "deepspeed-balanced", \
        "trainable elements by DeepSpeed's balancing") \
    row(PIPEDREAM, pipedream, "pipedream", \
        "time by PipeDream's planner, transfers not weighed") \
    row(EXPLICIT, explicit, "explicit", \
        "as given") \
    row(EXACT, exact, "exact", \
        "the slowest part is as fast as can be by forward, backward and recomputed time") \
    row(MEGATRON, megatron, "megatron", \
        "equal numbers of blocks, the embedding before the first, the head after the last")

#define LW_SCHEDULES(row) \
    row(GPIPE, gpipe, "gpipe", \
        "all forwards, then all backwards") \
    row(1F1B, 1f1b, "1f1b", \
        "one forward, one backward after the warm-up (PipeDream-Flush)") \
    row(INTERLEAVED_1F1B, interleaved_1f1b, "interleaved-1f1b", \
        "1f1b over several chunks per rank (Megatron-LM)") \
    row(INTERLEAVED_ZB, interleaved_zb, "interleaved-zb", \
        "interleaved-1f1b with the backward in halves") \
    row(LOOPED_BFS, looped_bfs, "looped-bfs", \
        "every chunk's micro-batches before the next chunk (breadth-first)") \
    row(ZB_H1, zb_h1, "zb-h1", \
        "zero bubble, the memory of 1f1b") \
    row(ZB_H2, zb_h2, "zb-h2", \
        "zero bubble, twice the memory of 1f1b") \
    row(ZB_AUTO_1P, zb_auto_1p, "zb-auto-1p", \
        "zero bubble, searched within the memory of p activations") \
    row(ZB_AUTO_2P, zb_auto_2p, "zb-auto-2p", \
        "zero bubble, searched within the memory of 2 p activations") \
    row(ZBV, zbv, "zbv", \
        "zero bubble, two chunks per rank in a V") \
    row(ZBV_AUTO, zbv_auto, "zbv-auto", \
        "zero bubble in a V, searched by costs") \
    row(V_HALF, v_half, "v-half", \
        "two chunks in a V, half the memory of 1f1b") \
    row(V_MIN, v_min, "v-min", \
        "two chunks in a V, a third of the memory of 1f1b") \
    row(DUALPIPE, dualpipe, "dualpipe", \
        "two directions, forward and backward overlapped (DeepSeek)") \
    row(DUALPIPEV, dualpipev, "dualpipev", \
        "dualpipe folded into a V, each rank holds two chunks") \
    row(COLOSSAL_1F1B, colossal_1f1b, "colossal-1f1b", \
        "ColossalAI's 1f1b with combined calls") \
    row(COLOSSAL_INTERLEAVED, colossal_interleaved, "colossal-interleaved", \
        "ColossalAI's interleaved 1f1b with combined calls") \
    row(CUSTOM, custom, "custom", \
        "a grid read from a file (plan --schedule-file)")

#define LW_ROW_BUCKET_ID(id, symbol, word, help) LW_BUCKET_##id,
#define LW_ROW_SHARD_ID(id, symbol, word, help) LW_SHARD_##id,
#define LW_ROW_PARTITION_ID(id, symbol, word, help) LW_PARTITION_##id,
#define LW_ROW_SCHEDULE_ID(id, symbol, word, help) LW_SCHEDULE_##id,

enum lw_bucket_policy_id { LW_BUCKET_POLICIES(LW_ROW_BUCKET_ID) LW_N_BUCKET_POLICIES };
enum lw_shard_policy_id { LW_SHARD_POLICIES(LW_ROW_SHARD_ID) LW_N_SHARD_POLICIES };
enum lw_partition { LW_PARTITIONERS(LW_ROW_PARTITION_ID) LW_N_PARTITIONS };
enum lw_schedule { LW_SCHEDULES(LW_ROW_SCHEDULE_ID) LW_N_SCHEDULES };

const char *lw_bucket_policy_name(enum lw_bucket_policy_id p);
const char *lw_shard_policy_name(enum lw_shard_policy_id p);
const char *lw_schedule_name(enum lw_schedule s);

/* What it decides: the row's line, as help and a plan's notes show it. */
const char *lw_shard_policy_help(enum lw_shard_policy_id p);
const char *lw_partition_help(enum lw_partition p);
