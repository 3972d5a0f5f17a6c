#!/usr/bin/env python3
"""Random plans of every kind, simulated by the program and by independent_sim.py: all spans are
equal to the picosecond, and so are period and busy times as they are printed.

    LAPWING=build/lapwing random_plans.py N SEED

Prints each difference with the strategy that made it, then "N passed, M failed"; exit status 1
where any differs. A strategy that the program refuses is not counted.
"""
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile

import independent_sim as own

LAPWING = os.path.abspath(os.environ.get("LAPWING", "build/lapwing"))
TWO_CHUNKS = "zbv zbv-auto v-half v-min dualpipe dualpipev".split()
CHUNKED = "interleaved-1f1b interleaved-zb looped-bfs colossal-interleaved".split()
SCHEDULES = "gpipe 1f1b zb-h1 zb-h2 zb-auto-1p zb-auto-2p colossal-1f1b".split() + \
    TWO_CHUNKS + CHUNKED
C10D = ["c10d-2020", "c10d-1.13", "c10d-2"]
BUCKETS = C10D + "picotron colossal per-tensor single mg-wfbp optimal".split()


def cluster():
    def given(x):
        return {"value": x, "source": "test"}
    return {"lapwing": 1, "kind": "cluster", "name": "ab", "devices_per_node": own.PER_NODE,
            "n_nodes": 0, "library": "x",
            "device": {"kind": "d", "copy_bytes_per_s": given(own.COPY_RATE),
                       "memory_bytes_per_s": given(200 * 10**9),
                       "memory_bytes": given(80 * 10**9)},
            "links": [{"name": "i", "level": "intra", "bytes_per_s": given(own.INSIDE),
                       "latency_ns": given(own.INSIDE_PS // 1000), "n_links": given(1)},
                      {"name": "o", "level": "inter", "bytes_per_s": given(own.BETWEEN),
                       "latency_ns": given(own.BETWEEN_PS // 1000),
                       "n_links": given(own.ADAPTERS)}]}


# --- random inputs ---


def module(rnd, i, kept, selective, splits):
    m = {"name": f"m{i}", "output_bytes": rnd.choice([256, 4096, 65536, 1 << 20])}
    for phase in ("forward", "backward_input", "backward_weight"):
        m[phase + "_ns"] = rnd.randint(1, 4000000) / 1000
    if kept:
        m["kept_bytes"] = rnd.randint(0, 1 << 20)
        m["kept_bytes_selective"] = rnd.randint(0, m["kept_bytes"])
        m["kept_bytes_full"] = rnd.randint(0, m["kept_bytes_selective"])
    if selective:
        m["selective_ns"] = rnd.randint(0, int(m["forward_ns"]))
        m["unrepeated_ns"] = rnd.choice([0, rnd.randint(0, int(m["forward_ns"]))])
    if splits and rnd.random() < .7:
        m["tp_split"] = rnd.choice(["column", "row", "block", "vocab"])
        m["tp_forward_bytes"] = rnd.choice([0, 4096, 1 << 18])
        m["tp_backward_bytes"] = rnd.choice([0, 4096, 1 << 18])
        m["tp_calls"] = rnd.choice([1, 2])
    return m


def parameter(rnd, i, j, splits):
    p = {"name": f"m{i}.p{j}", "module": i,
         "numel": rnd.choice([1, 4, 16, 64, 1024, 4096, 50000, 300000, 1048576])}
    if splits and (p["numel"] % 48 == 0 or
                   p["numel"] in (16, 64, 1024, 4096, 1048576) and rnd.random() < .6):
        p["tp_split"] = rnd.choice(["column", "row"])
    if rnd.random() < .08:
        p["trainable"] = False
    if rnd.random() < .07:
        p["used"] = False
    return p


def is_trained(p):
    return p.get("trainable", True) and p.get("used", True)


def make_ready(rnd, modules, params):
    """Gradients are ready at some time within their modules' backward."""
    time, window = 0, {}
    for i in reversed(range(len(modules))):
        end = time + modules[i]["backward_input_ns"] + modules[i]["backward_weight_ns"]
        window[i], time = (time, end), end
    for p in params:
        if is_trained(p) and "tied" not in p:
            a, b = window[p["module"]]
            p["ready_ns"] = round(a + (b - a) * rnd.random(), 3)


def workload(rnd):
    n = rnd.choice([1, 3, 4, 6, 8, 9, 12, 16])
    kept, selective, splits = rnd.random() < .8, rnd.random() < .7, rnd.random() < .6
    modules, params = [], []
    for i in range(n):
        modules.append(module(rnd, i, kept, selective, splits))
        params += [parameter(rnd, i, j, splits) for j in range(rnd.randint(1, 5))]
    if rnd.random() < .3 and n > 1 and is_trained(params[0]):
        params.append(dict(params[0], name="tied", module=n - 1, tied=0))
    w = {"lapwing": 1, "kind": "workload", "name": "x", "optimizer_ns": rnd.randint(0, 50000),
         "modules": modules, "params": params}
    if rnd.random() < .5:
        w["optimizer"] = rnd.choice(["sgd", "momentum", "adam"])
    for gap in ("before_forward", "before_backward", "before_optimizer", "after_optimizer"):
        if rnd.random() < .4:
            w[f"gap_{gap}_ns"] = rnd.randint(0, 30000)
    if rnd.random() < .3:
        w["buffers"] = [{"name": "b", "numel": rnd.randint(1, 5000), "dtype": "f32",
                         "broadcast": True}]
    if rnd.random() < .5:
        make_ready(rnd, modules, params)
    return w


def pipeline(rnd, s):
    s["schedule"] = rnd.choice(SCHEDULES)
    if s["schedule"] in CHUNKED:
        s["chunks"] = rnd.choice([1, 2, 2, 3])
    elif s["schedule"] in TWO_CHUNKS:
        s["chunks"] = 2
    if s["schedule"].startswith("dualpipe") and rnd.random() < .8:
        s["micro-batches"], s["pp"] = 8, rnd.choice([2, 4])
    elif s["micro-batches"] % 2 == 0 and rnd.random() < .2:
        s["drain-every"] = s["micro-batches"] // 2
    if rnd.random() < .3:
        s["partition"] = rnd.choice(["uniform", "deepspeed-balanced", "deepspeed-uniform",
                                     "colossal-balanced"])


def buckets(rnd, s):
    s["bucket-policy"] = rnd.choice(BUCKETS)
    if s["zero"] == 1:
        s["shard-policy"] = rnd.choice(["oss-greedy", "lpt", "flat-contiguous", "per-tensor"])
        if rnd.random() < .3:
            s["bucket-policy"], s["shard-policy"] = "sharded-ddp", "oss-greedy"
    if s["bucket-policy"] in C10D and rnd.random() < .3:
        s["static-graph"] = "on"
    if rnd.random() < .5:
        s["bucket-cap"] = rnd.choice([1, 1000, 65536, 1 << 20, 5 << 20])
    if rnd.random() < .2:
        s["launch-order"] = "completion-order"
    if rnd.random() < .2:
        s["comm-hook"] = rnd.choice(["fp16", "bf16"])


def sharded(rnd, s):
    if s["zero"] == 2:
        s["bucket-policy"] = rnd.choice(["deepspeed", "single", "per-tensor"])
        s["shard-policy"] = rnd.choice(["flat-contiguous", "oss-greedy"])
        if rnd.random() < .5:
            s["bucket-cap"] = rnd.choice([1000, 65536, 1 << 20, 5 << 20])
        return
    s["shard-policy"] = "flat-contiguous"
    if rnd.random() < .5:
        s["prefetch"] = rnd.choice([0, 1, 2, 3])
    if rnd.random() < .4:
        s["reshard"] = "off"
    if rnd.random() < .4:
        s["persist"] = rnd.choice([10, 5000])


def strategy(rnd, w):
    s = {"dp": rnd.choice([1, 2, 3, 4, 8]), "pp": rnd.choice([1, 1, 1, 2, 3, 4]),
         "tp": rnd.choice([1, 1, 1, 2, 4]), "micro-batches": rnd.choice([1, 2, 3, 4, 6, 8, 12]),
         "zero": rnd.choice([0, 0, 1, 1, 2, 3])}
    if rnd.random() < .3:
        s["rank-order"] = rnd.choice(["megatron", "colossal"])
    if s["pp"] > 1:
        pipeline(rnd, s)
    (buckets if s["zero"] < 2 else sharded)(rnd, s)
    for share, option, values in [
            (.25, "no-sync", [1, 2, 3]), (.25, "clip", [1]),
            (.3, "recompute", ["selective", "full"]),
            (.2, "overlap", ["off"]), (.15, "grad-dtype", ["f32", "bf16"])]:
        if rnd.random() < share:
            s[option] = rnd.choice(values)
    unused = any(not p.get("used", True) and p.get("trainable", True) for p in w["params"])
    if rnd.random() < (.95 if unused else .6):
        s["find-unused"] = "on"
        s.pop("static-graph", None)
    return s


# --- comparing ---


def passes_of(plan, n_steps):
    """The passes of so many steps, and the step and number in it of each."""
    passes, variants = list(plan["passes"]), plan["variants"]
    first = plan.get("repeat_from", 0)
    again = passes[first:]

    def n_ends():
        return sum(1 for v in passes if variants[v].get("ends_step"))
    while n_ends() < n_steps:
        passes.append(again[(len(passes) - len(plan["passes"])) % len(again)])
    while n_ends() > n_steps:
        passes.pop()
    where, step, at = [], 0, 0
    for v in passes:
        where.append((step, at))
        step, at = (step + 1, 0) if variants[v].get("ends_step") else (step, at + 1)
    return passes, where


def differing_spans(run, where, spans):
    number = {at: i for i, at in enumerate(where)}
    wrong = [] if len(spans) == len(run.start) else [("count", len(run.start), len(spans))]
    for step, at, rank, op, start, all_in, end in spans:
        k = (number[step, at], rank, op)
        mine = (run.start.get(k), run.all_in.get(k, all_in) if all_in >= 0 else all_in,
                run.end.get(k))
        if mine != (start, all_in, end):
            wrong.append((k, run.ops[op]["kind"], mine, (start, all_in, end)))
    return wrong


def differing_figures(run, where, printed):
    """Compute and the period are rounded half up. The other parts of a period are rounded so that
    they add up to it: down, or up."""
    def half_up(ps):
        return (ps + 500) // 1000
    period, ranks = own.busy(run, [step for step, _ in where])
    wrong = []
    if period is not None and half_up(period) != printed["step_ns"]:
        wrong.append(("period", period, printed["step_ns"]))
    for mine, theirs in zip(ranks, printed["ranks"]):
        for name, ps in mine.items():
            ns = theirs[name + "_busy_ns"]
            if (half_up(ps) != ns) if name == "compute" else not 0 <= ns - ps // 1000 <= 1:
                wrong.append((name, theirs["rank"], ps, ns))
    return wrong


def lapwing(*args):
    return subprocess.run([LAPWING, *args], capture_output=True, text=True, check=False)


def compare(rnd, folder, options):
    """What differs; None: the strategy is refused."""
    plan_file, db = folder + "/plan.json", folder + "/runs.db"
    made = lapwing("plan", "-w", folder + "/workload.json", "-c", folder + "/cluster.json",
                   *options, "-o", plan_file, "--force")
    if made.returncode:
        return None if made.returncode in (1, 2) else [("plan", made.returncode, made.stderr)]
    for name in os.listdir(folder):
        if name.startswith("runs.db"):
            os.remove(f"{folder}/{name}")
    ran = lapwing("sim", plan_file, "-c", folder + "/cluster.json", "--spans", "--db", db,
                  "--format", "json", *rnd.choice([[], ["--no-fold"]]))
    if ran.returncode:
        return [("sim", ran.returncode, ran.stderr)]
    spans = sqlite3.connect(db).execute(
        "select step, pass, rank, op, start_ps, all_in_ps, end_ps from span order by id").fetchall()
    with open(plan_file, encoding="utf-8") as f:
        plan = json.load(f)
    passes, where = passes_of(plan, max(x[0] for x in spans) + 1)
    run = own.Run(plan, passes).run()
    return differing_spans(run, where, spans) + \
        differing_figures(run, where, json.loads(ran.stdout))


def main(n, seed):
    rnd = random.Random(seed)
    done, failed, tried = 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="random_plans.") as folder:
        with open(folder + "/cluster.json", "w", encoding="utf-8") as f:
            json.dump(cluster(), f)
        while done < n:
            w = workload(rnd)
            options = [f"--{k}={v}" for k, v in strategy(rnd, w).items()]
            with open(folder + "/workload.json", "w", encoding="utf-8") as f:
                json.dump(w, f)
            tried += 1
            wrong = compare(rnd, folder, options)
            if wrong is None:
                continue
            done += 1
            if wrong:
                failed += 1
                print("differs:", *options, wrong[:3], f"({len(wrong)} in all)")
                print(json.dumps(w))
    print(f"{done - failed} passed, {failed} failed ({tried} strategies tried, "
          f"{tried - done} refused), seed {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
