#!/usr/bin/env python3
"""Measure kernels of training on one GPU with PyTorch, one CSV file a kind.

  gemm.csv            matrix products by shape, bf16 and 8-bit (e4m3, per tensor)
  gemm_sustained.csv  the same after the device has been loaded for a while: its power limit holds
  attention.csv       scaled dot product attention, forward and backward, by shape and kernel
  traffic.csv         kernels without products (norms, activations, loss, optimizer): bytes by size
  launch.csv          host time of an operator, with and without autograd
  load.csv            rate, clock and power over time under one product, and under attention

Times are medians over batches of calls between CUDA events, in milliseconds. Operands are normal
random numbers; products rotate over as many operands as exceed the second-level cache. Nothing of
the device's settings is changed.

  python measure_kernels.py -o out                        # shapes of usual transformers
  python measure_kernels.py -o out --gemm shapes.csv      # columns m,n,k
  python measure_kernels.py -o out --attention shapes.csv # batch,seq,heads,kv_heads,head_dim,causal
"""

import argparse
import csv
import itertools
import random
import statistics
import subprocess
import threading
import time
from pathlib import Path

import torch
import torch.nn.attention
import torch.nn.functional as F

CACHE = 128 << 20   # operands together exceed this: more than any second-level cache of today


# ---- time -----------------------------------------------------------------------

def timed(call, budget_ms=6.0, batches=3):
    """Median time of a call in ms, and how many calls a batch had."""
    call()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    n = max(3, min(1000, int(budget_ms / max(start.elapsed_time(end), 1e-3))))
    out = []
    for _ in range(batches):
        start.record()
        for _ in range(n):
            call()
        end.record()
        end.synchronize()
        out.append(start.elapsed_time(end) / n)
    return statistics.median(out), n


def graphed(call, n):
    """n calls as one CUDA graph: the device's time without the host's."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(n):
            call()
    return graph.replay


class Rows:
    """A CSV file that is complete after every row."""

    def __init__(self, path, titles):
        self.file = open(path, "w", newline="")
        self.writer = csv.writer(self.file)
        self.add(*titles)

    def add(self, *cells):
        self.writer.writerow([f"{c:.6g}" if isinstance(c, float) else c for c in cells])
        self.file.flush()


class Deadline:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def passed(self):
        return time.monotonic() > self.end


# ---- shapes ---------------------------------------------------------------------

def rows_of(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def mixed(shapes):
    """In an order without a pattern, so that those without time left are of no kind."""
    out = list(shapes)
    random.Random(0).shuffle(out)
    return out


def gemm_shapes(path):
    if path:
        return mixed(tuple(int(r[x]) for x in "mnk") for r in rows_of(path))
    widths = [(1024, 4096), (2048, 8192), (4096, 14336), (8192, 28672)]
    return [(m, n, k) for m in (1024, 4096, 8192)
            for h, f in widths for n, k in ((3 * h, h), (h, h), (f, h), (h, f))]


ATTENTION = ("batch", "seq", "heads", "kv_heads", "head_dim", "causal")


def attention_shapes(path):
    if path:
        return mixed(tuple(int(r[x]) for x in ATTENTION) for r in rows_of(path))
    return [(max(1, 16384 // s), s, h, kv, d, 1) for s in (1024, 2048, 4096, 8192, 16384)
            for h, kv, d in ((12, 12, 64), (32, 8, 128), (32, 32, 128))]


# ---- matrix products ------------------------------------------------------------

class Pool:
    """Random numbers that operands are views of: filling new ones takes longer than a product."""

    def __init__(self):
        self.numbers = {}

    def take(self, dtype, rows, columns, at):
        """A view of rows x columns that begins at element `at`, and where it ends."""
        kept = self.numbers.get(dtype)
        need = at + rows * columns
        if kept is None or kept.numel() < need:
            kept = torch.randn(max(need, CACHE), device="cuda", dtype=torch.bfloat16).to(dtype)
            self.numbers[dtype] = kept
        return kept[at:need].view(rows, columns), (need + 127) // 128 * 128


POOL = Pool()


def operands(m, n, k, dtype, item):
    copies = max(1, min(16, CACHE // (item * (m * k + n * k)) + 1))
    POOL.take(dtype, copies * (m + n + 256), k, 0)  # large enough before the first view
    xs, ws, at = [], [], 0
    for _ in range(copies):
        x, at = POOL.take(dtype, m, k, at)
        w, at = POOL.take(dtype, n, k, at)
        xs.append(x)
        ws.append(w)
    return xs, ws


def product(m, n, k, dtype):
    """A call of x[m, k] times w[n, k] transposed that rotates over operands."""
    item = 1 if dtype == "fp8" else 2
    xs, ws = operands(m, n, k, torch.float8_e4m3fn if dtype == "fp8" else torch.bfloat16, item)
    turn = itertools.cycle(range(len(xs)))
    if dtype == "fp8":
        one = torch.ones((), device="cuda")

        def call():
            i = next(turn)
            torch._scaled_mm(xs[i], ws[i].t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    else:
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

        def call():
            i = next(turn)
            torch.mm(xs[i], ws[i].t(), out=out)
    return call


def tflops(m, n, k, ms):
    return 2e-9 * m * n * k / ms


def measure_gemm(o, out):
    rows = Rows(out / "gemm.csv", ("dtype", "m", "n", "k", "latency_ms", "tflops"))
    for dtype in ("bf16", "fp8"):
        end = Deadline(o.seconds)
        for m, n, k in gemm_shapes(o.gemm):
            if end.passed():
                print(f"gemm {dtype}: out of time before {m} x {n} x {k}")
                break
            try:
                call = product(m, n, k, dtype)
                ms, _ = timed(graphed(call, 16), batches=5)
                ms /= 16
            except RuntimeError as e:
                print(f"gemm {dtype} {m} {n} {k}: {str(e).splitlines()[0]}")
                continue
            rows.add(dtype, m, n, k, ms, tflops(m, n, k, ms))


class Monitor:
    """Clock, power and temperature every 100 ms, from nvidia-smi."""

    def __init__(self):
        self.rows = []
        self.process = subprocess.Popen(
            ["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu",
             "--format=csv,noheader,nounits", "-lms", "100", "-i", "0"],
            stdout=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            cells = [c.strip() for c in line.split(",")]
            if len(cells) == 4:
                self.rows.append((time.monotonic(), *cells))

    def stop(self):
        self.process.terminate()
        self.thread.join(timeout=2)

    def near(self, t):
        return min(self.rows, key=lambda r: abs(r[0] - t))[1:] if self.rows else ("",) * 4


def load(name, call, flops, seconds, rows, monitor):
    """Keep the device busy; a row of load.csv every quarter of a second."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        at = time.monotonic()
        ms, _ = timed(call, budget_ms=230, batches=1)
        rows.append((name, at - begin, ms, flops * 1e-9 / ms, at))
    torch.cuda.synchronize()


def write_load(out, collected, monitor):
    rows = Rows(out / "load.csv", ("load", "second", "ms", "tflops", "sm_mhz", "memory_mhz",
                                   "watts", "celsius"))
    for name, second, ms, rate, at in collected:
        rows.add(name, second, ms, rate, *monitor.near(at + 0.2))


def measure_sustained(o, out):
    rows = Rows(out / "gemm_sustained.csv", ("dtype", "m", "n", "k", "latency_ms", "tflops"))
    collected, monitor = [], Monitor()
    n = 8192
    load("gemm bf16", product(n, n, n, "bf16"), 2 * n**3, o.soak, collected, monitor)
    for dtype in ("bf16", "fp8"):
        load("gemm " + dtype, product(n, n, n, dtype), 2 * n**3, o.soak / 4, collected, monitor)
        for m, n2, k in o.sustained:
            ms, _ = timed(product(m, n2, k, dtype), budget_ms=300, batches=1)
            rows.add(dtype, m, n2, k, ms, tflops(m, n2, k, ms))
    shape = (4, 4096, 32, 8, 128, 1)
    forward, backward, flops = attention_calls(shape, "flash")
    load("attention forward", forward, flops, o.soak / 2, collected, monitor)
    load("attention backward", backward, 2.5 * flops, o.soak / 2, collected, monitor)
    monitor.stop()
    write_load(out, collected, monitor)


# ---- attention ------------------------------------------------------------------

KERNELS = {"flash": torch.nn.attention.SDPBackend.FLASH_ATTENTION,
           "cudnn": torch.nn.attention.SDPBackend.CUDNN_ATTENTION}


def attention_calls(shape, kernel):
    """Calls of the forward and of the backward alone, and the forward's FLOPs."""
    batch, seq, heads, kv_heads, width, causal = shape
    q = torch.randn(batch, heads, seq, width, device="cuda", dtype=torch.bfloat16,
                    requires_grad=True)
    k, v = (torch.randn(batch, kv_heads, seq, width, device="cuda", dtype=torch.bfloat16,
                        requires_grad=True) for _ in range(2))
    options = {"is_causal": bool(causal), "enable_gqa": kv_heads != heads}

    def forward():
        with torch.nn.attention.sdpa_kernel(KERNELS[kernel]), torch.no_grad():
            F.scaled_dot_product_attention(q, k, v, **options)

    with torch.nn.attention.sdpa_kernel(KERNELS[kernel]):
        result = F.scaled_dot_product_attention(q, k, v, **options)
    gradient = torch.randn_like(result)

    def backward():
        torch.autograd.grad(result, (q, k, v), gradient, retain_graph=True)

    return forward, backward, 4 * batch * heads * seq * seq * width * (0.5 if causal else 1)


def measure_attention(o, out):
    rows = Rows(out / "attention.csv", ("kernel", *ATTENTION, "forward_ms", "backward_ms",
                                        "forward_tflops", "backward_tflops"))
    for kernel in KERNELS:
        end = Deadline(o.seconds)
        for shape in attention_shapes(o.attention):
            if end.passed():
                print(f"attention {kernel}: out of time before {shape}")
                break
            try:
                forward, backward, flops = attention_calls(shape, kernel)
                f, _ = timed(forward)
                b, _ = timed(backward)
            except RuntimeError as e:
                print(f"attention {kernel} {shape}: {str(e).splitlines()[0]}")
                continue
            rows.add(kernel, *shape, f, b, flops * 1e-9 / f, 2.5 * flops * 1e-9 / b)


# ---- kernels without products ---------------------------------------------------

def traffic_calls(n, width):
    """Name, call and least bytes of kernels on n elements of bf16 in rows of `width`."""
    x, y, g = (torch.randn(n // width, width, device="cuda", dtype=torch.bfloat16)
               for _ in range(3))
    w, b = (torch.randn(width, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    f32, f32b = (torch.randn(n, device="cuda") for _ in range(2))
    targets = torch.randint(width, (n // width,), device="cuda")
    out = [("copy bf16", lambda: y.copy_(x), 4 * n),
           ("add bf16", lambda: torch.add(x, g, out=y), 6 * n),
           ("cast f32 to bf16", lambda: f32.to(torch.bfloat16), 6 * n),
           ("cast bf16 to f32", lambda: x.float(), 6 * n),
           ("add f32", lambda: f32b.add_(f32), 12 * n),
           ("zero bf16", lambda: y.zero_(), 2 * n),
           ("gelu", lambda: F.gelu(x), 4 * n),
           ("silu", lambda: F.silu(x), 4 * n),
           ("silu times", lambda: F.silu(x) * g, 6 * n),
           ("dropout", lambda: F.dropout(x, 0.1, True), 5 * n),
           ("layer norm", lambda: F.layer_norm(x, (width,), w, b), 4 * n),
           ("rms norm", lambda: F.rms_norm(x, (width,), w), 4 * n),
           ("softmax bf16", lambda: F.softmax(x, -1), 4 * n),
           ("cross entropy bf16", lambda: F.cross_entropy(x, targets), 2 * n),
           ("cross entropy f32", lambda: F.cross_entropy(x.float(), targets), 2 * n),
           ("norm of all bf16", lambda: torch.linalg.vector_norm(x), 2 * n)]
    for name, make in (("gelu", lambda t: F.gelu(t)), ("silu", lambda t: F.silu(t)),
                       ("layer norm", lambda t: F.layer_norm(t, (width,), w, b)),
                       ("rms norm", lambda t: F.rms_norm(t, (width,), w)),
                       ("cross entropy bf16", lambda t: F.cross_entropy(t, targets)),
                       ("cross entropy f32", lambda t: F.cross_entropy(t.float(), targets))):
        leaf = x.clone().requires_grad_()
        result = make(leaf)
        grad = torch.randn_like(result)
        out.append((name + " backward",
                    lambda r=result, t=leaf, d=grad: torch.autograd.grad(r, t, d,
                                                                         retain_graph=True),
                    (6 if result.ndim > 1 else 4) * n))
    return out


def optimizer_calls(n):
    for name, dtype, options, item in (
            ("adamw fused f32", torch.float32, {"fused": True}, 28),
            ("adamw foreach f32", torch.float32, {"foreach": True}, 28),
            ("adamw fused bf16", torch.bfloat16, {"fused": True}, 14),
            ("sgd momentum foreach f32", torch.float32, {"foreach": True}, 20)):
        parts = [torch.randn(n // 8, device="cuda", dtype=dtype).requires_grad_()
                 for _ in range(8)]
        for p in parts:
            p.grad = torch.randn_like(p)
        if name.startswith("sgd"):
            optimizer = torch.optim.SGD(parts, lr=1e-4, momentum=0.9, **options)
        else:
            optimizer = torch.optim.AdamW(parts, lr=1e-4, **options)
        yield name, optimizer.step, item * n


def measure_traffic(o, out):
    rows = Rows(out / "traffic.csv", ("kernel", "elements", "width", "ms", "least_bytes",
                                      "gb_per_s"))
    end = Deadline(2 * o.seconds)
    for n, width in ((1 << 20, 1024), (1 << 24, 4096), (1 << 27, 8192), (1 << 27, 65536)):
        for name, call, least in itertools.chain(traffic_calls(n, width), optimizer_calls(n)):
            if end.passed():
                return print(f"traffic: out of time before {name} of {n}")
            ms, _ = timed(call, budget_ms=4)
            rows.add(name, n, width, ms, least, least / ms * 1e-6)


def measure_launch(o, out):
    """Small kernels: what the host takes for one, and the least time of one on the device."""
    rows = Rows(out / "launch.csv", ("what", "host_us", "device_us"))
    x = torch.randn(64, 64, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    b = torch.randn(64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    y = torch.empty_like(x)

    def training():
        F.gelu(F.linear(x, w, b)).sum().backward()

    calls = (("add, out given", lambda: torch.add(x, x, out=y)), ("add", lambda: x + x),
             ("linear", lambda: F.linear(x, w.detach(), b.detach())),
             ("linear with autograd", lambda: F.linear(x, w, b)),
             ("layer norm with autograd", lambda: F.layer_norm(x, (64,), b, b)),
             ("linear, gelu, sum and their backward", training))
    for name, call in calls:
        for _ in range(20):
            call()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(500):
            call()
        host = (time.perf_counter() - begin) / 500 * 1e6
        torch.cuda.synchronize()
        device = "" if "autograd" in name or "backward" in name else \
            timed(graphed(call, 50))[0] * 1e3 / 50
        rows.add(name, host, device)


KINDS = {"launch": measure_launch, "gemm": measure_gemm, "attention": measure_attention,
         "traffic": measure_traffic, "sustained": measure_sustained}


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kinds", default=",".join(KINDS), help="of " + ", ".join(KINDS))
    p.add_argument("--gemm", metavar="FILE.csv", help="shapes of products: columns m, n, k")
    p.add_argument("--attention", metavar="FILE.csv",
                   help="shapes of attention: columns " + ", ".join(ATTENTION))
    p.add_argument("--seconds", type=float, default=30, metavar="S",
                   help="most that a type of product or a kernel of attention may take (30)")
    p.add_argument("--soak", type=float, default=20, metavar="S",
                   help="seconds of load before sustained rates are measured (20)")
    p.add_argument("-o", "--out", default=".", metavar="DIR")
    o = p.parse_args()
    unknown = set(o.kinds.split(",")) - set(KINDS)
    if unknown:
        p.error(f"--kinds: unknown {', '.join(sorted(unknown))}; expected {', '.join(KINDS)}")
    if not torch.cuda.is_available():
        raise SystemExit("measure_kernels: torch finds no CUDA device")
    o.sustained = [(m, n, k) for m in (2048, 8192)
                   for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (12288, 4096),
                                (8192, 8192), (3072, 1024), (1024, 4096))]
    out = Path(o.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for kind in o.kinds.split(","):
        begin = time.monotonic()
        KINDS[kind](o, out)
        torch.cuda.empty_cache()
        print(f"{kind}: {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
