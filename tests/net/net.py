#!/usr/bin/env python3
"""A net under changes of the predictor: everything that a build predicts, and what differs.

    net.py dump LAPWING OUT.json [SHARED]   every row of every published table, the golden plan
                                            hashes, commands of docs/guide, and a matrix of models,
                                            clusters and strategies
    net.py compare BEFORE.json AFTER.json   lists what differs; exit status 3 where anything does

A dump takes minutes. Run it before the first move and after each one.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = ("gpt-1.3b gpt-13b llama-2-7b llama-3-8b llama-3-70b mixtral-8x7b bert-large resnet-50 "
          "deepseek-v2 qwen3-30b-a3b").split()
CLUSTERS = "dgx-a100 dgx-h100 gb200 p5 pcie-box v100-ib".split()
STRATEGIES = [
    "--dp 8", "--dp 16 --zero 1", "--dp 16 --zero 2 --recompute selective", "--dp 8 --zero 3",
    "--dp 8 --grad-dtype f32 --recompute full", "--dp 2 --tp 4", "--dp 1 --tp 8",
    "--dp 2 --tp 4 --sequence-parallel", "--dp 2 --pp 4 --micro-batches 8",
    "--dp 4 --pp 2 --micro-batches 4 --schedule gpipe",
    "--dp 2 --pp 4 --micro-batches 8 --schedule zb-h1", "--dp 2 --tp 2 --pp 2 --micro-batches 4",
    "--dp 4 --cp 2", "--dp 2 --cp 2 --tp 2", "--dp 8 --ep 4", "--dp 8 --overlap off",
    "--dp 2 --pp 2 --chunks 2 --schedule interleaved-1f1b --micro-batches 4",
]
VOLATILE = {"wall_s", "run", "run_id", "stored", "peak_rss_bytes", "n_past", "mean_past_pct",
            "max_past_pct", "seconds", "events_per_s"}


def stable(x):
    """Without what differs from run to run."""
    if isinstance(x, dict):
        return {k: stable(v) for k, v in x.items() if k not in VOLATILE}
    return [stable(v) for v in x] if isinstance(x, list) else x


def run(args, cwd):
    p = subprocess.run(args, cwd=cwd, capture_output=True, text=True, timeout=1800)
    return p.returncode, p.stdout, p.stderr


def tables(lapwing, shared, cwd):
    out = {}
    files = []
    for folder in ("papers", "gpu-tables", "runs-2025"):
        at = os.path.join(shared, folder)
        files += [os.path.join(at, f) for f in sorted(os.listdir(at)) if f.endswith(".csv")] \
            if os.path.isdir(at) else []

    def one(file):
        return file, run([lapwing, "validate", file, "--format", "json"], cwd)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, (rc, text, err) in pool.map(one, files):
            name = os.path.basename(file)
            if rc not in (0, 3):
                out[name] = "exit status %d: %s" % (rc, err.strip()[:300])
                continue
            doc = json.loads(text)
            for c in doc.get("cases", []):
                out["%s %s" % (name, c["id"])] = {
                    k: c.get(k) for k in ("predicted_ns", "predicted", "predicted_bytes",
                                          "needed_bytes")}
            for s in doc.get("skipped", []):
                out["%s %s" % (name, s["id"])] = "skipped: " + s["reason"]
    return out


def matrix():
    for m in MODELS:
        for c in CLUSTERS:
            for s in STRATEGIES:
                yield ["sim", "-w", m, "-c", c, *s.split(), "--no-db", "--format", "json"]


def commands(lapwing, cwd, extra):
    def one(args):
        rc, text, err = run([lapwing, *args], cwd)
        if rc == 0:
            try:
                return " ".join(args), stable(json.loads(text))
            except ValueError:
                return " ".join(args), text
        return " ".join(args), "exit status %d: %s" % (rc, err.strip()[:300])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(pool.map(one, [list(a) + extra for a in matrix()]))


def guide(lapwing):
    """Commands of docs/guide, in their order, in one folder."""
    out = {}
    with tempfile.TemporaryDirectory() as cwd:
        os.symlink(TOP, os.path.join(cwd, "tree"))
        for page in sorted(os.listdir(os.path.join(TOP, "docs/guide"))):
            with open(os.path.join(TOP, "docs/guide", page)) as f:
                text = f.read().replace("\\\n", " ")
            lines = re.findall(r"^    (?:\$ )?(lapwing .*)$", text, re.M)
            for k, line in enumerate(lines):
                if "exec" in line or "calibrate" in line or "mpirun" in line:
                    continue  # measures this machine
                p = subprocess.run(["sh", "-c", line.replace("lapwing ", lapwing + " ", 1)],
                                   cwd=cwd, capture_output=True, text=True, timeout=600)
                text = re.sub(r"\d+(\.\d+)? (ms|s) (wall|to predict).*", "", p.stdout)
                out["%s %d: %s" % (page, k, line)] = "%d\n%s" % (p.returncode, text)
    return out


def hashes():
    with open(os.path.join(TOP, "tests/golden/plans.txt")) as f:
        return {str(k): line.strip() for k, line in enumerate(f)}


def dump(lapwing, out, shared, extra):
    lapwing = os.path.abspath(lapwing)
    with tempfile.TemporaryDirectory() as cwd:
        doc = {"tables": tables(lapwing, shared, cwd), "commands": commands(lapwing, cwd, extra)}
    doc["guide"] = guide(lapwing)
    doc["plans"] = hashes()
    with open(out, "w") as f:
        json.dump(doc, f, indent=0, sort_keys=True)
    print({k: len(v) for k, v in doc.items()})


def leaves(x, at=""):
    if isinstance(x, dict):
        for k, v in x.items():
            yield from leaves(v, at + "." + k)
    elif isinstance(x, list):
        for k, v in enumerate(x):
            yield from leaves(v, "%s[%d]" % (at, k))
    else:
        yield at, x


def compare(before, after):
    a, b = (json.load(open(f)) for f in (before, after))
    n = 0
    for part in sorted(set(a) | set(b)):
        x, y = a.get(part, {}), b.get(part, {})
        groups = collections.Counter()
        for key in sorted(set(x) | set(y)):
            if part == "commands":  # fields that only one build prints are not a difference
                p, q = dict(leaves(x.get(key))), dict(leaves(y.get(key)))
                same = all(p[k] == q[k] for k in p if k in q) and bool(p) == bool(q)
            else:
                same = x.get(key) == y.get(key)
            if same:
                continue
            n += 1
            group = key.split(" ")[0] if part == "tables" else part
            groups[group] += 1
            if groups[group] <= 3:
                print("%s %s:\n  %s\n  %s" % (part, key, str(x.get(key))[:300],
                                             str(y.get(key))[:300]))
        total = collections.Counter(k.split(" ")[0] if part == "tables" else part for k in x)
        for g, c in sorted(groups.items()):
            print("%s: %s: %d of %d differ" % (part, g, c, total[g]))
    print("%d differences" % n)
    return 3 if n else 0


def main(argv):
    if len(argv) >= 4 and argv[1] == "dump":
        shared = argv[4] if len(argv) > 4 else os.path.join(TOP, "../shared")
        dump(argv[2], argv[3], shared, argv[5:])
        return 0
    if len(argv) == 4 and argv[1] == "compare":
        return compare(argv[2], argv[3])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
