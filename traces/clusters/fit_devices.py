#!/usr/bin/env python3
"""Fit a device's figures for kernels by shape on published tables.

    fit_devices.py GEMM_TABLE.csv DEVICE      DEVICE: a row of DEVICES below
    fit_devices.py ATTENTION_TABLE.csv DEVICE

The model is that of shared/device/device_time.c; its constants stand here once more, and the test
of that file holds both against the same table. Half of the shapes (seed 1) are fitted, the error is
of the other half. Products: gemm_sustained, gemm_boost (where the device has both), gemm_fill.
Attention: the share of forward and of backward.
"""
import csv
import math
import random
import sys

SMALL_TILE, BOOST_S, BANDWIDTH, LAUNCH_S, EXPOSED = 40, 0.3e-3, 0.85, 4e-6, 0.5
SUMS_EXPOSED = 0.4
WIDE_BACKWARD, TAIL, TAIL_BACKWARD = 0.8, 0.5, 0.3
DEVICES = {
    "a100-pcie": {"peak": 312e12, "sms": 108, "bandwidth": 1.94e12, "tile": 128, "boost": False},
    "b200": {"peak": 2250e12, "sms": 148, "bandwidth": 8e12, "tile": 256, "boost": True},
}


def parts(n, of):
    return -(-n // of)


def speed(m, n):
    x = m * n / (m + n)
    return x / (x + SMALL_TILE)


def tiles(side):
    best = speed(256, side)
    sides = (64, 128, 192, 256)
    return [(m, n, speed(m, n) / best) for m in sides for n in sides if min(m, n) <= side]


def product_s(device, figures, p):
    """Seconds of batch products m x n x k; figures: sustained, boost, fill."""
    sustained, boost, fill = figures
    best = math.inf
    for m, n, relative in device["tiles"]:
        count = p["batch"] * parts(p["m"], m) * parts(p["n"], n)
        for split in (1, 2, 4, 8):
            if split > 1 and p["k"] // split < 512:
                break
            waves = parts(count * split, device["sms"])
            t = waves * (p["k"] / split + fill) * 2 * m * n
            t /= device["peak"] / device["sms"] * relative
            if split > 1:
                t += 4 * split * p["batch"] * p["m"] * p["n"] / (BANDWIDTH * device["bandwidth"])
            best = min(best, t)
    share = sustained
    if boost > sustained:
        x = best / sustained / BOOST_S
        share += (boost - sustained) / (1 + x * x)
    traffic = 2 * (p["m"] * p["k"] + p["k"] * p["n"]) + p["out"] * p["m"] * p["n"]
    memory = p["batch"] * traffic / (BANDWIDTH * device["bandwidth"])
    if not p["grouped"]:
        sums = 8 * p["m"] * p["n"] if p["sums"] and p["f32"] else 0
        sums *= SUMS_EXPOSED / (BANDWIDTH * device["bandwidth"])
        return max(best / share, memory) + LAUNCH_S + sums
    waits = 2 * p["k"] * p["n"] + (8 * p["m"] * p["n"] if p["sums"] else 0)
    waits = LAUNCH_S + waits / (BANDWIDTH * device["bandwidth"])
    return max(best / share, memory) + EXPOSED * p["batch"] * waits


def read_products(path):
    found = []
    with open(path) as f:
        for r in csv.DictReader(f):
            m, n, k = int(r["m"]), int(r["n"]), int(r["k"])
            grouped = r["op"] == "group_matmul"
            batch = int(r["groups"]) if grouped else 1
            if grouped and r["role"] == "dgrad":
                n, k = k, n
            if grouped and r["role"] == "wgrad":
                m, k = k, m
            sums = r["accumulate"] == "True"
            out = 4 if r["out_dtype"] == "fp32" or (grouped and sums) else 2
            out *= 2 if sums and not grouped else 1
            found.append({"batch": batch, "m": m, "n": n, "k": k, "out": out,
                          "grouped": grouped, "sums": sums, "s": float(r["time_us"]) * 1e-6,
                          "f32": r["out_dtype"] == "fp32"})
    return found


def errors(device, figures, rows):
    return [abs(product_s(device, figures, p) / p["s"] - 1) for p in rows]


def cost(device, figures, rows):
    return sum(min(e, 0.5) for e in errors(device, figures, rows)) / len(rows)


def search(device, rows):
    """Coordinate descent with halved steps."""
    figures, steps = [0.6, 0.6, 200.0], [0.04, 0.04, 100.0]
    free = (0, 1, 2) if device["boost"] else (0, 2)
    best = cost(device, figures, rows)
    while steps[0] > 2e-3:
        better = False
        for i in free:
            for sign in (1, -1):
                trial = list(figures)
                trial[i] += sign * steps[i]
                if not device["boost"]:
                    trial[1] = trial[0]
                c = cost(device, trial, rows) if min(trial) > 0 else math.inf
                if c < best - 1e-9:
                    figures, best, better = trial, c, True
        if not better:
            steps = [s / 2 for s in steps]
    return figures


def median(values):
    return sorted(values)[len(values) // 2]


def fit_products(path, device):
    device["tiles"] = tiles(device["tile"])
    rows = read_products(path)
    shapes = sorted({(p["batch"], p["m"], p["n"], p["k"]) for p in rows})
    random.seed(1)
    random.shuffle(shapes)
    seen = set(shapes[:len(shapes) // 2])
    inside = [p for p in rows if (p["batch"], p["m"], p["n"], p["k"]) in seen]
    outside = [p for p in rows if (p["batch"], p["m"], p["n"], p["k"]) not in seen]
    figures = search(device, inside)
    left = errors(device, figures, outside)
    print("gemm_sustained %.4f gemm_boost %.4f gemm_fill %.0f" % tuple(figures))
    print("left-out %d: median error %.1f %%, mean %.1f %%"
          % (len(left), 100 * median(left), 100 * sum(left) / len(left)))


def attention_s(device, share, p):
    mean = p["seq"] / 2 + 64 + 165
    backward = p["backward"]
    per_key = 256 * (3 * p["qk"] + 2 * p["v"] if backward else p["qk"] + p["v"])
    width = (p["qk"] + p["v"]) / 2
    rate = share * device["peak"] / device["sms"] * width / (width + 22) * 150 / 128
    rate *= WIDE_BACKWARD if backward and p["qk"] > 128 else 1
    count = p["batch"] * p["heads"] * parts(p["seq"], 128)
    tail = (TAIL_BACKWARD if backward else TAIL) * (p["seq"] + 165)
    return per_key * (count * mean / device["sms"] + tail) / rate + LAUNCH_S


def fit_attention(path, device):
    with open(path) as f:
        rows = [{"batch": int(r["batch"]), "heads": int(r["heads"]), "seq": int(r["seq"]),
                 "qk": int(r["qk_head_dim"]), "v": int(r["v_head_dim"]),
                 "backward": r["op"] == "sdp_bwd", "s": float(r["time_ms"]) * 1e-3}
                for r in csv.DictReader(f)]
    for backward in (False, True):
        some = [p for p in rows if p["backward"] == backward]
        found = min((sum(abs(attention_s(device, i / 1000, p) / p["s"] - 1) for p in some),
                     i / 1000)
                    for i in range(100, 900))
        left = [abs(attention_s(device, found[1], p) / p["s"] - 1) for p in some]
        print("attention_%s %.3f: %d rows, median error %.1f %%, mean %.1f %%"
              % ("backward" if backward else "forward", found[1], len(some), 100 * median(left),
                 100 * sum(left) / len(left)))


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in DEVICES:
        sys.exit(__doc__)
    with open(sys.argv[1]) as f:
        attention = "qk_head_dim" in f.readline()
    (fit_attention if attention else fit_products)(sys.argv[1], dict(DEVICES[sys.argv[2]]))


if __name__ == "__main__":
    main()
