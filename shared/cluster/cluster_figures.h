#pragma once

/* The figures of a cluster's objects, one row each, in the order in which they are shown:
 *
 *     row(member, "unit", RANGE)     its name in the file is the member's
 *     time(stem)                     member stem_ps, whole ps; "stem_ns" in the file
 *
 * The file format, the check (RANGE is one of shared/cluster/cluster.c) and what shows a cluster
 * are made from these lists. */

#define LW_DEVICE_FIGURES(row, time) \
    row(gemm_efficiency, "", SHARE) \
    row(gemm_sustained, "", SHARE) \
    row(gemm_boost, "", SHARE) \
    row(gemm_fill, "", POSITIVE) \
    row(gemm_tile, "", TILE) \
    row(gemm_odd, "", SHARE) \
    row(fp8_speedup, "", POSITIVE) \
    row(fp8_peak_flops, "flop/s", POSITIVE) \
    row(fp4_speedup, "", POSITIVE) \
    row(fp4_peak_flops, "flop/s", POSITIVE) \
    row(tf32_peak_flops, "flop/s", POSITIVE) \
    row(attention_forward, "", SHARE) \
    row(attention_backward, "", SHARE) \
    row(sm_flops_per_clock, "", POSITIVE) \
    row(sm_exponentials_per_clock, "", POSITIVE) \
    row(memory_bytes, "B", COUNT) \
    row(framework_bytes, "B", COUNT) \
    row(memory_bytes_per_s, "B/s", POSITIVE) \
    row(memory_sustained, "", SHARE) \
    row(copy_bytes_per_s, "B/s", POSITIVE) \
    row(host_link_bytes_per_s, "B/s", POSITIVE) \
    row(pageable_bytes_per_s, "B/s", POSITIVE) \
    row(host_core_bytes_per_s, "B/s", POSITIVE) \
    row(n_sms, "", COUNT) \
    row(host_op_scale, "", POSITIVE) \
    time(launch) \
    time(probe)

#define LW_LINK_FIGURES(row, time) \
    row(bytes_per_s, "B/s", POSITIVE) \
    time(latency) \
    row(n_links, "", COUNT) \
    row(n_sharers, "", COUNT) \
    row(pair_links, "", COUNT) \
    row(quad_links, "", COUNT)

#define LW_HOST_FIGURES(row) \
    row(n_numa, "", COUNT) \
    row(piece_bytes, "B", COUNT)

#define LW_NCCL_FIGURES(row, time) \
    row(compute_capability, "", CAPABILITY) \
    row(multicast, "", FLAG) \
    row(amd_host, "", FLAG) \
    row(arm_host, "", FLAG) \
    row(collnet, "", FLAG) \
    row(devices_per_host, "", COUNT) \
    row(ll128, "", FLAG) \
    row(adapter_bytes_per_s, "B/s", POSITIVE) \
    row(port2_bytes_per_s, "B/s", POSITIVE) \
    row(port4_bytes_per_s, "B/s", POSITIVE) \
    row(port8_bytes_per_s, "B/s", POSITIVE) \
    time(net_latency) \
    time(post)

/* Those that publications state, with LW_FAIR_LINKS at the end. */
#define LW_RATE_FIGURES(row) \
    row(compute_rate_under_comm, "", SHARE) \
    row(comm_rate_under_compute, "", SHARE) \
    row(comm_sms, "", COUNT) \
    row(sms_per_channel, "", POSITIVE) \
    row(memory_bytes_per_comm_byte, "B/B", POSITIVE)
#define LW_FAIR_LINKS(row) row(fair_links, "", FLAG)

#define LW_INTERFERENCE_FIGURES(row) \
    LW_RATE_FIGURES(row) \
    row(comm_on_compute_core, "", PART) \
    row(comm_workers, "", COUNT) \
    row(shared_link, "", FLAG) \
    LW_FAIR_LINKS(row)

#define LW_PUBLISHED_FIGURES(row) LW_RATE_FIGURES(row) LW_FAIR_LINKS(row)

#define LW_NOISE_FIGURES(row) \
    row(compute_sigma, "", SIGMA) \
    row(comm_sigma, "", SIGMA) \
    row(device_spread, "", PART)
