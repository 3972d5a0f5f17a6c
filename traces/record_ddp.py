#!/usr/bin/env python3
"""Record training steps of PyTorch, alone and under DistributedDataParallel.

For every configuration and rank two files are written:

  STEM.rankR.json.gz        what torch.profiler (Kineto) exports, unchanged but
                            for the scrubbing described below
  STEM.rankR.sidecar.json   parameters, modules, DDP's buckets, and step times
                            measured in other steps, without the profiler

One configuration runs, in this order: warm-up steps, timed steps (no profiler,
no hooks), ready steps (one hook per parameter, no profiler), profiled steps.
Inside a profiled step these ranges mark the phases:

  lw:zero_grad  lw:forward  lw:backward  lw:optimizer
  lw:module:NAME            the forward of the leaf module NAME

Data is synthetic, fixed and deterministic: parameters are float32 and made
from seed 0, the batch of rank r from seed 1000 + r; SGD with momentum. On a CPU
each rank is pinned to a core of its own and computes with one thread, denormal
numbers count as zero, and the allocator keeps freed memory (without that, steps
vary with the page faults of their large tensors).

Scrubbing: the trace name (a path) becomes the file's stem and the host's name
"host"; the paths of the home, working, temporary and Python directories are
taken off wherever they occur. The sidecar holds no host names, users or paths.

Two ranks over gloo, four bucket caps, and the same model without DDP:

  python record_ddp.py --model resnet18 --local --world 2 --caps default,1,5,25 -o out

Under torchrun each process is one rank, --world is ignored ('--' keeps torchrun
from reading the options after it):

  torchrun --nproc-per-node 8 -- record_ddp.py --model gpt2-124m \\
      --backend nccl --device cuda --caps default,50 -o out

Your own model, first way: a file with a function that returns the model, one
batch (nested tuples, lists or dicts of tensors) and a loss function; --model
then only names it.

  # mine.py
  def make_model(rank):
      return model, batch, lambda model, batch: model(batch).mean()

  python record_ddp.py --model mine --module mine.py:make_model --world 2 -o out

Second way: from your own script, which has called init_process_group (or has
not, to record the model alone):

  import record_ddp
  record_ddp.record(model, loss_fn, batch, name="mine", out="out", cap_mb=25)
"""

import argparse
import ctypes
import importlib.util
import os
import platform
import socket
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from lapwing_record import (MIB, PHASES, Clock, cpu_name, describe_ddp, describe_model,
                            leaf_modules, summary, to_json, write_trace)

WARM_HEAP = 512 * MIB


# ---- models ---------------------------------------------------------------------
# Written from the papers' descriptions: He et al. 2015 (ResNet), Radford et al.
# 2019 (GPT-2), Devlin et al. 2018 (BERT).

class ResidualBlock(nn.Module):
    """He et al., figure 5: basic (two 3x3) or bottleneck (1x1, 3x3, 1x1)."""

    def __init__(self, c_in: int, width: int, stride: int, bottleneck: bool):
        super().__init__()
        c_out = 4 * width if bottleneck else width
        if bottleneck:
            shapes = [(c_in, width, 1, 1), (width, width, 3, stride), (width, c_out, 1, 1)]
        else:
            shapes = [(c_in, width, 3, stride), (width, width, 3, 1)]
        self.conv = nn.ModuleList(
            nn.Conv2d(i, o, k, s, padding=k // 2, bias=False) for i, o, k, s in shapes)
        self.norm = nn.ModuleList(nn.BatchNorm2d(o) for _, o, _, _ in shapes)
        self.act = nn.ReLU()
        self.shortcut = None
        if stride != 1 or c_in != c_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        y = x
        for i, (conv, norm) in enumerate(zip(self.conv, self.norm)):
            y = norm(conv(y if i == 0 else self.act(y)))
        return self.act(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet(nn.Module):
    """He et al., table 1: a 7x7 stem, four stages of blocks, one linear layer."""

    def __init__(self, blocks: list[int], bottleneck: bool, n_classes: int = 1000):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
            nn.MaxPool2d(3, 2, padding=1))
        stages, c_in = [], 64
        for stage, n in enumerate(blocks):
            width = 64 << stage
            for i in range(n):
                stride = 2 if stage > 0 and i == 0 else 1
                stages.append(ResidualBlock(c_in, width, stride, bottleneck))
                c_in = 4 * width if bottleneck else width
        self.blocks = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(c_in, n_classes)

    def forward(self, x):
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))


class Attention(nn.Module):
    def __init__(self, d: int, heads: int, causal: bool):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, d // self.heads).transpose(1, 2)
                   for p in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class TransformerLayer(nn.Module):
    """norm_first: normalise before each half (GPT-2), else after it (BERT)."""

    def __init__(self, d: int, heads: int, causal: bool, norm_first: bool):
        super().__init__()
        self.norm_first = norm_first
        self.norm1 = nn.LayerNorm(d)
        self.attention = Attention(d, heads, causal)
        self.norm2 = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        if self.norm_first:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class GPT(nn.Module):
    """Decoder whose output layer shares the token embedding's weight."""

    def __init__(self, layers: int, d: int, heads: int, vocab: int, context: int):
        super().__init__()
        self.tokens = nn.Embedding(vocab, d)
        self.positions = nn.Embedding(context, d)
        self.layers = nn.ModuleList(
            TransformerLayer(d, heads, causal=True, norm_first=True) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class BERT(nn.Module):
    """Encoder with both pre-training heads; the word head shares the embedding."""

    def __init__(self, layers: int, d: int, heads: int, vocab: int, context: int):
        super().__init__()
        self.tokens = nn.Embedding(vocab, d)
        self.positions = nn.Embedding(context, d)
        self.segments = nn.Embedding(2, d)
        self.norm = nn.LayerNorm(d)
        self.layers = nn.ModuleList(
            TransformerLayer(d, heads, causal=False, norm_first=False) for _ in range(layers))
        self.pooler = nn.Linear(d, d)
        self.next_sentence = nn.Linear(d, 2)
        self.transform = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d))
        self.word = nn.Linear(d, vocab)
        self.word.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids):
        t = ids.shape[1]
        segments = (torch.arange(t, device=ids.device) >= t // 2).long()
        x = self.tokens(ids) + self.positions(torch.arange(t, device=ids.device))
        x = self.norm(x + self.segments(segments))
        for layer in self.layers:
            x = layer(x)
        return self.word(self.transform(x)), self.next_sentence(torch.tanh(self.pooler(x[:, 0])))


def image_loss(model, batch):
    images, labels = batch
    return F.cross_entropy(model(images), labels)


def next_token_loss(model, batch):
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def bert_loss(model, batch):
    ids, labels, follows = batch
    words, next_sentence = model(ids)
    return (F.cross_entropy(words.flatten(0, 1), labels.flatten())
            + F.cross_entropy(next_sentence, follows))


def make_resnet(rank, opts, blocks, bottleneck):
    model = ResNet(blocks, bottleneck)
    torch.manual_seed(1000 + rank)
    n = opts.batch or 8
    batch = (torch.randn(n, 3, opts.image, opts.image), torch.randint(1000, (n,)))
    return model, batch, image_loss


def make_gpt(rank, opts, layers, d, heads, vocab, context, batch, seq):
    model = GPT(layers, d, heads, vocab, context)
    torch.manual_seed(1000 + rank)
    ids = torch.randint(vocab, (opts.batch or batch, (opts.seq or seq) + 1))
    return model, ids, next_token_loss


def make_bert(rank, opts, layers, d, heads, vocab, context, batch, seq):
    model = BERT(layers, d, heads, vocab, context)
    torch.manual_seed(1000 + rank)
    n = opts.batch or batch
    shape = (n, opts.seq or seq)
    ids, labels = torch.randint(vocab, shape), torch.randint(vocab, shape)
    return model, (ids, labels, torch.randint(2, (n,))), bert_loss


# name: (maker, its arguments after rank and options)
MODELS = {
    "resnet18": (make_resnet, ([2, 2, 2, 2], False)),
    "resnet50": (make_resnet, ([3, 4, 6, 3], True)),
    #                       layers     d heads  vocab context batch  seq
    "gpt6": (make_gpt, (         6,  256,   4,   8192,    128,    4,   64)),
    "gpt2-124m": (make_gpt, (   12,  768,  12,  50257,   1024,    1,  128)),
    "gpt2-355m": (make_gpt, (   24, 1024,  16,  50257,   1024,    1,  128)),
    "bert-large": (make_bert, ( 24, 1024,  16,  30522,    512,    1,  128)),
}


def load_maker(spec: str) -> Callable:
    """FILE.py:FUNCTION, the value of --module."""
    path, _, function = spec.rpartition(":")
    found = importlib.util.spec_from_file_location("lw_user_model", path)
    if found is None or not path:
        raise SystemExit(f"--module wants FILE.py:FUNCTION, got '{spec}'")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return getattr(module, function)


def make_model(opts, rank: int):
    torch.manual_seed(0)
    if opts.module:
        return load_maker(opts.module)(rank)
    maker, args = MODELS[opts.model]
    return maker(rank, opts, *args)


# ---- steps ----------------------------------------------------------------------

class Run:
    """A model, its batch, and the ways to run one training step of it."""

    def __init__(self, model, loss_fn, batch, device: torch.device):
        self.model, self.loss_fn, self.batch = model, loss_fn, batch
        self.clock = Clock(device)
        self.optimizer = torch.optim.SGD(
            [p for p in model.parameters() if p.requires_grad], lr=1e-3, momentum=0.9)
        self.loss = None

    def phase(self, name: str):
        if name == "zero_grad":
            self.optimizer.zero_grad()
        elif name == "forward":
            self.loss = self.loss_fn(self.model, self.batch)
        elif name == "backward":
            self.loss.backward()
        else:
            self.optimizer.step()

    def timed_step(self) -> list:
        """Marks before, between and after the phases."""
        marks = [self.clock.mark()]
        for name in PHASES:
            self.phase(name)
            marks.append(self.clock.mark())
        self.clock.sync()
        return marks

    def profiled_step(self):
        for name in PHASES:
            with record_function("lw:" + name):
                self.phase(name)
        self.clock.sync()


def measure_steps(run: Run, n: int) -> dict[str, Any]:
    steps = [run.timed_step() for _ in range(n)]
    out = {"step_ns": summary([run.clock.elapsed_ns(m[0], m[-1]) for m in steps])}
    for i, name in enumerate(PHASES):
        out[name + "_ns"] = summary([run.clock.elapsed_ns(m[i], m[i + 1]) for m in steps])
    return out


def measure_ready(run: Run, parameters: list, n: int) -> tuple[list[int], list[Optional[int]]]:
    """When each parameter's gradient is accumulated: the order of the last step,
    and the median time after the start of backward (None: never)."""
    marks: list[list] = [[] for _ in parameters]
    order: list[int] = []

    def hook(i):
        def on_gradient(_):
            order.append(i)
            marks[i].append(run.clock.mark())
        return on_gradient

    handles = [p.register_post_accumulate_grad_hook(hook(i))
               for i, p in enumerate(parameters) if p.requires_grad]
    starts = []
    for _ in range(n):
        order.clear()
        starts.append(run.timed_step()[PHASES.index("backward")])
    for handle in handles:
        handle.remove()
    ready = [round(statistics.median(run.clock.elapsed_ns(s, m) for s, m in zip(starts, ms)))
             if len(ms) == n else None for ms in marks]
    return order, ready


def add_module_ranges(model) -> list:
    """Hooks that put lw:module:NAME around the forward of every leaf module."""
    open_ranges: list = []

    def enter(name):
        def before(module, args):
            span = record_function("lw:module:" + name)
            span.__enter__()
            open_ranges.append(span)
        return before

    def leave(module, args, output):
        open_ranges.pop().__exit__(None, None, None)

    handles = []
    for name, module in leaf_modules(model):
        handles.append(module.register_forward_pre_hook(enter(name)))
        handles.append(module.register_forward_hook(leave, always_call=True))
    return handles


def profile_steps(run: Run, n: int, path: Path, shapes: bool):
    activities = [ProfilerActivity.CPU]
    if run.clock.cuda:
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, record_shapes=shapes, with_stack=False,
                 schedule=schedule(wait=1, warmup=1, active=n, repeat=1),
                 on_trace_ready=lambda p: p.export_chrome_trace(str(path))) as prof:
        for _ in range(2 + n):
            run.profiled_step()
            prof.step()


def command_line() -> str:
    """The command without the output folder, and with file names for paths."""
    words, skip = [], False
    for word in sys.argv[1:]:
        if skip or word in ("-o", "--out"):
            skip = not skip
        elif not word.startswith("--out="):
            words.append(os.path.basename(word) if "/" in word else word)
    program = "torchrun" if "TORCHELASTIC_RUN_ID" in os.environ else "python"
    return " ".join([program, os.path.basename(sys.argv[0]), *words])


# ---- one configuration --------------------------------------------------------------

def to_device(value, device):
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {k: to_device(v, device) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(to_device(v, device) for v in value)
    return value


def wrap(model, device, cap_mb: Optional[float], ddp_options: dict):
    options = dict(ddp_options)
    if cap_mb is not None:
        options["bucket_cap_mb"] = cap_mb
    if device.type == "cuda":
        options.setdefault("device_ids", [device.index])
    return DistributedDataParallel(model, **options)


def stem_of(name: str, backend: Optional[str], world: int, cap_mb: Optional[float]) -> str:
    if backend is None:
        return f"{name}__local"
    cap = "default" if cap_mb is None else f"{cap_mb:g}"
    return f"{name}__{backend}{world}__cap{cap}"


def record(model: nn.Module, loss_fn: Callable, batch: Any, *, name: str, out: str = ".",
           cap_mb: Optional[float] = None, local: Optional[bool] = None, warmup: int = 5,
           steps: int = 20, ready_steps: int = 10, active_steps: int = 2,
           module_ranges: bool = True, shapes: bool = True,
           ddp_options: Optional[dict] = None) -> dict[str, Any]:
    """Record one configuration on this rank and write its two files under out.

    model     on its device, not wrapped; it is trained by the recording
    loss_fn   called as loss_fn(model, batch), returns the scalar loss
    cap_mb    bucket_cap_mb for DDP; None leaves DDP's default
    local     record without DDP; None: exactly when no process group exists
    ddp_options  further keywords for DistributedDataParallel
    Returns what the sidecar holds.
    """
    if local is None:
        local = not dist.is_initialized()
    device = next(model.parameters()).device
    backend = None if local else dist.get_backend()
    rank, world = (0, 1) if local else (dist.get_rank(), dist.get_world_size())
    stem = stem_of(name, backend, world, cap_mb)
    about = describe_model(model)
    wrapped = model if local else wrap(model, device, cap_mb, ddp_options or {})
    run = Run(wrapped, loss_fn, to_device(batch, device), device)

    for _ in range(warmup):
        run.timed_step()
    if not local:
        dist.barrier()
    measured = measure_steps(run, steps)
    ddp = None if local else describe_ddp(wrapped, cap_mb is not None, about["parameters"])
    order, ready = measure_ready(run, list(model.parameters()), ready_steps)
    handles = add_module_ranges(model) if module_ranges else []
    Path(out).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "trace.json"
        profile_steps(run, active_steps, raw, shapes)
        write_trace(raw, Path(out) / f"{stem}.rank{rank}.json.gz", f"{stem}.rank{rank}")
    for handle in handles:
        handle.remove()

    sidecar = {
        "lapwing": 1, "kind": "recording", "model": name, "torch_version": torch.__version__,
        "python_version": platform.python_version(),
        "cpu": {"name": cpu_name(), "cores": os.cpu_count(), "threads": torch.get_num_threads()},
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "backend": backend, "device": device.type, "world_size": world, "rank": rank,
        "command": command_line(), "optimizer": "SGD, momentum 0.9",
        "profiled_steps": active_steps, **about, "ready_order": order, "ready_ns": ready,
        "ddp": ddp, "measured": measured,
    }
    (Path(out) / f"{stem}.rank{rank}.sidecar.json").write_text(to_json(sidecar))
    print(report(f"{stem}.rank{rank}", measured["step_ns"]), flush=True)
    return sidecar


def report(stem: str, step: dict) -> str:
    low, middle, high = (step[k] / 1e6 for k in ("p25", "median", "p75"))
    noisy = "; quartiles over 10 % apart, record again" if high - low > middle / 10 else ""
    return f"{stem}: step {middle:.1f} ms [{low:.1f}, {high:.1f}]{noisy}"


# ---- processes ----------------------------------------------------------------------

def pin(rank: int):
    """This process, threads that already run included, to one core; one thread."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {cores[rank % len(cores)]})


def keep_memory():
    """Let glibc keep freed memory, and give it WARM_HEAP bytes to start with.
    By default large blocks go back to the system and steps pay for fresh pages
    again, over 10 us a page on some virtual machines; how often changes when the
    profiler allocates too, so that profiled steps took up to twice as long."""
    m_trim_threshold, m_top_pad, m_mmap_max = -1, -2, -4
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(m_mmap_max, 0)
    mallopt(m_trim_threshold, 2**31 - 1)
    mallopt(m_top_pad, 64 * MIB)
    torch.ones(WARM_HEAP, dtype=torch.uint8)


def device_of(opts, local_rank: int) -> torch.device:
    if opts.device == "cpu":
        pin(local_rank)
        keep_memory()
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def record_config(opts, rank: int, device: torch.device, local: bool, cap_mb: Optional[float]):
    model, batch, loss_fn = make_model(opts, rank)
    options = {"gradient_as_bucket_view": opts.bucket_view}
    if opts.no_broadcast_buffers:
        options["broadcast_buffers"] = False
    record(model.to(device), loss_fn, batch, name=opts.model, out=opts.out, cap_mb=cap_mb,
           local=local, warmup=opts.warmup, steps=opts.steps, ready_steps=opts.ready_steps,
           active_steps=opts.profile_steps, module_ranges=not opts.no_module_ranges,
           shapes=not opts.no_shapes, ddp_options=options)


def worker(rank: int, opts, port: int, local: bool, cap_mb: Optional[float]):
    """One spawned process, one configuration."""
    device = device_of(opts, rank)
    if not local:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group(opts.backend, rank=rank, world_size=opts.world,
                                init_method=f"tcp://127.0.0.1:{port}")
    record_config(opts, rank, device, local, cap_mb)
    if not local:
        dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def under_torchrun(opts):
    """All configurations in this process, which is one rank."""
    rank = int(os.environ["RANK"])
    device = device_of(opts, int(os.environ.get("LOCAL_RANK", rank)))
    dist.init_process_group(opts.backend)
    if opts.local:
        if rank == 0:
            record_config(opts, 0, device, True, None)
        dist.barrier()
    for cap in opts.caps:
        record_config(opts, rank, device, False, cap)
    dist.destroy_process_group()


def cap_list(text: str) -> list[Optional[float]]:
    return [None if word == "default" else float(word) for word in text.split(",") if word]


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True,
                   help="one of " + ", ".join(MODELS) + "; with --module any name")
    p.add_argument("--module", metavar="FILE.py:FUNCTION", help="record this model instead")
    p.add_argument("--local", action="store_true", help="also record one rank without DDP")
    p.add_argument("--world", type=int, default=2, metavar="N",
                   help="ranks to spawn for DDP (default 2); 0: only --local")
    p.add_argument("--caps", type=cap_list, default=[None], metavar="LIST",
                   help="bucket_cap_mb values, MiB; 'default' leaves it to DDP (default: default)")
    p.add_argument("--backend", default="gloo", choices=["gloo", "nccl"])
    p.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    p.add_argument("--batch", type=int, default=0, metavar="N", help="samples per rank")
    p.add_argument("--seq", type=int, default=0, metavar="N", help="tokens per sample")
    p.add_argument("--image", type=int, default=32, metavar="N", help="image height and width")
    p.add_argument("--warmup", type=int, default=5, metavar="N",
                   help="steps before anything is measured (default 5)")
    p.add_argument("--steps", type=int, default=20, metavar="N",
                   help="timed steps without profiler (default 20)")
    p.add_argument("--ready-steps", type=int, default=10, metavar="N",
                   help="steps that time the gradients (default 10)")
    p.add_argument("--profile-steps", type=int, default=2, metavar="N",
                   help="steps in the trace (default 2)")
    p.add_argument("--no-module-ranges", action="store_true", help="no lw:module ranges")
    p.add_argument("--no-shapes", action="store_true", help="no input shapes (smaller trace)")
    p.add_argument("--no-broadcast-buffers", action="store_true",
                   help="DDP with broadcast_buffers=False")
    p.add_argument("--bucket-view", action="store_true",
                   help="DDP with gradient_as_bucket_view=True")
    p.add_argument("-o", "--out", default=".", metavar="DIR")
    opts = p.parse_args(argv)
    if not opts.module and opts.model not in MODELS:
        p.error(f"--model {opts.model}: not one of {', '.join(MODELS)}, and no --module given")
    if opts.steps < 1 or opts.ready_steps < 1 or opts.profile_steps < 1 or opts.warmup < 3:
        p.error("--steps, --ready-steps and --profile-steps start at 1, --warmup at 3")
    return opts


def main():
    opts = parse()
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return under_torchrun(opts)
    if opts.local:
        mp.spawn(worker, (opts, 0, True, None), nprocs=1)
    if opts.world > 0:
        for cap in opts.caps:
            mp.spawn(worker, (opts, free_port(), False, cap), nprocs=opts.world)


if __name__ == "__main__":
    main()
