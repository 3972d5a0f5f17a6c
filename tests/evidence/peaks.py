#!/usr/bin/env python3
"""Score predicted peaks of Megatron-LM's functional tests (../shared/megatron-golden).

    peaks.py LAPWING SHARED [-v]     -v: each row

Rows whose recipe lists them and whose vocabulary is known. Each row is a `lapwing sim`
command of the row's arguments (megatron.py); `lapwing validate` predicts them all; the value is of
the last rank. Exit status 3: the mean error is more than 2 % or fewer than 90 % of the rows are
within 3 %; 4: SHARED has no such table.
"""
import collections
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

import convert

TABLE = "megatron-golden/memory.csv"
MEAN, NEAR, SHARE = 2.0, 3.0, 0.90


def judged(path):
    with open(path, newline="", encoding="utf-8") as f:
        cells = list(csv.DictReader(f))
    rows = list(convert.convert(path))
    return [(c, r) for c, r in zip(cells, rows, strict=True)
            if c["recipe_lists_it"] == "1" and
            (c["padded_vocab_derived"] or c["family"] in ("bert", "t5"))]


def predict(lapwing, rows):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "runs.csv")
        with open(path, "w", newline="", encoding="utf-8") as f:
            convert.write(rows, f)
        run = subprocess.run([lapwing, "validate", path, "--format", "json"], check=False,
                             capture_output=True, text=True)
    found = json.loads(run.stdout)
    return {c["id"].rpartition(":")[2]: c for c in found["cases"]}, run.stderr


def error(case):
    return 100 * (case["predicted_bytes"] / case["measured_bytes"] - 1)


def kind(cells):
    """What the rest is by, where the row says so."""
    if cells["second"] == "1":
        return "resumed"
    if cells["family"] in ("bert", "t5"):
        return cells["family"]
    return "experts" if cells["num-experts"] else "dense"


def summary(name, errors):
    sizes = [abs(e) for e in errors]
    print(f"{name}: {len(sizes)} rows, mean {statistics.mean(sizes):.2f} %, "
          f"median {statistics.median(sizes):.2f} %, bias {statistics.mean(errors):+.2f} %, "
          f"{100 * sum(s <= NEAR for s in sizes) / len(sizes):.1f} % within {NEAR:g} %")


def score(lapwing, path, verbose):
    pairs = judged(path)
    cases, faults = predict(lapwing, [r for _, r in pairs])
    of, errors, refused = collections.defaultdict(list), [], collections.Counter()
    for cells, row in pairs:
        case = cases.get(row["id"])
        if case is None or not case["predicted_bytes"]:
            refused[row.get("why") or "lapwing refuses the options"] += 1
            continue
        e = error(case)
        errors.append((e, cells))
        of[kind(cells)].append(e)
        if verbose:
            print(f"{e:+6.1f} % {cells['case']} {cells['platform']}: {case['command']}")
    print(faults.strip())
    print(f"{len(pairs)} rows, {len(errors)} scored")
    summary("all", [e for e, _ in errors])
    for name in sorted(of):
        summary("  " + name, of[name])
    for e, cells in sorted(errors, key=lambda x: -abs(x[0]))[:5]:
        print(f"  worst {e:+.1f} % {cells['case']} {cells['platform']}")
    for why, n in refused.most_common():
        print(f"  refused {n}: {why}")
    sizes = [abs(e) for e, _ in errors]
    near = sum(s <= NEAR for s in sizes) / len(sizes)
    return 0 if statistics.mean(sizes) <= MEAN and near >= SHARE else 3


def main(arguments):
    if len(arguments) not in (2, 3) or arguments[2:] not in ([], ["-v"]):
        sys.exit("usage: peaks.py LAPWING SHARED [-v]")
    path = os.path.join(arguments[1], TABLE)
    if not os.path.exists(path):
        print(f"peaks.py: SKIP: no {path}", file=sys.stderr)
        return 4
    return score(arguments[0], path, len(arguments) == 3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
