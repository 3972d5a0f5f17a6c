#!/usr/bin/env python3
"""Fit MI300X's figures for kernels of training: gemm_sustained, attention_forward, attention_backward.

    fit_mi300x.py      prints each figure, and the median error of the rows that it was not fitted on

The rows (mi300x_kernels.csv, beside this file) are AMD-AGI/Primus-Turbo@221d75f1's,
output/baseline_gemm.csv and baseline_attention.csv (MIT): layers of six models on one MI300X, bf16,
the forward and the backward of each, a benchmark's mean. The model is that of
shared/device/device_time.c (fit_devices.py has its products); gemm_fill is A100's. Every second row
is fitted: the least sum of absolute errors of both directions; of attention the median share of
causal rows with heads of 128.
"""
import csv
import os
import statistics

import fit_devices

DEVICE = {"peak": 1307.4e12, "sms": 304, "bandwidth": 5.3e12, "tile": 128, "boost": False,
          "tiles": fit_devices.tiles(128)}
FILL = 144
QUERIES, DIAGONAL, KEY_FILL, HEAD_FILL, TAIL, LAUNCH_S = 128, 64, 165, 22, (0.5, 0.3), 4e-6


def product_s(share, m, n, k):
    p = {"batch": 1, "m": m, "n": n, "k": k, "out": 2, "grouped": False, "sums": False, "f32": False}
    return fit_devices.product_s(DEVICE, (share, share, FILL), p)


def errors(share, row):
    """Of the forward, and of both products of the backward."""
    m, n, k = (int(row[c]) for c in "mnk")
    back = product_s(share, m, k, n) + product_s(share, n, k, m)
    return [product_s(share, m, n, k) / (float(row["forward_ms"]) * 1e-3) - 1,
            back / (float(row["backward_ms"]) * 1e-3) - 1]


def of_share_1(row, backward):
    """Seconds of attention at the whole peak, without its launch."""
    s, width, causal = int(row["m"]), int(row["width"]), row["causal"] == "1"
    keys = (s / 2 + DIAGONAL if causal else s) + KEY_FILL
    tiles = int(row["batch"]) * int(row["heads"]) * -(-s // QUERIES)
    per_key = 2 * QUERIES * (5 if backward else 2) * width
    rate = DEVICE["peak"] / DEVICE["sms"] * width / (width + HEAD_FILL) * (128 + HEAD_FILL) / 128
    return per_key * (tiles * keys / DEVICE["sms"] + TAIL[backward] * (s + KEY_FILL)) / rate


def share_of(row, backward):
    ms = float(row["backward_ms" if backward else "forward_ms"])
    return of_share_1(row, backward) / (ms * 1e-3 - LAUNCH_S)


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mi300x_kernels.csv")
    with open(path, encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    gemm = [r for r in rows if r["kernel"] == "gemm"]
    share = min((s / 1000 for s in range(300, 800, 5)),
                key=lambda s: sum(abs(e) for r in gemm[::2] for e in errors(s, r)))
    for way in (0, 1):
        left = [errors(share, r)[way] for r in gemm[1::2]]
        print(f"gemm_sustained {share:.3f}, {('forward', 'backward')[way]}: median error "
              f"{100 * statistics.median(map(abs, left)):.1f} %, bias {100 * statistics.median(left):+.1f} %")
    attention = [r for r in rows if r["kernel"] == "attention"]
    for way in (0, 1):
        fitted = [r for r in attention[::2] if r["width"] == "128" and r["causal"] == "1"]
        share = round(statistics.median(share_of(r, way) for r in fitted), 3)
        for width, causal in (("128", "1"), ("128", "0"), ("64", "1")):
            left = [share_of(r, way) / share - 1 for r in attention[1::2]
                    if (r["width"], r["causal"]) == (width, causal)]
            print(f"attention_{('forward', 'backward')[way]} {share:.3f}, heads of {width}, causal {causal}: "
                  f"median error {100 * statistics.median(map(abs, left)):.1f} %, "
                  f"bias {100 * statistics.median(left):+.1f} %")


if __name__ == "__main__":
    main()
