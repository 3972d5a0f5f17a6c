#!/usr/bin/env python3
"""Measure training steps of known models on one GPU with plain PyTorch, one row a configuration.

Models have the sizes and names of `lapwing model --list`. A step is zero_grad, forward, backward
and an AdamW step (ResNet: SGD with momentum) on fixed random data. Columns of steps.csv:

  model, batch, seq, precision, recompute, optimizer, ddp
                      precision: bf16 (parameters, gradients and states are bf16), amp (f32
                      parameters, autocast to bf16), f32
  step_ms, low_ms, high_ms   median and quartiles of steps between CUDA events
  host_ms             the host's time to submit one step, without waiting for the device
  device_ms, kernels  of one profiled step: sum and number of kernels
  allocated_bytes, reserved_bytes   torch's peaks
  device_bytes        used memory of the device, as nvidia-smi prints it (context included)

  python measure_steps.py -o out
  python measure_steps.py -o out --only gpt2
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from measure_kernels import Rows
from record_ddp import GPT, ResNet


# ---- Llama (Touvron et al., arXiv 2302.13971 and 2307.09288) ----------------------

class LlamaLayer(nn.Module):
    def __init__(self, d, ffn, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.width = heads, kv_heads, d // heads
        self.norm1, self.norm2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.q = nn.Linear(d, d, bias=False)
        self.k = nn.Linear(d, kv_heads * self.width, bias=False)
        self.v = nn.Linear(d, kv_heads * self.width, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.gate, self.up = (nn.Linear(d, ffn, bias=False) for _ in range(2))
        self.down = nn.Linear(ffn, d, bias=False)

    def attention(self, x, angles):
        b, t, d = x.shape
        q, k, v = (p(x).view(b, t, -1, self.width).transpose(1, 2)
                   for p in (self.q, self.k, self.v))
        q, k = rotate(q, angles), rotate(k, angles)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           enable_gqa=self.heads != self.kv_heads)
        return self.o(y.transpose(1, 2).reshape(b, t, d))

    def forward(self, x, angles):
        x = x + self.attention(self.norm1(x), angles)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def rotate(x, angles):
    """Rotary positions: halves of each head as one complex number."""
    cos, sin = angles
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Llama(nn.Module):
    def __init__(self, layers, d, ffn, heads, kv_heads, vocab):
        super().__init__()
        self.width, self.recompute = d // heads, False
        self.tokens = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(LlamaLayer(d, ffn, heads, kv_heads) for _ in range(layers))
        self.norm = nn.RMSNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.tokens(ids)
        rate = 10000.0 ** (-torch.arange(0, self.width, 2, device=ids.device) / self.width)
        phase = torch.outer(torch.arange(ids.shape[1], device=ids.device), rate)
        angles = phase.cos().to(x.dtype), phase.sin().to(x.dtype)
        for layer in self.layers:
            x = checkpoint(layer, x, angles, use_reentrant=False) if self.recompute \
                else layer(x, angles)
        return self.head(self.norm(x))


# name: class and sizes, as `lapwing model --list` has them
MODELS = {
    "gpt2": (GPT, (12, 768, 12, 50257, 1024)),
    "gpt2-medium": (GPT, (24, 1024, 16, 50257, 1024)),
    "gpt2-large": (GPT, (36, 1280, 20, 50257, 1024)),
    "gpt2-xl": (GPT, (48, 1600, 25, 50257, 1024)),
    "llama-2-7b": (Llama, (32, 4096, 11008, 32, 32, 32000)),
    "llama-3.2-1b-untied": (Llama, (16, 2048, 8192, 32, 8, 128256)),
    "resnet50": (ResNet, ([3, 4, 6, 3], True)),
}

# model, batch, tokens or pixels, precision, recompute; in the order of their value where time ends
CONFIGURATIONS = [
    ("gpt2", 8, 1024, "amp", False), ("gpt2", 8, 1024, "bf16", False),
    ("llama-2-7b", 1, 2048, "bf16", False), ("gpt2-medium", 8, 1024, "amp", False),
    ("resnet50", 64, 224, "amp", False), ("gpt2-xl", 4, 1024, "bf16", False),
    ("llama-3.2-1b-untied", 2, 4096, "bf16", False), ("llama-2-7b", 2, 4096, "bf16", True),
    ("gpt2", 1, 128, "f32", False), ("gpt2", 16, 1024, "bf16", False),
    ("gpt2-xl", 4, 1024, "amp", False), ("gpt2-large", 8, 1024, "bf16", False),
    ("llama-3.2-1b-untied", 1, 8192, "bf16", True), ("resnet50", 64, 224, "f32", False),
    ("gpt2-medium", 8, 1024, "bf16", False), ("gpt2", 8, 1024, "f32", False),
    ("llama-2-7b", 1, 4096, "bf16", True),
]


def make(model, batch, size, precision, recompute):
    kind, sizes = MODELS[model]
    torch.manual_seed(0)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16 if precision == "bf16" else torch.float32)
        net = kind(*sizes)
        torch.set_default_dtype(torch.float32)
    if recompute:
        net.recompute = True
    if kind is ResNet:
        data = (torch.randn(batch, 3, size, size, device="cuda"),
                torch.randint(1000, (batch,), device="cuda"))
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    else:
        ids = torch.randint(sizes[-1] if kind is Llama else sizes[3], (batch, size + 1),
                            device="cuda")
        data = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    return net, data, optimizer


def step_of(net, data, optimizer, precision):
    inputs, labels = data

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "amp"):
            result = net(inputs)
            loss = F.cross_entropy(result.flatten(0, -2), labels.flatten())
        loss.backward()
        optimizer.step()
    return step


def used_bytes():
    free, total = torch.cuda.mem_get_info()
    return total - free


def measure(configuration, n_steps):
    model, batch, size, precision, recompute = configuration
    before = used_bytes() - torch.cuda.memory_reserved()
    net, data, optimizer = make(model, batch, size, precision, recompute)
    step = step_of(net, data, optimizer, precision)
    for _ in range(4):
        step()
    torch.cuda.synchronize()
    times, marks = [], [torch.cuda.Event(enable_timing=True) for _ in range(n_steps + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    times = [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]
    allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    used = used_bytes()
    begin = time.perf_counter()
    step()
    host = (time.perf_counter() - begin) * 1e3
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        step()
        torch.cuda.synchronize()
    kernels = [e for e in prof.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    quarters = statistics.quantiles(times, n=4, method="inclusive")
    name = type(optimizer).__name__ + (" fused" if optimizer.defaults.get("fused") else " foreach")
    return (model, batch, size, precision, "full" if recompute else "none", name, "no",
            quarters[1], quarters[0], quarters[2], host,
            sum(e.device_time for e in kernels) / 1e3, len(kernels), allocated, reserved, used,
            before)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="", metavar="WORD", help="models whose name has this word")
    p.add_argument("--steps", type=int, default=12, metavar="N", help="measured steps (12)")
    p.add_argument("--seconds", type=float, default=60, metavar="S",
                   help="no configuration begins after this long (60)")
    p.add_argument("-o", "--out", default=".", metavar="DIR")
    o = p.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("measure_steps: torch finds no CUDA device")
    Path(o.out).mkdir(parents=True, exist_ok=True)
    rows = Rows(Path(o.out) / "steps.csv",
                ("model", "batch", "seq", "precision", "recompute", "optimizer", "ddp", "step_ms",
                 "low_ms", "high_ms", "host_ms", "device_ms", "kernels", "allocated_bytes",
                 "reserved_bytes", "device_bytes", "context_bytes"))
    end = time.monotonic() + o.seconds
    for configuration in CONFIGURATIONS:
        if o.only not in configuration[0]:
            continue
        if time.monotonic() > end:
            print(f"steps: out of time before {configuration}", flush=True)
            continue
        try:
            row = measure(configuration, o.steps)
        except RuntimeError as e:
            print(f"{configuration}: {str(e).splitlines()[0]}", flush=True)
            row = None
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        if row:
            rows.add(*row)
            print(*row[:5], f"{row[7]:.2f} ms", flush=True)


if __name__ == "__main__":
    main()
