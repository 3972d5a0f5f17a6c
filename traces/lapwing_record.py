#!/usr/bin/env python3
"""Record training steps of your own training loop for `lapwing import`.

One file, no dependencies but torch (1.13 to today). Around any loop:

  import lapwing_record
  with lapwing_record.record(model, optimizer, "run/"):
      for batch in loader:
          ...                          # forward, backward, optimizer.step()

or without touching the script (the model and the optimizer are found):

  python -m lapwing_record train.py args...
  torchrun --nproc-per-node 8 -m lapwing_record train.py args...

A step ends with optimizer.step(). Of the steps of the loop, in this order:
warm-up steps; timed steps, without profiler and hooks; ready steps, with one
hook per parameter; profiled steps. Then the files are written and the loop goes
on undisturbed. Each rank writes

  NAME.rankR.json.gz         the profiler's trace
  NAME.rankR.sidecar.json    parameters, buffers, modules, the buckets that DDP
                             logged, the order of gradients, step times without
                             the profiler, optimizer, versions, links

Plain modules, DistributedDataParallel, FullyShardedDataParallel and fully_shard,
autocast with or without a GradScaler, gradient accumulation (several backwards
per step), any optimizer of torch.optim. Host name, user and paths are not
written.
"""

import argparse
import contextlib
import glob
import gzip
import json
import os
import platform
import re
import runpy
import socket
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.autograd.profiler import record_function

MIB = 1024 * 1024
PHASES = ("zero_grad", "forward", "backward", "optimizer")


# ---- time -----------------------------------------------------------------------

class Clock:
    """Marks in time: host nanoseconds on a CPU, CUDA events on the current stream."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"

    def mark(self):
        if not self.cuda:
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def sync(self):
        if self.cuda:
            torch.cuda.synchronize()

    def elapsed_ns(self, start, end):
        return round(start.elapsed_time(end) * 1e6) if self.cuda else end - start


def summary(ns):
    quarters = statistics.quantiles(ns, n=4, method="inclusive") if len(ns) > 1 else [ns[0]] * 3
    return {"median": round(quarters[1]), "p25": round(quarters[0]), "p75": round(quarters[2]),
            "min": min(ns), "max": max(ns), "n": len(ns), "raw": ns}


# ---- what the sidecar says --------------------------------------------------------

def leaf_modules(model):
    return [(name, m) for name, m in model.named_modules() if not any(m.children())]


def dtype_name(dtype):
    return str(dtype).replace("torch.", "")


def autocast_of(cuda):
    """The type to which autocast casts here and now; None: it is off."""
    if cuda:
        return dtype_name(torch.get_autocast_gpu_dtype()) if torch.is_autocast_enabled() else None
    on = torch.is_autocast_cpu_enabled()
    return dtype_name(torch.get_autocast_cpu_dtype()) if on else None


def shape_of(p):
    """(shape, numel) of the whole parameter; FSDP keeps a flat one, of which the gradient has the
    padded length."""
    size = getattr(p, "_padded_unsharded_size", None) or getattr(p, "_unsharded_size", None)
    shape = list(size if size is not None else p.shape)
    numel = 1
    for n in shape:
        numel *= n
    return shape, numel


def flat_parameters(model):
    """FSDP1: the flat parameter of every unit, in the order of the modules."""
    out = []
    for name, m in model.named_modules():
        handles = getattr(m, "_handles", None) or [getattr(m, "_handle", None)]
        for h in handles:
            flat = getattr(h, "flat_param", None)
            if flat is not None and not any(flat is p for _, p in out):
                out.append(((name + "." if name else "") + "_flat_param", flat))
    return out


def parameters_of(model):
    """What gradients are accumulated into, with names; shared ones once."""
    return flat_parameters(model) or list(model.named_parameters())


def describe_model(model):
    """Parameters (shared ones once), buffers, and the modules that own or compute."""
    named = parameters_of(model)
    index_of = {id(p): i for i, (_, p) in enumerate(named)}
    sparse = {id(m.weight) for m in model.modules() if getattr(m, "sparse", False) is True
              and isinstance(m, (nn.Embedding, nn.EmbeddingBag))}
    modules = []
    for name, m in model.named_modules():
        own = [index_of[id(p)] for p in m._parameters.values() if id(p) in index_of]
        if own or not any(m.children()):
            modules.append({"name": name, "type": type(m).__name__, "parameters": own})
    return {
        "parameters": [{"name": name, "shape": shape_of(p)[0], "numel": shape_of(p)[1],
                        "dtype": dtype_name(p.dtype), "requires_grad": p.requires_grad,
                        "sparse": id(p) in sparse} for name, p in named],
        "buffers": [{"name": name, "shape": list(b.shape), "numel": b.numel(),
                     "dtype": dtype_name(b.dtype)} for name, b in model.named_buffers()],
        "modules": modules,
    }


LOGGED = """world_size rank module_name backend_name device_ids output_device
    bucket_cap_bytes gradient_as_bucket_view find_unused_parameters broadcast_buffers
    has_sync_bn dtypes num_parameter_tensors total_parameter_size_bytes bucket_sizes
    has_rebuilt_buckets num_buckets_reduced rebuilt_bucket_sizes
    rebuilt_per_bucket_param_indices prev_iteration_grad_ready_order_indices
    unused_parameter_size iteration comm_hook
    forward_compute_time backward_compute_time backward_comm_time
    backward_compute_comm_overlap_time avg_forward_compute_time
    avg_backward_compute_time avg_backward_comm_time
    avg_backward_compute_comm_overlap_time forward_compute_time_start
    backward_compute_time_start backward_comm_time_start backward_compute_time_end
    backward_comm_time_end""".split()
LOGGED_LISTS = {"bucket_sizes", "rebuilt_bucket_sizes",
                "prev_iteration_grad_ready_order_indices"}
LOGGED_NAMES = {"bucket_sizes": "initial_bucket_sizes_bytes",
                "rebuilt_bucket_sizes": "rebuilt_bucket_sizes_bytes"}


def integers(text):
    return [int(word) for word in text.replace(",", " ").split()]


def ddp_logged(ddp):
    """DDP's own logging data; lists of numbers in it are strings there."""
    raw = ddp._get_ddp_logging_data()
    out = {}
    for key in LOGGED:
        if key not in raw:
            continue
        value = raw[key]
        if key in LOGGED_LISTS:
            value = integers(value)
        elif key == "rebuilt_per_bucket_param_indices":
            value = [integers(group) for group in value.split(",") if group.strip()]
        out[LOGGED_NAMES.get(key, key)] = value
    return out


def item_size(dtype):
    return torch.empty(0, dtype=getattr(torch, dtype)).element_size()


def assign_buckets(parameters, order, limits):
    """Sizes of the buckets that gradients arriving in this order fill: a bucket
    closes once it has reached its limit, the last limit repeats; one open bucket
    per dtype."""
    opened, n_closed, closed = {}, {}, []
    for i in order:
        p = parameters[i]
        dtype = p["dtype"]
        opened[dtype] = opened.get(dtype, 0) + p["numel"] * item_size(dtype)
        k = n_closed.get(dtype, 0)
        if opened[dtype] >= limits[min(k, len(limits) - 1)]:
            closed.append(opened.pop(dtype))
            n_closed[dtype] = k + 1
    return closed + list(opened.values())


def cap_is_explicit(ddp):
    """bucket_cap_mb was given. torch 2 keeps this; earlier versions keep the cap alone, so that 25
    given and 25 by default are the same (pytorch/pytorch torch/nn/parallel/distributed.py,
    bucket_bytes_cap_default)."""
    default = getattr(ddp, "bucket_bytes_cap_default", None)
    return ddp.bucket_bytes_cap != 25 * MIB if default is None else not default


def bucket_limits(ddp, explicit):
    """The limits of the rebuilt buckets: older versions of torch always have a
    small first bucket, newer ones only when bucket_cap_mb is not given."""
    cap = ddp.bucket_bytes_cap
    first = dist._DEFAULT_FIRST_BUCKET_BYTES
    config = getattr(ddp, "_bucket_config", None)
    if config is not None:
        first = config.first_bucket_bytes_cap
    elif explicit and hasattr(ddp, "bucket_bytes_cap_default"):
        first = cap
    return [first, cap] if first < cap else [cap]


def describe_ddp(ddp, explicit, parameters):
    logged = ddp_logged(ddp)
    order = logged.get("prev_iteration_grad_ready_order_indices", [])
    sizes = logged.get("rebuilt_bucket_sizes_bytes", [])
    # DDP counts only the parameters that need a gradient.
    trained = [p for p in parameters if p["requires_grad"]]
    limits = bucket_limits(ddp, explicit)
    cap = limits[-1]
    fitting = [trial for trial in ([cap], [dist._DEFAULT_FIRST_BUCKET_BYTES, cap])
               if assign_buckets(trained, order, trial) == sizes]
    if fitting and limits not in fitting:
        limits = fitting[0]
    return {
        "bucket_cap_mb": cap // MIB if cap % MIB == 0 else cap / MIB,
        "bucket_cap_explicit": explicit,
        "first_bucket_bytes": limits[0], "limits_bytes": limits,
        "limits_reproduce_logged": limits in fitting,
        "limits_that_reproduce_logged": fitting,
        "broadcast_buffers": ddp.broadcast_buffers,
        "gradient_as_bucket_view": ddp.gradient_as_bucket_view,
        "find_unused_parameters": ddp.find_unused_parameters,
        "static_graph": getattr(ddp, "static_graph", False), "logged": logged,
    }


def wrapper_of(model):
    """(kind, module): the data-parallel wrapper around or inside the model."""
    for m in model.modules():
        names = [c.__name__ for c in type(m).__mro__]
        if "FullyShardedDataParallel" in names:
            return "fsdp1", m
        if "FSDPModule" in names or "FSDP" in names:
            return "fsdp2", m
    for m in model.modules():
        if isinstance(m, nn.parallel.DistributedDataParallel):
            return "ddp", m
    return None, None


def fsdp_units(model):
    """Names of the modules that fully_shard was called on, without the root's."""
    found = []
    for name, m in model.named_modules():
        names = [c.__name__ for c in type(m).__mro__]
        if name and ("FSDPModule" in names or "FSDP" in names):
            found.append(bare(name))
    return found


def describe_optimizer(optimizer):
    """"SGD, momentum 0.9", "AdamW, lr 0.001": the name and the first group's numbers."""
    group = optimizer.param_groups[0]
    words = [type(optimizer).__name__]
    for key in ("momentum", "lr", "weight_decay", "betas"):
        if group.get(key):
            words.append("%s %s" % (key, group[key]))
    return ", ".join(words)


def cpu_name():
    try:
        with open("/proc/cpuinfo") as f:
            found = re.search(r"^model name\s*:\s*(.+)$", f.read(), re.M)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.machine()


def read_line(path):
    try:
        with open(path) as f:
            return f.read().strip()
    except OSError:
        return None


def describe_links(backend):
    """What the machine says of its links: ranks per machine, adapters with their rates, which
    devices reach each other directly, the library's version. No names of networks."""
    out = {"ranks_per_node": int(os.environ.get("LOCAL_WORLD_SIZE", 0)) or None}
    rates = [read_line(p) for p in sorted(glob.glob("/sys/class/infiniband/*/ports/*/rate"))]
    speeds = [read_line(p) for p in sorted(glob.glob("/sys/class/net/e*/speed"))]
    out["infiniband"] = [r for r in rates if r]
    out["ethernet_mbit_per_s"] = [int(s) for s in speeds if s and s.lstrip("-").isdigit()
                                  and int(s) > 0]
    if torch.cuda.is_available():
        n = torch.cuda.device_count()
        out["devices"] = n
        out["peer_access"] = [[int(i == j or torch.cuda.can_device_access_peer(i, j))
                               for j in range(n)] for i in range(n)]
    if backend == "nccl":
        out["nccl_version"] = ".".join(str(v) for v in torch.cuda.nccl.version())
    return out


# ---- files ------------------------------------------------------------------------

def scrub(text, stem):
    """Take names of the machine out of the exported trace."""
    text = re.sub(r'"traceName": "[^"]*"', '"traceName": "%s.json"' % stem, text)
    text = re.sub(r'"host_name": "[^"]*"', '"host_name": "host"', text)
    for path in (tempfile.gettempdir(), os.getcwd(), sys.prefix, os.path.expanduser("~")):
        if len(path) > 1:
            text = text.replace(path + "/", "")
    for name in {socket.gethostname(), platform.node()}:
        if len(name) > 3:      # a shorter one would hit other words; host_name is done
            text = re.sub(r"\b" + re.escape(name) + r"\b", "host", text)
    return text


def write_trace(raw, path, stem):
    with open(str(raw)) as f:
        text = scrub(f.read(), stem)
    json.loads(text)
    with open(str(path), "wb") as f:
        f.write(gzip.compress(text.encode(), 9))


def to_json(value):
    """Indented JSON, but lists of numbers and small objects on one line."""
    def flat(v):
        if isinstance(v, dict):
            return all(not isinstance(x, dict) and flat(x) for x in v.values())
        return not isinstance(v, list) or all(not isinstance(x, (dict, list)) for x in v)

    def put(v, pad):
        if flat(v) and not (isinstance(v, dict) and pad == ""):
            return json.dumps(v)
        inner = pad + " "
        if isinstance(v, dict):
            rows = ["%s%s: %s" % (inner, json.dumps(k), put(x, inner)) for k, x in v.items()]
            return "{\n" + ",\n".join(rows) + "\n" + pad + "}"
        return "[\n" + ",\n".join(inner + put(x, inner) for x in v) + "\n" + pad + "]"

    return put(value, "") + "\n"


# ---- profilers ----------------------------------------------------------------------

class KinetoProfiler:
    """torch.profiler; its schedule marks the steps (ProfilerStep#N)."""

    def __init__(self, cuda, shapes, n):
        from torch.profiler import ProfilerActivity, profile, schedule
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if cuda else [])
        self.profile = profile(activities=activities, record_shapes=shapes,
                               schedule=schedule(wait=0, warmup=1, active=n, repeat=1),
                               on_trace_ready=self.keep)
        self.folder = tempfile.mkdtemp()
        self.raw = os.path.join(self.folder, "trace.json")

    def keep(self, profile):
        profile.export_chrome_trace(self.raw)

    def start(self):
        self.profile.start()

    def step(self):
        self.profile.step()

    def stop(self):
        self.profile.stop()
        return os.path.exists(self.raw)

    def remove(self):
        for path in glob.glob(os.path.join(self.folder, "*")):
            os.remove(path)
        os.rmdir(self.folder)


class LegacyProfiler(KinetoProfiler):
    """The autograd profiler, for a torch that was built without Kineto (Debian's); its events are
    written in the shape of a Kineto trace. It sees no devices."""

    def __init__(self, cuda, shapes, n):
        self.profile = torch.autograd.profiler.profile(record_shapes=shapes, use_kineto=False)
        self.folder = tempfile.mkdtemp()
        self.raw = os.path.join(self.folder, "trace.json")
        self.n, self.at, self.range = n, 0, None

    def start(self):
        pass

    def step(self):
        """As with a schedule of one step of warm-up: the first call begins what is kept."""
        if self.range is not None:
            self.range.__exit__(None, None, None)
            self.range = None
        elif self.at == 0:
            self.profile.__enter__()
        self.at += 1
        if self.at <= self.n:
            self.range = record_function("ProfilerStep#%d" % self.at)
            self.range.__enter__()
        elif self.at == self.n + 1:
            self.profile.__exit__(None, None, None)

    def stop(self):
        if 0 < self.at <= self.n:    # the loop ended inside a step
            self.range.__exit__(None, None, None)
            self.profile.__exit__(None, None, None)
        if self.at > 1:
            self.write()
        return os.path.exists(self.raw)

    def write(self):
        events = []
        for e in self.profile.function_events:
            args = {"Sequence number": e.sequence_nr, "Fwd thread id": e.fwd_thread or 0}
            if e.input_shapes:
                args["Input Dims"] = [list(s) for s in e.input_shapes]
            user = e.name.startswith(("lw:", "ProfilerStep#", "Optimizer.", "gloo:"))
            events.append({"ph": "X", "cat": "user_annotation" if user else "cpu_op",
                           "name": e.name, "pid": 0, "tid": e.thread, "args": args,
                           "ts": round(e.time_range.start, 3),
                           "dur": round(e.time_range.elapsed_us(), 3)})
        with open(self.raw, "w") as f:
            json.dump({"schemaVersion": 1, "traceEvents": events, "traceName": ""}, f)


# ---- the recorder -------------------------------------------------------------------



class Recorder:
    """Follows a loop from outside: the model's forward, torch.autograd.backward and the
    optimizer's methods are wrapped until the files are written."""

    def __init__(self, model, optimizer, out, name=None, warmup=5, timed=20, ready=5, profiled=3,
                 shapes=True, module_ranges=True, legacy=None):
        self.model, self.optimizer, self.out, self.name = model, optimizer, out, name
        self.plan = [("warmup", warmup), ("timed", timed), ("ready", ready),
                     ("profiled", profiled)]
        self.shapes, self.module_ranges = shapes, module_ranges
        self.legacy = not torch.autograd.kineto_available() if legacy is None else legacy
        self.undo = []            # what restores the wrapped functions, last first
        self.stage, self.n_done = -1, 0
        self.handles, self.ranges, self.module_stack = [], {}, []
        self.profiler = None
        self.marks, self.steps = [], []      # (phase, start, end) of this step; of all timed ones
        self.ready_marks, self.ready_steps = [], []
        self.nodes = []
        self.outermost = []                  # automatic: models called since the last backward
        self.seen_optimizers = []
        self.autocast = None                 # of the last forward: the files are written outside it
        self.finished = False

    # -- wrapping --

    def replace(self, owner, name, make):
        had = name in vars(owner)
        old = getattr(owner, name)
        setattr(owner, name, make(old))

        def restore():
            if had:
                setattr(owner, name, old)
            else:
                delattr(owner, name)
        self.undo.append(restore)

    def __enter__(self):
        self.replace(torch.autograd, "backward", self.around_backward)
        if self.model is None:
            from torch.nn.modules.module import register_module_forward_pre_hook
            handle = register_module_forward_pre_hook(self.on_any_forward)
            self.undo.append(handle.remove)
            self.replace(torch.optim.Optimizer, "__init__", self.around_init)
        else:
            self.attach()
        return self

    def __exit__(self, kind, value, trace):
        if not self.finished and self.stage >= 0:
            self.finish(complete=False)
        elif not self.finished:
            warn("no optimizer step was seen: nothing is written")
        self.unwrap()
        return False

    def remove_hooks(self):
        for h in self.handles:
            h.remove()
        self.handles, self.nodes = [], []

    def unwrap(self):
        self.remove_hooks()
        while self.undo:
            self.undo.pop()()

    def around_init(self, old):
        def init(optimizer, *args, **kw):
            old(optimizer, *args, **kw)
            self.seen_optimizers.append(optimizer)
        return init

    def on_any_forward(self, module, args):
        if self.model is None and torch.is_grad_enabled():
            self.outermost.append(module)

    def find(self):
        """Automatic: the first module called since the last backward that holds parameters of an
        optimizer."""
        for optimizer in self.seen_optimizers:
            mine = {id(p) for g in optimizer.param_groups for p in g["params"]}
            for module in self.outermost:
                if any(id(p) in mine for p in module.parameters()):
                    self.model, self.optimizer = module, optimizer
                    self.outermost = []
                    self.attach()
                    return

    def attach(self):
        self.clock = Clock(next(self.model.parameters()).device)
        self.model_handles = [self.model.register_forward_pre_hook(self.on_forward)]
        self.undo.append(self.model_handles[0].remove)
        self.replace(self.optimizer, "step", self.around_optimizer)
        self.replace(self.optimizer, "zero_grad", self.around_zero_grad)
        self.next_stage()

    # -- the loop --

    def on_forward(self, module, args):
        if self.finished or not torch.is_grad_enabled() or "forward" in self.ranges:
            return
        self.autocast = autocast_of(self.clock.cuda)
        self.begin("forward")

    def around_backward(self, old):
        def backward(*args, **kw):
            if self.model is None:
                self.find()
            if self.finished or self.model is None or "backward" in self.ranges:
                return old(*args, **kw)
            self.end("forward")
            self.ready_marks.append([])
            self.begin("backward")
            try:
                return old(*args, **kw)
            finally:
                self.end("backward")
        return backward

    def around_zero_grad(self, old):
        def zero_grad(*args, **kw):
            if self.finished:
                return old(*args, **kw)
            self.begin("zero_grad")
            try:
                return old(*args, **kw)
            finally:
                self.end("zero_grad")
        return zero_grad

    def around_optimizer(self, old):
        def step(*args, **kw):
            if self.finished:
                return old(*args, **kw)
            self.begin("optimizer")
            try:
                return old(*args, **kw)
            finally:
                self.end("optimizer")
                self.end_step()
        return step

    def begin(self, phase):
        span = None
        if self.stage_name() == "profiled":
            span = record_function("lw:" + phase)
            span.__enter__()
        self.ranges[phase] = (span, self.clock.mark())

    def end(self, phase):
        if phase not in self.ranges:
            return
        span, start = self.ranges.pop(phase)
        if span is not None:
            span.__exit__(None, None, None)
        self.marks.append((phase, start, self.clock.mark()))

    # -- stages --

    def stage_name(self):
        return self.plan[self.stage][0] if 0 <= self.stage < len(self.plan) else None

    def next_stage(self):
        self.stage += 1
        self.n_done = 0
        while self.stage < len(self.plan) and self.plan[self.stage][1] == 0:
            self.stage += 1
        name = self.stage_name()
        if name == "timed":
            self.last_end = self.clock.mark()
        elif name == "ready":
            self.add_ready_hooks()
        elif name == "profiled":
            self.add_module_ranges()
            make = LegacyProfiler if self.legacy else KinetoProfiler
            self.profiler = make(self.clock.cuda, self.shapes, self.plan[self.stage][1])
            self.profiler.start()

    def end_step(self):
        name = self.stage_name()
        if name == "timed":
            now = self.clock.mark()
            self.steps.append((self.last_end, now, self.marks))
            self.last_end = now
        elif name == "ready":
            self.clock.sync()
            start = [s for phase, s, _ in self.marks if phase == "backward"]
            if start and self.ready_marks:
                self.ready_steps.append((start[-1], self.ready_marks[-1]))
        elif name == "profiled":
            self.clock.sync()
            self.profiler.step()
        self.marks, self.ready_marks = [], []
        self.n_done += 1
        extra = 1 if name == "profiled" else 0      # the profiler's own warm-up step
        if self.n_done < self.plan[self.stage][1] + extra:
            return
        self.remove_hooks()
        if name == "timed":
            self.clock.sync()
        if self.stage + 1 < len(self.plan):
            self.next_stage()
        else:
            self.finish(complete=True)

    def add_ready_hooks(self):
        """After each accumulation: torch 2.1's hook of the parameter, before that one of the
        accumulating node itself. None for FSDP, which accumulates into tensors of its own."""
        if wrapper_of(self.model)[0] in ("fsdp1", "fsdp2"):
            return

        def hook(i):
            def on_gradient(*_):
                if self.ready_marks:
                    self.ready_marks[-1].append((i, self.clock.mark()))
            return on_gradient

        for i, (_, p) in enumerate(parameters_of(self.model)):
            if not p.requires_grad or not p.is_leaf:
                continue
            if hasattr(p, "register_post_accumulate_grad_hook"):
                self.handles.append(p.register_post_accumulate_grad_hook(hook(i)))
            else:
                with torch.enable_grad():
                    node = p.expand_as(p).grad_fn.next_functions[0][0]
                self.handles.append(node.register_hook(hook(i)))
                self.nodes.append(node)     # a node lives no longer than what refers to it

    def add_module_ranges(self):
        """lw:module:NAME around the forward of every leaf module; not of compiled ones, whose
        graphs hooks would break."""
        compiled = any(hasattr(m, "_orig_mod") or getattr(m, "_compiled_call_impl", None)
                       for m in self.model.modules())
        if not self.module_ranges or compiled:
            return

        def enter(name):
            def before(module, args):
                span = record_function("lw:module:" + name)
                span.__enter__()
                self.module_stack.append(span)
            return before

        def leave(module, args, output):
            if self.module_stack:
                self.module_stack.pop().__exit__(None, None, None)

        for name, m in leaf_modules(self.model):
            self.handles.append(m.register_forward_pre_hook(enter(bare(name))))
            self.handles.append(m.register_forward_hook(leave))

    # -- the result --

    def measured(self):
        """Phases of the timed steps; with several backwards per step only the step as a whole."""
        if not self.steps:
            return {}
        out = {"step_ns": summary([self.clock.elapsed_ns(a, b) for a, b, _ in self.steps])}
        counts = {sum(p == "backward" for p, _, _ in m) for _, _, m in self.steps}
        out["backwards_per_step"] = max(counts)
        if counts != {1}:
            return out
        for phase in PHASES:
            ns = [sum(self.clock.elapsed_ns(s, e) for p, s, e in m if p == phase)
                  for _, _, m in self.steps]
            out[phase + "_ns"] = summary(ns)
        return out

    def ready(self, n_parameters):
        """The order of the last step, and median times where all steps show the same parameters."""
        if not self.ready_steps:
            return [], None
        order = [i for i, _ in self.ready_steps[-1][1]]
        if len(set(order)) != len(order):
            return [], None
        times = {}
        for start, marks in self.ready_steps:
            for i, m in marks:
                times.setdefault(i, []).append(self.clock.elapsed_ns(start, m))
        ready = [round(statistics.median(times[i])) if i in times else None
                 for i in range(n_parameters)]
        return order, ready

    def describe(self):
        model, rank, world = self.model, 0, 1
        backend = None
        if dist.is_available() and dist.is_initialized():
            rank, world, backend = dist.get_rank(), dist.get_world_size(), dist.get_backend()
        kind, wrapper = wrapper_of(model)
        inner = wrapper.module if kind == "ddp" else model
        about = describe_model(inner)
        for key in ("parameters", "buffers", "modules"):
            for row in about[key]:
                row["name"] = bare(row["name"])
        order, ready = self.ready(len(about["parameters"]))
        device = next(model.parameters()).device
        ddp = None
        if kind == "ddp":
            ddp = describe_ddp(wrapper, cap_is_explicit(wrapper), about["parameters"])
        name = self.name or class_name(inner)
        return rank, {
            "lapwing": 1, "kind": "recording", "model": name, "torch_version": torch.__version__,
            "python_version": platform.python_version(),
            "cpu": {"name": cpu_name(), "cores": os.cpu_count(),
                    "threads": torch.get_num_threads()},
            "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
            "backend": backend, "device": device.type, "world_size": world, "rank": rank,
            "wrapper": kind, "fsdp_units": fsdp_units(model) if kind == "fsdp2" else None,
            "links": describe_links(backend),
            "autocast": self.autocast,
            "optimizer": describe_optimizer(self.optimizer),
            "profiled_steps": self.plan[-1][1], **about, "ready_order": order, "ready_ns": ready,
            "ddp": ddp, "measured": self.measured(),
        }

    def finish(self, complete):
        self.finished = True
        self.remove_hooks()
        kept = self.profiler.stop() if self.profiler else False
        if not complete:
            total = sum(n for _, n in self.plan) + 1
            warn("the loop ended in stage '%s' after %d of its steps; %d steps in all are needed "
                 "(or choose fewer: warmup, timed, ready, profiled)%s"
                 % (self.stage_name(), self.n_done, total, "" if kept else ": nothing is written"))
        if kept:
            rank, about = self.describe()
            os.makedirs(self.out, exist_ok=True)
            stem = "%s.rank%d" % (about["model"], rank)
            write_trace(self.profiler.raw, os.path.join(self.out, stem + ".json.gz"), stem)
            with open(os.path.join(self.out, stem + ".sidecar.json"), "w") as f:
                f.write(to_json(about))
            step = about["measured"].get("step_ns")
            print("lapwing_record: %s.json.gz%s" % (
                os.path.join(self.out, stem),
                ", step %.1f ms" % (step["median"] / 1e6) if step else ""), flush=True)
        if self.profiler:
            self.profiler.remove()
        self.unwrap()


def bare(name):
    """A module's own name, without what wrappers put before it."""
    for word in ("_fsdp_wrapped_module.", "_orig_mod.", "_checkpoint_wrapped_module."):
        name = name.replace(word, "")
    for word in ("_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module"):
        if name == word:
            return ""
    return name[7:] if name.startswith("module.") else name


def class_name(model):
    """Of the module that the user wrote: under FSDP1 the wrapped one, under FSDP2 its own class,
    which fully_shard renames."""
    while type(model).__name__ in ("FullyShardedDataParallel", "OptimizedModule"):
        model = getattr(model, "_orig_mod", None) or model.module
    name = type(model).__name__
    return (name[4:] if name.startswith("FSDP") and len(name) > 4 else name).lower()


def warn(text):
    print("lapwing_record: " + text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def record(model, optimizer, out, **options):
    """Record the loop inside the with statement on this rank; files go to the folder `out`.

    model      the module that the loop calls, wrapped (DDP, FSDP) or not
    optimizer  its torch.optim optimizer: a step ends with optimizer.step()
    options    name (the class's name), warmup (5), timed (20), ready (5) and profiled (3) steps,
               shapes (True), module_ranges (True)
    """
    with Recorder(model, optimizer, out, **options) as recorder:
        yield recorder


def main():
    p = argparse.ArgumentParser(
        prog="lapwing_record", description="Run a training script and record steps of its loop.")
    p.add_argument("-o", "--out", default="run", help="folder of the recording (run)")
    p.add_argument("--name", help="name of the recording (the model's class)")
    p.add_argument("--steps", default="5,20,5,3", metavar="WARMUP,TIMED,READY,PROFILED",
                   help="how many steps of each kind (5,20,5,3)")
    p.add_argument("--no-shapes", action="store_true", help="do not record shapes")
    p.add_argument("script", help="the training script")
    p.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    o = p.parse_args()
    try:
        warmup, timed, ready, profiled = (int(n) for n in o.steps.split(","))
    except ValueError:
        p.error("--steps wants four numbers, WARMUP,TIMED,READY,PROFILED; found '%s'" % o.steps)
    if profiled < 1:
        p.error("--steps: at least one profiled step is needed")
    sys.argv = [o.script] + o.args
    sys.path[0] = os.path.dirname(os.path.abspath(o.script))
    with Recorder(None, None, o.out, o.name, warmup, timed, ready, profiled,
                  shapes=not o.no_shapes):
        runpy.run_path(o.script, run_name="__main__")


if __name__ == "__main__":
    main()
