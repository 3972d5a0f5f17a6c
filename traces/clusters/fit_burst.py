#!/usr/bin/env python3
"""Fit the figures of kernels in bursts: writes shared/device/burst_data.c to standard output.

    fit_burst.py FOLDER        FOLDER holds gemm.csv and attention_context.csv of AIConfigurator's
                               measurements (device, dtype, sizes, latency_ms, min_ms)

The model is that of shared/device/burst_time.c; its constants stand here once more. Half of the shapes
(lw_burst_fitted) are fitted, `lapwing cost --measured FILE` prints the error of the other half. Products:
six figures per device and kind of operands, of bf16 the median of frameworks (latency_ms), of smaller ones
the fastest (min_ms). Attention: one share per device, the others per generation. Least mean of the absolute
logarithm, at most CLIP per row, by Nelder and Mead's simplex. Needs numpy; takes seconds.
"""
import csv
import json
import os
import sys

import numpy as np

SMALL_TILE, BOOST_S, JOIN, SPLIT_TRAFFIC, LAST_WAVE, LEAST_K, CLIP = 40, 1e-3, 4, 8, 0.45, 256, 0.5
SIDES, SPLITS = (64, 128, 192, 256), (1, 2, 4, 8, 16, 32)
OPERANDS = {"bf16": (1, 2), "fp8": (2, 1), "fp8_block": (2, 1), "nvfp4": (4, 0.5625)}
CLUSTERS = {"a100_sxm": "dgx-a100", "h100_sxm": "dgx-h100", "h200_sxm": "dgx-h200", "b200_sxm": "dgx-b200",
            "gb200": "gb200", "b300_sxm": "dgx-b300", "gb300": "gb300", "l40s": "l40s"}
GENERATIONS = [["a100_sxm"], ["h100_sxm", "h200_sxm"], ["l40s"], ["b200_sxm", "gb200", "b300_sxm", "gb300"]]
HERE = os.path.dirname(os.path.abspath(__file__))


def cluster(name):
    with open(os.path.join(HERE, name + ".json")) as f:
        d = json.load(f)["device"]
    return {"kind": d["kind"], "peak": d["peak_flops"]["bf16"]["value"], "sms": d["n_sms"]["value"],
            "bandwidth": d["memory_bytes_per_s"]["value"], "side": d.get("gemm_tile", {}).get("value", 128)}


def fitted(sizes):
    h = 2166136261
    for v in sizes:
        h = ((h ^ v) * 16777619) & 0xffffffff
    return (h >> 16) & 1 == 0


def simplex(f, x, low, high, steps=1500):
    """Least f in the box, from x; where low is high nothing moves."""
    low, high, all_ = np.array(low, float), np.array(high, float), np.array(x, float)
    free = low < high

    def whole(z):
        v = all_.copy()
        v[free] = z
        return v

    def value(z):
        return f(whole(z)) if np.all(z >= low[free]) and np.all(z <= high[free]) else 1e3
    x = all_[free]

    for again in range(4):
        points = [np.array(x, float)]
        for i in range(len(x)):
            z = np.array(x, float)
            z[i] = z[i] * (1.2 if again % 2 else 0.85) if z[i] else 0.1
            points.append(z)
        values = [value(z) for z in points]
        for _ in range(steps):
            order = np.argsort(values, kind="stable")
            points, values = [points[i] for i in order], [values[i] for i in order]
            if values[-1] - values[0] < 1e-7:
                break
            middle = sum(points[:-1]) / (len(points) - 1)
            out = 2 * middle - points[-1]
            v = value(out)
            if v < values[0]:
                far = 3 * middle - 2 * points[-1]
                w = value(far)
                points[-1], values[-1] = (far, w) if w < v else (out, v)
            elif v < values[-2]:
                points[-1], values[-1] = out, v
            else:
                near = 0.5 * (middle + points[-1])
                w = value(near)
                if w < values[-1]:
                    points[-1], values[-1] = near, w
                else:
                    points = [points[0]] + [0.5 * (points[0] + z) for z in points[1:]]
                    values = [values[0]] + [value(z) for z in points[1:]]
        x = points[int(np.argmin(values))]
    return whole(x)


def distance(predicted, measured):
    return np.minimum(np.abs(np.log(predicted / measured)), CLIP)


def join(a, b, p):
    return (a ** p + b ** p) ** (1 / p)


class Products:
    low, high = [0.2, 0.2, 0, 0.3, 0, 0.1], [1.2, 1.1, 2000, 1.1, 2e-5, 1.2]

    def __init__(self, device, rows, operands):
        times, self.item = OPERANDS[operands]
        self.d, self.cast = device, operands != "bf16"
        self.m, self.n, self.k = (np.array([r[c] for r in rows], float) for c in "mnk")
        self.measured = np.array([float(r["min_ms" if self.cast else "latency_ms"]) / 1e3 for r in rows])
        side = device["side"]
        tiles = [(a, b) for a in SIDES for b in SIDES
                 if min(a, b) <= side and (operands != "nvfp4" or max(a, b) > 64)]
        self.tm = np.array([a for a, b in tiles], float)[:, None, None]
        self.tn = np.array([b for a, b in tiles], float)[:, None, None]
        self.split = np.array(SPLITS, float)[None, :, None]
        x = np.ceil(self.m / self.tm) * np.ceil(self.n / self.tn) * self.split / device["sms"]
        last = LAST_WAVE if side <= 128 else 0
        self.waves = last * np.ceil(x) + (1 - last) * np.maximum(x, 1)
        self.allowed = (self.split == 1) | ((self.k / self.split >= LEAST_K) & (not self.cast))

        def speed(m, n):
            return m * n / (m + n) / (m * n / (m + n) + SMALL_TILE)
        self.rate = device["peak"] * times / device["sms"] * speed(self.tm, self.tn) / speed(256, side)

    def seconds(self, z):
        short, long_, fill, memory, overhead, cast = z
        bandwidth = self.d["bandwidth"]
        t = self.waves * (self.k / self.split + fill) * 2 * self.tm * self.tn / self.rate
        t = t + np.where(self.split > 1, SPLIT_TRAFFIC * self.split * self.m * self.n / (memory * bandwidth), 0)
        t = np.where(self.allowed, t, 1e9).min(axis=(0, 1))
        t = t / (long_ + (short - long_) / (1 + (t / BOOST_S) ** 2))
        bytes_ = self.item * (self.m * self.k + self.k * self.n) + 2 * self.m * self.n
        t = join(t, bytes_ / (memory * bandwidth), JOIN) + overhead
        return t + (2 + self.item) * self.m * self.k / (cast * bandwidth) if self.cast else t

    def fit(self):
        return simplex(lambda z: distance(self.seconds(z), self.measured).mean(),
                       [0.7, 0.6, 100, 0.8, 4e-6, 0.7], self.low, self.high)


class Attention:
    #       share fill tail memory join overhead full overhead fp8 odd  64 96 128 192 256 512
    start = [0.6, 100, 0.5, 0.5, 1.1, 1e-5, 1, 8e-6, 1, 1, 0.8, 0.9, 1, 1, 1, 0.5]
    low = [0.1, 0, 0, 0.05, 1, 0, 0.2, 0, 0.3, 0.2, 0.2, 0.2, 1, 0.05, 0.1, 0.05]
    high = [1.1, 3000, 1.5, 1.1, 8, 5e-5, 2, 5e-5, 2.5, 1.2, 1.5, 1.5, 1, 1.5, 1.5, 1.5]
    forms = (64, 96, 128, 192, 256, 512)

    def __init__(self, device, rows):
        self.d = device
        self.batch, self.seq, self.heads, self.kv, self.width, self.causal = (
            np.array([r[c] for r in rows], float)
            for c in ("batch", "seq", "heads", "kv_heads", "head_dim", "causal"))
        self.fp8 = np.array([r["dtype"] == "fp8" for r in rows])
        self.odd = self.width % 16 != 0
        self.measured = np.array([float(r["latency_ms"]) / 1e3 for r in rows])
        self.form = np.select([self.width <= w for w in self.forms[:5]], self.forms[:5], 512)

    def seconds(self, z):
        share, fill, tail, memory, p, overhead, full, overhead_full, fp8, odd = z[:10]
        speed = (share * np.select([self.form == w for w in self.forms], z[10:]) *
                 np.where(self.fp8, fp8, 1) * np.where(self.causal > 0, 1, full) * np.where(self.odd, odd, 1))
        queries = 64 if self.d["side"] <= 128 else 128
        keys = np.ceil(self.seq / 64) * 64
        mean = np.where(self.causal > 0, keys / 2 + 64, keys) + fill
        tiles = self.batch * self.heads * np.ceil(self.seq / queries)
        t = 4 * queries * self.form * (tiles * mean / self.d["sms"] + tail * (keys + fill))
        t = t / (self.d["peak"] * speed / self.d["sms"])
        bytes_ = 4 * self.batch * self.width * (self.heads + self.kv) * self.seq
        t = join(t, bytes_ / (memory * self.d["bandwidth"]), p)
        return t + np.where(self.causal > 0, overhead, overhead_full)

    @staticmethod
    def fit(tables):
        n = len(tables)

        def figures(z, i):
            return np.concatenate(([z[i]], z[n:]))

        def error(z):
            return np.concatenate([distance(t.seconds(figures(z, i)), t.measured)
                                   for i, t in enumerate(tables)]).mean()
        a = Attention
        start, low, high = list(a.start), list(a.low), list(a.high)

        def keep(k):
            start[k] = low[k] = high[k] = 1
        if not any(t.fp8.any() for t in tables):
            keep(8)
        if not any(t.odd.any() for t in tables):
            keep(9)
        if all((t.causal > 0).all() for t in tables):
            keep(6)
            start[7] = low[7] = high[7] = start[5]
        for k, w in enumerate(a.forms):
            if not any((t.form == w).any() for t in tables):
                keep(10 + k)
        z = simplex(error, [start[0]] * n + start[1:], np.array([low[0]] * n + low[1:]),
                    np.array([high[0]] * n + high[1:]), 3000)
        return [figures(z, i) for i in range(n)]


def read(path, columns):
    with open(path) as f:
        rows = list(csv.DictReader(f))
    for r in rows:
        for c in columns:
            r[c] = int(r[c])
    return [r for r in rows if min(r[c] for c in columns if c != "causal") > 0 and fitted([r[c] for c in columns])]


def numbers(z):
    return ", ".join("%.3g" % v for v in z)


def main(folder):
    products = read(os.path.join(folder, "gemm.csv"), ("m", "n", "k"))
    attention = read(os.path.join(folder, "attention_context.csv"),
                     ("causal", "batch", "seq", "heads", "kv_heads", "head_dim"))
    print("/* Generated by traces/clusters/fit_burst.py: do not edit. From the measurements of kernels of\n"
          " * ai-dynamo/aiconfigurator@095f58a51c4ca8e61b66ec108d86f223f8d559ce (Apache-2.0),\n"
          " * aic-core/src/aiconfigurator_core/systems/data/SYSTEM/{gemm,attention}/; half of the shapes. */\n"
          '#include "shared/device/burst_data.h"\n\n#include <stddef.h>\n\n'
          "const struct lw_burst lw_bursts[] = {")
    for generation in GENERATIONS:
        devices = [cluster(CLUSTERS[name]) for name in generation]
        fits = Attention.fit([Attention(d, [r for r in attention if r["device"] == name])
                              for d, name in zip(devices, generation)])
        for d, name, of_attention in zip(devices, generation, fits):
            print('    {"%s",\n     {' % d["kind"], end="")
            lines = []
            for operands in OPERANDS:
                rows = [r for r in products if r["device"] == name and r["dtype"] == operands]
                if rows:
                    z = Products(d, rows, operands).fit()
                    short, long_, fill, memory, overhead, cast = z
                    lines.append("[LW_OPERANDS_%s] = {%s}" % (operands.upper(), numbers(
                        [short, long_, fill, memory, cast if operands != "bf16" else 1, overhead])))
            print(",\n      ".join(lines) + "},")
            z = list(of_attention)
            print("     {%s,\n      {%s}}}," % (numbers(z[:10]), numbers(z[10:])), flush=True)
    print("    {NULL, {{0}}, {.share = 0}},\n};")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
