#!/usr/bin/env python3
"""Shares of the peak that long attention kernels keep: attention_forward and attention_backward of
Blackwell.

    fit_long_attention.py      prints device, kernel, shares of the peak in forward and backward, TFLOP/s

The rows are NVIDIA/cudnn-frontend's (benchmark/sdpa_benchmark_bf16_training/artifacts @f937055e,
which is cuDNN 9.10.2; benchmark/sdpa_benchmark_training/artifacts @0b1577c8, 9.13, and @b372d398,
9.17): 128 heads of 128, causal, bf16, 131,072 tokens; milliseconds of one kernel, 0.3 to 8 s long,
so at the clock that the power limit leaves; shorter ones run at up to 1.16 times the rate. The
share is that of shared/device/device_time.c: tiles of 128 queries, 64 keys for the diagonal, 165
for filling.
"""
QUERIES, WIDTH, DIAGONAL, FILL, TAIL, LAUNCH_MS = 128, 128, 64, 165, (0.5, 0.3), 0.004
PEAKS = {"B200": (2250, 148), "GB200": (2500, 148), "GB300": (2500, 160)}  # TFLOP/s of bf16, SMs
ROWS = [  # device, kernel, sequences, tokens, forward, backward
    ("B200", "cuDNN 9.10.2", 2, 131072, 854.100, 2736.916), ("B200", "cuDNN 9.10.2", 1, 131072, 417.410, 1355.987),
    ("GB200", "cuDNN 9.17", 1, 131072, 383.713, 1184.584),
    ("GB300", "cuDNN 9.13", 1, 131072, 327.134, 1099.493), ("GB300", "cuDNN 9.17", 1, 131072, 309.147, 1034.802),
    ("B200", "FlashAttention-2", 2, 131072, 2527.642, 7692.665), ("GB300", "FlashAttention-2", 1, 131072, 1164.878, 3694.044),
    ("B200", "FlashAttention-2 of torch", 2, 131072, 2731.190, 8108.904),
    ("GB200", "FlashAttention-2 of torch", 1, 131072, 1267.708, 3872.480),
    ("GB300", "FlashAttention-2 of torch", 1, 131072, 1257.150, 3815.728)]
HEADS = 128


def share(device, batch, tokens, backward, ms):
    peak, sms = PEAKS[device]
    tiles = batch * HEADS * -(-tokens // QUERIES)
    keys = tiles * (tokens / 2 + DIAGONAL + FILL) / sms + TAIL[backward] * (tokens + FILL)
    flop = 2 * QUERIES * WIDTH * (5 if backward else 2) * keys
    return flop * sms / (peak * 1e9 * (ms - LAUNCH_MS))


if __name__ == "__main__":
    for device, kernel, batch, tokens, *times in ROWS:
        of = [share(device, batch, tokens, way, ms) for way, ms in enumerate(times)]
        flops = [(2, 5)[way] * batch * HEADS * tokens ** 2 * WIDTH / ms / 1e9 for way, ms in enumerate(times)]
        print(f"{device:6} {kernel:26} {of[0]:.3f} {of[1]:.3f}  {flops[0]:5.0f} {flops[1]:5.0f}")
