#!/usr/bin/env python3
"""Fit the figures of kernels in bursts: writes shared/device/burst_data.c to standard output.

    fit_burst.py FOLDER        FOLDER holds gemm.csv, attention_context.csv and moe.csv of
                               AIConfigurator's measurements (device, dtype, sizes, latency_ms,
                               min_ms)

The model is that of shared/device/burst_time.c; its constants stand here once more. All shapes are
fitted, and once more all but those of each of four folds (lw_burst_fold): `lapwing cost --measured
FILE` predicts a shape with the figures that it was left out of. Products: six figures per device and kind of operands, of bf16 the median of frameworks
(latency_ms), of smaller ones the fastest (min_ms); least mean of the absolute logarithm, at most
CLIP per row, by Nelder and Mead's simplex. Attention: of each framework one share per device, the
other figures per generation; least sum of Cauchy's function of the logarithms, of which the scale
falls in steps, and of the distance from values that a figure has without measurements. Experts: the
same, six figures per generation, of bf16 in each framework, of smaller operands of the fastest.
Needs numpy; takes a minute or two.
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
GENERATIONS = [["a100_sxm"], ["h100_sxm", "h200_sxm"], ["l40s"], ["b200_sxm", "gb200"], ["b300_sxm", "gb300"]]
CUT = {("l40s", "fp8")}  # kernels of 8 bits that cut k into parts, as those of 16 bits do everywhere
CACHED = ["l40s"]  # slow memories, for which it counts what a cache holds
FOLDS = 4
HERE = os.path.dirname(os.path.abspath(__file__))


def cluster(name):
    with open(os.path.join(HERE, name + ".json")) as f:
        d = json.load(f)["device"]
    return {"name": name, "cached": name in CACHED, "kind": d["kind"], "peak": d["peak_flops"]["bf16"]["value"], "sms": d["n_sms"]["value"],
            "bandwidth": d["memory_bytes_per_s"]["value"], "side": d.get("gemm_tile", {}).get("value", 128)}


def fold(sizes):
    h = 2166136261
    for v in sizes:
        h = ((h ^ v) * 16777619) & 0xffffffff
    return (h >> 16) % FOLDS


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
        cut = operands == "bf16" or (device["name"], operands) in CUT
        self.column = "min_ms" if self.cast else "latency_ms"
        self.m, self.n, self.k = (np.array([r[c] for r in rows], float) for c in "mnk")
        self.batch = np.array([r.get("batch", 1) for r in rows], float)
        self.measured = np.array([float(r[self.column]) / 1e3 for r in rows if self.column in r])
        side = device["side"]
        tiles = [(a, b) for a in SIDES for b in SIDES
                 if min(a, b) <= side and (operands != "nvfp4" or max(a, b) > 64)]
        self.tm = np.array([a for a, b in tiles], float)[:, None, None]
        self.tn = np.array([b for a, b in tiles], float)[:, None, None]
        self.split = np.array(SPLITS, float)[None, :, None]
        x = self.batch * np.ceil(self.m / self.tm) * np.ceil(self.n / self.tn) * self.split / device["sms"]
        last = LAST_WAVE if side <= 128 else 0
        self.waves = last * np.ceil(x) + (1 - last) * np.maximum(x, 1)
        self.allowed = (self.split == 1) | ((self.k / self.split >= LEAST_K) & cut)

        def speed(m, n):
            return m * n / (m + n) / (m * n / (m + n) + SMALL_TILE)
        self.rate = device["peak"] * times / device["sms"] * speed(self.tm, self.tn) / speed(256, side)

    def parts(self, z):
        """Seconds of the products and of the memory."""
        short, long_, fill, memory, overhead, cast = z
        bandwidth = self.d["bandwidth"]
        t = self.waves * (self.k / self.split + fill) * 2 * self.tm * self.tn / self.rate
        t = t + np.where(self.split > 1,
                         SPLIT_TRAFFIC * self.split * self.batch * self.m * self.n / (memory * bandwidth), 0)
        t = np.where(self.allowed, t, 1e9).min(axis=(0, 1))
        t = t / (long_ + (short - long_) / (1 + (t / BOOST_S) ** 2))
        bytes_ = self.batch * (self.item * (self.m * self.k + self.k * self.n) + 2 * self.m * self.n)
        return t, bytes_ / (memory * bandwidth)

    def seconds(self, z):
        short, long_, fill, memory, overhead, cast = z
        bandwidth = self.d["bandwidth"]
        t = join(*self.parts(z), JOIN) + overhead
        return t + (2 + self.item) * self.m * self.k / (cast * bandwidth) if self.cast else t

    def fit(self):
        return simplex(lambda z: distance(self.seconds(z), self.measured).mean(),
                       [0.7, 0.6, 100, 0.8, 4e-6, 0.7], self.low, self.high)


# Attention: name, the value that a figure has without measurements, the weight of that value.
FIGURES = [("fill", 100, 1), ("tail", 0.5, 1), ("wide_tail", 0.5, 1), ("queries", 1.5, 1), ("keys", 1.5, 1),
           ("join", 0.5, 1), ("overhead", 1e-5, 1), ("full", 1, 1), ("full_overhead", 8e-6, 1), ("odd", 0.7, 1),
           ("odd_fill", 0.5, 1), ("f64", 1, 1), ("f96", 1, 1), ("f192", 1, 1), ("f256", 1, 1), ("f512", 1, 1),
           ("sequence", 1e-8, 0.1),
           ("w64", 0.7, 1), ("w96", 0.8, 1), ("w192", 1, 1), ("w256", 1, 1), ("w512", 0.5, 1), ("cache", 1e8, 1),
           ("fp8", 1.2, 1), ("narrow_fp8", 1, 2), ("fp8_traffic", 0.8, 2)]
OF_8_BITS = ("fp8", "narrow_fp8", "fp8_traffic")
OF_CACHE = 0.2  # time of a byte that a cache holds, of that of a byte of the memory
SHARE, PRIOR, FEW, ALIKE, CAUCHY = 0.5, 0.02, 0.1, 0.2, (1, 0.5, 0.25, 0.12)  # FEW: PRIOR of few or odd rows
FRAMEWORKS = ("trtllm_ms", "sglang_ms", "vllm_ms")
FORMS = (64, 96, 128, 192, 256, 512)


class Attention:
    def __init__(self, device, rows):
        self.d = device
        self.batch, self.seq, self.heads, self.kv, self.width, self.causal = (
            np.array([r[c] for r in rows], float)
            for c in ("batch", "seq", "heads", "kv_heads", "head_dim", "causal"))
        self.fp8 = np.array([r["dtype"] == "fp8" for r in rows])
        self.form = np.select([self.width <= w for w in FORMS[:5]], FORMS[:5], 512)

    def seconds(self, share, z):
        speed = share * np.select([self.form == w for w in FORMS if w != 128],
                                  [z["w%d" % w] for w in FORMS if w != 128], 1)
        speed = speed * np.where(self.fp8, np.where(self.form == 64, z["narrow_fp8"], z["fp8"]), 1)
        speed = speed * np.where(self.causal > 0, 1, z["full"]) * np.where(self.width % 16 != 0, z["odd"], 1)
        queries = 64 if self.d["side"] <= 128 else 128
        keys = np.ceil(self.seq / 64) * 64
        fill = z["fill"] * np.select([self.form == w for w in FORMS if w != 128],
                                     [z["f%d" % w] for w in FORMS if w != 128], 1)
        fill = fill * np.where(self.width % 16 != 0, z["odd_fill"], 1)
        mean = np.where(self.causal > 0, keys / 2 + 64, keys) + fill
        tail = np.where(self.form == 512, z["wide_tail"], z["tail"])
        tiles = self.batch * self.heads * np.ceil(self.seq / queries)
        t = 4 * queries * self.form * (tiles * mean / self.d["sms"] + tail * (keys + fill))
        t = t / (self.d["peak"] * speed / self.d["sms"])
        bytes_ = 4 * self.batch * self.width * self.seq * (self.heads * z["queries"] + self.kv * z["keys"])
        if self.d["cached"]:
            once = 4 * self.batch * self.width * self.seq * (self.heads + self.kv)
            bytes_ = bytes_ * (once / (once + z["cache"]) + OF_CACHE)
        memory = bytes_ * np.where(self.fp8, z["fp8_traffic"], 1) / self.d["bandwidth"]
        overhead = np.where(self.causal > 0, z["overhead"], z["full_overhead"]) + z["sequence"] * self.batch
        return join(t, memory, 1 + z["join"]) + overhead


def descend(residuals, x, prior, weight, cauchy):
    """Least sum of cauchy^2 log(1 + (r / cauchy)^2) and of weight (x - prior)^2: Levenberg and
    Marquardt."""
    def loss(v):
        r = residuals(v)
        return (cauchy ** 2 * np.log1p((r / cauchy) ** 2)).sum() + (weight * (v - prior) ** 2).sum()
    damping, least = 1e-2, loss(x)
    for _ in range(80):
        r = residuals(x)
        slope = np.stack([(residuals(x + 1e-4 * e) - r) / 1e-4 for e in np.eye(len(x))], axis=1)
        weighted = slope / (1 + (r / cauchy) ** 2)[:, None]
        matrix = weighted.T @ slope + np.diag(weight)
        down = -weighted.T @ r - weight * (x - prior)
        for _ in range(8):
            step = np.linalg.solve(matrix + damping * np.diag(np.diag(matrix) + 1e-6), down)
            step = np.clip(step, -0.7, 0.7)
            found = loss(x + step)
            if found < least:
                break
            damping *= 4
        else:
            return x
        x, before, least, damping = x + step, least, found, max(damping / 3, 1e-6)
        if before - least < 1e-7 * before:
            return x
    return x


def is_possible(device, row, column):
    """Some times are shorter than the products take at the peak: the framework left most of the
    keys out. So do SGLang's that are less than half of every other framework's (window of 0.5.10 on
    B200, of 0.5.12 on L40S)."""
    others = [float(row[c]) for c in FRAMEWORKS if c != column and row[c]]
    if column == "sglang_ms" and others and float(row[column]) < 0.5 * min(others):
        return False
    flop = (2 if row["causal"] else 4) * row["batch"] * row["heads"] * row["seq"] ** 2 * row["head_dim"]
    return float(row[column]) / 1e3 > flop / (device["peak"] * (2 if row["dtype"] == "fp8" else 1))


def fit_attention(devices, tables, column):
    """A share of each device and the figures of the generation, in one framework; rows of 16 bits
    first, then what 8 bits change. None: the framework has no rows."""
    names, n = [f[0] for f in FIGURES], len(devices)
    of_8 = np.array([False] * n + [k in OF_8_BITS for k in names])
    prior = np.log(np.array([SHARE] * n + [f[1] for f in FIGURES]))
    weight = PRIOR * np.array([0.02] * n + [f[2] for f in FIGURES])
    x, seen = prior.copy(), [False, False]
    for stage in (False, True):
        rows = [[r for r in t if r[column] and (r["dtype"] == "fp8") == stage and is_possible(d, r, column)]
                for d, t in zip(devices, tables)]
        parts = [(i, Attention(d, r), np.array([float(q[column]) / 1e3 for q in r]))
                 for i, (d, r) in enumerate(zip(devices, rows)) if r]
        if not parts:
            continue
        seen[stage] = True
        free, base = of_8 == stage, x.copy()

        def whole(v):
            all_ = base.copy()
            all_[free] = v
            return all_

        def residuals(v):
            y = whole(v)
            z = dict(zip(names, np.exp(y[n:])))
            r = [np.log(t.seconds(np.exp(y[i]), z) / measured) for i, t, measured in parts]
            return np.concatenate(r + ([] if stage else [ALIKE ** 0.5 * (y[:n] - y[:n].mean())]))
        v = x[free]
        for cauchy in CAUCHY:
            v = descend(residuals, v, prior[free], weight[free], cauchy)
        x = whole(v)
    if not seen[False]:
        return None
    z = dict(zip(names, np.exp(x[n:])))
    if not seen[True]:
        z["fp8"] = 0
    if not devices[0]["cached"]:
        z["cache"] = 0
    return [{"share": share, **z} for share in np.exp(x[:n])]


EXPERTS = [("products", 1.2), ("memory", 1.2), ("rows", 4), ("inner", 3), ("others", 0.3), ("overhead", 2e-5)]

SINGLE, LEAST_ROWS = (1, 1, 4, 3, 0, 0), 12


class Experts:
    """The gated experts of a rank with an even load: two products of all experts, and what moves
    rows."""
    def __init__(self, device, rows, operands, products):
        v = {c: np.array([r[c] for r in rows]) for c in
             ("num_tokens", "hidden", "inter", "topk", "experts", "tp", "ep")}
        inter, all_ = -(-v["inter"] // v["tp"]), v["num_tokens"] * v["topk"]
        here = all_ // v["ep"]
        used = np.minimum(here, -(-v["experts"] // v["ep"]))
        each = -(-here // used)

        def parts(n, k):
            shapes = [{"batch": b, "m": m, "n": x, "k": y} for b, m, x, y in zip(used, each, n, k)]
            return Products(device, shapes, operands).parts(products)
        self.there, self.back = parts(2 * inter, v["hidden"]), parts(v["hidden"], inter)
        bandwidth = device["bandwidth"]
        self.rows, self.inner = 2 * here * v["hidden"] / bandwidth, 2 * here * inter / bandwidth
        self.others = 2 * (all_ - here) * v["hidden"] / bandwidth

    def seconds(self, z):
        products, memory, rows, inner, others, overhead = z
        t = sum(join(a * products, b * memory, JOIN) for a, b in (self.there, self.back))
        return t + rows * self.rows + inner * self.inner + others * self.others + overhead


def fit_experts(devices, tables, operands, products, column):
    """Figures of a generation in one framework (smaller types: the fastest). Of less than twelve
    rows none in a framework, and in smaller types those of single products."""
    rows = [[r for r in t if r[column] and r["dtype"] == operands] for t in tables]
    parts = [(Experts(d, r, operands, z), np.array([float(q[column]) / 1e3 for q in r]))
             for d, r, z in zip(devices, rows, products) if r]
    if sum(len(m) for _, m in parts) < LEAST_ROWS:
        return None if operands == "bf16" else SINGLE
    prior = np.log(np.array([v for _, v in EXPERTS]))
    x = prior
    for cauchy in CAUCHY:
        x = descend(lambda v: np.concatenate([np.log(t.seconds(np.exp(v)) / m) for t, m in parts]),
                    x, prior, (FEW if operands in ("fp8", "nvfp4") else PRIOR) * np.ones(len(prior)), cauchy)
    return np.exp(x)


def read(path, columns):
    with open(path) as f:
        rows = list(csv.DictReader(f))
    for r in rows:
        for c in columns:
            r[c] = int(r[c])
    for r in rows:
        r["fold"] = fold([r[c] for c in columns])
    return [r for r in rows if min(r[c] for c in columns if c != "causal") > 0]


def numbers(z):
    return ", ".join("%.3g" % v for v in z)


def of_attention(z):
    if not z:
        return "{.share = 0}"
    return "{%s,\n       %s,\n       {%s}, {%s}}" % (
        numbers([z["share"], z["fill"], z["tail"], z["wide_tail"], z["queries"], z["keys"], 1 + z["join"]]),
        numbers([z["overhead"], z["full"], z["full_overhead"], z["fp8"], z["narrow_fp8"], z["fp8_traffic"],
                 z["odd"], z["odd_fill"], z["sequence"], z["cache"]]),
        numbers([1 if w == 128 else z["w%d" % w] for w in FORMS]),
        numbers([1 if w == 128 else z["f%d" % w] for w in FORMS]))


def of_experts(z):
    return "{%s}" % numbers(z) if z is not None else "{0}"


def main(folder):
    products = read(os.path.join(folder, "gemm.csv"), ("m", "n", "k"))
    attention = read(os.path.join(folder, "attention_context.csv"),
                     ("causal", "batch", "seq", "heads", "kv_heads", "head_dim"))
    experts = [r for r in read(os.path.join(folder, "moe.csv"),
                               ("num_tokens", "hidden", "inter", "topk", "experts", "tp", "ep"))
               if r["distribution"] == "balanced" and r["num_tokens"] * r["topk"] >= r["ep"]]
    print("/* Generated by traces/clusters/fit_burst.py: do not edit. From the measurements of kernels of\n"
          " * ai-dynamo/aiconfigurator@095f58a51c4ca8e61b66ec108d86f223f8d559ce (Apache-2.0),\n"
          " * aic-core/src/aiconfigurator_core/systems/data/SYSTEM/{gemm,attention,moe}/: of all shapes,\n"
          " * then of those that are not in one of the folds. */\n"
          '#include "shared/device/burst_data.h"\n\n#include <stddef.h>\n')
    for left_out in [None, *range(FOLDS)]:
        kept = [[r for r in t if r["fold"] != left_out] for t in (products, attention, experts)]
        print("const struct lw_burst lw_bursts[] = {" if left_out is None else
              "static const struct lw_burst without_%d[] = {" % left_out)
        write(*kept)
    print("const struct lw_burst *const lw_bursts_without[LW_BURST_FOLDS] = {\n    %s,\n};" %
          ", ".join("without_%d" % i for i in range(FOLDS)))


def write(products, attention, experts):
    for generation in GENERATIONS:
        devices = [cluster(CLUSTERS[name]) for name in generation]

        def of(rows):
            return [[r for r in rows if r["device"] == name] for name in generation]
        fits = [fit_attention(devices, of(attention), column) for column in FRAMEWORKS]
        single = {o: [Products(d, t, o).fit() for d, t in
                      zip(devices, [[r for r in t if r["dtype"] == o] for t in of(products)]) if t]
                  for o in OPERANDS}
        single = {o: fit for o, fit in single.items() if fit}
        of_16 = [fit_experts(devices, of(experts), "bf16", single["bf16"], column) for column in FRAMEWORKS]
        of_8 = {o: fit_experts(devices, of(experts), o, single[o], "min_ms") for o in single if o != "bf16"}
        for i, d in enumerate(devices):
            print('    {"%s",\n     {' % d["kind"], end="")
            lines = []
            for operands, fit in single.items():
                short, long_, fill, memory, overhead, cast = fit[i]
                cut = operands == "bf16" or (d["name"], operands) in CUT
                lines.append("[LW_OPERANDS_%s] = {%s, %d}" % (operands.upper(), numbers(
                    [short, long_, fill, memory, cast if operands != "bf16" else 1, overhead]), cut))
            print(",\n      ".join(lines) + "},")
            print("     {%s}," % ",\n      ".join(of_attention(f and f[i]) for f in fits))
            print("     {%s}," % ",\n      ".join(of_experts(z) for z in of_16))
            print("     {%s}}," % ",\n      ".join("[LW_OPERANDS_%s] = %s" % (o.upper(), of_experts(z))
                                                 for o, z in (of_8 or {"bf16": None}).items()), flush=True)
    print("    {NULL, {{0}}, {{.share = 0}}, {{0}}, {{0}}},\n};\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
