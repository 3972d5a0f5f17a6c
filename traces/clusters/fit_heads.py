#!/usr/bin/env python3
"""Fit what a score costs beside its products in heads of 64 (narrow_speed of
shared/device/device_time.c).

    fit_heads.py FLASHATTENTION.csv H200.csv AICONFIGURATOR.csv

FLASHATTENTION: gpu, kernel, direction, causal, head_dim, heads, batch, seq, tflops
(Dao-AILab/flash-attention@0251105a, assets). H200: docs/results/h200-20261128/attention.csv.
AICONFIGURATOR: device, causal, dtype, batch, seq, heads, head_dim, trtllm_ms, vllm_ms
(ai-dynamo/aiconfigurator@095f58a). The first two are fitted: A100, H100, H200. What is printed last
are other devices: AIConfigurator's and CUDNN below. A kernel of a device and direction is a group;
its share of the peak is that of its heads of 128, and only heads of 64 are fitted or judged. Three
figures: instructions of a score in forward and in backward, of which an SM does 128 a clock, and
how much products hide, of the exponents in EXPONENTS; least sum of the groups' medians of the
absolute logarithm.
"""
import csv
import math
import sys

# Peak, SMs, flops of 16-bit products and exponentials of an SM in a clock.
DEVICES = {"a100": (312e12, 108, 2048, 16), "h100": (989e12, 132, 4096, 16), "h200": (989e12, 132, 4096, 16),
           "b200": (2250e12, 148, 8192, 16), "gb200": (2500e12, 148, 8192, 16),
           "b300": (2250e12, 160, 8192, 32), "gb300": (2500e12, 160, 8192, 32)}
KERNELS = ("FlashAttention-2", "FlashAttention-3", "cuDNN")
EXPONENTS, LEAST_ROWS = (1, 1.5, 2, 2.5, 3, 4), 5
HEAD_FILL, KEY_FILL, DIAGONAL, TAIL, TAIL_BACKWARD, LAUNCH_S = 22, 165, 64, 0.5, 0.3, 4e-6
LONG = 1e11  # flops: shorter kernels say little of the rate
# NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training/results: cuDNN 9.19, bf16, causal. Heads
# of 64: gpt_oss, two sequences, 64 heads, a window of 1,024. Heads of 128: llama3.1, one sequence,
# 64 heads. Milliseconds of forward and backward (gb200_919_only_cudnn, gb300_919_only_cudnn,
# h200_919_only_cudnn @ afa9f7c0 and df73764a).
CUDNN = {
    ("h200", 64): {32768: (3.021, 9.045), 16384: (1.499, 4.392), 8192: (0.738, 2.149), 4096: (0.358, 1.042),
                   2048: (0.166, 0.488)},
    ("h200", 128): {32768: (25.566, 75.688), 16384: (6.531, 19.002), 8192: (1.708, 5.083), 4096: (0.465, 1.450),
                    2048: (0.142, 0.464)},
    ("gb200", 64): {32768: (1.711, 4.099), 16384: (0.853, 2.024), 8192: (0.423, 0.998), 4096: (0.209, 0.487),
                    2048: (0.104, 0.230)},
    ("gb200", 128): {32768: (10.226, 29.863), 16384: (2.606, 7.845), 8192: (0.688, 2.097), 4096: (0.206, 0.607),
                     2048: (0.066, 0.206)},
    ("gb300", 64): {32768: (1.448, 3.930), 16384: (0.722, 1.951), 8192: (0.359, 0.965), 4096: (0.178, 0.472),
                    2048: (0.089, 0.221)},
    ("gb300", 128): {32768: (8.734, 28.390), 16384: (2.235, 7.380), 8192: (0.583, 1.985), 4096: (0.164, 0.575),
                     2048: (0.054, 0.190)},
}


def row(batch, seq, heads, width, causal, seconds, window=0):
    return {"batch": batch, "seq": seq, "heads": heads, "width": width, "causal": causal, "window": window,
            "s": seconds}


def add(groups, key, r):
    groups.setdefault(key, []).append(r)


def read_flash(path, groups):
    with open(path) as f:
        for r in csv.DictReader(f):
            if r["kernel"] not in KERNELS:
                continue
            causal, both = r["causal"] == "True", r["direction"] == "fwd+bwd"
            b, s, h, w = (int(r[c]) for c in ("batch", "seq", "heads", "head_dim"))
            flop = 4 * b * h * s * s * w * (0.5 if causal else 1) * (3.5 if both else 1)
            add(groups, (r["gpu"][:4].lower(), r["kernel"], "both" if both else "forward"),
                row(b, s, h, w, causal, flop / float(r["tflops"]) / 1e12))


def read_kernels(path, groups, device, columns):
    """columns: (name of a column of milliseconds, kernel, direction)."""
    with open(path) as f:
        for r in csv.DictReader(f):
            b, s, h, w, causal = (int(r[c]) for c in ("batch", "seq", "heads", "head_dim", "causal"))
            name = device or r["device"].replace("_sxm", "")
            if 4 * b * h * s * s * w / (2 if causal else 1) < LONG or name not in DEVICES:
                continue
            if not device and (r["dtype"] != "bf16" or not causal):
                continue
            for column, kernel, direction in columns:
                if r[column] and r.get("kernel", kernel) == kernel:
                    add(groups, (name, kernel, direction), row(b, s, h, w, causal, float(r[column]) / 1e3))


def read_cudnn(groups):
    for (device, width), times in CUDNN.items():
        for seq, both in times.items():
            for direction, ms in zip(("forward", "backward"), both):
                add(groups, (device, "cuDNN 9.19", direction),
                    row(2 if width == 64 else 1, seq, 64, width, True, ms / 1e3, 1024 if width == 64 else 0))


def speed(device, r, share, figures, backward):
    """Against heads of 128; no figures: the constant of all devices."""
    w = r["width"] / 128
    if figures is None or w >= 1:
        return w * 128 / (w * 128 + HEAD_FILL) * (128 + HEAD_FILL) / 128
    peak, sms, flops, exponentials = device
    forward, back, p = figures
    clocks = 1 / exponentials + (back if backward else forward) / 128
    x = min(flops * clocks * share / (1280 if backward else 512), 1) ** p
    return w / (w ** p * (1 - x) + x) ** (1 / p)


def one_way(device, r, share, figures, backward):
    keys, sms = r["seq"], device[1]
    window = r["window"] if 0 < r["window"] < keys else keys
    mean = keys
    if r["causal"]:
        mean = min(window - window ** 2 / (2 * keys) + DIAGONAL * (2 - window / keys), keys / 2 + DIAGONAL)
    longest = min(window + 128, keys) if r["causal"] else keys
    tiles = r["batch"] * r["heads"] * -(-r["seq"] // 128)
    tail = (TAIL_BACKWARD if backward else TAIL) * (longest + KEY_FILL)
    rate = share * device[0] / sms * speed(device, r, share, figures, backward)
    return 256 * (5 if backward else 2) * r["width"] * (tiles * (mean + KEY_FILL) / sms + tail) / rate + LAUNCH_S


def seconds(key, r, share, figures):
    ways = {"forward": (False,), "backward": (True,), "both": (False, True)}[key[2]]
    return sum(one_way(DEVICES[key[0]], r, share, figures, way) for way in ways)


def median(values):
    return sorted(values)[len(values) // 2]


def logs(key, rows, share, figures):
    return [math.log(seconds(key, r, share, figures) / r["s"]) for r in rows]


def with_shares(groups):
    """Rows of heads of 64 and the group's share of the peak, from those of 128."""
    found = {}
    for key, rows in groups.items():
        wide, narrow = ([r for r in rows if r["width"] == w] for w in (128, 64))
        if wide and len(narrow) >= LEAST_ROWS:
            share = min((i / 250 for i in range(15, 248)),
                        key=lambda s: median([abs(v) for v in logs(key, wide, s, None)]))
            found[key] = (share, narrow)
    return found


def fit(groups):
    def cost(figures):
        return sum(median([abs(v) for v in logs(k, rows, s, figures)]) for k, (s, rows) in groups.items())
    best = []
    for p in EXPONENTS:  # one figure after the other
        figures = (4, 24, p)
        for _ in range(4):
            figures = min(((f, figures[1], p) for f in range(41)), key=cost)
            figures = min(((figures[0], b, p) for b in range(81)), key=cost)
        best.append((cost(figures), figures))
        print("exponent %.2f: forward %d, backward %d instructions, sum of medians %.3f" % (p, *figures[:2], best[-1][0]))
    print("constant of all devices: sum of medians %.3f" % cost(None))
    return min(best)[1]


def report(title, groups, figures):
    print(title)
    for key in sorted(groups):
        share, rows = groups[key]
        print("  %-6s %-16s %-8s share %.2f, %2d rows: median error %5.1f %%, bias %+6.1f; constant %5.1f %%, %+6.1f" % (
            *key, share, len(rows), *(100 * v for f in (figures, None) for v in (
                median([abs(math.exp(v) - 1) for v in logs(key, rows, share, f)]),
                math.exp(median(logs(key, rows, share, f))) - 1))))


def main(flash, h200, others):
    groups, left = {}, {}
    read_flash(flash, groups)
    read_kernels(h200, groups, "h200", [(d + "_ms", k, d) for k in ("flash", "cudnn") for d in ("forward", "backward")])
    read_kernels(others, left, None, [("trtllm_ms", "TensorRT-LLM", "forward"), ("vllm_ms", "vLLM", "forward")])
    read_cudnn(left)
    groups, left = with_shares(groups), with_shares(left)
    figures = fit(groups)
    print("exponent %g, forward %d, backward %d" % (figures[2], *figures[:2]))
    report("fitted", groups, figures)
    report("left out", left, figures)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
