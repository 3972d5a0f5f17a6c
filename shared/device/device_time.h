#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/cluster/cluster.h"
#include "shared/numbers/dtype.h"
#include "shared/numbers/units.h"
#include "shared/workload/kernel.h"

/* How long one kernel takes on a device, from its shape. See docs/design/device.md. */

/* The device has the figures of products by shape: a peak of that type, SMs, gemm_sustained,
 * gemm_fill, memory bandwidth. Without them a roofline of FLOPs and bytes is all there is. */
bool lw_device_by_shape(const struct lw_device *d, enum lw_dtype dtype);
/* And how fast those of 8-bit operands are, or of 4-bit ones. NULL = yes, else what it lacks. */
const char *lw_device_lacks_narrow(const struct lw_device *d, enum lw_dtype dtype, bool fp4);
/* What products of f32 in TF32 lack there; NULL = nothing. */
const char *lw_device_lacks_tf32(const struct lw_device *d);

/* What bounds a product and by how much; for people. */
struct lw_product_time {
    lw_ps time;
    double compute_s, memory_s, overhead_s;
    double rate_share;   /* of the peak, in full waves: between gemm_sustained and gemm_boost */
    int32_t tile_m, tile_n, split_k;
    int64_t n_tiles, n_waves;
};

struct lw_product_time lw_product_explain(const struct lw_device *d, const struct lw_product *p);
/* The largest of its terms. */
enum lw_bound lw_product_bound(const struct lw_product_time *t);
lw_ps lw_product_time(const struct lw_device *d, const struct lw_product *p);

/* Fused attention of batch sequences: heads queries of seq_q tokens against seq_k keys. Fewer
 * queries than keys under a causal mask: early and late ones, with the mean of all. */
struct lw_attention {
    int64_t batch, heads, kv_heads, seq_q, seq_k, qk_width, v_width;
    int64_t window;      /* keys that a query attends to at most; 0, or seq_k and more: all */
    enum lw_dtype dtype;
    bool causal, backward;
    double speed;        /* of the kernel, against the device's best known; 0 = 1 */
};
lw_ps lw_attention_time(const struct lw_device *d, const struct lw_attention *a);

/* A time, and the largest of what it consists of. */
struct lw_bounded {
    lw_ps time;
    enum lw_bound bound;
};
struct lw_bounded lw_product_bounded(const struct lw_device *d, const struct lw_product *p);
struct lw_bounded lw_attention_bounded(const struct lw_device *d, const struct lw_attention *a);
/* more: that the kernel takes beside its bytes and a launch. */
struct lw_bounded lw_traffic_bounded(const struct lw_device *d, int64_t bytes, lw_ps more);

/* FLOP/s of the kernels of a scan over states (Mamba-2), which take SMs' clocks whatever a device's
 * products reach: a share of the peak by sm_flops_per_clock; without that figure as of H100. 0:
 * the device has no peak of 16-bit products. */
double lw_device_scan_rate(const struct lw_device *d);
/* Bytes per second that kernels without products reach. */
double lw_device_traffic_rate(const struct lw_device *d);
/* A kernel that moves so many bytes of device memory, read and written. */
lw_ps lw_traffic_time(const struct lw_device *d, int64_t bytes);
